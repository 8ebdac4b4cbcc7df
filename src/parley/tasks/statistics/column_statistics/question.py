"""The question of column statistics: shares of rows on a grid that the query declares, before anything bounds a column.

The first grid is powers of two, which fit any double, or equal bins within declared bounds; the second is as fine as
the first answer allows. Unlisted names leave only above a threshold (`mechanisms.name_counts`), in the last round.

Formal guarantee: what a row counts as is a function of that row's cells and the declared types of their columns
(`cells`). A cell that is no number is text, an empty one is missing. Where names may be asked, a cell without a name is
refused when the table is prepared, as where names are read for a model (`table.codes`): never silently dropped, and
never during a run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.data.design import Summable
from parley.data.holdout import CountedRows, count_rows, counted_rows, parts_of
from parley.data.preparation import Preparation, require_records
from parley.data.sources import Rows, Table, TableSource, open_table
from parley.data.table import nameless_cell_error, raw_cells, require_columns
from parley.errors import DataError, GuaranteeError, Malformed
from parley.privacy.accounting import Series, make_series
from parley.privacy.mechanisms import Bounded, Extent
from parley.privacy.mechanisms.name_counts import MAX_NAMES, NUMBERS_PER_NAME, NamedCounts, Stability, encode_name
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, ReleasePlan, Tables
from parley.tasks.records import WholeTable
from parley.terms import Model, Terms
from parley.terms.catalogue import MECHANISMS
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CellColumn:
    """One column of some rows: numbers (else NaN), missing cells, and each cell's place among `names` (else -1)."""

    values: Floats
    missing: NDArray[np.bool_]
    place: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def from_rows(cls, rows: Rows, column: str, name: str, written: str | None = None) -> "CellColumn":
        """Return the column of these rows; `written` is the format of dates."""
        place, numbers, called = raw_cells(rows, column, name, written)
        known = {text: code for code, text in enumerate(sorted({text for text in called if text is not None}))}
        # the last is for gaps
        code = np.array([*(-1 if text is None else known[text] for text in called), -1], dtype=np.int64)
        return cls(np.array([*numbers, np.nan])[place], place < 0, code[place], tuple(known))


@dataclass(frozen=True, eq=False)
class CellTable(WholeTable):
    """The asked columns of a table, in parts; folders are read each time, other tables kept in memory."""

    called: ClassVar[str] = "cells as they are"

    table: TableSource
    columns: tuple[str, ...]
    name: str
    kept: CountedRows = None  # which rows count; None: all
    dates: Mapping[str, str] = field(default_factory=dict)  # columns of dates, and how they are written

    def __len__(self) -> int:
        return count_rows(self.table, self.kept)

    @property
    def width(self) -> int:
        return len(self.columns)

    def parts(self) -> Iterable[tuple[CellColumn, ...]]:
        """Return all rows in pieces, each row in one of them."""
        return self._read() if self.table.streams else self._held

    @cached_property
    def _held(self) -> list[tuple[CellColumn, ...]]:
        return list(self._read())

    def _read(self) -> Iterator[tuple[CellColumn, ...]]:
        for _, rows in parts_of(self.table, self.columns, self.kept):
            yield tuple(
                CellColumn.from_rows(rows, column, self.name, self.dates.get(column)) for column in self.columns
            )

    def require_names(self) -> None:
        """Refuse a cell that has no name."""
        start = 0
        for part in self.parts():
            for column, cells in zip(self.columns, part, strict=True):
                wrong = np.flatnonzero(~cells.missing & (cells.place < 0))
                if wrong.size:
                    raise nameless_cell_error(
                        self.name, column, start + int(wrong[0]) + 1, ", because these terms may ask for names"
                    )
            start += len(part[0].values)


class CellPreparation(Preparation):
    """The asked columns, which the terms fix; nothing is bounded or scaled."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The features and, for numbers and several classes, the target; without columns whose names are listed."""
        model = self.model
        columns = (*self.features, model.target) if model.predicts in ("number", "classes") else self.features
        return tuple(column for column in columns if column not in model.categories)

    @property
    def width(self) -> int:
        return len(self.asked)

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty: they may be what is asked."""
        return ()

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        source = open_table(table)
        require_columns(source.example, self.asked, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, count_rows(source, kept))
        dates = self.model.dates
        found = CellTable(source, self.asked, name, kept, dates)
        if may_name(terms):
            found.require_names()
        return found, CellTable(open_table(source.example), self.asked, name, dates=dates)


def may_name(terms: Terms) -> bool:
    """Whether owners may release unlisted names: with a delta for them, and their own noise."""
    return not terms.noise.summed and terms.privacy.delta > 0


def cell_preparation(model: Model, features: tuple[str, ...]) -> CellPreparation:
    """Return the preparation that asks about these features."""
    none, ends = np.zeros(len(features)), np.full(len(features), np.inf)
    made = CellPreparation(model, features, {}, -ends, ends, (-np.inf, np.inf), none, none + 1)
    if not made.asked:
        raise DataError(
            "model.features: there is nothing to ask, because model.categories already lists the names of every column"
        )
    return made


MAGNITUDES, EQUAL, NAMES = 0.0, 1.0, 2.0  # kinds of grids: signed powers of two; equal bins within an interval; names
SMALLEST_POWER, LARGEST_POWER = -144, 142
_POWERS = np.ldexp(1.0, np.arange(SMALLEST_POWER, LARGEST_POWER + 1))
# of the first kind: bin i is from EDGES[i - 1] up to, not including, EDGES[i]
MAGNITUDE_EDGES = np.concatenate([-_POWERS[::-1], _POWERS])
BINS = 64  # of the second kind, and one below and one above them
NUMBERS_PER_COLUMN = 2 + max(
    len(MAGNITUDE_EDGES) + 1, BINS + 2, MAX_NAMES * NUMBERS_PER_NAME
)  # numbers of a column: missing cells, text, bins or names


@dataclass(frozen=True, eq=False)
class ColumnStatisticsQuery(Query):
    """`grid` [3 C] has for each asked column the kind of its grid and the interval of equal bins."""

    kind: ClassVar[str] = "scales"
    grid: Floats

    @property
    def grids(self) -> Floats:
        """The grids by column [C, 3]."""
        return self.grid.reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class ColumnStatisticsQuestion(Question):
    """Every row counts once in each column: as missing, as text, in one bin, or by its name.

    Formal guarantee: whatever grid is asked, replacing k of n rows takes k out of a place and puts k into one, in each
    of C columns. The answer moves by at most 2 k C/n in L1 and k sqrt(2 C)/n in L2. Counts are exact; only places that
    change divide to other floats, each off by at most 2^-53, which the last factor covers. For names that are
    candidates in one table only see `name_counts`.
    """

    asks = ColumnStatisticsQuery

    columns: int
    per_person: int
    names_in: int | None  # the round in which names may be asked

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, preparation = context.terms, context.preparation
        if not isinstance(preparation, CellPreparation):
            raise GuaranteeError("column statistics: expected cells without preprocessing")
        k, C, n = terms.privacy.records_per_person, len(preparation.asked), terms.train_rows(owner)
        named, norm = may_name(terms), context.norm
        moved = (2 * k * C if norm == "l1" else k * (2 * C) ** 0.5) / n
        letters = C * (MAX_NAMES * NUMBERS_PER_NAME) if named else 0
        return cls(
            parameters=1,
            records=n,
            size=C * NUMBERS_PER_COLUMN,
            norm=norm,
            sensitivity=moved * (1 + (n + 8) * 2.0**-52),
            extent=Extent(0.0, 1.0, float(C + letters) if norm == "l1" else (C + letters) ** 0.5, norm),
            bound=None,
            columns=C,
            per_person=k,
            names_in=terms.learning.horizon if named else None,
        )

    def series(self, plan: ReleasePlan) -> Series:
        """Return the answers with a threshold for names. Noise that needs delta gets half of it, names the rest."""
        noise = plan.delta / 2 if MECHANISMS[plan.mechanism].approximate else Fraction(0)
        series = make_series(plan.mechanism, plan.epsilon, noise, plan.count, self.sensitivity, plan.copies)
        if self.names_in is None:
            return series
        promised = plan.epsilon / plan.copies, (plan.delta - noise) / plan.copies
        sizes = self.records, self.per_person, self.columns, NUMBERS_PER_COLUMN
        return replace(series, mechanism=Stability.calibrate(series.mechanism, *promised, *sizes))

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        grid = query.arrays["grid"]
        check_parameter(grid, (3 * self.columns,), "grid")
        for kind, low, high in grid.reshape(-1, 3).tolist():
            if kind not in (MAGNITUDES, EQUAL, NAMES) or (kind == EQUAL and not low < high):
                raise Malformed("grid: expected a known kind for each column, and low < high for equal bins")
            if kind == NAMES and query.round != self.names_in:
                raise Malformed(
                    "grid: a question may ask for names only in the last round, and only if the terms set a delta for "
                    "names"
                )

    def exact(self, query: ColumnStatisticsQuery, tables: Tables) -> Floats:
        return self._counted(query, tables)[0] / self.records

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        """Return the shares, and the count of each name where names are asked."""
        if not isinstance(query, ColumnStatisticsQuery):
            raise Malformed("query: expected a query for column statistics")
        counts, named = self._counted(query, tables)
        shares = np.broadcast_to(counts / self.records, (*replicates, self.size)).copy()
        return NamedCounts(shares, self.sensitivity, self.norm, named)

    def _counted(self, query: ColumnStatisticsQuery, tables: Tables) -> tuple[Floats, tuple[Counter[str] | None, ...]]:
        """Return counts at the fixed places of all columns [size], and by name."""
        if not isinstance(tables.train, CellTable):
            raise GuaranteeError("column statistics: expected cells without preprocessing")
        counts = np.zeros((self.columns, NUMBERS_PER_COLUMN))
        names = tuple(Counter[str]() if kind == NAMES else None for kind in query.grids[:, 0])
        for part in tables.train.parts():
            for row, cells, name_counts, grid in zip(counts, part, names, query.grids, strict=True):
                if name_counts is None:
                    row += placed(cells, *grid)
                else:
                    row[0] += np.count_nonzero(cells.missing)
                    held = np.bincount(cells.place[cells.place >= 0], minlength=len(cells.names))
                    name_counts.update(
                        {
                            name: int(n)
                            for name, n in zip(cells.names, held, strict=True)
                            if n and encode_name(name) is not None
                        }
                    )
        return counts.ravel(), names

    def words(self) -> str:
        what = "the shares of rows in bins of values" + (
            ", and names that many rows hold" if self.names_in is not None else ""
        )
        return f"{what}, for {self.columns} columns of {self.records:,} records"


def placed(cells: CellColumn, kind: float, low: float, high: float) -> Floats:
    """Return counts of rows [WIDTH]: missing, text, then the bins of a grid of numbers."""
    edges = MAGNITUDE_EDGES if kind == MAGNITUDES else np.linspace(low, high, BINS + 1)
    numbers = cells.values[~np.isnan(cells.values)]
    row = np.zeros(NUMBERS_PER_COLUMN)
    row[0] = np.count_nonzero(cells.missing)
    row[1] = len(cells.values) - len(numbers) - row[0]
    row[2 : len(edges) + 3] = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
    return row
