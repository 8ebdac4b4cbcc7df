"""How one feature becomes columns of numbers: names as places or as columns of 0 and 1, gaps filled and marked, numbers transformed.

Formal guarantee: each is a function of the cell, the terms and public knowledge; of the columns that one column of names becomes with
one-hot coding, at most one is 1 and all others are 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parley.data.sources import Rows
from parley.data.table import codes, numbers
from parley.data.transforms import INVERSES, TRANSFORMS
from parley.errors import DataError
from parley.terms.columns import Transform
from parley.validate import LARGEST, Floats

PLAINLY = "write numbers as 1234.5, without decimal commas, signs or units"

Ends = tuple[float, float]


@dataclass(frozen=True)
class Encoding:
    """One feature. Coded, it is a number [n]: names are their places, then others, then gaps; numbers are themselves, a gap is NaN."""

    column: str
    names: tuple[str, ...] | None  # that are told apart; None: the column holds numbers
    one_hot: bool
    fills: bool  # whether gaps are filled, else refused
    fill: float  # what a gap counts as, among numbers; NaN where none is filled
    transform: Transform | None

    @property
    def labels(self) -> tuple[str, ...]:
        """What its columns are called."""
        if self.names is None:
            return (self.column, f"{self.column} missing") if self.fills else (self.column,)
        if not self.one_hot:
            return (self.column,)
        listed = tuple(f"{self.column} = {name}" for name in self.names)
        return (*listed, f"{self.column} missing") if self.fills else listed

    @property
    def groups(self) -> tuple[int, ...]:
        """Its columns in groups, by their sizes, of which at most one column differs from 0."""
        width = len(self.labels)
        return (width,) * (width > 0) if self.one_hot and self.names is not None else (1,) * width

    @property
    def scaled(self) -> tuple[bool, ...]:
        """Which of its columns are centred and scaled: not those that say yes or no."""
        if self.names is not None:
            return (not self.one_hot,) * len(self.labels)
        return (True, False)[: len(self.labels)]

    def ends(self, declared: Ends | None) -> list[Ends]:
        """The least and the largest value in each of its columns, for declared bounds of the feature; infinite where nothing is known."""
        if self.names is not None and self.one_hot:
            return [(0.0, 1.0)] * len(self.labels)
        if self.names is not None:
            return [declared or (0.0, float(len(self.names) + self.fills))]
        low, high = (-np.inf, np.inf) if declared is None else self.transformed(np.array(declared))
        return [(float(low), float(high)), (0.0, 1.0)][: len(self.labels)]

    def range(self, low: float, high: float) -> Ends:
        """Ends of its first column in the feature's own units."""
        if self.transform is None or not np.isfinite([low, high]).all():
            return low, high
        first, last = INVERSES[self.transform](np.array([low, high]))
        return float(first), float(last)

    def read(self, rows: Rows, name: str) -> Floats:
        """The feature, coded."""
        if self.names is not None:
            return codes(rows, self.column, self.names, name, self.fills)
        return numbers(
            rows, self.column, name, self.fills, f"{PLAINLY}; for a column of names declare model.categories.{self.column}"
        )

    def coded(self, values: Floats) -> Floats:
        """The feature, coded, from an array in which names are their places and NaN is a gap."""
        gaps = np.isnan(values)
        if gaps.any() and not self.fills:
            raise DataError(f"column {self.column!r}, row {np.flatnonzero(gaps)[0] + 1}: a missing value; expected finite numbers")
        return values if self.names is None else np.where(gaps, len(self.names) + 1.0, values)

    def columns(self, coded: Floats) -> Iterator[Floats]:
        """Its columns, each [n]."""
        if self.names is None and not self.fills:
            yield self.transformed(coded)
        elif self.names is None:
            gaps = np.isnan(coded)
            yield self.transformed(np.where(gaps, self.fill, coded))
            yield gaps.astype(np.float64)
        elif not self.one_hot:
            yield coded
        else:
            places = [*range(len(self.names)), *([len(self.names) + 1] if self.fills else [])]
            yield from ((coded == place).astype(np.float64) for place in places)

    def transformed(self, values: Floats) -> Floats:
        """Numbers after the transform, if there is one."""
        return values if self.transform is None else TRANSFORMS[self.transform](values)

    def filled(self, values: Floats | None, declared: Ends | None) -> float | None:
        """What a gap shall count as: the median of public numbers, else the middle of the declared bounds."""
        if not self.fills or self.names is not None:
            return None
        known = np.empty(0) if values is None else values[~np.isnan(values)]
        if known.size:
            return float(np.median(np.clip(known, -LARGEST, LARGEST)))
        if declared is not None:
            return declared[0] / 2 + declared[1] / 2
        raise DataError(
            f"model.missing: expected model.bounds.{self.column}, or a public sample with numbers in that column: what a missing cell "
            "counts as must not depend on private rows"
        )
