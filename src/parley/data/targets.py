"""Rows without a target. In a private table such a row counts, because the number of rows is public, and contributes nothing.

Formal guarantee: whether a row has a target is a function of its own cell, the column's declared type and the terms. A row without one is
prepared as zeros of weight 0, whatever its other cells hold: its gradient, its second moments and its part of a score are 0, which every
bound on one record allows. So a table in which it has a target is a neighbour like any other.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.table import Rows, is_gap
from parley.terms import Model


def has_target(rows: Rows, model: Model, name: str) -> NDArray[np.bool_]:
    """Which rows have one [n]: not those whose cell is missing, or a word for that which is no class of the terms."""
    listed = {*model.categories.get(model.target, ()), *(() if model.positive is None else (model.positive,))}
    return ~is_gap(rows, model.target, name, listed)


def with_target(public: pd.DataFrame, model: Model, name: str) -> pd.DataFrame:
    """A public sample's rows that have a target: of public rows nobody need count the others."""
    if model.target not in public.columns:
        return public  # said where columns are asked for
    present = has_target(public, model, name)
    return public if present.all() else public[present].reset_index(drop=True)


def dropped_words(public: pd.DataFrame, model: Model, name: str) -> str | None:
    """A sentence about a public sample's rows without a target; None if all have one."""
    missing = len(public) - len(with_target(public, model, name))
    return None if not missing else f"{missing:,} of the public sample's {len(public):,} rows have no target, and are left out."
