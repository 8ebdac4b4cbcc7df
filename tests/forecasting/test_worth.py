import itertools
import math

import numpy as np
import pytest

from parley.forecasting.worth import Economy


def economy(count, seed=0, noise_price=1.0):
    rng = np.random.default_rng(seed)
    return Economy(
        rows=rng.integers(100, 10_000, count).astype(float),
        variance=10 ** rng.uniform(-4, 0, count),
        estimation=5.0,
        bias=0.001,
        noise_price=noise_price,
        nobody=2.0,
    )


def test_shapley_values_are_the_average_over_all_orders_and_share_everything():
    e = economy(5)
    expected = np.zeros(5)
    for order in itertools.permutations(range(5)):
        members, before = np.zeros(5), e.nobody
        for owner in order:
            members[owner] = 1.0
            after = e.together(members)
            expected[owner] += (before - after) / math.factorial(5)
            before = after
    values, error = e.shapley()
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    assert not error.any()
    assert values.sum() == pytest.approx(e.nobody - e.together())


def test_sampled_shapley_values_agree_within_their_error_bars(monkeypatch):
    e = economy(9, seed=3)
    exact, _ = e.shapley()
    monkeypatch.setattr("parley.forecasting.worth.EXACT_UP_TO", 3)
    sampled, error = e.shapley(seed=1)
    assert (np.abs(sampled - exact) < 4.5 * error).all()
    assert sampled.sum() == pytest.approx(exact.sum())
    twenty, bars = economy(20).shapley()
    assert len(twenty) == 20
    assert (bars > 0).all()


def test_leaving_out_a_noisy_owner_helps():
    e = Economy(np.array([1e5, 1e5, 100.0]), np.array([1e-6, 1e-6, 1e6]), 5.0, 0.0, 1.0, 2.0)
    value = e.leave_one_out()
    assert value[2] < 0 < value[0]


def test_break_even_is_where_the_gain_changes_sign():
    base = Economy(np.array([1000.0, 50_000.0]), np.array([1.0, 1e-7]), 5.0, 0.0, 1.0, 2.0)
    epsilon = base.break_even(0, lambda e: 1e3 / e**2)

    def gain(e):
        there = Economy(base.rows, np.array([1e3 / e**2, 1e-7]), 5.0, 0.0, 1.0, 2.0)
        return there.alone(0) - there.together()

    assert gain(epsilon * 1.001) > 0 > gain(epsilon * 0.999)
    assert base.break_even(1, lambda e: 1e3 / e**2) is None  # the large owner gains nothing from the small one's noise
    assert base.break_even(0, lambda e: 0.0) == 0.0


def test_the_best_coalition_counts_estimation_too():
    """Equal to brute force over all subsets on 100 random economies, estimation and unequal noise included."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        count = int(rng.integers(1, 9))
        rows, variance = 10 ** rng.uniform(2, 5, count), 10 ** rng.uniform(-8, 0, count)
        economy = Economy(rows, variance, float(10 ** rng.uniform(-3, 2)), 0.1, float(10 ** rng.uniform(-2, 2)), 1e9)
        subsets = [np.array(s) for s in itertools.product((0.0, 1.0), repeat=count)][1:]
        best = subsets[int(np.argmin([economy.together(s) for s in subsets]))]
        chosen = np.zeros(count)
        chosen[economy.best_coalition()] = 1.0
        assert economy.together(chosen) == pytest.approx(economy.together(best), rel=1e-12)
