"""Algorithm 1 of W, for smooth, strongly convex costs; with other steps, momentum and averages, any private descent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Average, Descent, State, averaged, step_size
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class GradientDescent(Descent):
    """theta[k+1] = proj(theta[k] - rho/(T^2 k) v[k]), v[k] = momentum v[k-1] + dg1 + answer, k = 1..T; `step` is rho.

    With a `decay`, steps are rho/k^decay instead (0: equal steps). The model is theta[T+1], or the average of all or
    the last half of theta[2..T+1]. W loops to T - 1 while dividing the budget by T; here all T answers are used. With a
    fixed rho the published path is at most rho ln(T)/T^2 gradients long, so it barely leaves its start when T is large.
    """

    decay: float | None = None
    momentum: float = 0.0
    average: Average = "last"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        learning = setup.terms.learning
        momentum, step = learning.momentum or 0.0, step_size(setup)
        if learning.step == "auto":
            step *= 1 - momentum  # so much longer is the way that one gradient goes in the end
        limits = (setup.objective, learning.horizon, setup.terms.model.radius)
        return cls(*limits, step, learning.decay, momentum, learning.average or "last")

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        memory = {"velocity": np.zeros_like(begin.theta)} if self.momentum else {}
        return State(1, begin.theta, memory if self.average == "last" else {**memory, "average": begin.theta})

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        direction, memory = self.objective.penalty_gradient(state.theta) + combined, dict[str, Floats]()
        if self.momentum:
            direction = memory["velocity"] = self.momentum * state.memory["velocity"] + direction
        theta = self.project(state.theta - self._length(state.round) * direction)
        if self.average != "last":
            memory["average"] = averaged(state.memory["average"], theta, state.round, self.horizon, self.average)
        return State(state.round + 1, theta, memory)

    def model(self, state: State) -> Floats:
        return state.memory.get("average", state.theta)

    def _length(self, number: int) -> float:
        if self.decay is None:
            return self.step / (self.horizon**2 * number)
        return self.step / float(number**self.decay)
