"""The two-sided geometric and the exponential mechanism."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from parley.errors import SettingError
from parley.privacy.mechanisms import Bounded, Exponential, FastNoise, Geometric, SafeNoise

budgets = st.fractions(Fraction(1, 1000), 20)


def geometric_pmf(k, scale):
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(k)


@given(budgets, st.integers(1, 50))
def test_no_outcome_of_geometric_noise_is_more_than_e_to_the_epsilon_likelier(epsilon, sensitivity):
    mechanism = Geometric.calibrate(epsilon, sensitivity)
    k = np.arange(-300, 301)
    loss = (np.abs(k - sensitivity) - np.abs(k)) / mechanism.scale  # ln P(k)/P(k - sensitivity)
    assert loss.max() <= float(epsilon) * (1 + 1e-12)
    assert (2 * loss).max() > float(epsilon)  # with half the noise it would be


@pytest.mark.parametrize(("noise", "count"), [(FastNoise(3), 300_000), (SafeNoise(), 30_000)])
def test_geometric_samples_follow_the_law(noise, count):
    sample = noise.geometric(np.zeros(count, dtype=np.int64), 2.5)
    k = np.arange(-12, 13)
    observed = np.array([np.sum(sample == i) for i in k] + [np.sum(np.abs(sample) > 12)])
    pmf = geometric_pmf(k, 2.5)
    expected = np.append(pmf, 1 - pmf.sum()) * count
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    wrong = np.append(geometric_pmf(k, 1.25), 1 - geometric_pmf(k, 1.25).sum()) * count
    assert stats.chisquare(observed, wrong).pvalue < 1e-12


def test_geometric_moments_and_whole_numbers():
    mechanism = Geometric.calibrate(Fraction(1, 2), 1)
    k = np.arange(-2000, 2001)
    pmf = geometric_pmf(k, mechanism.scale)
    assert mechanism.expected_distortion == pytest.approx(float(pmf @ np.abs(k)))
    assert mechanism.variance == pytest.approx(float(pmf @ k**2))
    assert mechanism.release(Bounded(np.array([3.0, -1.0]), 1.0, "l1"), FastNoise(0)).dtype == np.int64
    with pytest.raises(SettingError, match="whole numbers"):
        mechanism.release(Bounded(np.array([0.5]), 1.0, "l1"), FastNoise(0))
    with pytest.raises(SettingError, match=r"2\^53"):
        mechanism.release(Bounded(np.array([1e19]), 1.0, "l1"), FastNoise(0))
    with pytest.raises(SettingError, match="an integer, because the values are integers"):
        Geometric.calibrate(Fraction(1), 0.5)


@given(budgets, st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.data())
def test_no_choice_is_more_than_e_to_the_epsilon_likelier(epsilon, scores, data):
    sensitivity = 0.7
    moves = data.draw(st.lists(st.floats(-sensitivity, sensitivity), min_size=len(scores), max_size=len(scores)))
    mechanism = Exponential.calibrate(epsilon, sensitivity)
    p = mechanism.probabilities(np.array(scores))
    q = mechanism.probabilities(np.array(scores) + np.array(moves))
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(p) - np.log(q)
    assert np.nanmax(np.abs(np.where(np.isfinite(loss), loss, 0))) <= float(epsilon) * (1 + 1e-9)


def test_half_the_scale_of_a_choice_is_caught_by_that_test():
    mechanism = Exponential.calibrate(Fraction(1), 1.0)
    mutant = Exponential(mechanism.scale / 2, 1.0)
    scores, neighbour = np.array([0.0] + [1.0] * 50), np.array([1.0] + [0.0] * 50)
    losses = [np.log(m.probabilities(neighbour)[0] / m.probabilities(scores)[0]) for m in (mechanism, mutant)]
    assert losses[0] <= 1
    assert losses[1] > 1.5


@pytest.mark.parametrize(("noise", "count"), [(FastNoise(3), 30_000), (SafeNoise(), 3_000)])
def test_choices_follow_the_law(noise, count):
    mechanism = Exponential.calibrate(Fraction(2), 1.0)
    scores = np.array([0.0, 1.0, 2.0, -1.0])
    chosen = np.bincount([mechanism.choose(scores, noise) for _ in range(count)], minlength=4)
    assert stats.chisquare(chosen, mechanism.probabilities(scores) * count).pvalue > 1e-6
    assert stats.chisquare(chosen, np.full(4, count / 4)).pvalue < 1e-12


def test_scores_must_be_finite_and_there_must_be_one():
    mechanism = Exponential.calibrate(Fraction(1), 1.0)
    for bad in ([], [float("nan")], [[1.0]]):
        with pytest.raises(SettingError, match="scores"):
            mechanism.choose(bad, FastNoise(0))
