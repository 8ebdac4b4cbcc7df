"""Laplace noise.

Premise F7: OpenDP's samplers are exact, as OpenDP's proofs state.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import Bounded, FastNoise, Laplace, SafeNoise
from parley.privacy.mechanisms.noise import opendp_laplace

budgets = st.fractions(Fraction(1, 10**6), 100)
sensitivities = st.floats(1e-9, 1e9)


@given(budgets, sensitivities)
def test_one_release_never_costs_more_than_asked(epsilon, sensitivity):
    mechanism = Laplace.calibrate(epsilon, sensitivity)
    assert Fraction(sensitivity) / Fraction(mechanism.scale) <= epsilon
    assert mechanism.scale <= float(sensitivity / epsilon) * (1 + 1e-14)


@given(budgets, sensitivities)
def test_opendp_agrees_that_it_costs_no_more(epsilon, sensitivity):
    mechanism = Laplace.calibrate(epsilon, sensitivity)
    assert Fraction(opendp_laplace(mechanism.scale).map(sensitivity)) <= epsilon


def test_a_budget_too_small_for_any_number_is_one_sentence():
    with pytest.raises(SettingError, match="too small"):
        Laplace.calibrate(Fraction("1e-320"), 1.0)


def largest_loss(scale: float, difference: np.ndarray) -> float:
    """The largest log ratio of the densities of `value + noise` and its neighbour: attained beyond both, so scan far
    tails."""
    points = np.concatenate([np.linspace(-5, 5, 4001) * scale, np.linspace(-40, 40, 801) * scale])
    total = 0.0
    for shift in difference:
        total += float(
            np.max(stats.laplace.logpdf(points, scale=scale) - stats.laplace.logpdf(points, loc=shift, scale=scale))
        )
    return total


@given(budgets, st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.floats(0.01, 100))
def test_the_privacy_loss_of_any_two_neighbours_stays_below_epsilon(epsilon, direction, sensitivity):
    difference = np.array(direction)
    size = np.abs(difference).sum()
    if size > 1e-9:
        difference *= sensitivity / size
    mechanism = Laplace.calibrate(epsilon, sensitivity)
    assert largest_loss(mechanism.scale, difference) <= float(epsilon) * (1 + 1e-9) + 1e-12


def test_half_the_noise_is_caught_by_that_test():
    mechanism = Laplace.calibrate(Fraction(1), 1.0)
    assert largest_loss(mechanism.scale / 2, np.array([0.5, -0.5])) > 1.9


@pytest.mark.parametrize(("noise", "count"), [(FastNoise(1), 200_000), (SafeNoise(), 20_000)])
def test_both_samplers_follow_the_law_and_a_mutant_does_not(noise, count):
    sample = noise.laplace(np.zeros(count), 3.0, 1.0)
    assert stats.kstest(sample, stats.laplace(scale=3.0).cdf).pvalue > 1e-6
    assert stats.kstest(sample / 2, stats.laplace(scale=3.0).cdf).pvalue < 1e-12


def test_noise_is_added_to_the_value_and_fresh_every_time():
    value = np.array([1e6, -1e6])
    for noise in (FastNoise(), SafeNoise()):
        first, second = noise.laplace(value, 1.0, 1.0), noise.laplace(value, 1.0, 1.0)
        assert np.abs(first - value).max() < 100
        assert (first != second).any()
    assert (FastNoise(3).laplace(value, 1.0, 1.0) == FastNoise(3).laplace(value, 1.0, 1.0)).all()


def test_a_value_bounded_in_another_norm_or_too_sensitive_is_refused():
    mechanism = Laplace.calibrate(Fraction(1), 1.0)
    with pytest.raises(GuaranteeError, match="bounded in L2"):
        mechanism.release(Bounded(np.zeros(2), 1.0, "l2"), FastNoise(0))
    with pytest.raises(GuaranteeError, match="calibrate the mechanism again"):
        mechanism.release(Bounded(np.zeros(2), 1.01, "l1"), FastNoise(0))
    with pytest.raises(GuaranteeError):
        mechanism.release(Bounded(np.zeros(2), float("nan"), "l1"), FastNoise(0))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_sensitivities_are_refused(bad):
    with pytest.raises(SettingError, match="sensitivity"):
        Laplace.calibrate(Fraction(1), bad)


def test_distortion_and_variance_are_those_of_the_law():
    mechanism = Laplace.calibrate(Fraction(1, 2), 1.0)
    sample = FastNoise(0).laplace(np.zeros(10**6), mechanism.scale, 1.0)
    assert np.abs(sample).mean() == pytest.approx(mechanism.expected_distortion, rel=0.005)
    assert sample.var() == pytest.approx(mechanism.variance, rel=0.01)
