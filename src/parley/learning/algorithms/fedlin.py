"""FedLin (Z section 5.4.6; Mitra et al. 2021): gradients first, then local steps corrected by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.federated import Tracking
from parley.protocol.queries import Answer, Query
from parley.protocol.queries.update import travelling, unpacked
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class FedLin(Tracking):
    """Odd rounds ask for the gradients v_l at theta; even rounds ask for local steps from there, corrected by mean v -
    v_l: two answers a step, each debited.

    An owner with more steps takes shorter ones, rho s_min/s_l, unless the terms set its step. Without noise all local
    steps begin along the joint gradient, so theta rests at the optimum alone. With `top_k`, only the numbers of a
    released gradient that differ most from the v_l held here travel; where theta rests, all have arrived.
    """

    paired: bool = True
    top_k: int = 0  # all of them

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return replace(super().make(setup), top_k=travelling(setup.terms.learning.top_k, setup.parameters))

    def foretold(self) -> Self:
        """Return the algorithm without `top_k`, which has no linear recursion."""
        return replace(self, top_k=0)

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        if not self.top_k or not self.gradient_round(state.round):
            return super().questions(state, asker)
        names = asker.schedule.at(state.round)
        return {name: self._ask(state, asker, self._held(name, state), 0) for name in names}

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        if self.gradient_round(state.round):
            gradients = self.memory({answer.owner: self._received_gradient(answer, state) for answer in answers})
            return State(state.round + 1, state.theta, {**state.memory, **gradients})
        return State(state.round + 1, self.project(state.theta - self.moved(combined, answers)), state.memory)

    def _held(self, name: str, state: State) -> Floats:
        """Return an owner's held gradient, clipped to what its question may carry."""
        return np.clip(self.kept(state)[name], -self.owner(name).reach, self.owner(name).reach)

    def _received_gradient(self, answer: Answer, state: State) -> Floats:
        return unpacked(answer.value, self._held(answer.owner, state)) if self.top_k else answer.value
