"""How a feature becomes columns: names as places or as columns of 0 and 1, gaps filled and marked, numbers transformed.

Formal guarantee: each column is a function of the cell, the terms and public knowledge. Of the columns that a column of
names becomes with one-hot coding, at most one is 1 and all others are 0.

Transforms are monotone functions that take every finite number. Below its domain a function stays at the domain's end:
bounds clip there anyway (`Preparation`).

Formal guarantee: a transformed number depends on that number alone, not on its place or its neighbours, and is the same
to the bit on every machine. Each function is a series of additions, multiplications, divisions and roots, which IEEE
754 fixes to the last bit for each element; a library's own logarithm may differ with the vector around a number.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data.sources import Rows
from parley.data.table import codes, days, numbers
from parley.errors import DataError
from parley.terms import Model
from parley.terms.keys import Transform, domain, is_defined
from parley.validate import LARGEST, SMALLEST, Floats

LN2 = 0.6931471805599453
SERIES_TERMS = 12  # of a series in at most 0.03: what is left out is below 1e-18


def _log(x: Floats) -> Floats:
    """Return ln x within 1e-15, for x from 2^-1022 on: x = 2^e m with m from 0.7 to 1.42, and ln m = 2 atanh((m - 1)/(m
    + 1)).

    >>> _log(np.array([1.0, 2.0])).tolist()
    [0.0, 0.6931471805599453]
    """
    m, e = np.frexp(x)
    small = m < 0.7071067811865476
    m, e = np.where(small, 2 * m, m), e - small
    s = (m - 1) / (m + 1)
    z = s * s
    series = np.zeros_like(s)
    for k in range(SERIES_TERMS, 0, -1):
        series = (series + 1 / (2 * k + 1)) * z
    return np.asarray(e * LN2 + 2 * s * (1 + series))


TRANSFORMS: dict[Transform, Callable[[Floats], Floats]] = {
    "log": lambda x: _log(np.maximum(x, SMALLEST)),
    "log1p": lambda x: _log(np.maximum(1 + x, SMALLEST)),
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "signed-log1p": lambda x: np.copysign(_log(1 + np.abs(x)), x),
}
INVERSES: dict[Transform, Callable[[Floats], Floats]] = {  # for people who want to see their own units
    "log": np.exp,
    "log1p": np.expm1,
    "sqrt": np.square,
    "signed-log1p": lambda x: np.copysign(np.expm1(np.abs(x)), x),
}


NUMBER_FORMAT_HINT = "write numbers as 1234.5, without decimal commas, signs or units"

Ends = tuple[float, float]


@dataclass(frozen=True)
class Encoding(ABC):
    """One feature, coded as a number [n] from which its columns are made."""

    column: str
    fills: bool  # whether gaps are filled, else refused
    transform: Transform | None = field(default=None, kw_only=True)  # what numbers go through first

    words: ClassVar[str | None] = None  # what its columns are, for those who accept terms; None: the column itself

    @classmethod
    @abstractmethod
    def from_model(cls, model: Model, column: str, names: tuple[str, ...] | None, fill: float) -> "Encoding | None":
        """Return this column's encoding, or None if the terms give it another. `names`: None for numbers."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The names of the columns that the feature becomes."""

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of groups of its columns in each of which at most one differs from 0."""
        return (1,) * len(self.labels)

    @property
    @abstractmethod
    def scaled(self) -> tuple[bool, ...]:
        """Which columns are centred and scaled; columns of 0 and 1 are not."""

    @abstractmethod
    def ends(self, declared: Ends | None) -> list[Ends]:
        """Return the smallest and the largest value of each column under declared bounds; infinite if unknown."""

    def range(self, low: float, high: float) -> Ends:
        """Return the ends of its first column in the feature's own units."""
        return low, high

    @abstractmethod
    def read(self, rows: Rows, name: str) -> Floats:
        """Return the feature's cells in these rows as coded numbers [n]."""

    def coded(self, values: Floats) -> Floats:
        """Return the coded feature from an array of numbers, names as places, and NaN for gaps."""
        gaps = np.isnan(values)
        if gaps.any() and not self.fills:
            raise DataError(
                f"column {self.column!r}, row {np.flatnonzero(gaps)[0] + 1}: the value is missing; fill in the cell, "
                "or set model.missing"
            )
        return values

    @abstractmethod
    def columns(self, coded: Floats) -> Iterator[Floats]:
        """Yield the columns for coded numbers, each [n]."""

    def known(self, public: Rows, name: str) -> Floats | None:
        """Return a public sample's numbers, if the filled value or a transform's domain depends on them; else None."""
        return None

    def require_domain(self, declared: Ends | None, known: Floats | None) -> None:
        """Refuse a transform without public bounds, or with public bounds outside its domain."""
        return

    def filled(self, known: Floats | None, declared: Ends | None) -> float | None:
        """Return the number that fills a gap; None if gaps are not filled by a number."""
        return None

    def drawn(self, gaps: NDArray[np.bool_], rng: np.random.Generator) -> Floats | None:
        """Draw the coded feature uniformly, except these gaps; None if bounds or scales fix its law."""
        return None


@dataclass(frozen=True)
class Numbers(Encoding):
    """Numbers as themselves, a gap as NaN. Filled, a second column marks the gaps."""

    fill: float  # what a gap counts as; NaN where none is filled

    @classmethod
    def from_model(cls, model: Model, column: str, names: tuple[str, ...] | None, fill: float) -> "Numbers | None":
        if names is not None:
            return None
        return cls(column, model.fills(column), fill, transform=model.transforms.get(column))

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.column, f"{self.column} missing") if self.fills else (self.column,)

    @property
    def scaled(self) -> tuple[bool, ...]:
        return (True, False) if self.fills else (True,)

    def ends(self, declared: Ends | None) -> list[Ends]:
        low, high = (-np.inf, np.inf) if declared is None else self.transformed(np.array(declared))
        return [(float(low), float(high)), *[(0.0, 1.0)] * self.fills]

    def range(self, low: float, high: float) -> Ends:
        if self.transform is None or not np.isfinite([low, high]).all():
            return low, high
        first, last = INVERSES[self.transform](np.array([low, high]))
        return float(first), float(last)

    def read(self, rows: Rows, name: str) -> Floats:
        hint = f"{NUMBER_FORMAT_HINT}; for a column of names, list them under model.categories.{self.column}"
        return numbers(rows, self.column, name, self.fills, hint)

    def columns(self, coded: Floats) -> Iterator[Floats]:
        if not self.fills:
            yield self.transformed(coded)
            return
        gaps = np.isnan(coded)
        yield self.transformed(np.where(gaps, self.fill, coded))
        yield gaps.astype(np.float64)

    def transformed(self, values: Floats) -> Floats:
        """Return numbers after the transform, if any."""
        return values if self.transform is None else TRANSFORMS[self.transform](values)

    def known(self, public: Rows, name: str) -> Floats | None:
        asked = self.fills or self.transform is not None
        return self.read(public, name) if asked else None

    def require_domain(self, declared: Ends | None, known: Floats | None) -> None:
        if self.transform is None or declared is not None:
            return
        present = np.empty(0) if known is None else known[~np.isnan(known)]
        if not present.size:
            raise DataError(
                f"model.transforms.{self.column}: the transform needs model.bounds.{self.column} or a public sample "
                "with numbers in this column, because values are clipped to bounds first"
            )
        if not is_defined(self.transform, float(present.min())):
            raise DataError(
                f"model.transforms.{self.column} = {self.transform!r}: the transform takes only numbers "
                f"{domain(self.transform)}, but the public sample has other numbers; declare "
                f"model.bounds.{self.column}, or use 'signed-log1p'"
            )

    def filled(self, known: Floats | None, declared: Ends | None) -> float | None:
        """Return the median of public numbers, else the middle of the declared bounds."""
        if not self.fills:
            return None
        present = np.empty(0) if known is None else known[~np.isnan(known)]
        if present.size:
            return float(np.median(np.clip(present, -LARGEST, LARGEST)))
        if declared is not None:
            return declared[0] / 2 + declared[1] / 2
        raise DataError(
            f"model.missing: filling {self.column!r} needs model.bounds.{self.column} or a public sample with numbers "
            "in this column, because the filled value must not depend on private rows"
        )


@dataclass(frozen=True)
class Dates(Numbers):
    """Dates as days since 1970-01-01; a cell that is no date in the column's format is a gap."""

    written: str  # the format

    words: ClassVar[str | None] = "Days since 1970-01-01 for each date in"

    @classmethod
    def from_model(cls, model: Model, column: str, names: tuple[str, ...] | None, fill: float) -> "Dates | None":
        if column not in model.dates:
            return None
        return cls(column, model.fills(column), fill, model.dates[column], transform=model.transforms.get(column))

    def read(self, rows: Rows, name: str) -> Floats:
        return days(rows, self.column, self.written, name, self.fills)


@dataclass(frozen=True)
class Places(Encoding):
    """Names as their places in the list, 0, 1, ..., in one column; then other names, then gaps."""

    names: tuple[str, ...]  # that are told apart
    merged: bool = False  # whether capitals and spaces do not count

    coding: ClassVar[str] = "integer"  # how terms call it

    @classmethod
    def from_model(cls, model: Model, column: str, names: tuple[str, ...] | None, fill: float) -> "Places | None":
        if names is None or model.coding != cls.coding:
            return None
        return cls(column, model.fills(column), names, column in model.merged)

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def scaled(self) -> tuple[bool, ...]:
        return (True,)

    def ends(self, declared: Ends | None) -> list[Ends]:
        return [declared or (0.0, float(len(self.names) + self.fills))]

    def read(self, rows: Rows, name: str) -> Floats:
        return codes(rows, self.column, self.names, name, self.fills, merged=self.merged)

    def coded(self, values: Floats) -> Floats:
        return np.where(np.isnan(super().coded(values)), len(self.names) + 1.0, values)

    def columns(self, coded: Floats) -> Iterator[Floats]:
        yield coded


@dataclass(frozen=True)
class OneHot(Places):
    """Names as columns of 0 and 1, one for each listed name; filled, one more for gaps."""

    words: ClassVar[str | None] = "A column of 0 and 1 for each name of"
    coding: ClassVar[str] = "one-hot"

    @property
    def labels(self) -> tuple[str, ...]:
        listed = tuple(f"{self.column} = {name}" for name in self.names)
        return (*listed, f"{self.column} missing") if self.fills else listed

    @property
    def groups(self) -> tuple[int, ...]:
        width = len(self.labels)
        return (width,) * (width > 0)

    @property
    def scaled(self) -> tuple[bool, ...]:
        return (False,) * len(self.labels)

    def ends(self, declared: Ends | None) -> list[Ends]:
        return [(0.0, 1.0)] * len(self.labels)

    def columns(self, coded: Floats) -> Iterator[Floats]:
        places = [*range(len(self.names)), *([len(self.names) + 1] if self.fills else [])]
        yield from ((coded == place).astype(np.float64) for place in places)

    def drawn(self, gaps: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
        held = np.where(gaps, len(self.names) + 1, rng.integers(len(self.names) + 1, size=len(gaps)))
        return held.astype(np.float64)


ENCODINGS: tuple[type[Encoding], ...] = (Dates, OneHot, Places, Numbers)  # the first that the terms give a column


def make_encoding(model: Model, column: str, names: tuple[str, ...] | None, fill: float) -> Encoding:
    """Return the encoding that the terms give this column."""
    made = (kind.from_model(model, column, names, fill) for kind in ENCODINGS)
    return next(encoding for encoding in made if encoding is not None)
