"""Gaussian noise and its calibration.

Premise F8.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import erf

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import Bounded, FastNoise, Gaussian, SafeNoise
from parley.privacy.mechanisms.gaussian import gaussian_delta

epsilons, deltas = st.floats(0.01, 20), st.floats(1e-12, 0.4)


def published_sigma(epsilon, delta, sensitivity=1.0):
    """Algorithm 1 of Balle and Wang (2018), transcribed: double a bracket, then bisect B+ or B-."""

    def phi(t):
        return 0.5 * (1 + erf(t / math.sqrt(2)))

    def plus(v):
        return phi(math.sqrt(epsilon * v)) - math.exp(epsilon) * phi(-math.sqrt(epsilon * (v + 2)))

    def minus(u):
        return phi(-math.sqrt(epsilon * u)) - math.exp(epsilon) * phi(-math.sqrt(epsilon * (u + 2)))

    threshold = plus(0)
    if delta == threshold:
        return sensitivity / math.sqrt(2 * epsilon)
    low, high = 0.0, 1.0
    if delta > threshold:
        while plus(high) < delta:
            low, high = high, 2 * high
        for _ in range(300):
            middle = (low + high) / 2
            low, high = (middle, high) if plus(middle) <= delta else (low, middle)
        factor = math.sqrt(1 + low / 2) - math.sqrt(low / 2)
    else:
        while minus(high) > delta:
            low, high = high, 2 * high
        for _ in range(300):
            middle = (low + high) / 2
            low, high = (middle, high) if minus(middle) > delta else (low, middle)
        factor = math.sqrt(1 + high / 2) + math.sqrt(high / 2)
    return factor * sensitivity / math.sqrt(2 * epsilon)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-5, 1e-3, 0.1])
def test_calibration_equals_the_published_algorithm(epsilon, delta):
    ours = Gaussian.calibrate(Fraction(str(epsilon)), delta, 1.0).sigma
    assert ours == pytest.approx(published_sigma(epsilon, delta), rel=1e-9)


@settings(deadline=None)
@given(epsilons, deltas, st.integers(1, 1000), st.floats(1e-3, 1e3))
def test_the_reported_delta_is_never_exceeded_and_half_the_noise_exceeds_it(epsilon, delta, count, sensitivity):
    mechanism = Gaussian.calibrate(Fraction(str(epsilon)), delta, sensitivity, count)
    shift = math.sqrt(count) * sensitivity / mechanism.sigma
    assert gaussian_delta(float(Fraction(str(epsilon))), shift) <= delta
    assert gaussian_delta(epsilon, 2 * shift) > delta


@given(st.floats(0, 30), st.floats(0.01, 10))
def test_the_closed_form_is_the_hockey_stick_integral(epsilon, shift):
    x = np.linspace(-12, 12 + shift, 200_001)
    p, q = stats.norm.pdf(x, loc=shift), stats.norm.pdf(x)
    integral = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
    assert gaussian_delta(epsilon, shift) == pytest.approx(float(integral), abs=2e-7)


@settings(deadline=None)
@given(st.floats(-9, 2), st.floats(-15, 1.5))
def test_the_closed_form_is_right_to_ten_digits_at_any_size(log_epsilon, log_shift):
    """Against 60-digit arithmetic, down to shifts of 1e-15 standard deviations."""
    epsilon, shift = 10**log_epsilon, 10**log_shift
    with mpmath.workdps(80):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(shift)
        exact = mpmath.ncdf(s / 2 - e / s) - mpmath.e**e * mpmath.ncdf(-s / 2 - e / s)
        if exact < mpmath.mpf(10) ** -60:
            return
        assert float(abs(gaussian_delta(epsilon, shift) / exact - 1)) < 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-9", 1e-20), ("1e-6", 1e-12), ("0.001", 1e-30), ("1000", 1e-6)])
def test_calibration_ends_on_the_private_side_at_extremes(epsilon, delta):
    sigma = Gaussian.calibrate(Fraction(epsilon), delta, 1.0).sigma
    with mpmath.workdps(80):
        e, s = mpmath.mpf(epsilon), 1 / mpmath.mpf(sigma)
        assert mpmath.ncdf(s / 2 - e / s) - mpmath.e**e * mpmath.ncdf(-s / 2 - e / s) <= delta


def test_budgets_out_of_reach_are_one_sentence():
    for epsilon, delta in (("1e36", 1e-5), ("1e-12", 1e-17), ("1", 1e-40)):
        with pytest.raises(SettingError, match="expected an epsilon from"):
            Gaussian.calibrate(Fraction(epsilon), delta, 1.0)


def test_the_loss_in_any_direction_is_that_of_its_length():
    """Rotation invariance, by simulation: the privacy loss of a spread difference has the law of a concentrated one."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(100_000, 5))
    for direction in (np.eye(5)[0], np.full(5, 5**-0.5), rng.normal(size=5)):
        v = direction / np.linalg.norm(direction)
        loss = noise @ v + 0.5
        assert stats.kstest(loss, stats.norm(0.5, 1).cdf).pvalue > 1e-6


@pytest.mark.parametrize(("noise", "count"), [(FastNoise(1), 200_000), (SafeNoise(), 20_000)])
def test_both_samplers_follow_the_law_and_a_mutant_does_not(noise, count):
    sample = noise.gaussian(np.zeros(count), 3.0)
    assert stats.kstest(sample, stats.norm(scale=3.0).cdf).pvalue > 1e-6
    assert stats.kstest(sample / 2, stats.norm(scale=3.0).cdf).pvalue < 1e-12


def test_opendp_draws_the_same_law_and_agrees_on_its_zcdp():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    mechanism = Gaussian.calibrate(Fraction(1), 1e-5, 0.7)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=mechanism.sigma)
    assert theirs.map(0.7) == pytest.approx((0.7 / mechanism.sigma) ** 2 / 2, rel=1e-12)
    ours = SafeNoise().gaussian(np.zeros(50_000), mechanism.sigma)
    sample = theirs(np.zeros(5_000))
    assert stats.ks_2samp(sample, ours).pvalue > 1e-6
    assert stats.ks_2samp(sample, 1.3 * ours).pvalue < 1e-6


def test_a_value_bounded_in_l1_is_refused():
    mechanism = Gaussian.calibrate(Fraction(1), 1e-5, 1.0)
    with pytest.raises(GuaranteeError, match="bounded in L2"):
        mechanism.release(Bounded(np.zeros(2), 1.0, "l1"), FastNoise(0))
    assert mechanism.release(Bounded(np.zeros(2), 1.0, "l2"), FastNoise(0)).shape == (2,)
    assert mechanism.expected_distortion == pytest.approx(mechanism.sigma * 0.79788, rel=1e-4)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan"), True])
def test_impossible_deltas_are_one_sentence(delta):
    with pytest.raises(SettingError, match="delta = "):
        Gaussian.calibrate(Fraction(1), delta, 1.0)
