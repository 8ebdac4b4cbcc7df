"""Dummies hide a count that moves by 1, and nobody knows how many are the same."""

import itertools
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2
from three_hosts import all_three, bits_of, joined, make_keys, parties

from parley.errors import SettingError
from parley.privacy.sharing.matching import dummies as module
from parley.privacy.sharing.matching.dummies import (
    CountLaw,
    count_law,
    counts_moved,
    draw_dummies,
    law_of_counts,
    table_sets,
)
from parley.privacy.sharing.party import run_in_threads

SMALL = count_law(1.0, 0.05)


def spent(law: CountLaw, epsilon: float) -> float:
    """Delta at an epsilon, by enumeration of all counts in exact fractions: the larger of both ways."""
    ends = [2**64, *law.thresholds, 0]
    chances = [Fraction(ends[k] - ends[k + 1], 2**64) for k in range(len(ends) - 1)]
    assert sum(chances) == 1
    with localcontext(prec=50):
        factor = Fraction(Decimal(epsilon).exp()) * (1 - Fraction(1, 10**45))  # from below: delta comes out larger
    one = dict(enumerate(chances))
    moved = {k + 1: chance for k, chance in enumerate(chances)}
    every = one.keys() | moved.keys()

    def hockey(a, b):
        return sum(max(Fraction(0), a.get(k, 0) - factor * b.get(k, 0)) for k in every)

    return float(max(hockey(one, moved), hockey(moved, one)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (0.5, 1e-9), (1.0, 0.05), (4.0, 1e-12), (0.3, 1e-15)])
def test_a_count_costs_what_is_claimed_and_no_dummy_is_wasted(epsilon: float, delta: float) -> None:
    law = count_law(epsilon, delta)
    assert spent(law, epsilon) <= law.delta * (1 + 1e-9) <= delta * (1 + 1e-9)
    assert law.delta <= delta
    assert law.dummies % 2 == 0
    assert module._law(epsilon, law.dummies // 2 - 1).delta > delta
    assert sum(k * p for k, p in enumerate(law.chances)) / 2**64 == pytest.approx(law.dummies / 2)


def test_a_law_that_is_too_narrow_is_told() -> None:
    law = count_law(0.5, 1e-6)
    narrow = CountLaw(0.5, module._law(1.0, law.dummies // 2).thresholds)
    assert spent(narrow, 0.5) > 1e-3
    assert narrow.delta == pytest.approx(spent(narrow, 0.5))


def counted(held: frozenset[int], tables: int) -> Counter[frozenset[int]]:
    return Counter({held: 1} if len(held) > 1 else {})


@pytest.mark.parametrize("tables", [2, 3, 4])
def test_no_replacement_moves_more_counts(tables: int) -> None:
    """Random people, random changes; the most that was seen is the most that is claimed."""
    rng = np.random.default_rng(tables)
    most = 0
    for _ in range(4000):
        person, newcomer, changed = (frozenset(np.flatnonzero(rng.integers(0, 2, tables))) for _ in range(3))
        changed, newcomer = changed & person, newcomer - (changed & person)
        before, after = counted(person, tables), counted(person - changed, tables)
        before.update(counted(newcomer, tables))
        after.update(counted(newcomer | changed, tables))
        moved = [abs(before[key] - after[key]) for key in table_sets(tables)]
        most = max(most, sum(moved))
    assert most == counts_moved(tables)


def test_the_total_is_split_over_the_counts_that_move() -> None:
    law = law_of_counts(0.6, 3e-9, 3)
    assert law.epsilon * 3 <= 0.6
    assert law.delta * 3 <= 3e-9


def drawn(seed: object, law: CountLaw, tables: int):
    """(keys of each table's dummies, which are the same, for each set) in the open."""
    held = all_three(make_keys(seed), lambda host: draw_dummies(host, law, tables))
    keys = [joined(tuple(each.keys[place] for each in held), xor=True) for place in range(tables)]
    same = {
        places: bits_of(joined(tuple(each.same[places] for each in held), xor=True)[None], law.dummies)[0]
        for places in table_sets(tables)
    }
    return keys, same


def test_the_number_of_equal_dummies_has_the_law() -> None:
    runs = 1200
    found = Counter(int(drawn(seed, SMALL, 2)[1][frozenset({0, 1})].sum()) for seed in range(runs))
    due = np.array(SMALL.chances) / 2**64 * runs
    seen = np.array([found[k] for k in range(len(due))])
    assert seen.sum() == runs
    assert chi2.sf(((seen - due) ** 2 / due).sum(), len(due) - 1) > 0.001


def test_equal_keys_are_those_that_are_said_to_be_equal() -> None:
    for seed in range(5):
        keys, same = drawn(seed, SMALL, 3)
        starts = [0, 0, 0]
        for places, equal in same.items():
            assert equal.tolist() == sorted(equal.tolist(), reverse=True)
            parts = []
            for place in sorted(places):
                parts.append(keys[place][starts[place] : starts[place] + SMALL.dummies])
                starts[place] += SMALL.dummies
            for one, other in itertools.pairwise(parts):
                np.testing.assert_array_equal((one == other).all(axis=1), equal.astype(bool))
        assert starts == [len(each) for each in keys]
        assert len(np.unique(np.concatenate(keys), axis=0)) == sum(
            len(places) * SMALL.dummies - (len(places) - 1) * int(equal.sum()) for places, equal in same.items()
        )


@pytest.mark.parametrize("host", range(3))
def test_a_host_that_knows_two_keys_does_not_know_the_number(host: int) -> None:
    """With its two keys fixed the number has the law still."""
    fixed = make_keys("fixed")
    found = Counter()
    for seed in range(400):
        keys = list(fixed)
        keys[(host + 2) % 3] = make_keys(seed)[0]
        hosts, channels = parties(tuple(keys))
        held = run_in_threads(*[lambda h=h: draw_dummies(h, SMALL, 2) for h in hosts])
        same = joined(tuple(each.same[frozenset({0, 1})] for each in held), xor=True)
        found[int(bits_of(same[None], SMALL.dummies).sum())] += 1
        del channels
    due = np.array(SMALL.chances) / 2**64 * 400
    seen = np.array([found[k] for k in range(len(due))])
    assert chi2.sf(((seen - due) ** 2 / due).sum(), len(due) - 1) > 0.001


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (0.001, 1e-9), (1.0, 0.0), (float("nan"), 1e-6)])
def test_what_cannot_be_hidden_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(SettingError, match="matches"):
        count_law(epsilon, delta)
    with pytest.raises(SettingError, match="2 to 4 tables"):
        table_sets(5)
