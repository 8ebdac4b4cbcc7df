"""The task "joined" as the rest of the package sees it: one model from several tables about the same people."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Never

import pandas as pd

from parley import losses
from parley.data import Design, Preparation
from parley.errors import TermsError
from parley.losses import Objective
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.terms import Model, Terms

NOT_DEPLOYED = (
    "[join]: these terms join tables about the same people, and Parley can only simulate such terms so far; run parley "
    "train TERMS with every owner's table on one machine"
)


class Joined(Task):
    """A task in which every owner holds other columns of the same people. It has no question to a single owner yet, so
    nothing can be accepted, served or asked: only a simulation runs."""

    name = "joined"
    refusal = NOT_DEPLOYED
    questions: ClassVar = {}
    commands: ClassVar[Mapping[str, str]] = {"train": "parley.tasks.joined.commands:run_joined"}

    def unreleased(self, terms: Terms) -> str | None:
        return NOT_DEPLOYED

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        from parley.tasks.joined.plan import join_plan

        plan = join_plan(terms)
        return plan.whole, plan.public

    def objective(self, model: Model) -> Objective:
        return losses.make(model)

    def purpose(self, agreement: Agreement) -> Never:
        raise TermsError(NOT_DEPLOYED)

    figures = purpose
    limits = purpose

    def algorithm(self, setup: Setup) -> Never:
        raise TermsError(NOT_DEPLOYED)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.tasks.joined.run import simulate_join

        return simulate_join(terms, owners, settings)


register(Joined())
