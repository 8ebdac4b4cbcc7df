"""Asking owners for the statistics of their columns, on this machine or elsewhere: what came out, and the terms that
follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.learning.algorithms.algorithm import Progress
from parley.learning.asking import Asked, ask_here
from parley.learning.owners import accepting_owners, open_owners, require_ledgers, require_room
from parley.owner.owner import Owner
from parley.privacy.adjacency import Adjacency
from parley.privacy.mechanisms.name_counts import Stability
from parley.protocol.setup import Setup
from parley.tasks.column_statistics.agreement import column_statistics_agreement
from parley.tasks.column_statistics.algorithm import ColumnStatistics
from parley.tasks.column_statistics.learnable import require_learnable, require_learnable_tables
from parley.tasks.column_statistics.question import BINS
from parley.tasks.column_statistics.ready import Ready, make_ready
from parley.tasks.column_statistics.release import ReleasedColumn, StatisticsReader
from parley.terms import Terms


@dataclass(frozen=True, eq=False)
class ColumnStatisticsResult:
    """What owners released about their columns, the terms that follow, and what it cost them."""

    asked: Terms
    columns: tuple[ReleasedColumn, ...]
    bin_from: float  # share of all rows from which on a bin stands clear of the noise
    name_from: Mapping[str, float]  # share of an owner's own rows from which on a name is likelier released than not
    ready: Ready
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The object that `parley scales --json` prints."""
        return {
            "title": self.asked.title,
            "columns": [column.to_json() for column in self.columns],
            "bin_from": self.bin_from,
            "name_from": dict(self.name_from),
            "notes": list(self.ready.notes),
            "waits": list(self.ready.waits),
            "epsilon": self.asked.owners[0].epsilon,
            "delta": self.asked.privacy.delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "spent": dict(self.spent),
            "left": {owner.name: owner.epsilon for owner in self.ready.terms.owners},
            "left_delta": self.ready.terms.privacy.delta,
            "released": self.released,
            "terms_hash": self.asked.hash,
            "ready_hash": self.ready.terms.hash,
            "seconds": self.seconds,
        }


def accepting_column_statistics(
    terms: Terms,
    folder: Path,
    lifetime: float | None,
    lifetime_delta: float | None,
    anyway: bool = False,
    first: Callable[[], None] = lambda: None,
    other_books: str | None = None,
) -> list[Owner]:
    """The owners with durable ledgers that accepted the agreement about column statistics; a ledger that is made has
    room for all of `terms`."""
    require_room(terms, folder, lifetime, lifetime_delta, "scales")
    require_ledgers(column_statistics_agreement(terms), folder, lifetime, lifetime_delta)
    require_learnable_here(terms, open_owners(terms), anyway)
    asked = column_statistics_agreement(terms)
    return accepting_owners(asked, folder, lifetime, lifetime_delta, first, other_books)


def require_learnable_here(terms: Terms, owners: Sequence[Owner], anyway: bool = False) -> None:
    """Refuse column statistics that would be paid for in vain, by what is public and by what the tables on this machine
    are."""
    require_learnable(terms, owners[0].example if terms.model.features is None else None, anyway)
    require_learnable_tables(terms, owners)


def ask_column_statistics(
    terms: Terms, owners: Sequence[Owner], seed: int | None = None, progress: Progress = lambda done, total: None
) -> ColumnStatisticsResult:
    """Ask owners on this machine for the column statistics of these terms, which set `privacy.scale_epsilon` aside.

    Owners with durable ledgers release: each must have accepted `column_statistics_agreement(terms)`. Owners without
    take part in a study.
    """
    return column_statistics_result(terms, _ask(column_statistics_agreement(terms), owners, seed, progress))


def ask_columns(
    asked: Terms, owners: Sequence[Owner], seed: int | None = None, progress: Progress = lambda done, total: None
) -> tuple[ReleasedColumn, ...]:
    """The same by the agreement alone: what came out of every column, and no terms that follow."""
    found = _ask(asked, owners, seed, progress)
    return ColumnStatistics.make(found.setup).columns(found.final)


def _ask(asked: Terms, owners: Sequence[Owner], seed: int | None, progress: Progress) -> Asked:
    return ask_here(asked, owners, lambda setup: (ColumnStatistics.make(setup), np.zeros(1)), 1, seed, progress)


def sight(setup: Setup) -> tuple[float, dict[str, float]]:
    """(from which share of all rows on a bin is read, from which share of its rows on an owner releases a name): what
    can be seen through the noise, known before anybody is asked."""
    noises = {part.name: part.training.series.mechanism for part in setup.parts.values()}
    names = {name: noise.threshold for name, noise in noises.items() if isinstance(noise, Stability)}
    return StatisticsReader.of(setup).clear(BINS), names


def column_statistics_result(terms: Terms, asked: Asked) -> ColumnStatisticsResult:
    """What two rounds by `column_statistics_agreement(terms)` came to."""
    setup, algorithm = asked.setup, ColumnStatistics.make(asked.setup)
    columns, (clear, names) = algorithm.columns(asked.final), sight(setup)
    ready = make_ready(terms, setup.preparation.features, columns, algorithm.reader.named)
    return ColumnStatisticsResult(setup.terms, columns, clear, names, ready, asked.spent, asked.released, asked.seconds)
