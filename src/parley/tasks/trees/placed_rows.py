"""Rows as trees see them: the place of every cell in its column, and the target.

Formal guarantee: a cell's place is a function of that cell and the terms, so that replacing one record of the table
replaces one placed record. A record without a target is in its leaves, and adds nothing to any sum.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation, fit_preparation
from parley.data.encoding import Numbers
from parley.data.parts import counted_rows, how_many, parts_of
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, open_table
from parley.data.sources.rows import chosen_rows
from parley.data.table import require_columns
from parley.data.targets import has_target
from parley.tasks.whole_table import WholeTable
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class PlacedRows(WholeTable):
    """Records: places [n, columns], targets [n] (-1 and 1 for classes), and which of them have one [n]."""

    called: ClassVar[str] = "records in leaves"

    places: NDArray[np.uint16]
    y: Floats
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        return int(self.places.shape[1])

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "PlacedRows":
        """The records that are marked, or at these places."""
        return PlacedRows(self.places[chosen], self.y[chosen], self.present[chosen])


def place_cells(preparation: Preparation, rows: Rows, name: str) -> NDArray[np.uint16]:
    """The place of every cell [n, columns]: its step within the bounds, or its name in the list; gaps come last."""
    require_columns(rows, preparation.features, name)
    coded = [encoding.read(rows, name) for encoding in preparation.encodings]
    return place_numbers(preparation, coded, len(rows))


def place_numbers(preparation: Preparation, coded: list[Floats], rows: int) -> NDArray[np.uint16]:
    """The same of cells that are numbers already: names as their places, gaps as NaN."""
    places, steps = np.empty((rows, len(coded)), dtype=np.uint16), preparation.model.bins or 0
    first = 0
    for column, (encoding, values) in enumerate(zip(preparation.encodings, coded, strict=True)):
        if isinstance(encoding, Numbers):
            low, high, gaps = preparation.low[first], preparation.high[first], np.isnan(values)
            with np.errstate(over="ignore"):  # what is beyond the bounds is cut next
                share = (encoding.transformed(np.where(gaps, 0.0, values)) - low) / (high - low)
                values = np.where(gaps, steps, np.clip(np.floor(share * steps), 0, steps - 1))
        places[:, column] = values
        first += len(encoding.labels)
    return places


class TreePreparation(Preparation):
    """Declared bounds and names, by which cells are placed; nothing is scaled."""

    @property
    def width(self) -> int:
        return len(self.features)

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[PlacedRows, PlacedRows]:
        """(training, held-out) records; which are held out follows from their places in the table."""
        source, columns = open_table(table), [*self.features, self.model.target]
        require_columns(source.example, columns, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        parts = [
            self._part(rows, name if not start else f"{name}, counted from row {start + 1} on")
            for start, rows in parts_of(source, columns, kept)
        ]
        whole = PlacedRows(
            *(np.concatenate([getattr(part, key) for part in parts]) for key in ("places", "y", "present"))
        )
        train = self.trained_on(len(whole))
        return whole.where(train), whole.where(~train)

    def _part(self, rows: Rows, name: str) -> PlacedRows:
        present = has_target(rows, self.model, name)
        y = np.full(len(present), -1.0 if self.model.classifies else self.target_bounds[0])
        if present.all():
            y = self.target(rows, name)
        elif present.any():
            y[present] = self.target(chosen_rows(rows, present), f"{name}, of the rows with a target")
        return PlacedRows(place_cells(self, rows, name), y, present)


def tree_preparation(terms: Terms) -> TreePreparation:
    """The preparation that the terms alone fix."""
    plain, _ = fit_preparation(terms)
    return TreePreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})
