"""Second moments under much noise: settled ones are nearer the truth whatever it is, and intervals are as wide as they
should be."""

from dataclasses import replace

import numpy as np
import pytest

from parley.losses.moments import covariances, shrunk_moments, solve

COEFFICIENTS, RUNS = np.array([0.5, -0.3, 0.2, 0.0, 0.4]), 600
ROW, COLUMN = np.triu_indices(6)
ALIKE = np.eye(5) / 3
SPREAD = np.diag([0.1, 0.2, 0.3, 0.4, 0.5])
TURNED = (lambda Q: Q @ SPREAD @ Q.T)(np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0])


def noisy(A, deviation, norm, runs, law="normal"):
    """Moments [runs, 6, 6] of 6,000 records of residual variance 1/12, their draw and the noise included."""
    rng = np.random.default_rng(5)
    b = A @ COEFFICIENTS
    exact = np.block([[A, b[:, None]], [b[None, :], np.array([[COEFFICIENTS @ b + 1 / 12]])]])
    draw = rng.multivariate_normal(np.zeros(5), A / 12 / 6000, runs)
    if law == "normal":
        packed = rng.normal(0, deviation, (runs, len(ROW)))
    else:
        packed = rng.laplace(0, deviation * np.sqrt(3 / 2), (3, runs, len(ROW))).mean(axis=0)
    found = np.tile(exact, (runs, 1, 1))
    found[:, :5, 5] += draw
    found[:, 5, :5] += draw
    noise = np.zeros_like(found)
    noise[:, ROW, COLUMN] = noise[:, COLUMN, ROW] = packed / np.where((norm == "l2") & (ROW != COLUMN), np.sqrt(2), 1.0)
    return found + noise


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("A", [ALIKE, SPREAD, TURNED])
@pytest.mark.parametrize("deviation", [0.005, 0.05, 0.5])
def test_settled_moments_are_nearer_whatever_the_truth(A, norm, deviation):
    """By the mean square of the packed numbers, which have equal noise. A rule for the wrong layout shrinks by another
    share."""
    raw = noisy(A, deviation, norm, RUNS)[:, :5, :5]
    calm, kept = shrunk_moments(raw, deviation, norm)
    each = np.where(np.eye(5) > 0, 1.0, 0.5 if norm == "l1" else 1.0)
    before, after = (np.einsum("nij,nij,ij->n", M - A, M - A, each) for M in (raw, calm))
    assert after.mean() < before.mean()
    assert before.mean() == pytest.approx(15 * deviation**2, rel=0.05)
    if A is ALIKE:  # all that varies is noise
        assert kept.mean() < 0.35
        assert after.mean() < 0.35 * before.mean()
    elif deviation == 0.005:
        assert kept.min() > 0.9


def test_without_noise_nothing_changes_and_two_columns_are_too_few():
    calm, kept = shrunk_moments(SPREAD, 0.0, "l1")
    np.testing.assert_array_equal(calm, SPREAD)
    assert kept == 1
    few = np.array([[1.0, 0.1], [0.1, 1.1]])
    np.testing.assert_allclose(shrunk_moments(few, 0.5, "l2")[0], few)


def covered(A, deviation, norm, law, kept=None, runs=RUNS, noise=1.0):
    """The share of 90 % intervals that hold the coefficient. `kept`, `noise`: mutants."""
    hits = []
    for moments in noisy(A, deviation, norm, runs, law):
        solved = solve(moments, 5, deviation, norm, 0.0)
        solved = solved if kept is None else replace(solved, kept=np.array(kept))
        covariance, _ = covariances(moments, solved, noise * deviation, norm, 6000)
        hits.append(np.abs(solved.theta[0] - COEFFICIENTS) <= 1.645 * np.sqrt(np.diag(covariance[0])))
    return float(np.mean(hits))


@pytest.mark.parametrize(("norm", "law"), [("l1", "laplace"), ("l1", "normal"), ("l2", "normal")])
@pytest.mark.parametrize("deviation", [0.047, 0.024, 0.008])
def test_intervals_hold_as_often_as_they_say(norm, law, deviation):
    """Deviations as at epsilon 0.5, 1 and 3 of three owners with 2,000 records; the largest drowns a tenth of A."""
    assert 0.87 < covered(ALIKE, deviation, norm, law) < 0.93


def test_mutants_do_not():
    """All of A's noise counted again after it was settled; none of it; half of all noise."""
    assert covered(ALIKE, 0.047, "l1", "laplace", kept=1.0) > 0.93
    assert covered(10 * ALIKE, 0.4, "l1", "laplace", noise=0.5) < 0.8
    assert covered(ALIKE, 0.047, "l1", "laplace", noise=0.5) < 0.75


def test_doubt_of_lifted_moments_counts_what_was_drowned():
    """A direction with a fiftieth of the variance, under noise of its size: what was drawn towards 0 does not show in
    the model."""
    A = np.diag([0.01, 0.3, 0.4, 0.5, 0.6])
    hits = []
    for moments in noisy(A, 0.03, "l1", 300, "laplace"):
        solved = solve(moments, 5, 0.03, "l1", 0.0)
        if not solved.lift > 0:
            continue
        covariance, _ = covariances(moments, solved, 0.03, "l1", 6000)
        bare, _ = covariances(moments, replace(solved, lift=np.array(0.0)), 0.03, "l1", 6000)
        away = abs(solved.theta[0, 0] - COEFFICIENTS[0])
        hits.append([away <= 1.645 * np.sqrt(c[0, 0, 0]) for c in (covariance, bare)])
    assert len(hits) > 200
    counted, not_counted = np.mean(hits, axis=0)
    assert counted > not_counted + 0.15


def test_a_direction_lost_among_the_noise_is_said_to_be_lost_though_settling_hides_it():
    """Twenty columns, two of them nearly one another: drawn to a multiple of the identity A looks clear of the noise,
    and is not."""
    width, deviation, lifts = 20, 0.03, []
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        X = rng.uniform(-1, 1, (2000, width))
        X[:, 1] = 0.8 * X[:, 0] + 0.2 * X[:, 1]
        Z = np.column_stack([X, X[:, 0] - X[:, 1]])
        noise = np.triu(deviation * rng.normal(size=(width + 1, width + 1)))
        solved = solve(Z.T @ Z / len(Z) + noise + np.triu(noise, 1).T, width, deviation, "l1", 0.0)
        assert solved.drowned
        lifts.append(float(solved.lift))
    assert min(lifts) == 0  # so the lift alone would have said that nothing was lost
    clear = solve(Z.T @ Z / len(Z), width, 1e-5, "l1", 0.0)
    assert not clear.drowned
