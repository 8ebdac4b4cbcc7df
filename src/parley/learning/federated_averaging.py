"""Federated averaging (Z chapter 5; McMahan et al. 2017), with every record clipped inside the owners' local steps."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.learning.algorithm import Descent, State
from parley.objectives.local_update import walk
from parley.queries import UpdateQuery
from parley.validate import Floats


@dataclass(frozen=True)
class FederatedAveraging(Descent):
    """theta[k+1] = proj(theta[k] - rho s answer), k = 1..T; `step` is rho, `local_steps` is s and the model is theta[T+1].

    An answer is the mean direction of s local steps of length rho from theta[k], so without noise theta[k+1] is the weighted mean of
    where the owners' walks ended. The penalty g1 is walked down by the owners; the learner does not add it again.
    """

    local_steps: int

    def query(self, state: State, terms: str, learner: str) -> UpdateQuery:
        return UpdateQuery.ask(terms, learner, state.round, state.theta, self.local_steps)

    def answer(self, gradient: Callable[[Floats], Floats], theta: Floats) -> Floats:
        return walk(gradient, theta, self.local_steps, self.step, self.objective.regularisation, self.radius)

    def update(self, state: State, combined: Floats) -> State:
        theta = state.theta - self.step * self.local_steps * combined
        theta = theta if self.radius is None else np.clip(theta, -self.radius, self.radius)
        return State(state.round + 1, theta, theta)

    def model(self, state: State) -> Floats:
        return state.theta
