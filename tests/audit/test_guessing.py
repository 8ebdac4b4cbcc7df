"""Guesses of coins: what they prove stays below the truth, and near it where the law is known."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from parley.audit.distinguishing import Guess, best_guess, proved_by_guesses

DELTA = 1e-5
MEAN = brentq(lambda m: norm.cdf(-1 / m + m / 2) - math.e * norm.cdf(-1 / m - m / 2) - DELTA, 0.05, 1)  # at epsilon 1


def proved(mean, runs, rng, delta, confidence):
    """What runs by two normal laws, this far apart, prove: chosen on a quarter of them, counted by coins."""
    chosen = best_guess(rng.normal(size=runs // 4), mean + rng.normal(size=runs // 4), delta, confidence)
    by_b = rng.binomial(2 * runs, 0.5)
    seen = chosen.right(rng.normal(size=2 * runs - by_b), mean + rng.normal(size=by_b))
    return float(proved_by_guesses(*seen, 2 * runs, delta, confidence))


def test_gaussian_runs_prove_more_than_a_half_by_every_seed_and_never_the_whole():
    found = [proved(MEAN, 200_000, np.random.default_rng(seed), DELTA, 0.999) for seed in range(8)]
    assert min(found) > 0.5
    assert max(found) < 1


def test_the_worst_release_of_a_claim_is_shown_to_cost_too_much_as_rarely_as_is_said():
    """With probability delta it tells the table, else it answers right by randomised response: no sharper one has the
    same epsilon and delta. 4,000 audits of 2,000 runs fail at 90 % within four standard errors of a tenth at most."""
    rng, audits, runs, delta = np.random.default_rng(1), 4000, 2000, 0.02
    for epsilon in (0.0, 0.5, 2.0):
        told = rng.binomial(runs, delta, audits)
        right = told + rng.binomial(runs - told, math.exp(epsilon) / (1 + math.exp(epsilon)))
        broken = np.mean(proved_by_guesses(right, np.full(audits, runs), runs, delta, 0.9) > epsilon)
        assert broken <= 0.1 + 4 * math.sqrt(0.09 / audits)
        careless = np.mean(proved_by_guesses(right, np.full(audits, runs), runs, 0.0, 0.9) > epsilon)
        assert careless > 0.13  # a bound that forgets delta fails


def test_runs_that_differ_in_nothing_prove_nothing():
    rng = np.random.default_rng(2)
    assert max(proved(0.0, 2000, rng, 0.0, 0.99) for _ in range(50)) < 0.5
    assert sum(proved(0.0, 2000, rng, 0.0, 0.99) > 0 for _ in range(200)) <= 8  # 2 expected


def test_a_statistic_may_speak_against_b_or_at_one_end_alone():
    a, b = np.zeros(1000), np.concatenate([np.zeros(900), np.ones(100)])
    assert best_guess(a, b, 0.0, 0.99).right(a, b) == (100, 100)
    assert best_guess(-a, -b, 0.0, 0.99).right(-a, -b) == (100, 100)
    apart = best_guess(a, a + 1, 0.0, 0.99)
    assert apart.right(a, a + 1) == (2000, 2000)
    assert Guess(0.0, 0.0).right(np.zeros(3), np.zeros(4)) == (4, 7)  # never both


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_more_right_guesses_prove_more(delta):
    found = proved_by_guesses(np.arange(1001), np.full(1001, 1000), 2000, delta, 0.99)
    assert (np.diff(found) >= 0).all()
    assert found[500] == 0 < found[600] < found[-1] < math.log(1000)
