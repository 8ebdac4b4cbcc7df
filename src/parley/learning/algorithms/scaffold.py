"""SCAFFOLD (Z section 5.4.3; Karimireddy et al. 2020), both options, with control variates made of released answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.federated import Tracking
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.validate import Floats

GRADIENT_KEY = "gradient"


@dataclass(frozen=True)
class Scaffold(Tracking):
    """Local steps are corrected by c_l = mean v - v_l; theta moves to the mean of their ends.

    Option II (`variates` = "walks"): v_l <- answer - c_l, the mean of the owner's own gradients along its steps; one
    answer a step. Option I ("gradients"): v_l <- its gradient at theta[k], released in the round before; two answers a
    step, each debited. Local steps use the variates of the step before (`fedlin`: of this one, at the same price).

    Without noise both end at the optimum. Where theta and the v_l rest, all answers are the mean of the v_l, which is 0
    because theta rests. So all local steps end where they began, every owner's gradient there is its v_l, and their
    mean is 0.
    """

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return replace(super().make(setup), paired=setup.terms.learning.paired)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        if not self.paired:
            return begin
        fresh = self.memory({each.name: np.zeros_like(begin.theta) for each in self.owners}, GRADIENT_KEY)
        return State(1, begin.theta, {**begin.memory, **fresh})

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        received = {answer.owner: answer.value for answer in answers}
        if self.gradient_round(state.round):
            return State(state.round + 1, state.theta, {**state.memory, **self.memory(received, GRADIENT_KEY)})
        if self.paired:
            memory = {**state.memory, **self.memory(self.kept(state, GRADIENT_KEY))}
        else:
            own = {name: value - self.correction(name, state) for name, value in received.items()}
            memory = {**state.memory, **self.memory(own)}
        return State(state.round + 1, self.project(state.theta - self.moved(combined, answers)), memory)
