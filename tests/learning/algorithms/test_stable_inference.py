"""Federated inference from answers with stable noise: exact without noise, intervals that cover, and rules that would
not."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley.learning.algorithms.stable_inference import StableAnswers, infer_stable
from parley.privacy.mechanisms import FastNoise

COEFFICIENTS, ROW, COLUMN = np.array([0.5, -0.3, 0.2, 0.0, 0.4]), *np.triu_indices(6)


def moments(rng, rows):
    X = rng.uniform(-1, 1, (rows, 5))
    z = np.column_stack([X, X @ COEFFICIENTS + rng.uniform(-0.5, 0.5, rows)])
    return (z.T @ z / rows)[ROW, COLUMN]


def answers_of(rng, alpha, scale, times, sizes=(2000, 2000, 2000)):
    noise = FastNoise(rng)
    return [
        StableAnswers(noise.stable(np.tile(moments(rng, rows), (times, 1)), alpha, scale), scale, rows)
        for rows in sizes
    ]


def covered(alpha, scale, times, runs, change=lambda answers: answers):
    hits = []
    for seed in range(runs):
        answers = change(answers_of(np.random.default_rng([5, seed]), alpha, scale, times))
        low, high = np.moveaxis(infer_stable(answers, alpha, 5).intervals()[0], -1, 0)
        hits.append((low <= COEFFICIENTS) & (high >= COEFFICIENTS))
    return float(np.mean(hits))


def test_without_noise_it_is_the_pooled_fit_by_records():
    rng = np.random.default_rng(0)
    parts = [(moments(rng, rows), rows) for rows in (300, 100)]
    answers = [
        StableAnswers(np.tile(value, (m, 1)), 1e-12, rows) for (value, rows), m in zip(parts, (1, 3), strict=True)
    ]
    model = infer_stable(answers, 1.5, 5)
    S = np.zeros((6, 6))
    S[ROW, COLUMN] = S[COLUMN, ROW] = (3 * parts[0][0] + parts[1][0]) / 4
    np.testing.assert_allclose(model.theta[0], np.linalg.solve(S[:5, :5], S[:5, 5]), atol=1e-8)


@pytest.mark.parametrize(("alpha", "times"), [(1.5, 1), (1.9, 1), (1.5, 4)])
def test_intervals_cover_the_population(alpha, times):
    """40 runs of five coefficients: at least 0.9 less three standard errors; heavy tails make intervals a little wide,
    never narrow."""
    found = covered(alpha, 0.006, times, 40)
    assert 0.9 - 3 * np.sqrt(0.09 / 200) < found < 0.97


def test_means_of_answers_under_heavy_tails_do_not_cover():
    """The mutant hears an owner by the mean of its answers, as if nine were three times as sure as one."""

    def averaged(answers):
        return [
            StableAnswers(each.values.mean(axis=0, keepdims=True), each.scale / 3, each.records) for each in answers
        ]

    assert covered(1.0, 0.002, 9, 30, averaged) < 0.8
    assert covered(1.0, 0.002, 9, 30) > 0.84


def test_intervals_of_half_the_noise_do_not_cover():
    def hushed(answers):
        return [StableAnswers(each.values, each.scale / 2, each.records) for each in answers]

    assert covered(1.9, 0.006, 1, 40, hushed) < 0.75


def test_a_mean_is_less_sure_than_a_location():
    """Under the Cauchy law nine answers' mean is as uncertain as one; their location is nearly three times as sure."""
    rng = np.random.default_rng(0)
    once, often = (infer_stable(answers_of(rng, 1.0, 0.002, times), 1.0, 5).intervals()[0] for times in (1, 9))
    assert np.median(np.diff(often)) < 0.4 * np.median(np.diff(once))


def test_gaussian_noise_and_odd_levels_are_sent_elsewhere():
    answers = answers_of(np.random.default_rng(0), 1.5, 0.01, 1)
    with pytest.raises(SettingError, match="mechanism = 'gaussian'"):
        infer_stable(answers, 2.0, 5)
    with pytest.raises(SettingError, match="level"):
        infer_stable(answers, 1.5, 5).intervals(1.0)
