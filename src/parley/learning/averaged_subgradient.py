"""Algorithm 2 of W: for any convex cost, the average of the iterates is the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.learning.algorithm import Descent, State
from parley.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class AveragedSubgradient(Descent):
    """theta[k+1] = proj(theta[k] - c/sqrt(k) (dg1 + answer)); bar[k+1] = (k-1)/(s+k) bar[k] + (s+1)/(s+k) theta[k].

    s = 1/sqrt(T) and `step` is c. All T rounds are run, and one more averaging step without a query takes in theta[T+1]:
    exactly the budget is spent, and every answer is used.
    """

    memory_name: ClassVar[str | None] = "average"

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        theta = self.projected_step(state, combined, self.step / state.round**0.5)
        return State(state.round + 1, theta, {"average": self.model(state)})

    def model(self, state: State) -> Floats:
        k, s = state.round, self.horizon**-0.5
        return np.asarray((k - 1) / (s + k) * state.memory["average"] + (s + 1) / (s + k) * state.theta)
