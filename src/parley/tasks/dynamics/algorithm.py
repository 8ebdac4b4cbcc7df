"""One round that asks for the second moments of trajectories, from which a plant is identified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.privacy.mechanisms import Norm
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.dynamics.question import TrajectoriesQuery
from parley.tasks.dynamics.release import PlantRelease
from parley.validate import Floats


@dataclass(frozen=True)
class Identification(Algorithm):
    """The state remembers the released moments; theta stays as it is."""

    norm: Norm
    deviation: float
    records: int
    size: int

    memory_name: ClassVar[str | None] = "moments"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        noise = setup.aggregation.noise(setup)
        return cls(
            setup.objective,
            setup.terms.learning.horizon,
            None,
            setup.norm,
            noise.all_together**0.5,
            int(noise.records.sum()),
            setup.preparation.width,
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        return State(1, np.zeros((*replicates, 1)), {"moments": np.zeros((*replicates, self.size))})

    def query(self, state: State, asker: Asker) -> TrajectoriesQuery:
        return TrajectoriesQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, state.theta, {"moments": combined})

    def releases(self, state: State, setup: Setup) -> list[PlantRelease]:
        """What came out, for every replicate."""
        moments = state.memory["moments"].reshape(-1, self.size)
        model, scale = setup.terms.model, setup.preparation.scale
        return [PlantRelease.of(model, packed, self.records, self.deviation, self.norm, scale) for packed in moments]
