"""Matching in the open."""

from collections import Counter

import numpy as np
import pandas as pd
from matched_tables import people, table

from parley.privacy.sharing.matching.keyed_rows import (
    count_common,
    hash_keys,
    joined_moments,
    matching_rows,
)


def by_pandas(tables, unit: int) -> np.ndarray:
    """The same by merging data frames."""
    frames = [
        pd.DataFrame(each.values.astype(object)).assign(
            key=[f"{a:x} {b:x}" for a, b in each.keys.tolist()]
        ).rename(columns=lambda c, k=k: c if c == "key" else f"{k} {c}")
        for k, each in enumerate(tables)
    ]  # fmt: skip
    merged = frames[0]
    for frame in frames[1:]:
        merged = merged.merge(frame, on="key")
    z = merged.drop(columns="key").assign(unit=unit).to_numpy(dtype=object)
    return (z.T @ z)[np.triu_indices(z.shape[1])].astype(np.int64) if len(z) else np.zeros(0, dtype=np.int64)


def test_moments_as_by_a_merge_of_data_frames() -> None:
    rng = np.random.default_rng(4)
    pool = people(60, rng)
    tables = [table(pool[:40], 2, 8, rng), table(pool[10:], 3, 8, rng), table(pool[5:55], 1, 8, rng)]
    np.testing.assert_array_equal(joined_moments(tables, 256), by_pandas(tables, 256))
    assert joined_moments([tables[0], table(people(5, rng), 1, 8, rng)], 256).tolist() == [0] * 10


def test_rows_belong_to_the_same_people() -> None:
    rng = np.random.default_rng(1)
    pool = people(50, rng)
    one, other = pool[rng.permutation(50)[:30]], pool[rng.permutation(50)[:30]]
    rows = matching_rows([one, other])
    np.testing.assert_array_equal(one[rows[0]], other[rows[1]])
    assert len(rows[0]) == len({*map(tuple, one.tolist())} & {*map(tuple, other.tolist())})


def test_counts_of_each_set_of_tables() -> None:
    pool = people(10, np.random.default_rng(0))
    found = count_common([pool[:6], pool[2:9], pool[5:]])
    assert found == Counter({frozenset({0, 1}): 3, frozenset({1, 2}): 3, frozenset({0, 1, 2}): 1})


def test_keys_depend_on_the_name_and_on_what_they_are_for() -> None:
    keys = hash_keys(["4711", "4712", "4711"], "loans")
    np.testing.assert_array_equal(keys[0], keys[2])
    assert len(np.unique(np.concatenate([keys[:2], hash_keys(["4711"], "shop")]), axis=0)) == 3
    assert keys.tolist()[0] != hash_keys(["s4711"], "loan").tolist()[0]
