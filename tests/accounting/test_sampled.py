"""Releases about records that an owner draws in secret: calibration, what k of them cost, and dp_accounting beside it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from parley.accounting.sampled import base_epsilon, sampled_epsilon, sampled_ratio
from parley.accounting.series import in_pieces, make_series
from parley.mechanisms import Bounded, Event, FastNoise, GridGeometric, SafeNoise


def theirs(ratio: float, rate: float, count: int, delta: float) -> float:
    """dp_accounting's epsilon; its noise is measured in clips, of which a replacement moves two."""
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(2 * ratio)), count))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(("epsilon", "delta", "count", "rate"), [(1.0, 1e-5, 60, 0.1), (3.0, 1e-5, 30, 0.05)])
def test_the_calibrated_noise_costs_what_dp_accounting_says(epsilon, delta, count, rate):
    ratio = sampled_ratio(epsilon, delta, count, rate)
    assert theirs(ratio, rate, count, delta) == pytest.approx(epsilon, rel=3e-3)
    assert theirs(ratio * 0.98, rate, count, delta) > epsilon  # noise a little smaller does not do
    unsampled = make_series("gaussian", Fraction(str(epsilon)), Fraction(str(delta)), count, 1.0).mechanism.sigma
    assert ratio < 0.7 * unsampled


def test_costs_rise_with_the_answers_stay_above_dp_accounting_and_end_at_exactly_epsilon():
    series = make_series("gaussian", Fraction(1), Fraction(1, 10**5), 60, 0.5, rate=0.1)
    spent = [series.spent_after(k) for k in range(61)]
    assert spent[0] == 0
    assert spent[60] == 1
    assert all(a <= b for a, b in itertools.pairwise(spent))
    for k in (1, 10, 30):
        assert float(spent[k]) >= theirs(series.event.multiplier, 0.1, k, 1e-5) * (1 - 1e-3)
    assert series.event.sampling == 0.1
    assert float(spent[1]) == pytest.approx(theirs(series.event.multiplier, 0.1, 1, 1e-5), rel=5e-3, abs=1e-4)


def test_pure_noise_is_amplified_in_closed_form():
    base = float(base_epsilon(Fraction(1, 10), 0.2))
    assert math.log1p(0.2 * math.expm1(base)) == pytest.approx(0.1, rel=1e-9)
    assert math.log1p(0.2 * math.expm1(base)) <= 0.1
    assert base_epsilon(Fraction(1, 10), 1.0) == Fraction(1, 10)
    series = make_series("laplace", Fraction(1), Fraction(0), 10, 1.0, rate=0.2)
    assert series.mechanism.scale == pytest.approx(1 / base, rel=1e-9)
    assert [series.spent_after(k) for k in (3, 10)] == [Fraction(3, 10), 1]


@pytest.mark.parametrize("base", [0.3, 2.0])
def test_no_triple_of_laws_is_amplified_less_than_the_closed_form_says(base):
    """f without the record, g with it, h with its replacement, on three outcomes: by brute force."""
    rng, q = np.random.default_rng(0), 0.3
    worst = 0.0
    for _ in range(4_000):
        f = rng.dirichlet(np.ones(3))
        g, h = (f * np.exp(rng.choice([-0.5, 0.5], 3) * base) for _ in range(2))
        g, h = g / g.sum(), h / h.sum()
        if max(np.abs(np.log(g / h)).max(), np.abs(np.log(f / h)).max(), np.abs(np.log(f / g)).max()) > base:
            continue
        worst = max(worst, float(np.log(((1 - q) * f + q * g) / ((1 - q) * f + q * h)).max()))
    assert 0.3 * math.log1p(q * math.expm1(base)) < worst <= math.log1p(q * math.expm1(base))


def test_single_releases_are_accounted_by_the_best_rule():
    event = Event("gaussian", 1.0, "l2", None, 0.05)
    assert sampled_epsilon(event, 1e-5, 1) <= sampled_epsilon(event, 1e-5, 2)


@pytest.mark.parametrize("noise", [FastNoise(3), SafeNoise()], ids=["fast", "safe"])
def test_geometric_noise_on_a_grid_has_its_scale_and_whole_units(noise):
    mechanism = GridGeometric.calibrate(Fraction(1, 4), 0.02)
    value = np.linspace(-1, 1, 20_000)
    released = mechanism.release(Bounded(value, 0.02, "l1"), noise)
    unit, steps = mechanism.grid(20_000)
    assert np.array_equal(released / unit, np.rint(released / unit))
    error = released - value
    assert np.abs(error).mean() == pytest.approx(0.08, rel=4 / np.sqrt(20_000))
    assert error.var() == pytest.approx(mechanism.variance, rel=4 * np.sqrt(5 / 20_000))
    assert np.abs(error).max() <= mechanism.tail(1e-9, 20_000)
    # What the noise covers: the sensitivity and a unit for every coordinate, by exact fractions.
    assert (Fraction(0.02) / Fraction(unit) + 20_000) / steps <= Fraction(1, 4)
    assert (Fraction(0.02) / Fraction(unit) + 20_000) / steps > Fraction(1, 4) * Fraction(999, 1000)


def test_short_vectors_too_and_values_beyond_the_grid_stay_finite():
    mechanism = GridGeometric.calibrate(Fraction(1), 1e-30)
    released = mechanism.release(Bounded(np.array([1e200, 0.0]), 1e-30, "l1"), SafeNoise())
    assert np.isfinite(released).all()


@pytest.mark.parametrize("mechanism", ["laplace", "geometric", "gaussian"])
def test_a_release_in_pieces_pays_for_the_grid_of_each(mechanism):
    delta, size, pieces, count = Fraction(1, 10**6) if mechanism == "gaussian" else Fraction(0), 500, 4, 7
    series = in_pieces(mechanism, Fraction(1), delta, count, 0.1, 1, size, pieces)
    noise = series.mechanism
    width = noise.rounding(size)
    if mechanism == "gaussian":
        assert (width, noise.sensitivity) == (0.0, 0.1)
        return
    assert width > 0
    assert noise.sensitivity >= 0.1 + (pieces - 1) * width
    scale = Fraction(noise.scale) * (1 + Fraction(width) / Fraction(noise.sensitivity))  # as drawn
    assert (Fraction(0.1) + pieces * Fraction(width)) / scale <= Fraction(1, count)
    plain = make_series(mechanism, Fraction(1), delta, count, 0.1).mechanism  # the mutant that pays for one
    if mechanism == "geometric":
        assert (Fraction(0.1) + pieces * Fraction(width)) / (Fraction(plain.scale) + Fraction(width) * count) > Fraction(1, count)
