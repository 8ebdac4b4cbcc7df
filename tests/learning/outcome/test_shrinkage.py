"""Many pulled models at once are those that a direct solve finds one by one."""

import numpy as np
import pytest

from parley.data import Design
from parley.learning.outcome import shrinkage as module
from parley.learning.outcome.shrinkage import Curvature, pulled, without_each
from parley.losses import LinearRegression, LinearSVM, LogisticRegression
from parley.losses.objectives.newton import projected_newton

SQUARED, LOGISTIC = LinearRegression(), LogisticRegression()


def batch(objective, free: bool):
    """(weighted rows with leaves of trees, a rare name and an intercept, centres, strengths): every tree's leaves add
    up to the intercept, which is pulled less than the others where it is free."""
    rng = np.random.default_rng(0)
    leaves = np.eye(4)[rng.integers(0, 4, (5, 600))].transpose(1, 0, 2).reshape(600, 20)
    X = np.column_stack([leaves, np.arange(600) % 120 == 0, rng.normal(size=(600, 2)), np.ones(600)])
    raw = X @ rng.normal(size=24)
    y = raw + rng.normal(size=600) if objective.quadratic else np.where(rng.logistic(size=600) < raw, 1.0, -1.0)
    strengths = np.repeat(np.tile(np.geomspace(1e-5, 10.0, 6), 2)[:, None], 24, axis=1)
    strengths[:, -1] = np.minimum(strengths[:, -1], 1e-3) if free else strengths[:, -1]
    return Design(X, y, rng.uniform(0.5, 2.0, 600)), np.repeat(rng.normal(size=(2, 24)), 6, axis=0), strengths


def direct(objective, rows, centres, strengths):
    """Each by itself, by a linear system in every step of Newton's method."""
    return np.array(
        [
            projected_newton(
                lambda t, c=c, s=s: float(objective.cost(rows, t)) + 0.5 * float(s @ (t - c) ** 2),
                lambda t, c=c, s=s: objective.mean_gradient(rows, t) + s * (t - c),
                lambda t, s=s: objective.hessian(rows, t) + np.diag(s),
                c,
                np.inf,
            )
            for c, s in zip(centres, strengths, strict=True)
        ]
    )


def apart(objective, rows, found, truth):
    """By how much raw predictions differ at most."""
    return np.abs(objective.scores(rows.X, found) - objective.scores(rows.X, truth)).max()


@pytest.mark.parametrize("free", [False, True], ids=["intercept pulled", "intercept free"])
@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC], ids=["least squares", "logistic"])
def test_one_decomposition_for_all_models_finds_those_of_a_direct_solve(objective, free, monkeypatch):
    """From the centres, and from models of nearly the same rows with second derivatives by `without_each`. Mutants:
    least squares that pulls parameters as strongly as the others pulls a free intercept too much; a search that stops
    after a step with common second derivatives is not there yet."""
    rows, centres, strengths = batch(objective, free)
    parts = [rows.where(np.arange(600) % 5 == k) for k in range(5)]  # all rare names are in the first
    fewer, whole = rows.where(np.arange(600) % 5 != 0), pulled(objective, rows, centres, strengths)
    second = without_each(objective, parts, whole)[0]
    truth = direct(objective, fewer, centres, strengths)
    near = 1e-9 if objective.quadratic else 1e-3
    assert apart(objective, fewer, pulled(objective, fewer, centres, strengths), truth) < near
    assert apart(objective, fewer, pulled(objective, fewer, centres, strengths, whole, second), truth) < near
    assert apart(objective, fewer, whole, truth) > 0.1
    if not objective.quadratic:
        monkeypatch.setattr(module, "DECREASE_TOLERANCE", np.inf)
    elif free:
        usual = Curvature.solved
        monkeypatch.setattr(Curvature, "solved", lambda c, g, s: usual(c, g, np.maximum(s, s.max(axis=1)[:, None])))
    else:
        monkeypatch.setattr(module, "_second", lambda objective, rows, theta: 1.01 * objective.hessian(rows, theta))
    assert apart(objective, fewer, pulled(objective, fewer, centres, strengths), truth) > 10 * near


@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC], ids=["least squares", "logistic"])
def test_second_derivatives_without_a_part_are_those_of_the_other_rows(objective):
    rows, centres, _ = batch(objective, free=False)
    for k, second in enumerate(
        without_each(objective, [rows.where(np.arange(600) % 5 == j) for j in range(5)], centres)
    ):
        expected = objective.hessian(rows.where(np.arange(600) % 5 != k), centres[6])
        np.testing.assert_allclose(second, expected, atol=1e-13)
    assert without_each(objective, [rows.where(np.array([j])) for j in range(2)], centres) == [None, None]


@pytest.mark.parametrize("objective", [LinearRegression(), LogisticRegression()], ids=["least squares", "logistic"])
@pytest.mark.parametrize("many", [1, 30, 59, 61, 400])
def test_rows_fewer_than_parameters_have_the_same_models(objective, many):
    """The gradient of mean loss and pull vanishes, in the space that rows span as among all parameters; an intercept is
    pulled less than the others by some models."""
    rng = np.random.default_rng(many)
    X = np.column_stack([rng.random((many, 120)) < 0.1, np.ones(many)]).astype(float)
    rows = Design(X, np.where(rng.random(many) < 0.4, 1.0, -1.0), np.ones(many))
    centres, strengths = 0.3 * rng.normal(size=(6, 121)), np.repeat(np.geomspace(1e-3, 10.0, 6)[:, None], 121, axis=1)
    strengths[:4, -1] = 1e-3
    found = pulled(objective, rows, centres, strengths)
    left = objective.mean_gradient(rows, found) + strengths * (found - centres)
    assert np.abs(left).max() < (1e-12 if objective.quadratic else 1e-5)
    assert np.abs(found - centres).max() > 0.01


@pytest.mark.parametrize("weight", [1e-6, 1e-2])
def test_few_rows_have_the_same_models_wherever_the_search_begins(weight):
    """From the centres, from models of nearly the same rows, and from far away; classes are apart, so that a weak pull
    lets margins grow. A mutant that keeps a start as it is stays there."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=(40, 90)), np.ones(40)])
    rows = Design(X, np.where(X[:, 0] > 0, 1.0, -1.0), rng.uniform(0.5, 2.0, 40))
    centres, strengths = 0.1 * rng.normal(size=(3, 91)), np.full((3, 91), weight)
    strengths[:, -1] = 1e-7
    objective = LogisticRegression()
    near = pulled(objective, rows.where(np.arange(40) > 3), centres, strengths)
    for starts in (None, near, 50.0 * rng.normal(size=(3, 91))):
        found = pulled(objective, rows, centres, strengths, starts)
        left = objective.mean_gradient(rows, found) + strengths * (found - centres)
        assert np.abs(left).max() < 1e-4 * strengths.max() * np.abs(found - centres).max() + 1e-9


def test_few_rows_of_a_loss_with_flat_parts_have_their_models_too():
    """The smoothed hinge has no curvature far from the corner: rows there ask for nothing."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 100))
    rows = Design(X, np.where(X[:, 0] + rng.normal(size=30) > 0, 1.0, -1.0), np.ones(30))
    objective, strengths = LinearSVM(0.0).smoothed, np.repeat(np.geomspace(0.1, 100.0, 4)[:, None], 100, axis=1)
    found = pulled(objective, rows, np.zeros((4, 100)), strengths)
    left = objective.mean_gradient(rows, found) + strengths * found
    assert np.abs(left).max() < 1e-4
    assert np.abs(found).max() > 1e-3
