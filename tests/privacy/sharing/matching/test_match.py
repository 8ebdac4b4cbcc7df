"""Hosts match tables on shares: the moments are those of a merge in the open, and nothing else is opened."""

import os
from collections import Counter

import numpy as np
import pytest
from matched_tables import matched, moments, people, shape_of, shares_of, table
from three_hosts import all_three, joined, make_keys, split

from parley.errors import SettingError
from parley.privacy.sharing.matching import match as match_module
from parley.privacy.sharing.matching.dummies import count_law
from parley.privacy.sharing.matching.key_order import RepeatedKeysError
from parley.privacy.sharing.matching.keyed_rows import KeyedRows, joined_moments
from parley.privacy.sharing.matching.match import DifferentSharesError, match
from parley.privacy.sharing.matching.packed_rows import TableShape, pack_rows
from parley.privacy.sharing.matching.row_values import LargeRowsError
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated

LAW = count_law(1.0, 0.01)
UNIT = 1 << 12
JOINS = int(os.environ.get("PARLEY_JOINS", "0"))  # more random joins than a test needs


def overlapping(kind: str, rng: np.random.Generator) -> list[KeyedRows]:
    """Tables of up to 40 rows: disjoint, equal, nested, overlapping, three or empty."""
    n, digits = int(rng.integers(1, 40)), 12
    pool = people(3 * n, rng)
    columns = rng.integers(0, 4, size=3)
    spans = {
        "disjoint": [(0, n), (n, 2 * n)],
        "equal": [(0, n), (0, n)],
        "nested": [(0, n), (n // 3, n // 2)],
        "overlapping": [(0, 2 * n), (n, 3 * n)],
        "three": [(0, 2 * n), (n // 2, 3 * n), (0, 3 * n - n // 3)],
        "empty": [(0, n), (0, 0)],
    }[kind]
    return [table(pool[a:b], int(p), digits, rng) for (a, b), p in zip(spans, columns, strict=False)]


@pytest.mark.parametrize("kind", ["disjoint", "equal", "nested", "overlapping", "three", "empty"])
def test_moments_without_noise_are_those_in_the_open(kind: str) -> None:
    for number in range(JOINS or 2):
        tables = overlapping(kind, np.random.default_rng(number))
        found, held = moments(tables, UNIT, LAW, f"{kind} {number}")
        np.testing.assert_array_equal(found, joined_moments(tables, UNIT))
        sets = len(held.counts) if len(tables) == 2 else 4
        assert sets <= 4
        assert all(0 <= count <= LAW.dummies + 120 for count in held.counts.values())


def test_counts_are_the_true_ones_plus_dummies() -> None:
    rng = np.random.default_rng(6)
    pool = people(90, rng)
    tables = [table(pool[:60], 1, 3, rng), table(pool[30:], 1, 3, rng), table(pool[50:70], 1, 3, rng)]
    true = Counter({frozenset({0, 1}): 20, frozenset({1, 2}): 10, frozenset({0, 1, 2}): 10})
    held = matched(tables, LAW, "counts")
    assert held[0].counts == held[1].counts == held[2].counts
    for places, count in held[0].counts.items():
        assert 0 <= count - true[places] <= LAW.dummies
    dummies = int(joined(tuple(each.dummies for each in held), xor=False)[0])
    assert dummies == held[0].counts[frozenset({0, 1, 2})] - 10


def test_a_row_one_unit_beyond_the_clip_stops_the_match_and_the_bound_is_kept() -> None:
    rng = np.random.default_rng(7)
    pool = people(70, rng)
    tables = [table(pool, 3, 12, rng), table(pool[:20], 2, 12, rng)]
    largest = shape_of(tables[1]).largest_square
    for limit, refused in ((largest, False), (largest - 1, True), (largest + 1, False)):
        shapes = [shape_of(tables[0]), TableShape(20, 2, 12, limit)]
        if refused:
            with pytest.raises(LargeRowsError) as error:
                matched(tables, LAW, "clip", shapes)
            assert error.value.table == 1
        else:
            matched(tables, LAW, "clip", shapes)


def test_any_bits_that_an_owner_shares_are_values_within_the_range() -> None:
    """Whatever the words, no value reaches 2^30: its digits have no room for it, and the clip is checked besides."""
    rng = np.random.default_rng(8)
    shape = TableShape(30, 4, 12, 4 << 24)
    wild = rng.integers(0, 2**64, size=(30, shape.width), dtype=np.uint64)
    wild = wild[np.argsort(wild[:, 0])]
    other = table(people(5, rng), 1, 12, rng)
    shares = [split(wild, rng, xor=True), shares_of(other, rng)]
    shapes = [shape, shape_of(other)]
    held = all_three(make_keys("wild"), lambda host: match(host, [each[host.index] for each in shares], shapes, LAW))
    assert held[0].rows <= LAW.dummies
    tight = [TableShape(30, 4, 12, 1 << 24), shapes[1]]
    with pytest.raises(LargeRowsError):
        all_three(make_keys("wild"), lambda host: match(host, [each[host.index] for each in shares], tight, LAW))


@pytest.mark.parametrize("place", [0, 1])
def test_a_repeated_key_stops_the_match_before_any_tag_is_opened(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag that stands twice in its owner's table would tell a host, and whoever it shows it to, whether the other
    table holds the person that the owner chose."""
    opened = []
    monkeypatch.setattr(match_module, "encrypt", lambda *about: opened.append(about))
    rng = np.random.default_rng(9)
    tables = [table(people(20, rng), 1, 12, rng) for _ in range(2)]
    keys = tables[place].keys.copy()
    keys[3] = keys[0] = tables[1 - place].keys[0]
    tables[place] = KeyedRows(keys, tables[place].values, 12)
    with pytest.raises(RepeatedKeysError, match="a key comes twice") as error:
        matched(tables, LAW, "twice")
    assert error.value.table == place
    assert opened == []


@pytest.mark.parametrize("share", range(3))
def test_different_shares_for_two_hosts_stop_the_match_at_all_three(share: int) -> None:
    rng = np.random.default_rng(10)
    tables = [table(people(5, rng), 1, 12, rng) for _ in range(2)]
    shapes, shares = [shape_of(each) for each in tables], [shares_of(each, rng) for each in tables]
    other = shares[0][share].second.copy()
    other[2, 1] ^= np.uint64(1)
    shares[0][share] = Replicated(shares[0][share].first, other)
    found = []

    def attempt(host: Party) -> None:
        try:
            match(host, [each[host.index] for each in shares], shapes, LAW)
        except DifferentSharesError as error:
            found.append(error.table)

    all_three(make_keys("different"), attempt)
    assert found == [0, 0, 0]


def test_a_match_that_failed_spends_the_keys() -> None:
    rng = np.random.default_rng(11)
    tables = [table(people(5, rng), 1, 12, rng) for _ in range(2)]
    shares = [shares_of(each, rng) for each in tables]
    wrong = [TableShape(6, 1, 12, 0), shape_of(tables[1])]

    def attempt(host: Party) -> bool:
        with pytest.raises(SettingError, match="expected 6 rows"):
            match(host, [each[host.index] for each in shares], wrong, LAW)
        return host._broken

    assert all_three(make_keys("spent"), attempt) == (True, True, True)


def test_packing_is_what_hosts_expect() -> None:
    rng = np.random.default_rng(12)
    rows = table(people(5, rng), 2, 12, rng)
    assert pack_rows(rows).shape == (5, shape_of(rows).width)
