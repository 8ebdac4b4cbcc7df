"""A table as it is: its cells as numbers, as names, or missing. For questions about how values are spread, before
anything bounds them.

Formal guarantee: what a row counts as is a function of that row's cells and the declared types of their columns
(`cells`, `arrow_cells`). One that is no number is text, one that is nothing is missing. Where names may be asked, a
cell that has none is refused when the table is prepared, as it is where names are read for a model (`table.codes`):
never silently left out, and never in the middle of a run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data.design import Summable
from parley.data.parts import Kept, counted_rows, how_many, parts_of
from parley.data.preparation import Preparation, require_records
from parley.data.sources import Rows, Table, TableSource, open_table
from parley.data.table import nameless, raw_cells, require_columns
from parley.errors import DataError
from parley.tasks.target_rows import WholeTable
from parley.terms import Model, Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CellColumn:
    """One column of some rows: numbers (NaN where a cell is none), whether a cell is missing, and its name among
    `names`, else -1."""

    values: Floats
    missing: NDArray[np.bool_]
    place: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, rows: Rows, column: str, name: str, written: str | None = None) -> "CellColumn":
        """`written`: the format of a column of dates."""
        place, numbers, called = raw_cells(rows, column, name, written)
        known = {text: code for code, text in enumerate(sorted({text for text in called if text is not None}))}
        # the last is for gaps
        code = np.array([*(-1 if text is None else known[text] for text in called), -1], dtype=np.int64)
        return cls(np.array([*numbers, np.nan])[place], place < 0, code[place], tuple(known))


@dataclass(frozen=True, eq=False)
class CellTable(WholeTable):
    """The asked columns of a table, part by part: those of a folder as they are read, others held."""

    called: ClassVar[str] = "cells as they are"

    table: TableSource
    columns: tuple[str, ...]
    name: str
    kept: Kept = None  # which rows count; None: all
    dates: Mapping[str, str] = field(default_factory=dict)  # columns of dates, and how they are written

    def __len__(self) -> int:
        return how_many(self.table, self.kept)

    @property
    def width(self) -> int:
        return len(self.columns)

    def parts(self) -> Iterable[tuple[CellColumn, ...]]:
        """All rows in pieces, each row in one of them."""
        return self._read() if self.table.streams else self._held

    @cached_property
    def _held(self) -> list[tuple[CellColumn, ...]]:
        return list(self._read())

    def _read(self) -> Iterator[tuple[CellColumn, ...]]:
        for _, rows in parts_of(self.table, self.columns, self.kept):
            yield tuple(CellColumn.of(rows, column, self.name, self.dates.get(column)) for column in self.columns)

    def require_names(self) -> None:
        """Refuse a cell that has no name."""
        start = 0
        for part in self.parts():
            for column, cells in zip(self.columns, part, strict=True):
                wrong = np.flatnonzero(~cells.missing & (cells.place < 0))
                if wrong.size:
                    raise nameless(self.name, column, start + int(wrong[0]) + 1, ", and these terms may ask for names")
            start += len(part[0].values)


class CellPreparation(Preparation):
    """Nothing is bounded or scaled: which columns are asked about is all that the terms fix."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The features, and the target unless its two classes or its bounds are known anyway; columns whose names are
        listed have nothing to tell."""
        model = self.model
        columns = (*self.features, model.target) if model.predicts in ("number", "classes") else self.features
        return tuple(column for column in columns if column not in model.categories)

    @property
    def width(self) -> int:
        return len(self.asked)

    @property
    def classes(self) -> tuple[str, ...]:
        """None yet: they may be what is asked."""
        return ()

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        source = open_table(table)
        require_columns(source.example, self.asked, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        dates = self.model.dates
        found = CellTable(source, self.asked, name, kept, dates)
        if may_name(terms):
            found.require_names()
        return found, CellTable(open_table(source.example), self.asked, name, dates=dates)


def may_name(terms: Terms) -> bool:
    """Whether owners may release names that nobody listed: with a delta for them, and noise of their own."""
    return not terms.noise.summed and terms.privacy.delta > 0


def cell_preparation(model: Model, features: tuple[str, ...]) -> CellPreparation:
    """What is asked about these features, as they are."""
    none, ends = np.zeros(len(features)), np.full(len(features), np.inf)
    made = CellPreparation(model, features, {}, -ends, ends, (-np.inf, np.inf), none, none + 1)
    if not made.asked:
        raise DataError("model.features: nothing to ask: every column's names are listed in model.categories already")
    return made
