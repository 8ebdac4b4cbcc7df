"""Objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011): one owner minimises its cost plus a random linear
term. One answer, one debit of the whole training budget; the rest is post-processing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.losses.objective_perturbation import PerturbedCost
from parley.protocol.queries import Answer, MinimumQuery
from parley.protocol.queries.asked_once import MinimumQuestion
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class ObjectivePerturbation(Algorithm):
    """theta = proj(B phi/X) of the released phi (`losses.objective_perturbation`)."""

    cost: PerturbedCost

    @classmethod
    def make(cls, setup: Setup) -> Self:
        question = setup.part(setup.terms.owners[0].name).training.question
        if not isinstance(question, MinimumQuestion):
            raise TermsError("learning.algorithm: expected 'objective-perturbation' in the terms")
        return cls(setup.objective, setup.terms.learning.horizon, setup.limits.radius, question.cost)

    def passes(self, width: int) -> int:
        return self.horizon * 4 * width  # second derivatives, in a few steps

    def query(self, state: State, asker: Asker) -> MinimumQuery:
        return MinimumQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, self.project(self.cost.parameter(combined)))
