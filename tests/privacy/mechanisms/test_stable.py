from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import Bounded, FastNoise, SafeNoise, Stable, stable_law
from parley.privacy.mechanisms.stable import cauchy_epsilon, pure_epsilon

ALPHAS = (1.0, 1.001, 1.1, 1.5, 1.8, 1.9, 1.95, 1.99, 1.999, 1.9999)


@cache
def along_the_ray(s: mpmath.mpf, a: mpmath.mpf) -> tuple[mpmath.mpc, mpmath.mpc]:
    """Where s lies on the ray, and what falls there whatever x is."""
    ray = mpmath.exp(1j * mpmath.pi / (4 * a))
    return 1j * s * ray, mpmath.exp(-((s * ray) ** a)) * ray


def reference_pdf(x: float, alpha: float) -> float:
    """20-digit inversion along a rotated ray; for very large x twelve terms of the tail series at 20 digits."""
    with mpmath.workdps(20):
        a, z = mpmath.mpf(alpha), mpmath.mpf(x)
        if z > 100 and alpha > 1:
            terms = (
                (-1) ** (k + 1)
                * mpmath.gamma(a * k + 1)
                / mpmath.factorial(k)
                * mpmath.sin(mpmath.pi * a * k / 2)
                * z ** (-a * k - 1)
                for k in range(1, 13)
            )
            return float(sum(terms) / mpmath.pi)
        steps = [0, mpmath.mpf(1) / 10, 1, 2, 4, 8, 16, 32, 64, 128]

        def falls(s: mpmath.mpf) -> mpmath.mpf:
            place, rest = along_the_ray(s, a)
            return (mpmath.exp(z * place) * rest).real

        return float(mpmath.quad(falls, steps) / mpmath.pi)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_density_is_right_to_eight_digits_up_to_a_million(alpha):
    for x in (0.0, 0.3, 1.0, 3.0, 6.0, 7.5, 9.0, 14.0, 19.9, 20.1, 31.0, 1e3, 1e6):
        assert float(stable_law.pdf(x, alpha)) == pytest.approx(reference_pdf(x, alpha), rel=1e-8)


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9, 1.999])
def test_the_distribution_is_the_integral_of_the_density(alpha):
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for low, high in ((0.0, 0.5), (1.0, 2.0), (5.0, 7.0), (12.0, 15.0), (19.0, 21.0), (40.0, 60.0)):
        x = (low + high) / 2 + (high - low) / 2 * nodes
        integral = (high - low) / 2 * float(weights @ stable_law.pdf(x, alpha))
        difference = float(stable_law.cdf(-low, alpha) - stable_law.cdf(-high, alpha))
        assert difference == pytest.approx(integral, rel=1e-8)
    assert float(stable_law.cdf(0.0, alpha)) == pytest.approx(0.5, abs=1e-12)
    assert float(stable_law.cdf(3.0, alpha) + stable_law.cdf(-3.0, alpha)) == pytest.approx(1)


def test_the_ends_are_cauchy_and_gauss():
    x = np.linspace(-30, 30, 101)
    np.testing.assert_allclose(stable_law.pdf(x, 1.0, 2.0), stats.cauchy.pdf(x, scale=2.0), rtol=1e-13)
    np.testing.assert_allclose(stable_law.cdf(x, 1.0, 2.0), stats.cauchy.cdf(x, scale=2.0), rtol=1e-12)
    np.testing.assert_allclose(stable_law.pdf(x, 2.0, 2.0), stats.norm.pdf(x, scale=8**0.5), rtol=1e-12)
    np.testing.assert_allclose(stable_law.cdf(x, 2.0, 2.0), stats.norm.cdf(x, scale=8**0.5), rtol=1e-10)


@pytest.mark.parametrize(
    ("alpha", "value"), [(2.0, 1.1284), (1.999, 1.1289), (1.99, 1.1340), (1.95, 1.1576), (1.9, 1.1903), (1.8, 1.2687)]
)
def test_the_table_of_distortions(alpha, value):
    assert round(stable_law.distortion(alpha), 4) == value
    assert stable_law.distortion(alpha, 3.0) == pytest.approx(3 * stable_law.distortion(alpha))
    assert stable_law.distortion(1.0) == float("inf")


@pytest.mark.parametrize(("alpha", "value"), [(1.0, 1.0), (1.5, 1.0087), (1.9, 1.475), (1.95, 1.681), (1.999, 2.639)])
def test_the_table_of_score_bounds(alpha, value):
    assert stable_law.score_bound(alpha) == pytest.approx(value, abs=6e-4 if value > 1.1 else 5e-5)
    x = np.sinh(np.linspace(-12, 12, 5001))
    h = 1e-5
    derivative = (stable_law.log_pdf(x + h, alpha) - stable_law.log_pdf(x - h, alpha)) / (2 * h)
    assert np.abs(derivative).max() <= stable_law.score_bound(alpha) * (1 + 1e-6)
    assert np.abs(derivative).max() >= stable_law.score_bound(alpha) * (1 - 1e-4)


def test_cauchy_noise_on_one_number_has_its_exact_epsilon():
    for g in (0.3, 1.0, 5.0):
        root = np.sqrt(4 * g * g + 1)
        assert cauchy_epsilon(g, 1.0) == pytest.approx(np.log((root + 1) / (root - 1)), rel=1e-12)
        x = np.linspace(-50 * g, 50 * g, 200_001)
        loss = stable_law.log_pdf(x / g, 1.0) - stable_law.log_pdf((x - 1) / g, 1.0)
        assert np.abs(loss).max() == pytest.approx(cauchy_epsilon(g, 1.0), rel=1e-6)
    assert cauchy_epsilon(1000.0, 1.0) == pytest.approx(1e-3, rel=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.7, 1.95, 2.0])
def test_the_sampler_follows_the_law_and_a_mutant_does_not(alpha):
    draws = stable_law.sample(alpha, 2.0, 100_000, np.random.default_rng(5))
    assert stats.kstest(draws, lambda x: stable_law.cdf(x, alpha, 2.0)).pvalue > 1e-6
    assert stats.kstest(draws / 2, lambda x: stable_law.cdf(x, alpha, 2.0)).pvalue < 1e-12


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1.0, 1.3, 1.7, 1.9, 1.999]),
    st.floats(0.1, 20),
    st.floats(0.05, 5),
    st.lists(st.floats(-1, 1), min_size=1, max_size=8),
)
def test_the_pure_bound_holds_in_every_direction(alpha, scale, sensitivity, direction):
    """The loss of a vector is the sum over its coordinates; each is maximised on its own."""
    difference = np.array(direction)
    if np.abs(difference).sum() < 1e-6:
        return
    difference *= sensitivity / np.abs(difference).sum()
    assert largest_loss(alpha, scale, difference) <= pure_epsilon(alpha, scale, sensitivity) * (1 + 1e-9)


def largest_loss(alpha, scale, difference):
    x = np.sinh(np.linspace(-10, 10, 4001))
    losses = [np.max(stable_law.log_pdf(x, alpha) - stable_law.log_pdf(x - d / scale, alpha)) for d in difference]
    return float(np.sum(losses))


def test_half_the_noise_is_caught_by_that_test():
    """Spread over many coordinates the bound is nearly reached, so a mutant with half the noise exceeds it."""
    mechanism = Stable.calibrate(Fraction(1), 1.0, 1.9)
    spread = np.full(50, 1 / 50)
    assert largest_loss(1.9, mechanism.scale, spread) <= 1
    assert largest_loss(1.9, mechanism.scale / 2, spread) > 1.5


def test_stable_noise_is_never_released():
    mechanism = Stable.calibrate(Fraction(1), 1.0, 1.5)
    value = Bounded(np.zeros(3), 1.0, "l1")
    assert mechanism.release(value, FastNoise(1)).shape == (3,)
    with pytest.raises(GuaranteeError, match="no exact sampler"):
        mechanism.release(value, SafeNoise())


@pytest.mark.parametrize("bad", [0.99, 2.01, float("nan"), "1.5", True, 1.99995])
def test_impossible_alphas_are_one_sentence(bad):
    with pytest.raises(SettingError, match="alpha = "):
        stable_law.pdf(0.0, bad)


def test_a_gaussian_is_not_pure():
    with pytest.raises(SettingError, match="Gaussian noise needs a delta"):
        Stable.calibrate(Fraction(1), 1.0, 2.0)
    assert stable_law.score_bound(2.0) == float("inf")
