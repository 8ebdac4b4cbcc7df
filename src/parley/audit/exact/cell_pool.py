"""Cells that a search tries in a column: those that the terms make one expect, and all that are likely to be read
wrongly."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from parley.audit.canary import cell_values, ends, outcome_cells
from parley.audit.exact.declared_types import TYPES
from parley.audit.exact.written_tables import UNWRITABLE
from parley.protocol.setup import Setup
from parley.terms.catalogue import PREDICTION

EXTREMES = (
    *(0.0, -0.0, 5e-324, -2.3e-308, 1e-300, 1e-50, -1e-50, 1.0, -1.0, 0.1, 1e16, 2.0**53, float(2**60)),
    *(1e50, -1e50, 1e300, -1.7e308, 1.7e308, math.inf, math.nan),
)
UNLISTED, BEYOND_ALL = "a name that no terms list", 1e12  # of what is counted, or not
PLACES: tuple[object, ...] = ("1", "2", "3", 0.0)  # of a column that the terms say nothing about
ALL_KINDS = tuple(dict.fromkeys(kind for kind, _, _ in TYPES))
USUALLY, GAP = 0.6, 0.12  # how often a usual cell, or a gap, is tried


@dataclass(frozen=True, eq=False)
class CellPool:
    """The cells of every column of one agreement's tables."""

    setup: Setup
    _held: dict[tuple[str, str], tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, column: str, kind: pa.DataType) -> Any:
        """A cell for a column that is declared so; None is a gap."""
        usual, odd = self._cells(column, kind)
        chance = float(rng.random())
        if chance < USUALLY and usual:
            return usual[int(rng.integers(len(usual)))]
        return None if chance > 1 - GAP or not odd else odd[int(rng.integers(len(odd)))]

    def usual(self, rng: np.random.Generator, column: str, kind: pa.DataType) -> Any:
        """A cell that the terms make one expect, where the type holds any."""
        usual = self._cells(column, kind)[0]
        return usual[int(rng.integers(len(usual)))] if usual else self.draw(rng, column, kind)

    def plain_kind(self, column: str) -> pa.DataType:
        """The type that an analyst would declare."""
        return pa.string() if any(isinstance(cell, str) for cell in self._expected(column)) else pa.float64()

    def fitting_kinds(self, column: str) -> Sequence[pa.DataType]:
        """The types that hold cells to be expected in it."""
        return [kind for kind in ALL_KINDS if self._cells(column, kind)[0]]

    def _cells(self, column: str, kind: pa.DataType) -> tuple[Sequence[Any], Sequence[Any]]:
        """(cells to be expected, others) that the type holds."""
        key = column, str(kind)
        if key not in self._held:
            self._held[key] = converted(self._expected(column), kind), _odd_cells(kind)
        return self._held[key]

    def _expected(self, column: str) -> Sequence[object]:
        """Cells at the ends of what the terms allow."""
        preparation, model = self.setup.preparation, self.setup.terms.model
        if column in preparation.features:
            return cell_values(preparation, column)
        if listed := self.setup.task.listed_cells(model, column):
            return listed
        if self.setup.terms.task == PREDICTION or self.setup.task.predicts:
            found = [row[column] for row in outcome_cells(preparation) if column in row]
        elif column in model.categories:
            found = [*model.categories[column], UNLISTED]
        else:
            found = [*ends(*model.bounds[column]), BEYOND_ALL] if column in model.bounds else []
        return found or PLACES

    def patterned(self, rng: np.random.Generator, column: str, kind: pa.DataType, rows: int) -> list[Any]:
        """Cells of one record's rows: all alike, two that take turns, one that gives way to another halfway, or each
        cell in its turn."""
        usual = self._cells(column, kind)[0]
        if not usual:
            return [self.draw(rng, column, kind)] * rows
        one, two = (usual[int(rng.integers(len(usual)))] for _ in range(2))
        half = rows // 2
        ways = ([one] * rows, [one, two] * rows, [one] * half + [two] * (rows - half), [*usual] * rows)
        return ways[int(rng.integers(len(ways)))][:rows]


@cache
def _odd_cells(kind: pa.DataType) -> tuple[Any, ...]:
    """Cells that are likely to be read wrongly, in a column of this type, whatever the terms say of it."""
    own = [cell for known, cells, changes in TYPES if known == kind for cell in (*cells, *changes)]
    return (*converted(EXTREMES, kind), *own)


def converted(cells: Sequence[object], kind: pa.DataType) -> list[Any]:
    """Those of the cells that a column of this type can hold, as it holds them."""
    found = [next((made for made in _ways(cell) if _holds(kind, made)), None) for cell in cells]
    return [cell for cell in found if cell is not None]


def _ways(cell: Any) -> list[Any]:
    """The cell as several types would have it."""
    ways: list[Callable[[], Any]] = [
        lambda: cell,
        lambda: str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell),
        lambda: int(str(cell)) if isinstance(cell, str) else int(cell) if cell == int(cell) else None,
        lambda: float(cell),
        lambda: Decimal(str(cell)),
        lambda: str(cell).encode(),
    ]
    made = []
    for way in ways:
        try:
            made.append(way())
        except (ValueError, ArithmeticError, TypeError):
            continue
    return [each for each in made if each is not None]


def _holds(kind: pa.DataType, cell: Any) -> bool:
    try:
        pa.array([cell], kind)
    except UNWRITABLE:
        return False
    return True
