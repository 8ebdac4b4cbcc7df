"""Splits of a table: among simulated owners, into folds, and into the batches of rounds, whose rows are chosen by
place, never by content: neighbouring tables have the same batches."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.table import require_columns
from parley.errors import SettingError
from parley.validate import Floats, positive, whole


def folds(rows: int, count: int) -> list[NDArray[np.bool_]]:
    """Return a mask of the rows held back in each fold; it depends on the number of rows alone."""
    place = np.random.default_rng(0).permutation(rows) % count
    return [place == fold for fold in range(count) if (place == fold).any() and not (place == fold).all()]


@dataclass(frozen=True, eq=False)
class HeldBack:
    """The cost of a model in each fold of `folds` [folds], fitted without that fold's rows."""

    costs: Floats

    @property
    def cost(self) -> float:
        """The mean over folds, equally weighted."""
        return float(self.costs.mean())

    @property
    def spread(self) -> float:
        """The standard error of the cost."""
        return float(self.costs.std(ddof=1) / len(self.costs) ** 0.5)

    def spread_beside(self, other: "HeldBack") -> float:
        """Return the standard error of the difference of two costs; it is smaller if both have the same folds."""
        if len(self.costs) != len(other.costs):
            return math.hypot(self.spread, other.spread)
        return HeldBack(self.costs - other.costs).spread

    def times(self, unit: float) -> "HeldBack":
        """Return the costs in another unit."""
        return HeldBack(self.costs * unit)


def split_consecutive(frame: pd.DataFrame, sizes: Sequence[int]) -> list[pd.DataFrame]:
    """Split rows into consecutive blocks, as in W section IV.

    Parameters
    ----------
    frame
        All rows.
    sizes
        How many rows each block has.

    Returns
    -------
    list of DataFrame
        The blocks; later rows are left out.

    Examples
    --------
    >>> [len(part) for part in split_consecutive(pd.DataFrame({"x": range(10)}), [3, 5])]
    [3, 5]
    """
    sizes = [whole(size, "sizes") for size in sizes]
    if sum(sizes) > len(frame):
        raise SettingError(f"the sizes add up to {sum(sizes)}, more than the {len(frame)} rows of the table")
    ends = np.cumsum(sizes)
    return [frame.iloc[end - size : end].reset_index(drop=True) for end, size in zip(ends, sizes, strict=True)]


def split_by_column(frame: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """Split a table by the values of a column, such as bank, state or hospital.

    Parameters
    ----------
    frame
        All rows.
    column
        The column that identifies owners.

    Returns
    -------
    dict of DataFrame
        By value, without that column.

    Examples
    --------
    >>> sorted(split_by_column(pd.DataFrame({"bank": ["b", "a", "b"], "x": [1, 2, 3]}), "bank"))
    ['a', 'b']
    """
    require_columns(frame, [column], "table")
    groups = frame.groupby(column, sort=True, observed=True)
    return {str(value): part.drop(columns=column).reset_index(drop=True) for value, part in groups}


def split_dirichlet(
    frame: pd.DataFrame, column: str, owners: int, concentration: float, seed: int
) -> list[pd.DataFrame]:
    """Split rows among owners that differ: a Dirichlet draw divides each value, or quartile of many numbers, of a
    column.

    Parameters
    ----------
    frame
        All rows.
    column
        The column by which owners differ.
    owners
        How many.
    concentration
        Small: owners differ a lot; large: they are alike.
    seed
        Of the draws.

    Returns
    -------
    list of DataFrame
        One for each owner; every row goes to exactly one of them.

    Examples
    --------
    >>> parts = split_dirichlet(pd.DataFrame({"y": [0, 1] * 50}), "y", owners=3, concentration=0.5, seed=1)
    >>> len(parts), sum(map(len, parts))
    (3, 100)
    """
    require_columns(frame, [column], "table")
    owners = whole(owners, "owners")
    concentration = positive(concentration, "concentration")
    rng = np.random.default_rng(seed)
    values = frame[column]
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > 20:
        values = pd.qcut(values, 4, labels=False, duplicates="drop")
    holder = np.empty(len(frame), dtype=np.int64)
    for _, rows in sorted(values.groupby(values, observed=True).indices.items(), key=lambda item: str(item[0])):
        shares = rng.dirichlet(np.full(owners, concentration))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int)
        for owner, part in enumerate(np.split(rng.permutation(rows), cuts)):
            holder[part] = owner
    return [frame[holder == owner].reset_index(drop=True) for owner in range(owners)]


Places = NDArray[np.int64]

WORDS_AT_ONCE = 1 << 20  # rows whose words are made at once


@lru_cache(maxsize=4)
def shuffled(rows: int, seed: int, owner: str, epoch: int) -> Places:
    """Return the places 0 to rows - 1 in an epoch's order, by words of SHAKE-256: all parties get the same order.

    >>> sorted(shuffled(5, 0, "bank", 1).tolist())
    [0, 1, 2, 3, 4]
    """
    order = np.argsort(_words(f"{seed}/{owner}/{epoch}".encode(), rows), kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def batch(order: Places, batches: int, number: int) -> Places:
    """Return batch `number`, counted from 0. Batches are disjoint, cover all rows, and differ in size by at most one.

    >>> [batch(np.arange(5), 2, number).tolist() for number in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    rows = len(order)
    return order[number * rows // batches : (number + 1) * rows // batches]


def largest_batch(rows: int, batches: int) -> int:
    """Return the size of the largest batch."""
    return -(-rows // batches)


def draw_places(rows: int, seed: bytes, rate: float) -> Places:
    """Draw every place independently with probability `rate`, rounded down to a multiple of 2^-64; in ascending order.

    Formal guarantee: this holds for whoever cannot tell SHAKE-256 of an unknown seed of 32 bytes from random words.
    """
    first, rest = divmod(int(Fraction(rate) * 2**64), 2**48)
    digits = _words(seed, rows, "<u2")
    drawn = digits < first
    ties = np.flatnonzero(digits == first)  # about one place in 2^16 needs the other 48 digits
    drawn[ties] = _words(seed + b"ties", ties.size) < np.uint64(rest << 16)
    return np.flatnonzero(drawn)


def _words(seed: bytes, size: int, kind: str = "<u8") -> NDArray[Any]:
    """Return `size` whole numbers of this type, little-endian words of SHAKE-256."""
    width = np.dtype(kind).itemsize
    pieces = [
        hashlib.shake_256(len(seed).to_bytes(8, "little") + seed + start.to_bytes(8, "little")).digest(
            width * min(WORDS_AT_ONCE, size - start)
        )
        for start in range(0, size, WORDS_AT_ONCE)
    ]
    return np.frombuffer(b"".join(pieces), dtype=kind).astype(np.dtype(kind).newbyteorder("="))
