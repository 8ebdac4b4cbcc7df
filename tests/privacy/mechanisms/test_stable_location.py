"""Where answers with stable noise lie: intervals hold, and means do not settle."""

import numpy as np
import pytest
from scipy.special import ndtri

from parley.privacy.mechanisms.stable_law import cdf, posterior_moments, reach, sample


@pytest.mark.parametrize(("alpha", "many"), [(1.0, 5), (1.5, 4)])
def test_the_estimate_moves_along_and_its_variance_is_its_own(alpha, many):
    """1,000 locations at once: the mean of squared errors over the stated variance is 1, by configuration; the mean of
    answers is off by far more."""
    answers = 3.0 + sample(alpha, 0.4, (many, 1000), np.random.default_rng(many))
    mean, variance = posterior_moments(answers, alpha, 0.4)
    moved, same = posterior_moments(answers + 7.0, alpha, 0.4)
    np.testing.assert_allclose(moved, mean + 7.0, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(same, variance, rtol=1e-5)
    score = (mean - 3.0) / np.sqrt(variance)
    assert score.var() == pytest.approx(1.0, abs=0.2)
    assert np.median(np.abs(mean - 3.0)) < 0.95 * np.median(np.abs(answers.mean(axis=0) - 3.0))


def test_a_posterior_of_one_wild_answer_hardly_heeds_it():
    mean, variance = posterior_moments(np.array([[0.1], [-0.2], [0.05], [1e5]]), 1.2, 0.1)
    assert abs(mean[0]) < 0.2
    assert variance[0] < 0.05


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_the_reach_is_the_laws_own_quantile(level):
    for alpha, scale in ((1.0, 2.0), (1.5, 0.3)):
        q = reach(level, alpha, scale, 0.0)
        assert 2 * float(cdf(q, alpha, scale)) - 1 == pytest.approx(level, abs=1e-6)
    assert reach(level, 1.5, 1e-12, 2.0) == pytest.approx(2 * float(ndtri((1 + level) / 2)), rel=0.02)


def test_the_reach_of_a_sum_is_that_of_draws():
    rng = np.random.default_rng(0)
    drawn = np.abs(sample(1.3, 0.5, 400_000, rng) + rng.normal(scale=0.8, size=400_000))
    share = float(np.mean(drawn <= reach(0.9, 1.3, 0.5, 0.8)))
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 / 400_000)
    assert abs(float(np.mean(drawn <= reach(0.9, 1.3, 0.5, 0.0))) - 0.9) > 0.02  # without the normal part
