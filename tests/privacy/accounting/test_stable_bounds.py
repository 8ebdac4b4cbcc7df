import math

import numpy as np
import pytest

from parley.errors import SettingError
from parley.privacy.accounting import stable_epsilon
from parley.privacy.accounting.pairs import Pair, from_curve, make_stable_law
from parley.privacy.accounting.stable_bounds import delta_curve, epsilon_curve


@pytest.mark.parametrize(
    ("alpha", "figures"),
    [(1.999, {1: 2.54, 4: 2.92, 64: 2.94}), (1.9, {1: 1.45, 4: 2.47, 64: 2.84}), (2.0, {1: 2.94, 16: 2.94})],
)
def test_epsilon_by_spread(alpha, figures):
    for spread, value in figures.items():
        bound = stable_epsilon(alpha, 1.0, 1e-5, spread=spread)
        assert bound.high == pytest.approx(value, rel=0.01)
        assert bound.low <= bound.high <= bound.low * 1.001


@pytest.mark.parametrize(("alpha", "low", "high"), [(1.999, 2.942, 3.19), (1.9, 2.851, 3.09)])
def test_the_interval_for_every_direction(alpha, low, high):
    bound = stable_epsilon(alpha, 1.0, 1e-5)
    assert bound.low == pytest.approx(low, rel=2e-3)
    assert bound.high == pytest.approx(high, rel=0.01)
    assert bound.one_dimensional < bound.low


@pytest.mark.parametrize("alpha", [1.5, 1.9, 1.999])
def test_high_covers_every_spread_and_mixed_direction(alpha):
    bound = stable_epsilon(alpha, 1.0, 1e-5)
    for m in (1, 2, 3, 8, 32, 128, 512):
        assert stable_epsilon(alpha, 1.0, 1e-5, spread=m).low <= bound.high
    rng = np.random.default_rng(3)
    for _ in range(6):
        v = rng.dirichlet(np.full(5, 0.3)) ** 0.5  # squares add up to 1
        total = None
        for d in v[v > 1e-3]:
            part = from_curve(*Pair(make_stable_law(alpha), float(d) / 2).curve(), 1e-3)
            total = part if total is None else total.compose(part)
        assert total.get_epsilon_for_delta(1e-5) <= bound.high
        assert total.get_epsilon_for_delta(1e-5) <= bound.low * 1.02  # and the equal spreads are about the worst


def test_the_gaussian_is_the_same_in_every_direction():
    bound = stable_epsilon(2.0, 1.0, 1e-5)
    assert bound.low == pytest.approx(2.9432, rel=1e-4)
    assert bound.high == pytest.approx(2.9432, rel=1e-4)


def test_more_noise_and_rarer_sampling_cost_less():
    highs = [stable_epsilon(1.9, scale, 1e-5).high for scale in (1.0, 2.0, 4.0)]
    assert highs[0] > highs[1] > highs[2]
    rates = [stable_epsilon(1.9, 1.0, 1e-5, compositions=50, sampling=q) for q in (0.5, 0.1, 0.01)]
    assert rates[0].high > rates[1].high > rates[2].high
    assert all(rate.low <= rate.high for rate in rates)


def test_sampled_gaussian_under_replace_one():
    """q = 0.01, sigma = 1 for records clipped at 1 (so a replacement moves by 2), 1000 steps, delta = 1e-5: 2.84."""
    bound = stable_epsilon(2.0, 2**-0.5, 1e-5, l2_sensitivity=2.0, compositions=1000, sampling=0.01)
    assert bound.high == pytest.approx(2.84, rel=0.01)


def test_only_the_ratio_of_scale_and_sensitivity_counts():
    one, two = stable_epsilon(1.9, 1.0, 1e-5), stable_epsilon(1.9, 30.0, 1e-5, l2_sensitivity=30.0)
    assert one.low == pytest.approx(two.low)
    assert one.high == pytest.approx(two.high)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 2.5}, "alpha = 2.5"),
        ({"scale": 0.0}, "scale = 0"),
        ({"delta": 0.0}, "delta = 0"),
        ({"delta": 1.0}, "delta = 1"),
        ({"sampling": 0.0}, "sampling = 0"),
        ({"sampling": 1.5}, "sampling = 1.5"),
        ({"compositions": 0}, "compositions = 0"),
        ({"l2_sensitivity": float("nan")}, "l2_sensitivity = nan"),
        ({"spread": 4, "sampling": 0.5}, "spread"),
    ],
)
def test_impossible_settings_are_one_sentence(arguments, message):
    with pytest.raises(SettingError, match=message):
        stable_epsilon(**({"alpha": 1.9, "scale": 1.0, "delta": 1e-5} | arguments))


def test_the_published_advantage_is_gone_when_a_difference_is_spread():
    x = np.array([1.0, 2.0, 3.0])
    gauss, one, many = (delta_curve(a, 1.0, x, spread=s) for a, s in ((2.0, "one"), (1.9, "one"), (1.9, "many")))
    assert one[2] < 1e-11 < many[2]
    assert (many > 0.5 * gauss)[:2].all()
    curve = epsilon_curve(1.999, np.array([0.5, 1.0, 2.0]), 1e-5)
    assert (np.diff(curve) < 0).all()
    assert curve[1] == pytest.approx(2.54, rel=0.01)
    assert math.isfinite(curve[0])
