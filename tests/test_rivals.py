"""The methods that benchmarks/best_model.py compares with: are they what they say, and as private as they say?"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")


@pytest.fixture(scope="module")
def common():
    """The modules that benchmarks share; they are not part of the package."""
    sys.path.insert(0, BENCHMARKS)
    try:
        from common import books, linear, rivals

        yield books, linear, rivals
    finally:
        sys.path.remove(BENCHMARKS)


def some_rows(linear, count=300, classes=True, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((count, 3)) * [1.0, 2.0, 0.5], np.ones(count)])
    chance = expit(X @ [1.0, -0.5, 0.3, -1.0])
    y = (
        np.where(rng.random(count) < chance, 1.0, -1.0)
        if classes
        else X @ [1.0, -0.5, 0.3, 0.2] + rng.standard_normal(count)
    )
    return linear.Rows(X, y, classes)


@pytest.mark.parametrize("classes", [True, False])
def test_gradients_are_clipped_row_by_row(common, classes):
    _, linear, _ = common
    rows, theta, clips = (
        some_rows(linear, classes=classes),
        np.array([[0.3, 1.0, -2.0, 0.1], [0.0, 0.0, 0.0, 0.0]]),
        np.array([0.4, 1.5]),
    )
    expected = []
    for at, clip in zip(theta, clips, strict=True):
        each = rows.X * rows.derivatives(at)[:, None]
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        assert (norms > clip).any()
        expected.append((each * np.minimum(1, clip / norms)).mean(axis=0))
    assert rows.clipped_gradients(theta, clips) == pytest.approx(np.array(expected), rel=1e-4, abs=1e-6)


def test_thinned_rows_have_the_gradient_of_all_at_the_centre(common):
    _, linear, _ = common
    rows, centre = some_rows(linear, 3000), np.array([0.5, -0.2, 0.1, -0.8])
    few = rows.thinned(200, centre)
    assert len(few) == len(rows)
    assert len(few.X) == 200
    at, clips = centre[None, :], np.array([0.7])
    assert few.clipped_gradients(at, clips) == pytest.approx(rows.clipped_gradients(at, clips), abs=1e-6)
    assert few.within(1.0).clipped_gradients(at, clips) == pytest.approx(
        rows.within(1.0).clipped_gradients(at, clips), abs=1e-6
    )


def test_the_chosen_ridge_left_out_every_row_in_turn(common):
    _, linear, _ = common
    rows = some_rows(linear, 40, classes=False)
    errors = []
    for penalty in linear.PENALTIES:
        left = [np.delete(np.arange(40), i) for i in range(40)]
        models = [linear.ridge(rows.take(places), penalty) for places in left]
        errors.append(np.mean([(rows.X[i] @ model - rows.y[i]) ** 2 for i, model in enumerate(models)]))
    best = linear.ridge(rows, linear.PENALTIES[int(np.argmin(errors))])
    assert linear.chosen_ridge(rows) == pytest.approx(best, abs=1e-4)


def largest_delta(sigma, curvature_over_weight, epsilon, clip=1.0):
    """delta(eps) of perturbed objectives in one dimension by numerical integration, for rows x = 1 of different
    classes.

    The released theta has the density of b = -(gradient(theta) + weight theta), times the Jacobian.
    """
    theta = np.linspace(-400, 400, 800_001)
    weight = clip**2 / 4 / curvature_over_weight

    def density(y):
        b = -(-y * clip * expit(-y * clip * theta) + weight * theta)
        jacobian = clip**2 * expit(theta * clip) * expit(-theta * clip) + weight
        return np.exp(-((b / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi)) * jacobian

    p, q = density(1.0), density(-1.0)
    step = theta[1] - theta[0]
    assert p.sum() * step == pytest.approx(1, abs=1e-3)
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum() * step)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_objective_perturbation_keeps_its_promise_where_it_can_be_integrated(common, epsilon):
    """And would not with a fifth of the noise: in one dimension two rows never pull apart by more than half of what is
    allowed for."""
    _, _, rivals = common
    delta, share = 1e-3, 0.3
    ratio = rivals.objective_noise(epsilon * (1 - share), delta)
    curvature_over_weight = np.expm1(share * epsilon)
    assert largest_delta(2 * ratio, curvature_over_weight, epsilon) <= delta
    assert largest_delta(2 * ratio / 5, curvature_over_weight, epsilon) > delta


def test_noise_of_descent_is_that_of_all_its_steps(common):
    """At rate 1 and one step from 0, the model is minus the noisy mean gradient: its spread is the noise; more steps,
    more noise each."""
    _, linear, rivals = common
    rows, privacy = some_rows(linear), rivals.Privacy(1.0, 1e-6, owners=4)
    method, runs = rivals.GradientDescent(), 4000
    one = method.models(rows, [(0.5, 1.0, 1.0, 0.0)], privacy, runs, seed=0)[0]
    expected = privacy.unit * 2 * 0.5 / (len(rows) / 4) / np.sqrt(4)
    assert one.std(axis=0) == pytest.approx(np.full(4, expected), rel=4 / np.sqrt(2 * runs))
    far = method.models(rows, [(1e-6, 1.0, 9.0, 0.0)], privacy, runs, seed=0)[0]  # nine sums of noise alone
    assert far.std(axis=0) == pytest.approx(np.full(4, 9 * expected * 1e-6 / 0.5), rel=4 / np.sqrt(2 * runs))


def test_descent_may_begin_at_a_public_model(common):
    """One step of no length stays there; the noise of a step is the same from wherever it is taken."""
    _, linear, rivals = common
    rows, privacy, start = some_rows(linear), rivals.Privacy(1.0, 1e-6), np.array([0.5, -0.25, 0.125, -1.0])
    warm, cold = rivals.GradientDescent(start=start), rivals.GradientDescent()
    assert warm.models(rows, [(0.5, 0.0, 1.0, 0.0)], privacy, 2, seed=0)[0] == pytest.approx(np.tile(start, (2, 1)))
    moved = [method.models(rows, [(0.5, 1.0, 1.0, 0.0)], privacy, 50, seed=0)[0] for method in (warm, cold)]
    assert moved[0] - moved[0][0] == pytest.approx(moved[1] - moved[1][0], abs=1e-5)


def test_descent_in_other_coordinates_is_the_same_descent_there(common):
    """Noise is as large in those coordinates as in any; steps of length 1 without clip or noise, whitened by the
    Hessian, are nearly Newton's."""
    _, linear, rivals = common
    rows, start = some_rows(linear, 4000), np.array([0.9, -0.4, 0.3, -0.9])
    turn, settings = linear.whitening(rows, start), [(1e2, 1.0, 6.0, 0.0)]
    method = rivals.GradientDescent(start, turn)
    there = method.models(rows, settings, rivals.Privacy(1e6, 1e-6), 1, seed=0)[0, 0]
    assert there == pytest.approx(linear.ridge(rows, linear.TINY), abs=0.02)
    plain = rivals.GradientDescent(np.linalg.solve(turn, start))
    privacy = rivals.Privacy(1.0, 1e-6)
    found = method.models(rows, [(0.5, 1.0, 3.0, 1.0)], privacy, 5, seed=1)
    assert found == pytest.approx(plain.models(rows.turned(turn), [(0.5, 1.0, 3.0, 1.0)], privacy, 5, seed=1) @ turn.T)
    few = rows.thinned(200, start).turned(turn)
    at, clips = np.linalg.solve(turn, start)[None, :], np.array([0.7])
    assert few.clipped_gradients(at, clips) == pytest.approx(rows.turned(turn).clipped_gradients(at, clips), abs=1e-6)


def test_statistics_are_those_of_the_rows_but_for_noise(common):
    _, linear, rivals = common
    rows = some_rows(linear, 5000, classes=False)
    found = rivals.Statistics().models(rows, [(20.0, 20.0, 0.0)], rivals.Privacy(1e6, 1e-6), 3, seed=0)[0]
    assert found == pytest.approx(np.tile(linear.ridge(rows, linear.TINY), (3, 1)), abs=0.2)


def test_coding_by_hand_looks_at_public_rows_alone(common):
    books, _, _ = common
    rows = pd.DataFrame({"n": [1.0, np.nan, 3.0, 100.0, np.nan], "c": ["a", "b", None, "z", "a"], "y": [0, 1, 0, 1, 1]})
    book = books.Book("some", "logistic-regression", "y", ("n",), ("n",), ("c",), rows)
    coded = book.one_hot(3)
    assert list(coded) == ["n", "n?", "c=?", "c=a", "c=b", "y"]
    assert coded["n"].tolist() == pytest.approx(np.log1p([1, 2, 3, 100, 2]).tolist())
    assert coded.iloc[3][["c=?", "c=a", "c=b"]].tolist() == [0, 0, 0]
