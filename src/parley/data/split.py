"""Dividing one table: among pretended owners, for studies; into folds, of which each judges what the others gave; into
the batches of rounds, which all parties can work out or only the owner knows.

The rows of a batch are chosen by their places, never by what they hold: two neighbouring tables have the same batches.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.table import require_columns
from parley.errors import SettingError
from parley.validate import Floats, positive, whole


def folds(rows: int, count: int) -> list[NDArray[np.bool_]]:
    """For each fold, which places are held back: fixed by the number of rows alone, so that everybody holds back the
    same."""
    place = np.random.default_rng(0).permutation(rows) % count
    return [place == fold for fold in range(count) if (place == fold).any() and not (place == fold).all()]


@dataclass(frozen=True, eq=False)
class HeldBack:
    """What a model costs in each fold of `folds` [folds], made without that fold's rows."""

    costs: Floats

    @property
    def cost(self) -> float:
        """Their mean: folds count alike."""
        return float(self.costs.mean())

    @property
    def spread(self) -> float:
        """The standard error of the cost."""
        return float(self.costs.std(ddof=1) / len(self.costs) ** 0.5)

    def spread_beside(self, other: "HeldBack") -> float:
        """The standard error of the difference of two costs: smaller where both have the same folds, since rows that
        are hard for one model are so for the other."""
        if len(self.costs) != len(other.costs):
            return math.hypot(self.spread, other.spread)
        return HeldBack(self.costs - other.costs).spread

    def times(self, unit: float) -> "HeldBack":
        """The same in another unit."""
        return HeldBack(self.costs * unit)


def split_consecutive(frame: pd.DataFrame, sizes: Sequence[int]) -> list[pd.DataFrame]:
    """Blocks of rows one after the other, as in W section IV.

    Parameters
    ----------
    frame
        All rows.
    sizes
        How many rows each block has.

    Returns
    -------
    list of DataFrame
        The blocks; rows behind them are left out.

    Examples
    --------
    >>> [len(part) for part in split_consecutive(pd.DataFrame({"x": range(10)}), [3, 5])]
    [3, 5]
    """
    sizes = [whole(size, "sizes") for size in sizes]
    if sum(sizes) > len(frame):
        raise SettingError(f"sizes add up to {sum(sizes)}, more than the {len(frame)} rows of the table")
    ends = np.cumsum(sizes)
    return [frame.iloc[end - size : end].reset_index(drop=True) for end, size in zip(ends, sizes, strict=True)]


def split_by_column(frame: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """One table for every value of a column (a bank, a state, a hospital).

    Parameters
    ----------
    frame
        All rows.
    column
        Whose values tell owners apart.

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
    """Owners that differ: each value (or quartile, if numeric with many values) of a column is dealt out by its own
    Dirichlet draw.

    Parameters
    ----------
    frame
        All rows.
    column
        By which owners differ.
    owners
        How many.
    concentration
        Small: very different owners; large: alike.
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
    """The places 0 to rows - 1 in the order of an epoch: sorted by words of SHAKE-256, so that every party shuffles
    alike.

    >>> sorted(shuffled(5, 0, "bank", 1).tolist())
    [0, 1, 2, 3, 4]
    """
    order = np.argsort(_words(f"{seed}/{owner}/{epoch}".encode(), rows), kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def batch(order: Places, batches: int, number: int) -> Places:
    """Batch `number`, from 0, of so many: disjoint, all rows together, and of sizes that differ by at most one.

    >>> [batch(np.arange(5), 2, number).tolist() for number in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    rows = len(order)
    return order[number * rows // batches : (number + 1) * rows // batches]


def largest_batch(rows: int, batches: int) -> int:
    """How many rows a batch has at most."""
    return -(-rows // batches)


def drawn(rows: int, seed: bytes, rate: float) -> Places:
    """Every place with this probability, independently (never more: rounded down to a multiple of 2^-64), in ascending
    order.

    Formal guarantee: so it is for whoever cannot tell SHAKE-256 of an unknown seed of 32 bytes from random words.
    """
    return np.flatnonzero(_words(seed, rows) < np.uint64(int(Fraction(rate) * 2**64)))


def _words(seed: bytes, size: int) -> NDArray[np.uint64]:
    """64-bit words that follow from the seed."""
    pieces = [
        hashlib.shake_256(len(seed).to_bytes(8, "little") + seed + start.to_bytes(8, "little")).digest(
            8 * min(WORDS_AT_ONCE, size - start)
        )
        for start in range(0, size, WORDS_AT_ONCE)
    ]
    return np.frombuffer(b"".join(pieces), dtype="<u8").astype(np.uint64)
