"""Rows that are held out by their place.

Premise T2.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.data import split_by_column, split_consecutive, split_dirichlet
from parley.errors import SettingError

TABLE = pd.DataFrame({"id": range(1000), "grade": np.tile(list("ABCDE"), 200), "x": np.linspace(0, 1, 1000)})


def test_consecutive_blocks_follow_each_other():
    first, second = split_consecutive(TABLE, [300, 700])
    assert first["id"].tolist() == list(range(300))
    assert second["id"].tolist() == list(range(300, 1000))
    with pytest.raises(SettingError, match="add up to 1001"):
        split_consecutive(TABLE, [1, 1000])


def test_by_column_makes_one_table_a_value():
    parts = split_by_column(TABLE, "grade")
    assert list(parts) == list("ABCDE")
    assert all(len(part) == 200 and "grade" not in part for part in parts.values())


@given(st.integers(1, 8), st.floats(0.05, 50), st.integers(0, 99), st.sampled_from(["grade", "x"]))
def test_dirichlet_deals_every_row_once(owners, concentration, seed, column):
    parts = split_dirichlet(TABLE, column, owners, concentration, seed)
    assert len(parts) == owners
    assert sorted(np.concatenate([part["id"] for part in parts])) == list(range(1000))


def test_small_concentration_makes_owners_differ_more():
    def imbalance(concentration):
        parts = split_dirichlet(TABLE, "grade", 4, concentration, seed=1)
        shares = [
            part["grade"].value_counts().reindex(list("ABCDE"), fill_value=0) / max(len(part), 1) for part in parts
        ]
        return float(np.std(shares, axis=0).mean())

    assert imbalance(0.1) > 3 * imbalance(100.0)
