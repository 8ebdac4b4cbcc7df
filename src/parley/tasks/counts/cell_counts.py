"""A table as counts: how many of its rows lie in each of the cells that the terms declare.

Formal guarantee: a row lies in exactly one cell, by its own cell of the counted column and the terms alone; a gap, a
name that is not listed and a number beyond the bounds lie elsewhere. So replacing a row takes 1 from one cell and adds
1 to one.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation
from parley.data.parts import counted_rows, how_many, parts_of
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, open_table
from parley.data.table import codes, raw_cells, require_columns
from parley.tasks.counts.terms import cell_names
from parley.tasks.whole_table import WholeTable
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
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        cells = _cells(self.model)
        counts = np.zeros(cells + 1, dtype=np.int64)
        for _, rows in parts_of(source, columns, kept):
            counts += np.bincount(placed(self.model, rows, name), minlength=cells + 1)
        return CellCounts(counts), CellCounts(np.zeros_like(counts))


def placed(model: Model, rows: Rows, name: str) -> NDArray[np.int64]:
    """The cell of every row [n]; elsewhere is the last."""
    column, cells = model.target, _cells(model)
    if column in model.categories:
        found = codes(rows, column, model.categories[column], name, gaps=True)
        return np.where(found < len(model.categories[column]), found if model.kind == "histogram" else 0, cells).astype(
            np.int64
        )
    place, numbers, _ = raw_cells(rows, column, name)
    values: Floats = np.array([*numbers, np.nan])[place]  # the last is for gaps
    low, high = model.bounds[column]
    inside = (values >= low) & (values <= high)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.floor((np.where(inside, values, low) - low) / (high - low) * cells)
    return np.where(inside, np.clip(steps, 0, cells - 1), cells).astype(np.int64)


def _cells(model: Model) -> int:
    """How many there are but for elsewhere."""
    return len(cell_names(model)) - (model.kind == "histogram")


def count_preparation(model: Model) -> CountPreparation:
    """The preparation that the terms alone fix."""
    none = np.zeros(0)
    return CountPreparation(model, (), dict(model.categories), none, none, (-np.inf, np.inf), none, none)
