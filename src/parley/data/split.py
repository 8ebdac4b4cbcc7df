"""Dividing one table: among pretended owners, for studies; into folds, of which each judges what the others gave."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.table import require_columns
from parley.errors import SettingError
from parley.validate import positive, whole


def folds(rows: int, count: int) -> list[NDArray[np.bool_]]:
    """For each fold, which places are held back: fixed by the number of rows alone, so that everybody holds back the
    same."""
    place = np.random.default_rng(0).permutation(rows) % count
    return [place == fold for fold in range(count) if (place == fold).any() and not (place == fold).all()]


def split_consecutive(frame: pd.DataFrame, sizes: Sequence[int]) -> list[pd.DataFrame]:
    """Blocks of rows one after the other, as in W section IV.

    >>> [len(part) for part in split_consecutive(pd.DataFrame({"x": range(10)}), [3, 5])]
    [3, 5]
    """
    sizes = [whole(size, "sizes") for size in sizes]
    if sum(sizes) > len(frame):
        raise SettingError(f"sizes add up to {sum(sizes)}: expected at most the {len(frame)} rows of the table")
    ends = np.cumsum(sizes)
    return [frame.iloc[end - size : end].reset_index(drop=True) for end, size in zip(ends, sizes, strict=True)]


def split_by_column(frame: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """One table for every value of `column` (a bank, a state, a hospital), without that column."""
    require_columns(frame, [column], "table")
    groups = frame.groupby(column, sort=True, observed=True)
    return {str(value): part.drop(columns=column).reset_index(drop=True) for value, part in groups}


def split_dirichlet(
    frame: pd.DataFrame, column: str, owners: int, concentration: float, seed: int
) -> list[pd.DataFrame]:
    """Owners that differ: each value (or quartile, if numeric with many values) of `column` is dealt out by its own
    Dirichlet draw.

    Small `concentration`: very different owners; large: alike. Every row goes to exactly one owner.
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
