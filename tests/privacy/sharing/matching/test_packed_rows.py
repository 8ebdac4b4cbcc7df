"""Rows travel as bits in three shares."""

import numpy as np
import pytest
from matched_tables import people, table
from three_hosts import bits_of

from parley.errors import SettingError
from parley.privacy.sharing.matching.keyed_rows import KeyedRows, hash_keys
from parley.privacy.sharing.matching.packed_rows import (
    TableShape,
    batches,
    pack_rows,
    planes_of_values,
    table_shares,
)
from parley.privacy.sharing.ring import expand_seed, last_share


@pytest.mark.parametrize(("columns", "digits"), [(1, 1), (3, 12), (3, 30), (0, 4), (20, 12)])
def test_values_come_back_digit_by_digit(columns: int, digits: int) -> None:
    rng = np.random.default_rng(columns)
    rows = table(people(70, rng), columns, digits, rng)
    shape = TableShape(70, columns, digits, 0)
    packed = pack_rows(rows)
    assert packed.shape == (70, shape.width)
    order = sorted(range(70), key=lambda k: tuple(rows.keys[k].tolist()))
    np.testing.assert_array_equal(packed[:, :2], rows.keys[order])
    bits = bits_of(planes_of_values(packed, shape), 70 * columns).astype(np.int64)
    weights = 2 ** np.arange(digits + 1)
    weights[-1] *= -1
    np.testing.assert_array_equal((weights @ bits).reshape(70, columns), rows.values[order])


def test_shares_are_put_together_and_each_host_holds_two() -> None:
    rng = np.random.default_rng(2)
    packed = pack_rows(table(people(9, rng), 3, 12, rng))
    seeds = rng.bytes(32), rng.bytes(32)
    last = last_share(packed.reshape(-1), seeds, bits=True)
    shape, parts = TableShape(9, 3, 12, 0), (*seeds, last)
    held = [table_shares(shape, host, (parts[host], parts[(host + 1) % 3])) for host in range(3)]
    np.testing.assert_array_equal(held[0].first ^ held[1].first ^ held[2].first, packed)
    for host in range(3):
        np.testing.assert_array_equal(held[host].second, held[(host + 1) % 3].first)
    np.testing.assert_array_equal(held[0].first.reshape(-1), expand_seed(seeds[0], packed.size))


def test_a_share_of_another_size_is_refused() -> None:
    shape = TableShape(9, 3, 12, 0)
    with pytest.raises(SettingError, match="expected 27 words"):
        table_shares(shape, 2, (np.zeros(26, dtype=np.uint64), bytes(32)))
    with pytest.raises(SettingError, match="host 3"):
        table_shares(shape, 3, (bytes(32), bytes(32)))


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SettingError, match="do not fit into 62 bits"):
        TableShape(10, 4, 30, 1)
    assert TableShape(10, 3, 30, 1).width == 2 + 2
    for digits in (0, 31):
        with pytest.raises(SettingError, match="1 to 30 digits"):
            TableShape(1, 1, digits, 1)


def test_values_out_of_range_are_refused_before_they_are_packed() -> None:
    keys = hash_keys(["a", "b"], "test")
    for wrong in (16, -17):
        with pytest.raises(SettingError, match="from -16 to 15"):
            KeyedRows(keys, np.array([[0], [wrong]]), 4)
    with pytest.raises(SettingError, match="one key of two words"):
        KeyedRows(keys, np.array([[0]]), 4)


def test_batches_cover_all_rows_and_fill_whole_words() -> None:
    for rows, columns in ((0, 3), (1, 0), (100_000, 41), (2**18, 1), (2**18 + 1, 1), (10, 2**19)):
        parts = batches(rows, columns)
        assert [k for part in parts for k in (part.start, part.stop)][1:-1:2] == [part.start for part in parts][1:]
        assert sum(part.stop - part.start for part in parts) == rows
        assert all((part.stop - part.start) % 64 == 0 for part in parts[:-1])
