"""Bits about one record: bounds beside what is really told, by exact channels and by simulation."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import logsumexp

from parley.privacy.accounting.meaning import (
    NATS_PER_BIT,
    gaussian_bits,
    pure_leakage,
    pure_nats,
    pure_nats_slope,
    zcdp_leakage,
)

DRAWS = 4000


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 10.0])
def test_the_pure_bound_is_reached_by_subsets_of_many_values(epsilon):
    """Who answers with a random half, or another share f, of all values, likelier with one that holds the truth."""
    f = np.linspace(1e-5, 1 - 1e-5, 200_001)
    inside = f * np.exp(epsilon) / (f * np.exp(epsilon) + 1 - f)
    told = (inside * epsilon - np.log(f * np.exp(epsilon) + 1 - f)).max()
    bound = float(pure_nats(np.array(epsilon)))
    assert told <= bound <= told * (1 + 1e-4)
    assert bound <= min(epsilon**2 / 8, epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("values", [2, 3, 50])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_randomised_response_tells_less_than_is_said(values, epsilon):
    """The capacity of a symmetric channel, and its min-capacity, which is the bound itself."""
    truth = np.exp(epsilon) / (np.exp(epsilon) + values - 1)
    other = (1 - truth) / (values - 1)
    capacity = np.log2(values) + truth * np.log2(truth) + (1 - truth) * np.log2(other)
    found = pure_leakage(epsilon, values)
    assert capacity <= found.mutual_information
    assert found.min_entropy == pytest.approx(np.log2(values * truth))
    assert pure_leakage(epsilon).min_entropy == pytest.approx(epsilon / NATS_PER_BIT)
    if values == 2 and epsilon == 0.1:
        assert capacity == pytest.approx(found.mutual_information, rel=0.01)


def test_formula_and_series_meet_and_slopes_are_slopes():
    near = np.array([0.0999999, 0.1000001])
    assert pure_nats(near)[0] == pytest.approx(pure_nats(near)[1], rel=5e-6)
    epsilon, h = np.geomspace(1e-3, 500, 40), 1e-5
    risen = (pure_nats(epsilon * np.exp(h)) - pure_nats(epsilon * np.exp(-h))) / (2 * h)
    np.testing.assert_allclose(pure_nats_slope(epsilon), risen, rtol=1e-5)
    assert (np.diff(pure_nats(np.geomspace(1e-6, 600, 100_000))) > 0).all()


def told(points, rounds, deviation, laplace, rng):
    """(mutual information in nats by simulation, its standard error) of a record that is one of these points with equal
    chances: each round answers it with noise, turned about by the answer before."""
    truth = rng.integers(len(points), size=DRAWS)
    log_ratio, signs = np.zeros((DRAWS, len(points))), np.ones((DRAWS, points.shape[1]))
    for _ in range(rounds):
        exact = signs[:, None, :] * points  # what each point would be answered with
        draw = rng.laplace if laplace else rng.normal
        noise = draw(scale=deviation, size=(DRAWS, points.shape[1]))
        away = (exact[np.arange(DRAWS), truth] + noise)[:, None, :] - exact
        log_ratio += -np.abs(away).sum(-1) / deviation if laplace else -(away**2).sum(-1) / (2 * deviation**2)
        signs = np.where(away[:, :1, 0] > 0, -1.0, 1.0) * signs
    gained = log_ratio[np.arange(DRAWS), truth] - logsumexp(log_ratio, axis=1, b=1 / len(points))
    return float(gained.mean()), float(gained.std() / DRAWS**0.5)


SETTINGS = [
    (p, count, rounds, ratio, laplace)
    for p, count, rounds, ratio in ((1, 2, 1, 0.5), (1, 4, 3, 2.0), (2, 3, 5, 0.7), (5, 8, 2, 1.0), (8, 40, 10, 0.5))
    for ratio in (ratio, 3 * ratio)
    for laplace in (False, True)
]


@pytest.mark.parametrize(("p", "count", "rounds", "ratio", "laplace"), SETTINGS)
def test_what_is_told_in_rounds_lies_below_the_bound(p, count, rounds, ratio, laplace):
    """Twenty settings: points on a ball of radius 1 (L1 for Laplace noise), deviation 1/ratio."""
    rng = np.random.default_rng(17)
    points = rng.normal(size=(count, p))
    points /= np.abs(points).sum(1, keepdims=True) if laplace else np.linalg.norm(points, axis=1, keepdims=True)
    if count == 2:
        points = np.array([[1.0], [-1.0]])
    seen, error = told(points, rounds, 1 / ratio, laplace, rng)
    if laplace:
        bounds = [pure_leakage(2 * ratio * rounds, count).mutual_information]
    else:
        ball = gaussian_bits(2.0, 1 / ratio, p, rounds, ball=True)
        any_set = gaussian_bits(2.0, 1 / ratio, p, rounds)
        rho = rounds * 2 * ratio**2
        bounds = [ball, any_set, zcdp_leakage(rho).mutual_information]
        assert ball <= any_set <= bounds[2]
    assert seen - 3 * error < min(bounds) * NATS_PER_BIT
    assert seen > 0


def test_one_gaussian_contribution_at_low_signal_tells_what_the_bound_says():
    """A record of two values, sigma ten times the clip: within 1 %. The log of cosh alone is simulated, the rest of the
    mutual information is known."""
    ratio, rng = 0.1, np.random.default_rng(4)
    answers = ratio + rng.normal(size=400_000)  # in units of sigma; the other value is its mirror image
    logs = np.logaddexp(ratio * answers, -ratio * answers) - np.log(2)
    seen, error = ratio**2 - float(logs.mean()), float(logs.std() / len(logs) ** 0.5)
    bound = gaussian_bits(2 * ratio, 1.0, 1) * NATS_PER_BIT
    assert error < 0.004 * bound
    assert seen == pytest.approx(bound, rel=0.01)
    assert gaussian_bits(2 * ratio, 1.0, 1) == gaussian_bits(2 * ratio, 1.0, 1, ball=True)


def test_a_bound_with_half_the_clip_lies_below_what_is_told():
    """The mutant that takes half of the sensitivity as a diameter."""
    rng = np.random.default_rng(17)
    seen, error = told(np.array([[1.0], [-1.0]]), 1, 2.0, False, rng)
    assert seen - 3 * error > gaussian_bits(1.0, 2.0, 1) * NATS_PER_BIT


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-9, 0.3, 0.999999, 1.0, 30.0, 1e308])
@pytest.mark.parametrize("values", [2, 3, 10**18, None])
def test_bounds_are_above_the_truth_for_any_epsilon(epsilon, values):
    """Min-entropy beside 60 decimals, and nothing that is above 0 is called 0."""
    found = pure_leakage(epsilon, values)
    assert 0 < found.mutual_information <= found.min_entropy
    with localcontext(prec=400):
        exact, two = Decimal(epsilon), Decimal(2).ln()
        beyond = -exact if values is None else ((1 + (values - 1) * (-exact).exp()) / values).ln()
        assert Decimal(found.min_entropy) >= -beyond / two
        assert found.min_entropy == pytest.approx(float(-beyond / two), rel=1e-10)
