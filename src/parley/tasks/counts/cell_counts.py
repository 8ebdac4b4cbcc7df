"""A table as counts: how many of its rows lie in each of the cells that the terms declare.

Formal guarantee: a row lies in exactly one cell, by its own cell of the counted column and the terms alone; a gap, a
name that is not listed and a number beyond the bounds lie elsewhere. A step has its lower end and not its upper one,
the last has both; ends are compared as the floats that they are, without arithmetic on a row's number. So replacing a
row takes 1 from one cell and adds 1 to one. A cell without a name (a list, a float from 2^53 on) refuses the whole
table where names are counted: when its owner accepts or simulates, before anything is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation
from parley.data.cells import is_missing_word
from parley.data.parts import counted_rows, how_many, parts_of
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, TableSource, open_table
from parley.data.table import codes, raw_cells, require_columns
from parley.errors import DataError
from parley.tasks.counts.terms import cell_names, step_ends
from parley.tasks.target_rows import WholeTable
from parley.terms import Model, Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CellCounts(WholeTable):
    """How many rows lie in each cell, and elsewhere last."""

    called: ClassVar[str] = "counts"

    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def width(self) -> int:
        return len(self.counts)


class CountPreparation(Preparation):
    """Nothing is bounded or scaled: which cells there are is all that the terms fix."""

    @property
    def width(self) -> int:
        return len(cell_names(self.model))

    @property
    def classes(self) -> tuple[str, ...]:
        """None: nothing is predicted."""
        return ()

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[CellCounts, CellCounts]:
        """(counts of all rows, of none)."""
        source, columns = open_table(table), [self.model.target]
        require_columns(source.example, columns, name)
        listed = self.model.categories.get(self.model.target, ())
        require_told_apart(listed, f"model.categories.{self.model.target} lists", source, name, "terms")
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        cells = _cells(self.model)
        counts = np.zeros(cells + 1, dtype=np.int64)
        for _, rows in parts_of(source, columns, kept):
            counts += np.bincount(placed(self.model, rows, name), minlength=cells + 1)
        return CellCounts(counts), CellCounts(np.zeros_like(counts))


def require_told_apart(names: Sequence[str], where: str, source: TableSource, name: str, instead: str) -> None:
    """Refuse names that this kind of table cannot tell from a gap; no row is looked at."""
    lost = [word for word in names if source.drops_words and is_missing_word(word)]
    if lost:
        raise DataError(
            f"{name}: {where} {lost[0]!r}, which CSV files say for a missing cell too; expected a Parquet file, or "
            f"{instead} without that name"
        )


def placed(model: Model, rows: Rows, name: str) -> NDArray[np.int64]:
    """The cell of every row [n]; elsewhere is the last."""
    column, cells = model.target, _cells(model)
    if column in model.categories:
        names = model.categories[column]
        found = codes(rows, column, names, name, gaps=True, listed=frozenset(names))
        return np.where(found < len(names), found if model.kind == "histogram" else 0, cells).astype(np.int64)
    place, numbers, _ = raw_cells(rows, column, name)
    values: Floats = np.array([*numbers, np.nan])[place]  # the last is for gaps
    ends = np.array(step_ends(model))
    inside = (values >= ends[0]) & (values <= ends[-1])
    return np.where(inside, np.searchsorted(ends[1:-1], values, side="right"), cells).astype(np.int64)


def _cells(model: Model) -> int:
    """How many there are but for elsewhere."""
    if model.kind == "count":
        return 1
    return len(model.categories.get(model.target, ())) or len(step_ends(model)) - 1


def count_preparation(model: Model) -> CountPreparation:
    """The preparation that the terms alone fix."""
    none = np.zeros(0)
    return CountPreparation(model, (), dict(model.categories), none, none, (-np.inf, np.inf), none, none)
