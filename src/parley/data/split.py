"""Dividing one table: among pretended owners, for studies; into folds, of which each judges what the others gave."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
        return float(self.costs.std(ddof=1)) / len(self.costs) ** 0.5

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
        raise SettingError(f"sizes add up to {sum(sizes)}: expected at most the {len(frame)} rows of the table")
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
