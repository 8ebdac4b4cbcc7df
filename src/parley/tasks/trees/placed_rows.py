"""Rows as trees see them: the place of every cell in its column, and the target.

Formal guarantee: a cell's place is a function of that cell and the terms, so that replacing one record of the table
replaces one placed record. A record without a target is in its leaves, and adds nothing to any sum.
"""

from dataclasses import fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation, fit_preparation
from parley.data.encoding import Numbers
from parley.data.sources import Rows
from parley.data.table import require_columns
from parley.tasks.target_rows import TargetPreparation, TargetRows
from parley.terms import Terms
from parley.validate import Floats


class PlacedRows(TargetRows):
    """Records of places X [n, columns]; targets of classes are -1 and 1."""

    called: ClassVar[str] = "records in leaves"


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


class TreePreparation(TargetPreparation):
    """Declared bounds and names, by which cells are placed; nothing is scaled."""

    made_of: ClassVar = PlacedRows

    @property
    def width(self) -> int:
        return len(self.features)

    @property
    def no_target(self) -> float:
        return -1.0 if self.model.classifies else self.target_bounds[0]

    def cells(self, rows: Rows, name: str) -> NDArray[np.uint16]:
        return place_cells(self, rows, name)


def tree_preparation(terms: Terms) -> TreePreparation:
    """The preparation that the terms alone fix."""
    plain, _ = fit_preparation(terms)
    return TreePreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})
