"""Stable noise of an agreement: calibrated for every direction, which one coordinate's figure is not."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from parley.errors import GuaranteeError, SettingError
from parley.privacy.accounting import make_series, stable_epsilon
from parley.privacy.accounting.compose import renyi_epsilon
from parley.privacy.accounting.pairs import Pair, delta_at, from_curve, make_stable_law
from parley.privacy.accounting.series import SERIES, StableSeries
from parley.privacy.accounting.stable_bounds import stable_ratio
from parley.privacy.events import Adjacency, StableEvent
from parley.privacy.mechanisms import Bounded, FastNoise, SafeNoise
from parley.privacy.mechanisms.stable import StableOnSums
from parley.privacy.mechanisms.stable_law import cdf

DELTA = Fraction("1e-5")
MOVED = 3  # coordinates of a difference that is searched


def series(epsilon=3.0, count=1, sensitivity=1.0, alpha=1.9, **more):
    return make_series("stable", Fraction(str(epsilon)), DELTA, count, sensitivity, alpha=alpha, **more)


def told(direction, law):
    """delta at eps = 3 of a difference in this direction, as long as the noise is calibrated for: by its loss
    distribution, on a grid."""
    moves = np.abs(direction) / np.linalg.norm(direction) * law.sensitivity / law.scale
    total = None
    for move in moves[moves > 1e-3]:
        curve, largest = Pair(make_stable_law(law.alpha), move / 2, 1.0).curve()
        one = from_curve(curve, largest, 2e-2)
        total = one if total is None else total.compose(one)
    return float(delta_at(total, 3.0, len(moves)))


def worst_delta(law):
    """The largest delta that a search over directions finds, from an even spread and from near one coordinate."""
    starts = [np.ones(MOVED), np.array([3.0, 1.0, 0.3])]
    found = [
        minimize(lambda v: -math.log(told(v, law)), start, method="Nelder-Mead", options={"maxfev": 12}).fun
        for start in starts
    ]
    return math.exp(-min(found))


def test_no_direction_that_a_search_finds_costs_more_than_is_promised_and_one_coordinates_figure_does():
    law = series().mechanism
    assert worst_delta(law) <= float(DELTA)
    alone = stable_epsilon(1.9, law.scale, 1e-5)
    assert alone.one_dimensional < alone.low < alone.high <= 3.0
    mutant = StableOnSums(1.9, 0.55, 1.0)  # calibrated for one coordinate alone
    assert stable_epsilon(1.9, mutant.scale, 1e-5, spread=1).high < 3.0
    assert worst_delta(mutant) > 10 * float(DELTA)


@pytest.mark.parametrize(("alpha", "count"), [(1.0, 1), (1.5, 50), (1.999, 1)])
def test_the_scale_is_the_least_that_keeps_epsilon_in_every_direction(alpha, count):
    ratio = stable_ratio(alpha, 1.0, 1e-6, count)
    bound = stable_epsilon(alpha, ratio, 1e-6, compositions=count)
    assert bound.one_dimensional <= bound.high <= 1.0
    assert bound.low <= bound.high
    assert bound.adjacency is Adjacency.REPLACE_ONE
    less = StableEvent(ratio * (1 - 1e-3), count=count, alpha=alpha, norm="l2")
    assert renyi_epsilon([less], 1e-6) > 1.0


@pytest.mark.parametrize("sensitivity", [1e-300, 1.0, 1e30])
def test_costs_add_up_to_epsilon_whatever_the_sensitivity(sensitivity):
    found = series(1.0, 20, sensitivity)
    spent = [found.spent_after(k) for k in range(21)]
    assert spent == sorted(spent)
    assert (spent[0], spent[20]) == (0, 1)
    assert found.mechanism.scale / sensitivity == pytest.approx(stable_ratio(1.9, 1.0, 1e-5, 20), rel=1e-9)
    assert found.mechanism.scale >= stable_ratio(1.9, 1.0, 1e-5, 20) * sensitivity


def test_copies_and_secret_draws():
    """Kappa copies share epsilon and delta; a draw in secret changes nothing but the fact that a ledger would hold."""
    copies = series(1.0, 5, shared_records=2)
    assert copies.event.multiplier == pytest.approx(stable_ratio(1.9, 0.5, 5e-6, 5), rel=1e-9)
    assert copies.spent_after(4) <= 1
    drawn = series(1.0, 5, rate=0.1)
    assert drawn.mechanism == series(1.0, 5).mechanism
    assert drawn.event.sampling == 0.1
    assert drawn.spent_after(3) == series(1.0, 5).spent_after(3)


def test_tails_hold_and_are_not_wide_of_the_mark():
    law = StableOnSums(1.5, 2.0, 1.0)
    assert 2 * cdf(-law.tail(1e-9, 1), 1.5, 2.0) == pytest.approx(1e-9, rel=1e-4)
    draws = law.release(Bounded(np.zeros((20_000, 3)), 1.0, "l2"), FastNoise(0))
    outside = np.mean(np.abs(draws).max(axis=1) > law.tail(0.05, 3))
    assert outside <= 0.05 + 4 * math.sqrt(0.05 / 20_000)
    assert np.mean(np.linalg.norm(draws, axis=1) > law.norm_tail(0.05, 3)) <= outside
    assert law.variance == math.inf
    assert law.rounding(3) == 0


def test_nothing_is_released_with_it_and_nobody_else_draws_it():
    with pytest.raises(GuaranteeError, match="no exact sampler"):
        series().mechanism.release(Bounded(np.zeros(3), 1.0, "l2"), SafeNoise())
    with pytest.raises(SettingError, match="hosts do not draw stable noise"):
        StableSeries.covered(Fraction(1), DELTA, 1)
    with pytest.raises(SettingError, match="alpha: required for stable noise"):
        make_series("stable", Fraction(1), DELTA, 1, 1.0)
    assert "stable" not in SERIES


def test_alpha_beside_another_mechanism_is_refused():
    """Else noise of one law would be charged by the rules of another."""
    with pytest.raises(SettingError, match="alpha: required for stable noise"):
        make_series("gaussian", Fraction(1), DELTA, 1, 1.0, alpha=1.9)
