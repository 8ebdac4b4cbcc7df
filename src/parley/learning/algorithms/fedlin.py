"""FedLin (Z section 5.4.6; Mitra et al. 2021): gradients first, then local steps corrected by them."""

from collections.abc import Sequence
from dataclasses import dataclass

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.federated import Tracking
from parley.protocol.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class FedLin(Tracking):
    """Odd rounds ask for the gradients v_l at theta, even ones for local steps from there corrected by mean v - v_l:
    two answers a step, each debited.

    An owner that takes more steps takes shorter ones, rho s_min/s_l, unless the terms give it a step of its own.
    Without noise all local steps begin along the joint gradient, so theta rests at the optimum alone.
    """

    paired: bool = True

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        if self.gradient_round(state.round):
            heard = self.memory({answer.owner: answer.value for answer in answers})
            return State(state.round + 1, state.theta, {**state.memory, **heard})
        return State(state.round + 1, self.project(state.theta - self.moved(combined, answers)), state.memory)
