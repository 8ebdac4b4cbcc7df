"""The task "joined" as the rest of the package sees it: one model from several tables about the same people."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd

from parley import losses
from parley.data import Design, Preparation
from parley.losses import Objective
from parley.owner.owner import Agreement, Owner
from parley.privacy.sharing.matching.match import MatchPlan
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.tasks.joined.guarantee import limit_sentences, purpose_sentences
from parley.tasks.joined.question import JoinedPreparation, JoinedQuestion, plan_of
from parley.terms import Model, Terms


class Joined(Task):
    """A task in which every owner holds other columns of the same people. Owners share their tables with three hosts,
    who match them and open the moments of the joined rows, from which the model follows."""

    name = "joined"
    refusal = (
        "[join]: this command does not work with joined tables; use parley train, parley learner run or parley audit, "
        "and predict with the saved model"
    )
    questions: ClassVar = {"joined-moments": JoinedQuestion}
    commands: ClassVar[Mapping[str, str]] = {
        "train": "parley.tasks.joined.commands:run_joined",
        "learner run": "parley.tasks.joined.commands:run_joined",
        "forecast": "parley.tasks.joined.forecast:run_forecast",
        "audit": "parley.tasks.joined.audit:run_audit",
    }

    def noise_may_fail(self, terms: Terms) -> bool:
        return True  # the dummies' law ends somewhere

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        prepared = JoinedPreparation.from_terms(terms)
        return prepared, prepared.plan.public

    def objective(self, model: Model) -> Objective:
        return losses.make(model)

    def match_plan(self, setup: Setup) -> MatchPlan:
        return plan_of(setup).match_plan

    def columns(self, model: Model) -> Sequence[str]:
        return ()

    def purpose(self, agreement: Agreement) -> list[str]:
        return purpose_sentences(plan_of(agreement.setup), agreement.part.name)

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        plan = plan_of(agreement.setup)
        law = plan.law
        return {
            "clips": {owner.name: clip / law.unit for owner, clip in zip(plan.owners, law.clips, strict=True)},
            "sensitivity": law.moved / law.unit**2,
            "noise_scale": law.deviation,
            "match_epsilon": plan.join.epsilon,
            "match_delta": plan.join.delta,
        }

    def limits(self, agreement: Agreement) -> list[str]:
        return limit_sentences(plan_of(agreement.setup), agreement.part.name)

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.joined.release import JoinedMoments

        return JoinedMoments.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.tasks.joined.release import release_joined
        from parley.tasks.joined.run import simulate_join

        if owners and all(owner.releases for owner in owners):
            return release_joined(terms, owners, settings.progress)
        return simulate_join(terms, owners, settings)


register(Joined())
