"""Asking owners for column statistics, on this machine or elsewhere."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.deployed import Asked, ask_here
from parley.learning.owners import accepting_owners, open_owners, require_ledgers, require_room
from parley.numerals import number
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms.name_counts import MAX_NAMES, Stability
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup, resolve
from parley.tasks.statistics.column_statistics.question import (
    BINS,
    NUMBERS_PER_COLUMN,
    CellColumn,
    CellPreparation,
    CellTable,
    ColumnStatisticsQuery,
)
from parley.tasks.statistics.column_statistics.release import Ready, ReleasedColumn, StatisticsReader, make_ready
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True)
class ColumnStatistics(Algorithm):
    """Two rounds; the state keeps combined answers, and each owner's own last one, since names have no mean."""

    parallel = False  # the second question follows from the answers of one run

    reader: StatisticsReader
    names: tuple[str, ...]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(
            setup.objective,
            setup.terms.learning.horizon,
            None,
            StatisticsReader.from_setup(setup),
            setup.schedule.names,
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        size = len(self.reader.columns) * NUMBERS_PER_COLUMN
        nothing = np.zeros((*replicates, size))
        memory = {"first": nothing, "second": nothing, "own": np.zeros((*replicates, len(self.names), size))}
        return State(1, np.zeros((*replicates, 1)), memory)

    def query(self, state: State, asker: Asker) -> ColumnStatisticsQuery:
        reader = self.reader
        grid = reader.first_grid() if state.round == 1 else reader.second_grid(_single_run(state.memory["first"]))
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
        """Return what was released of every column."""
        return self.reader.read(
            *(_single_run(state.memory[name], axes) for name, axes in (("first", 1), ("second", 1), ("own", 2)))
        )


def _single_run(array: Floats, axes: int = 1) -> Floats:
    """Return the one run of a study, or the release."""
    return array.reshape(array.shape[array.ndim - axes :])


NOBODY_ASKED = "Nobody was asked"  # behind why, in every refusal by what is public
MAX_READ_BIN_SHARE = 0.1  # of all rows: a bin that needs more of them tells next to nothing
MAX_CLASS_NAME_THRESHOLD = (
    0.5  # of an owner's rows: one class of two can have so many, and both must be above the threshold for names
)


def require_learnable(terms: Terms, example: pd.DataFrame | None = None, anyway: bool = False) -> None:
    """Refuse terms whose column statistics would be useless, or, unless `anyway`, nearly so, whatever tables hold:
    noise that hides every column, classes whose names cannot leave, keys that learning refuses. `example` serves only
    for the names of columns, if the terms list no features."""
    setup = resolve(column_statistics_agreement(terms), example)
    reader = StatisticsReader.from_setup(setup)
    _require_class_names(terms, setup, reader)
    _require_sight(terms, reader, 1.0 if anyway else MAX_READ_BIN_SHARE)
    columns = tuple(_as_if(terms, column) for column in reader.columns)
    make_algorithm(resolve(make_ready(terms, setup.preparation.features, columns, reader.named).terms))


def require_learnable_tables(terms: Terms, owners: Sequence[Owner]) -> None:
    """Refuse tables on this machine that learning would refuse later, such as words among numbers or gaps. They are
    prepared with made-up ranges and names. The reason is shown to whoever runs this, and nothing of it is sent."""
    agreements = [owner.prepare(column_statistics_agreement(terms)) for owner in owners]
    tables = [agreement.tables.train for agreement in agreements]
    preparation = agreements[0].setup.preparation
    if not isinstance(preparation, CellPreparation):
        raise SettingError("terms: expected terms for column statistics")
    cells = [part for table in tables if isinstance(table, CellTable) for part in table.parts()]
    columns = [_as_if(terms, column, [part[place] for part in cells]) for place, column in enumerate(preparation.asked)]
    ready = make_ready(terms, preparation.features, columns).terms
    try:
        for owner in owners:
            owner.prepare(ready)
    except DataError as error:
        raise DataError(
            f"{error}. Training would refuse these terms after owners spent budget on column statistics, so Parley "
            "asked no owner"
        ) from None


def _require_sight(terms: Terms, reader: StatisticsReader, max_share: float) -> None:
    clear_share = reader.clear(BINS)
    if clear_share < max_share:
        return
    rows = sum(part.records for part in terms.owners)
    hidden = "all" if clear_share >= 1 else "most"
    hosts = "" if terms.noise.summed else ", let hosts draw shared noise"
    enough = number(1.1 * clear_share / max_share * float(terms.scale_epsilon), 2)
    raise SettingError(
        f"privacy.scale_epsilon = {number(terms.privacy.scale_epsilon)}: too little for {len(reader.columns)} columns "
        f"and {rows:,} rows. The noise would hide {hidden} column statistics: it hides bins with fewer than "
        f"{clear_share * rows:,.0f} rows. {NOBODY_ASKED}. Declare model.bounds or model.categories for all columns, so "
        "that training needs no column statistics. If some columns need statistics, list names in model.categories, "
        "drop columns from "
        f"model.features{hosts}, or raise privacy.scale_epsilon to {enough} or more"
        f"{'' if clear_share >= 1 else '. To ask anyway, use --force'}"
    )


def _require_class_names(terms: Terms, setup: Setup, reader: StatisticsReader) -> None:
    target = terms.model.target
    if terms.model.predicts != "classes" or target not in reader.columns:
        return
    noises = [part.training.series.mechanism for part in setup.parts.values()]
    threshold = min((noise.threshold for noise in noises if isinstance(noise, Stability)), default=np.inf)
    if reader.named and threshold < MAX_CLASS_NAME_THRESHOLD:
        return
    why = (
        "names are released only with a delta and each owner's own noise"
        if not reader.named
        else f"an owner releases a name only if more than {threshold:.0%} of the owner's rows hold this name"
    )
    raise SettingError(f"model.categories.{target}: expected the classes of the target: {why}. {NOBODY_ASKED}")


def _frequent(cells: Sequence[CellColumn], most: int | None) -> list[str]:
    """Return the names in these cells, sorted; only the `max_share` frequent ones, if given."""
    counts = Counter[str]()
    for part in cells:
        often = np.bincount(part.place[part.place >= 0], minlength=len(part.names))
        counts.update(dict(zip(part.names, often.tolist(), strict=True)))
    return sorted(name for name, _ in counts.most_common(most))


def _as_if(terms: Terms, column: str, cells: Sequence[CellColumn] = ()) -> ReleasedColumn:
    """Return a possible outcome: names where these cells are mostly text, else numbers within bounds."""
    model = terms.model
    numbers = sum(int(np.isfinite(part.values).sum()) for part in cells)
    text = sum(int((np.isnan(part.values) & ~part.missing).sum()) for part in cells)
    if (column == model.target and model.predicts == "classes") or (text > numbers and column not in model.bounds):
        names = _frequent(cells, None if column == model.target else MAX_NAMES) or ["a", "b"]
        return ReleasedColumn(column, "names", 0.0, names=tuple((name, 1 / len(names)) for name in names))
    low, high = model.bounds.get(column, (1.0, 2.0))
    edges = np.linspace(low, high, BINS + 1)
    made = ReleasedColumn(column, "numbers", 0.0, float(low), float(high), tuple(edges.tolist()))
    return replace(made, shares=(0.0, *(1 / BINS,) * BINS, 0.0))


@dataclass(frozen=True, eq=False)
class ColumnStatisticsResult:
    """The released column statistics, the terms that follow, and their cost."""

    asked: Terms
    columns: tuple[ReleasedColumn, ...]
    bin_from: float  # share of all rows from which on a bin stands clear of the noise
    name_from: Mapping[str, float]  # share of an owner's own rows from which on a name is likelier released than not
    ready: Ready
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley column-stats --json` prints."""
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


def require_books(terms: Terms, folder: Path, lifetime: float | None, lifetime_delta: float | None) -> None:
    """Refuse ledgers without room for column statistics, and new ones without room for learning, too."""
    require_room(terms, folder, lifetime, lifetime_delta, "scales")
    require_ledgers(column_statistics_agreement(terms), folder, lifetime, lifetime_delta)


def accepting_column_statistics(
    terms: Terms,
    folder: Path,
    lifetime: float | None,
    lifetime_delta: float | None,
    anyway: bool = False,
    first: Callable[[], None] = lambda: None,
    other_books: str | None = None,
) -> list[Owner]:
    """Return the owners whose ledgers accepted the agreement; new ledgers have room for all of `terms`."""
    require_books(terms, folder, lifetime, lifetime_delta)
    require_learnable_here(terms, open_owners(terms), anyway)
    agreed_terms = column_statistics_agreement(terms)
    return accepting_owners(agreed_terms, folder, lifetime, lifetime_delta, first, other_books)


def require_learnable_here(terms: Terms, owners: Sequence[Owner], anyway: bool = False) -> None:
    """Refuse useless column statistics, by public knowledge and by the tables on this machine."""
    require_learnable(terms, owners[0].example if terms.model.features is None else None, anyway)
    require_learnable_tables(terms, owners)


def ask_column_statistics(
    terms: Terms, owners: Sequence[Owner], seed: int | None = None, progress: Progress = lambda done, total: None
) -> ColumnStatisticsResult:
    """Ask owners on this machine for column statistics. Owners with durable ledgers release: each must have accepted
    `column_statistics_agreement(terms)`. Owners without take part in a study."""
    return column_statistics_result(terms, _ask(column_statistics_agreement(terms), owners, seed, progress))


def ask_columns(
    asked: Terms, owners: Sequence[Owner], seed: int | None = None, progress: Progress = lambda done, total: None
) -> tuple[ReleasedColumn, ...]:
    """Ask under the agreement alone and return every column; no terms follow."""
    found = _ask(asked, owners, seed, progress)
    return ColumnStatistics.make(found.setup).columns(found.final)


def _ask(asked: Terms, owners: Sequence[Owner], seed: int | None, progress: Progress) -> Asked:
    return ask_here(asked, owners, lambda setup: (ColumnStatistics.make(setup), np.zeros(1)), 1, seed, progress)


def sight(setup: Setup) -> tuple[float, dict[str, float]]:
    """Return (the share of all rows from which a bin is read, each owner's share that releases a name)."""
    noises = {part.name: part.training.series.mechanism for part in setup.parts.values()}
    names = {name: noise.threshold for name, noise in noises.items() if isinstance(noise, Stability)}
    return StatisticsReader.from_setup(setup).clear(BINS), names


def column_statistics_result(terms: Terms, asked: Asked) -> ColumnStatisticsResult:
    """Return the result of two rounds under `column_statistics_agreement(terms)`."""
    setup, algorithm = asked.setup, ColumnStatistics.make(asked.setup)
    columns, (clear, names) = algorithm.columns(asked.final), sight(setup)
    ready = make_ready(terms, setup.preparation.features, columns, algorithm.reader.named)
    return ColumnStatisticsResult(setup.terms, columns, clear, names, ready, asked.spent, asked.released, asked.seconds)
