"""Laplace noise in exact arithmetic.

Premise F6.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parley.errors import SettingError
from parley.privacy.mechanisms import Bounded, Laplace, SafeNoise, exact_samplers
from parley.privacy.mechanisms.exact_samplers import (
    _bernoulli_exp,
    _geometric,
    _uniform_below,
    add_laplace,
    discrete_laplace,
)


@pytest.mark.parametrize("scale", [1, 3, 20])
def test_the_law_is_the_discrete_laplace_law(scale):
    """Chi-square on a million draws against the exact probabilities; a scale one tenth off is rejected."""
    draws = discrete_laplace(scale, 1_000_000)
    k = np.arange(-8 * scale, 8 * scale + 1)
    observed = np.array([np.sum(draws == i) for i in k])

    def expected(s):
        q = np.exp(-1 / s)
        return (1 - q) / (1 + q) * q ** np.abs(k) * len(draws)

    def pvalue(s):
        e = expected(s)
        return stats.chisquare(
            np.append(observed, len(draws) - observed.sum()), np.append(e, len(draws) - e.sum())
        ).pvalue

    assert pvalue(scale) > 1e-6
    assert pvalue(1.1 * scale) < 1e-12


def test_large_scales_look_like_the_continuous_law():
    scale = 2**46 - 12345
    draws = discrete_laplace(scale, 200_000) / scale
    assert stats.kstest(draws, stats.laplace.cdf).pvalue > 1e-6
    assert stats.kstest(draws / 2, stats.laplace.cdf).pvalue < 1e-12
    low_bits = np.array([int(d) & 7 for d in discrete_laplace(scale, 100_000)])
    assert stats.chisquare(np.bincount(low_bits, minlength=8)).pvalue > 1e-6


def test_it_is_the_law_that_opendp_samples():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    theirs = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=2.0)([0] * 40_000)
    ours = discrete_laplace(2, 40_000)
    edges = np.arange(-8, 9)
    table = [[np.sum(np.asarray(sample) == k) for k in edges] for sample in (theirs, ours)]
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_the_parts_are_exact():
    for numerator, denominator in ((0, 5), (2, 5), (5, 5), (1, 1)):
        hits = _bernoulli_exp(np.full(200_000, numerator, dtype=np.uint64), denominator).sum()
        p = np.exp(-numerator / denominator)
        assert abs(hits - 200_000 * p) <= 5 * np.sqrt(200_000 * p * (1 - p)) + 1e-9
    for limit in (1, 2, 3, 7, 1000):
        counts = np.bincount(_uniform_below(limit, 50_000).astype(int), minlength=limit)
        assert len(counts) == limit
        assert limit == 1 or stats.chisquare(counts).pvalue > 1e-6
    # a quarter of all words is drawn again; taken by their remainder they would make the first third too frequent
    large = 3 * 2**62
    thirds = np.bincount((_uniform_below(large, 30_000) // np.uint64(2**62)).astype(int), minlength=3)
    assert stats.chisquare(thirds).pvalue > 1e-6
    runs = np.bincount(_geometric(200_000), minlength=12)
    expected = 200_000 * (1 - np.exp(-1)) * np.exp(-np.arange(8.0))
    together = np.append(runs[:8], runs[8:].sum()), np.append(expected, 200_000 - expected.sum())
    assert stats.chisquare(*together).pvalue > 1e-6
    assert [len(_geometric(size)) for size in (0, 1, 7)] == [0, 1, 7]


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 10), st.integers(1, 10**6))
def test_rounding_to_the_grid_is_paid_for(sensitivity, epsilon, size):
    """In grid units: (sensitivity + size)/steps <= epsilon, exactly."""
    scale = Laplace.calibrate(Fraction(epsilon), sensitivity).scale
    exponent = int(np.frexp(scale)[1]) - exact_samplers.LAPLACE_BITS
    grid = Fraction(2) ** exponent
    steps = -(-Fraction(scale) * (1 + size * grid / Fraction(sensitivity)) // grid)
    assert (Fraction(sensitivity) / grid + size) / steps <= Fraction(epsilon)
    assert steps * grid <= Fraction(scale) * (1 + size * grid / Fraction(sensitivity)) + grid  # and no more than that


def test_results_lie_on_the_grid_and_around_the_value():
    value = np.linspace(-3, 3, 1000).reshape(10, 100)
    noisy = add_laplace(value, 0.5, 1.0)
    assert noisy.shape == value.shape
    assert stats.kstest((noisy - value).ravel(), stats.laplace(scale=0.5).cdf).pvalue > 1e-6
    units = noisy / 2.0 ** (np.frexp(0.5)[1] - exact_samplers.LAPLACE_BITS)
    assert (units == np.rint(units)).all()
    huge = add_laplace(np.full(300, 1e20), 1.0, 1.0)
    assert np.isfinite(huge).all()


def test_draws_beyond_the_exact_floats_are_added_as_integers(monkeypatch):
    far = 2**54 + 1
    monkeypatch.setattr(exact_samplers, "discrete_laplace", lambda steps, size: np.full(size, far))
    grid = 2.0 ** (np.frexp(1.0)[1] - exact_samplers.LAPLACE_BITS)
    np.testing.assert_array_equal(add_laplace(np.zeros(2), 1.0, 1.0), float(Fraction(far) * Fraction(grid)))


def test_long_vectors_take_this_path_and_short_ones_opendps(monkeypatch):
    calls = []
    monkeypatch.setattr("parley.privacy.mechanisms.noise.add_laplace", lambda v, s, d: calls.append(v.size) or v)
    mechanism = Laplace.calibrate(Fraction(1), 1.0)
    for size in (3, 300):
        mechanism.release(Bounded(np.zeros(size), 1.0, "l1"), SafeNoise())
    assert calls == [300]


def test_extreme_scales_are_refused():
    for scale in (1e-305, 1e300):
        with pytest.raises(SettingError, match="out of range"):
            add_laplace(np.zeros(3), scale, scale)
    with pytest.raises(SettingError, match="expected a whole number"):
        discrete_laplace(0, 5)
