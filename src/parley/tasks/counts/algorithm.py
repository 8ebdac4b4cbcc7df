"""One round that asks everybody for counts, and keeps what comes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.counts.question import CountsQuery
from parley.validate import Floats


@dataclass(frozen=True)
class Counts(Algorithm):
    """theta becomes the combined shares; the state remembers every owner's own, where they are seen."""

    names: tuple[str, ...]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(setup.objective, setup.terms.learning.horizon, None, setup.schedule.names)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        return State(1, theta, {"own": np.zeros((*replicates, len(self.names), origin.shape[-1]))})

    def query(self, state: State, asker: Asker) -> CountsQuery:
        return CountsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        own, place = state.memory["own"].copy(), {name: k for k, name in enumerate(self.names)}
        for answer in answers:
            if answer.owner in place:  # the sum of several owners shows no single one
                own[..., place[answer.owner], :] = answer.value
        return replace(state, round=state.round + 1, theta=combined, memory={"own": own})
