"""The task "reservoir" as the rest of the package sees it: an echo-state network learned from recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.losses import Objective
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, register
from parley.tasks.dynamics.reservoir.recordings import (
    ReservoirPreparation,
    StateMomentsQuestion,
    features_of,
    reservoir_of,
    reservoir_preparation,
)
from parley.tasks.records import BoundedRecords, several_recordings
from parley.terms import Model, Terms
from parley.validate import Floats, printable

HELD_OUT = (
    "Recordings are held out by the order in which they begin. This order is not protected: the guarantee covers the "
    "replacement of a recording by another with the same start."
)


@dataclass(frozen=True)
class ReadOutError(Objective):
    """Squared error of the read-out, loss = (y - theta.(f, u, 1))^2, a function of a recording's second moments. theta
    has a number for each node, each input and the constant."""

    def parameters(self, preparation: Preparation) -> int:
        return features_of(preparation.model).width


class EchoStates(BoundedRecords):
    """A task whose record and unit of privacy is a whole recording; the result predicts a column over time."""

    name = "reservoir"
    unit = "recording"
    predicts = True
    refusal = (
        "model.kind: echo-state networks cannot be planned, negotiated, refined or learned without a centre yet; use "
        "parley train, parley learner, parley score and parley predict"
    )
    questions: ClassVar = {"state-moments": StateMomentsQuestion}
    commands: ClassVar[Mapping[str, str]] = {
        "score": "parley.tasks.dynamics.reservoir.model:score_reservoir",
        "forecast": "parley.tasks.dynamics.reservoir.model:forecast_reservoir",
    }
    usual_commands = ("train", "learner run")

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[ReservoirPreparation, Design | None]:
        return reservoir_preparation(terms.model), None

    def objective(self, model: Model) -> ReadOutError:
        return ReadOutError(regularisation=model.penalty)

    def columns(self, model: Model) -> Sequence[str]:
        return model.target, reservoir_of(model).recording

    def record_column(self, model: Model) -> str:
        return reservoir_of(model).recording

    def record_rows(self, model: Model) -> int:
        return reservoir_of(model).samples

    def group_promise(self, agreement: Agreement) -> str:
        return several_recordings(agreement.setup, agreement.part.name)

    def purpose(self, agreement: Agreement) -> list[str]:
        """Say what is predicted from what, by which reservoir."""
        model = agreement.setup.terms.model
        reservoir = reservoir_of(model)
        inputs = ", ".join(map(printable, model.features or ()))
        return [
            f"Model: the read-out of {reservoir.nodes} nodes that {inputs} drive, which predicts "
            f"{printable(model.target)}. The terms' seed draws the same nodes for all owners, and no row changes the "
            "nodes.",
            f"The first {reservoir.samples:,} samples of a recording count, except the first {reservoir.washout:,}, in "
            "which the nodes forget their initial state. Rows are in the order of time.",
            *([HELD_OUT] if model.holdout else []),
        ]

    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Any:
        from parley.tasks.dynamics.reservoir.model import echo_state_model

        return echo_state_model(preparation, theta, terms_hash, released)

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.dynamics.reservoir.model import ReadOut

        return ReadOut.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.learning.prediction import learn_model  # an owner that serves learns nothing
        from parley.tasks.dynamics.reservoir.model import clipped_share, measured

        result = learn_model(terms, owners, replace(settings, measure=False))
        if result.released or not settings.measure:
            return result
        agreements = {owner.name: owner.prepare(terms) for owner in owners}
        owner_outcomes = [replace(each, clipped_share=clipped_share(agreements[each.name])) for each in result.owners]
        quality = measured(list(agreements.values()), result.theta)
        return replace(result, owners=tuple(owner_outcomes), quality=quality)

    def figure(self, result: Any) -> Any:
        """Return a figure of the path to the read-out without privacy."""
        from parley.report.figures import curves  # a library that is slow to load

        return None if result.path is None else curves.fitness_path(result.path)


register(EchoStates())
