import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.decisions.outlook.coalition import CoalitionCost, best_coalition
from parley.decisions.outlook.owner_values import least_epsilon
from parley.errors import SettingError
from parley.protocol.aggregation import EachOwnerNoise


def error(n, epsilon, chosen):
    chosen = list(chosen)
    return np.sum(epsilon[chosen] ** -2.0) / np.sum(n[chosen]) ** 2


def test_it_equals_brute_force_on_200_instances():
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(1, 13))
        n, epsilon = np.round(10 ** rng.uniform(1, 6, size)), 10 ** rng.uniform(-2, 1.5, size)
        every = np.arange(1, 2**size)[:, None] >> np.arange(size) & 1  # who belongs to each coalition
        best = np.min(every @ epsilon**-2.0 / (every @ n) ** 2)
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


@pytest.mark.parametrize(
    ("n", "epsilon"), [([], []), ([1, 2], [1.0]), ([0, 1], [1, 1]), ([1], [float("nan")]), ([1], [-1.0])]
)
def test_impossible_owners_are_one_sentence(n, epsilon):
    with pytest.raises(SettingError, match="epsilons"):
        best_coalition(n, epsilon)


def owners(count, seed=0):
    rng = np.random.default_rng(seed)
    return EachOwnerNoise(rng.integers(100, 10_000, count).astype(float), 10 ** rng.uniform(-4, 0, count))


COST = CoalitionCost(estimation=5.0, bias=0.001, noise_price=1.0, nobody=2.0)
UNBIASED = CoalitionCost(estimation=5.0, bias=0.0, noise_price=1.0, nobody=2.0)


def by_hand(cost, noise, chosen):
    """The cost of a coalition, written again owner by owner."""
    n = sum(noise.records[i] for i in chosen)
    if not n:
        return cost.nobody
    v = sum((noise.records[i] / n) ** 2 * noise.variances[i] for i in chosen)
    return cost.estimation / n + cost.bias + cost.noise_price * v


def test_every_coalition_costs_what_its_records_and_noise_make():
    noise = owners(6)
    coalitions = np.array(list(itertools.product((False, True), repeat=6))).reshape(4, 16, 6)
    expected = [by_hand(COST, noise, np.flatnonzero(members)) for members in coalitions.reshape(64, 6)]
    np.testing.assert_allclose(COST.together(noise, coalitions).ravel(), expected, rtol=1e-13)
    np.testing.assert_allclose(COST.alone(noise.records), 5.0 / noise.records)


def test_another_unit_scales_every_coalition():
    noise, coalitions = owners(3), np.array(list(itertools.product((False, True), repeat=3)))
    np.testing.assert_allclose(
        COST.in_units(7.0).together(noise, coalitions), 7 * COST.together(noise, coalitions), rtol=1e-13
    )


def test_shapley_values_are_the_average_over_all_orders_and_share_everything():
    noise = owners(5)
    expected = np.zeros(5)
    for order in itertools.permutations(range(5)):
        before = COST.nobody
        for place, owner in enumerate(order):
            after = by_hand(COST, noise, order[: place + 1])
            expected[owner] += (before - after) / math.factorial(5)
            before = after
    values, error = COST.shapley(noise)
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    assert not error.any()
    assert values.sum() == pytest.approx(COST.nobody - by_hand(COST, noise, range(5)))


def test_sampled_shapley_values_agree_within_their_error_bars(monkeypatch):
    noise = owners(9, seed=3)
    exact, _ = COST.shapley(noise)
    monkeypatch.setattr("parley.decisions.outlook.coalition.MAX_EXACT_OWNERS", 3)
    sampled, error = COST.shapley(noise, seed=1)
    assert (np.abs(sampled - exact) < 4.5 * error).all()
    assert sampled.sum() == pytest.approx(exact.sum())
    twenty, bars = COST.shapley(owners(20))
    assert len(twenty) == 20
    assert (bars > 0).all()


def test_leaving_out_a_noisy_owner_helps():
    value = UNBIASED.leave_one_out(EachOwnerNoise(np.array([1e5, 1e5, 100.0]), np.array([1e-6, 1e-6, 1e6])))
    assert value[2] < 0 < value[0]


def test_what_each_owner_adds_is_the_difference_it_makes():
    """Also where one owner's noise is 1e18 times that of the others, and for the only owner."""
    for noise in (owners(7), EachOwnerNoise(np.array([1e5, 1e5, 10.0]), np.array([1e-6, 1e-6, 1e20])), owners(1)):
        everyone = set(range(len(noise.records)))
        expected = [by_hand(COST, noise, everyone - {i}) - by_hand(COST, noise, everyone) for i in everyone]
        np.testing.assert_allclose(COST.leave_one_out(noise), expected, rtol=1e-9)


def test_the_least_epsilon_is_where_the_variance_becomes_bearable():
    asked = []

    def variance(epsilon):
        asked.append(epsilon)
        return 1e-3 / epsilon**2 + 1e-7

    epsilon = least_epsilon(2e-5, variance)
    assert len(asked) <= 20  # each may be a calibration: halving a range of 1e12 down to 1e-6 takes 27
    assert variance(epsilon) <= 2e-5 < variance(epsilon * (1 - 2e-6))
    assert least_epsilon(9e-8, variance) is None  # the others' noise alone is more
    assert least_epsilon(0.0, variance) is None
    assert least_epsilon(1.0, lambda e: 0.5) == 0.0


def test_owners_under_one_law_share_what_was_tried():
    """Each finds its own epsilon as if it asked alone, and few calibrations are made in all."""
    asked, tried = [], {}

    def variance(epsilon):
        asked.append(epsilon)
        return 1e-3 / epsilon**2 + 1e-7

    bearable = np.geomspace(2e-7, 1e3, 40)
    together = [least_epsilon(float(each), variance, tried) for each in bearable]
    shared = len(asked)
    alone = [least_epsilon(float(each), variance) for each in bearable]
    assert together == pytest.approx(alone, rel=2e-6)
    assert all(variance(epsilon) <= each for epsilon, each in zip(together, bearable, strict=True))
    assert shared < 0.6 * (len(asked) - shared - 40)
    assert least_epsilon(9e-8, variance, tried) is None


def test_the_best_coalition_counts_estimation_too():
    """Equal to brute force over all subsets on 100 random cases, estimation and unequal noise included."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        count = int(rng.integers(1, 9))
        noise = EachOwnerNoise(10 ** rng.uniform(2, 5, count), 10 ** rng.uniform(-8, 0, count))
        cost = CoalitionCost(float(10 ** rng.uniform(-3, 2)), 0.1, float(10 ** rng.uniform(-2, 2)), 1e9)
        subsets = itertools.chain.from_iterable(itertools.combinations(range(count), k) for k in range(1, count + 1))
        best = min(by_hand(cost, noise, subset) for subset in subsets)
        chosen = np.flatnonzero(cost.best_coalition(noise))
        assert by_hand(cost, noise, chosen) == pytest.approx(best, rel=1e-12)
