"""Algorithm 2 of W: for any convex cost, the average of the iterates is the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from parley.learning.algorithms.algorithm import Average, Descent, State, averaged, step_size
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class AveragedSubgradient(Descent):
    """theta[k+1] = proj(theta[k] - c/sqrt(k) (dg1 + answer)); bar[k+1] = (k-1)/(s+k) bar[k] + (s+1)/(s+k) theta[k].

    s = 1/sqrt(T) and `step` is c. After all T rounds one more averaging step without a query takes in theta[T+1], so
    the budget is spent exactly and every answer is used. By `average`, the model is bar, the last iterate, or the
    average of the last half.
    """

    average: Average = "all"

    memory_name: ClassVar[str | None] = "average"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        learning = setup.terms.learning
        return cls(
            setup.objective, learning.horizon, setup.terms.model.radius, step_size(setup), learning.average or "all"
        )

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        theta = self.projected_step(state, combined, self.step / state.round**0.5)
        if self.average == "all":
            return State(state.round + 1, theta, {"average": self.model(state)})
        average = averaged(state.memory["average"], theta, state.round, self.horizon, self.average)
        return State(state.round + 1, theta, {"average": average})

    def model(self, state: State) -> Floats:
        if self.average != "all":
            return state.memory["average"]
        k, s = state.round, self.horizon**-0.5
        return np.asarray((k - 1) / (s + k) * state.memory["average"] + (s + 1) / (s + k) * state.theta)
