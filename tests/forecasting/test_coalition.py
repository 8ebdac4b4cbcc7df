import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import SettingError
from parley.forecasting import best_coalition


def error(n, epsilon, chosen):
    chosen = list(chosen)
    return np.sum(epsilon[chosen] ** -2.0) / np.sum(n[chosen]) ** 2


def test_it_equals_brute_force_on_200_instances():
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(1, 13))
        n, epsilon = np.round(10 ** rng.uniform(1, 6, size)), 10 ** rng.uniform(-2, 1.5, size)
        subsets = itertools.chain.from_iterable(itertools.combinations(range(size), k) for k in range(1, size + 1))
        best = min(error(n, epsilon, s) for s in subsets)
        assert error(n, epsilon, best_coalition(n, epsilon)) == pytest.approx(best, rel=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.01, 10)), min_size=1, max_size=40))
def test_nobody_can_be_added_or_left_out_with_profit(owners):
    n, epsilon = (np.array(column, dtype=float) for column in zip(*owners, strict=True))
    chosen = set(best_coalition(n, epsilon).tolist())
    least = error(n, epsilon, chosen)
    for owner in range(len(n)):
        other = chosen ^ {owner}
        if other:
            assert error(n, epsilon, other) >= least * (1 - 1e-9)


def test_a_small_shy_owner_is_left_out_and_equals_are_all_in():
    assert best_coalition([30_000, 100, 30_000], [1.0, 0.01, 1.0]).tolist() == [0, 2]
    assert best_coalition([10] * 5, [1.0] * 5).tolist() == [0, 1, 2, 3, 4]


def test_a_million_owners_are_sorted_once():
    rng = np.random.default_rng(1)
    chosen = best_coalition(rng.integers(1, 10**6, 1_000_000), rng.uniform(0.01, 10, 1_000_000))
    assert 0 < len(chosen) < 1_000_000


@pytest.mark.parametrize(("n", "epsilon"), [([], []), ([1, 2], [1.0]), ([0, 1], [1, 1]), ([1], [float("nan")]), ([1], [-1.0])])
def test_impossible_owners_are_one_sentence(n, epsilon):
    with pytest.raises(SettingError, match="epsilons"):
        best_coalition(n, epsilon)
