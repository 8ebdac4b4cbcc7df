"""The task "networks" as the rest of the package sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import budget_warning, name_warnings, target_warnings
from parley.protocol.queries import Question
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.report.extras import extras
from parley.tasks.networks.architectures import NetworkParameters
from parley.tasks.networks.correlated_terms import CORRELATED
from parley.tasks.networks.question import NetworkPreparation, network_preparation
from parley.tasks.networks.terms import NetworkModel
from parley.terms import Model, Terms
from parley.terms.file import TermsWarning
from parley.validate import Floats, printable


class Networks(Task):
    """Owners answer with clipped gradients of a network that the terms name; the result predicts a column."""

    name = "networks"
    predicts = True
    refusal = (
        "model.kind: networks cannot be forecast, planned, negotiated, refined or learned without a centre yet; use "
        "parley train, parley learner, parley score and parley predict"
    )
    commands: ClassVar[Mapping[str, str]] = {"score": "parley.tasks.networks.model:score_network"}
    usual_commands = ("train", "learner run")

    @property
    def questions(self) -> Mapping[str, type[Question]]:  # type: ignore[override]
        with extras():
            from parley.tasks.networks.correlated import MixedGradientQuestion
            from parley.tasks.networks.local_steps import CorrectedNetworkUpdateQuestion, NetworkUpdateQuestion
            from parley.tasks.networks.question import NetworkGradientQuestion

        return {
            "network-gradient": NetworkGradientQuestion,
            "mixed-network-gradient": MixedGradientQuestion,
            "network-update": NetworkUpdateQuestion,
            "corrected-network-update": CorrectedNetworkUpdateQuestion,
        }

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[NetworkPreparation, Design | None]:
        return network_preparation(terms)

    def objective(self, model: Model) -> NetworkParameters:
        return NetworkParameters()

    def purpose(self, agreement: Agreement) -> list[str]:
        """Say which network predicts what from how many columns."""
        preparation, model = agreement.setup.preparation, NetworkModel.expect(agreement.setup.terms.model)
        shown = ", ".join(map(printable, preparation.features[:12])) + (" …" if len(preparation.features) > 12 else "")
        hidden = "" if model.layers is None else f" with hidden layers of {', '.join(map(str, model.layers))}"
        return [
            f"Model: the network {model.architecture}{hidden}, {agreement.part.training.question.parameters:,} "
            f"weights, which predicts {printable(model.target)} from {len(preparation.features):,} columns: {shown}.",
            "The terms carry no code: they name a network of this program.",
            "A row without a target counts as a record and contributes nothing.",
        ]

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        """Return the clip, the sampling rate, and how far a person moves an answer."""
        mechanism, question = agreement.part.training.series.mechanism, agreement.part.training.question
        return {
            "clip": agreement.setup.terms.privacy.clip,
            "rate": question.rate,
            "norm": agreement.setup.terms.privacy.clip_norm or question.norm,
            "sensitivity": mechanism.sensitivity,
            "noise_scale": mechanism.noise_scale,
        }

    def limits(self, agreement: Agreement) -> list[str]:
        """Return the figures in sentences."""
        facts = self.figures(agreement)
        clipped = (
            f"The clip limits a record's gradient to a norm of {number(facts['clip'])} in {facts['norm'].upper()}."
        )
        scale, moved = number(facts["noise_scale"]), number(facts["sensitivity"], side="above")
        if facts["norm"] != (noise_norm := agreement.part.training.question.norm):
            moved += f" in {noise_norm.upper()}"
        if agreement.part.training.series.joint:
            return [
                f"{clipped} The record is always in the same batch, and everybody knows the rounds of this batch. "
                "Later answers repeat part of the record, so that later noise cancels earlier noise. The noise has "
                f"scale {scale} where replacing a record moves all answers together by at most {moved}."
            ]
        if agreement.setup.terms.learning.local_steps is not None:
            return [f"{clipped} {_of_local_steps(agreement, facts['rate'])}"]
        return [
            f"{clipped} In each round, the record is drawn in secret with probability {number(facts['rate'])}. The "
            f"noise has scale {scale}, where replacing a drawn record moves an answer by at most {moved}."
        ]

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """Warn of names and targets that do not fit the table, and of a budget that is no promise."""
        budget = budget_warning(agreement.setup.terms, [owner.name])
        found = [] if budget is None else [budget]
        return [*found, *name_warnings(owner, agreement), *target_warnings(owner, agreement)]

    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Any:
        from parley.tasks.networks.model import network_model

        return network_model(preparation, theta, terms_hash, released)

    def stored_theta(self, content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
        with extras():
            from parley.tasks.networks.model import stored_weights

            return stored_weights(content, preparation, path)

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.networks.correlated import CorrelatedSGD
        from parley.tasks.networks.local_steps import NetworkAveraging, NetworkFedLin
        from parley.tasks.networks.question import NetworkSGD

        own = {"network-update": NetworkAveraging, "corrected-network-update": NetworkFedLin}
        learning = setup.terms.learning
        usual = CorrelatedSGD if learning.algorithm == CORRELATED else NetworkSGD
        return own.get(learning.rules.asks, usual).make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.learning.prediction import learn_model  # an owner that serves learns nothing

        with extras():
            from parley.tasks.networks.model import measured
            from parley.tasks.networks.question import agreed_gradients, clipped_share

        result = learn_model(terms, owners, replace(settings, measure=False))
        if result.released or not settings.measure:
            return result
        agreements, theta = [owner.prepare(terms) for owner in owners], result.theta[0]
        clipped = {
            a.part.name: clipped_share(agreed_gradients(a.setup, a.part.name), a.tables, theta) for a in agreements
        }
        outcomes = tuple(replace(each, clipped_share=clipped[each.name]) for each in result.owners)
        return replace(result, owners=outcomes, quality=measured(agreements, result.theta))


def _of_local_steps(agreement: Agreement, rate: float) -> str:
    """Return where the noise of local steps is, and how large."""
    mechanism = agreement.part.training.series.mechanism
    scale, moved = number(mechanism.noise_scale), number(mechanism.sensitivity, side="above")
    if agreement.part.training.question.answer_clip is not None:
        return (
            f"The whole answer is clipped to the same norm, so another table moves the answer by at most {moved}. The "
            f"noise has scale {scale}."
        )
    drawn = f"The record is drawn in secret with probability {number(rate)}" if rate < 1 else "The record takes part"
    return (
        f"{drawn} in each local step. Every local step adds noise of scale {scale}, where replacing a record moves the "
        f"step by at most {moved}, and is charged as a separate release."
    )


register(Networks())
