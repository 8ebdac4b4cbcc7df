"""Rows without a target. In a private table such a row counts, because the number of rows is public, and contributes
nothing.

Formal guarantee: whether a row has a target is a function of its own cell, the column's declared type and the terms. A
row without one is prepared as zeros of weight 0, whatever its other cells hold: its gradient, its second moments and
its part of a score are 0, which every bound on one record allows. So a table in which it has a target is a neighbour
like any other.
"""

from collections.abc import Sequence, Set

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.sources import Rows
from parley.data.table import is_gap
from parley.terms import Model


def has_target(rows: Rows, model: Model, name: str) -> NDArray[np.bool_]:
    """Which rows have one [n]: not those whose cell is missing, or a word for that which is no class of the terms; nor
    those that miss what belongs to it, as an exposure."""
    return ~_gaps(rows, model.outcome_columns, listed_classes(model), name)


def listed_classes(model: Model) -> set[str]:
    """Names of classes that the terms list."""
    return {*model.categories.get(model.target, ()), *(() if model.positive is None else (model.positive,))}


def with_target(public: pd.DataFrame, target: Sequence[str], listed: Set[str], name: str) -> pd.DataFrame:
    """A public sample's rows that have a target, in all of its columns: of public rows nobody need count the others."""
    if not {*target} <= {*public.columns}:
        return public  # said where columns are asked for
    gaps = _gaps(public, target, listed, name)
    return public[~gaps].reset_index(drop=True) if gaps.any() else public


def dropped_words(public: pd.DataFrame, target: Sequence[str], listed: Set[str], name: str) -> str | None:
    """A sentence about a public sample's rows without a target; None if all have one."""
    missing = len(public) - len(with_target(public, target, listed, name))
    return (
        None
        if not missing
        else f"{missing:,} of the public sample's {len(public):,} rows have no target, and are left out."
    )


def _gaps(rows: Rows, columns: Sequence[str], listed: Set[str], name: str) -> NDArray[np.bool_]:
    """Which rows miss any of the target's columns [n]; `listed` are names in the first."""
    first, *others = columns
    gaps = is_gap(rows, first, name, listed)
    for column in others:
        gaps = gaps | is_gap(rows, column, name)
    return gaps
