"""Algorithm 1 of W: for smooth, strongly convex costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from parley.learning.algorithm import Descent, State
from parley.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class GradientDescent(Descent):
    """theta[k+1] = proj(theta[k] - rho/(T^2 k) (dg1 + answer)), k = 1..T; `step` is rho and the model is theta[T+1].

    W loops to T - 1 while dividing the budget by T; all T answers are used here. With a rho that does not grow with T, the
    path is at most rho ln(T)/T^2 gradients long, so the published choice barely leaves its start when T is large.
    """

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, self.projected_step(state, combined, self.step / (self.horizon**2 * state.round)))
