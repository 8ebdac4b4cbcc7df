"""Two rounds that learn nothing but how columns are spread: powers of two first, then finer where rows were found, and
names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.column_statistics.question import WIDTH, ColumnStatisticsQuery
from parley.tasks.column_statistics.release import ReleasedColumn, StatisticsReader
from parley.validate import Floats


@dataclass(frozen=True)
class ColumnStatistics(Algorithm):
    """The state remembers the combined answers, and every owner's own of the last round: names cannot be averaged."""

    parallel = False  # the second question follows from the answers of one run

    reader: StatisticsReader
    names: tuple[str, ...]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(
            setup.objective, setup.terms.learning.horizon, None, StatisticsReader.of(setup), setup.schedule.names
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        size = len(self.reader.columns) * WIDTH
        nothing = np.zeros((*replicates, size))
        memory = {"first": nothing, "second": nothing, "own": np.zeros((*replicates, len(self.names), size))}
        return State(1, np.zeros((*replicates, 1)), memory)

    def query(self, state: State, asker: Asker) -> ColumnStatisticsQuery:
        reader = self.reader
        grid = reader.first_grid() if state.round == 1 else reader.second_grid(_one(state.memory["first"]))
        return ColumnStatisticsQuery.ask(asker.terms_hash, asker.learner, state.round, grid.ravel())

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        if state.round == 1:
            return replace(state, round=2, memory={**state.memory, "first": combined})
        own, place = state.memory["own"].copy(), {name: k for k, name in enumerate(self.names)}
        for answer in answers:
            if answer.owner in place:  # the sum of several owners has no names
                own[..., place[answer.owner], :] = answer.value
        return replace(state, round=state.round + 1, memory={**state.memory, "second": combined, "own": own})

    def columns(self, state: State) -> tuple[ReleasedColumn, ...]:
        """What came out, column by column."""
        return self.reader.read(
            *(_one(state.memory[name], axes) for name, axes in (("first", 1), ("second", 1), ("own", 2)))
        )


def _one(array: Floats, axes: int = 1) -> Floats:
    """The one run of a study, or the release."""
    return array.reshape(array.shape[array.ndim - axes :])
