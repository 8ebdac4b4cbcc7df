"""Federated averaging (Z chapter 5; McMahan et al. 2017), with every record clipped inside the owners' local steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from parley.learning.algorithm import Asker, Descent, State
from parley.objectives.local_update import walk
from parley.queries import Answer, UpdateQuery
from parley.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class FederatedAveraging(Descent):
    """theta[k+1] = proj(theta[k] - rho s answer), k = 1..T; `step` is rho, `local_steps` is s and the model is theta[T+1].

    An answer is the mean direction of s local steps of length rho from theta[k], so without noise theta[k+1] is the weighted mean of
    where the owners' walks ended. The penalty g1 is walked down by the owners; the learner does not add it again.
    """

    local_steps: int

    @classmethod
    def make(cls, setup: Setup) -> Self:
        walk = setup.walk
        return cls(setup.objective, setup.terms.learning.horizon, walk.radius, walk.step, walk.steps)

    def query(self, state: State, asker: Asker) -> UpdateQuery:
        return UpdateQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta, self.local_steps)

    def answer(self, gradient: Callable[[Floats], Floats], theta: Floats) -> Floats:
        return walk(gradient, theta, self.local_steps, self.step, self.objective.regularisation, self.radius)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, self.project(state.theta - self.step * self.local_steps * combined))
