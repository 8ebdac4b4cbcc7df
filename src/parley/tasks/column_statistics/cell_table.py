"""A table as it is: its cells as numbers, as names, or missing. For questions about how values are spread, before anything bounds them.

Formal guarantee: what a row counts as is a function of that row's cells alone (`cells`). No cell is refused: one that is no number is
text, one that is nothing is missing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.design import Summable
from parley.data.preparation import Preparation, require_records
from parley.data.ranges import parts_of
from parley.data.streamed import ParquetFolder
from parley.data.table import Rows, keep_per_person, raw_cells, require_columns
from parley.errors import DataError
from parley.terms import Model, Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CellColumn:
    """One column of some rows: numbers (NaN where a cell is none), whether a cell is missing, and its name among `names`, else -1."""

    values: Floats
    missing: NDArray[np.bool_]
    place: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, rows: Rows, column: str, name: str) -> "CellColumn":
        place, numbers, called = raw_cells(rows, column, name)
        known = {text: code for code, text in enumerate(sorted({text for text in called if text is not None}))}
        code = np.array([*(-1 if text is None else known[text] for text in called), -1], dtype=np.int64)  # the last is for gaps
        return cls(np.array([*numbers, np.nan])[place], place < 0, code[place], tuple(known))


@dataclass(frozen=True, eq=False)
class CellTable(Summable):
    """The asked columns of a table, part by part: all rows at once in memory, or as they are read from a folder."""

    table: pd.DataFrame | ParquetFolder
    columns: tuple[str, ...]
    name: str

    def __len__(self) -> int:
        return len(self.table)

    @property
    def width(self) -> int:
        return len(self.columns)

    def parts(self) -> Iterator[tuple[CellColumn, ...]]:
        """Every row once."""
        if isinstance(self.table, pd.DataFrame):
            yield self._whole
            return
        self.table.require_unchanged()
        for rows in parts_of(self.table, list(dict.fromkeys(self.columns))):
            yield self._read(rows)
        self.table.require_unchanged()

    @cached_property
    def _whole(self) -> tuple[CellColumn, ...]:
        return self._read(self.table) if isinstance(self.table, pd.DataFrame) else ()

    def _read(self, rows: Rows) -> tuple[CellColumn, ...]:
        return tuple(CellColumn.of(rows, column, self.name) for column in self.columns)

    def for_studies(self) -> "CellTable":
        return self

    @property
    def studied(self) -> None:
        """Counting takes the time of all rows anyway."""
        return

    @property
    def statistics(self) -> NoReturn:
        raise DataError("cells as they are have no moments: nothing bounds them yet")

    def sum(self, part: Callable[[Any], Floats]) -> NoReturn:
        raise DataError("cells as they are cannot be summed over: nothing bounds them yet")

    def in_memory(self) -> NoReturn:
        raise DataError("cells as they are make no design: nothing bounds them yet")

    def batch(self, places: NDArray[np.int64]) -> NoReturn:
        raise DataError("cells as they are are asked all at once")

    drawn = batch


class CellPreparation(Preparation):
    """Nothing is bounded or scaled: which columns are asked about is all that the terms fix."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The features, and the target unless its two classes are known anyway; columns whose names are listed have nothing to tell."""
        model = self.model
        columns = self.features if model.predicts == "two classes" else (*self.features, model.target)
        return tuple(column for column in columns if column not in model.categories)

    @property
    def width(self) -> int:
        return len(self.asked)

    @property
    def classes(self) -> tuple[str, ...]:
        """None yet: they may be what is asked."""
        return ()

    def designs(self, table: pd.DataFrame | ParquetFolder, terms: Terms, name: str) -> tuple[Summable, Summable]:
        if terms.privacy.person is not None:
            if isinstance(table, ParquetFolder):
                raise DataError(f"{name}: privacy.person: a streamed table cannot count each person's rows; give one file")
            table = keep_per_person(table, terms.privacy.person, terms.privacy.records_per_person, name)
        require_columns(table.example() if isinstance(table, ParquetFolder) else table, self.asked, name)
        require_records(terms, name, len(table))
        none = table.example() if isinstance(table, ParquetFolder) else table.iloc[:0]
        return CellTable(table, self.asked, name), CellTable(none, self.asked, name)


def survey_preparation(model: Model, features: tuple[str, ...]) -> CellPreparation:
    """What is asked about these features, as they are."""
    none, ends = np.zeros(len(features)), np.full(len(features), np.inf)
    made = CellPreparation(model, features, {}, -ends, ends, (-np.inf, np.inf), none, none + 1)
    if not made.asked:
        raise DataError("model.features: nothing to ask: every column's names are listed in model.categories already")
    return made
