"""Many pulled models at once: the same minimisers whatever second derivatives their steps begin with."""

import numpy as np
import pytest

from parley.data import Design
from parley.learning.outcome import shrinkage as module
from parley.learning.outcome.shrinkage import curvatures, pulled
from parley.losses import LinearRegression, LinearSVM, LogisticRegression


@pytest.fixture
def batch():
    """(rows, rows without the only ones of a rare name, centres, strengths)."""
    rng = np.random.default_rng(0)
    rare = np.zeros(600)
    rare[:5] = 1.0
    X = np.column_stack([rng.normal(size=(600, 4)), rare, np.ones(600)])
    y = np.where(rng.random(600) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.3, 0.0, 2.0, -1.0])), 1.0, -1.0)
    rows = Design(X, y, np.ones(600))
    strengths = np.repeat(np.geomspace(1e-6, 10.0, 9)[:, None], 6, axis=1)
    return rows, rows.where(np.arange(5, 600)), 0.1 * rng.normal(size=(9, 6)), strengths


def exact(rows, centres, strengths):
    """Each by itself, to the last digits."""
    from scipy.optimize import minimize

    objective, found = LogisticRegression(), []
    for centre, strength in zip(centres, strengths, strict=True):

        def cost(theta, centre=centre, strength=strength):
            value = float(objective.cost(rows, theta)) + 0.5 * float(strength @ (theta - centre) ** 2)
            return value, objective.mean_gradient(rows, theta) + strength * (theta - centre)

        found.append(minimize(cost, centre, jac=True, method="BFGS", options={"gtol": 1e-9}).x)
    return np.array(found)


def test_second_derivatives_of_other_rows_lead_to_the_same_models(batch):
    """Of all rows, for fits without a rare name's: by those alone its coefficient would hardly move from where it
    was."""
    rows, fewer, centres, strengths = batch
    objective = LogisticRegression()
    whole = pulled(objective, rows, centres, strengths)
    lent = curvatures(objective, rows, whole)
    plain, quick = (pulled(objective, fewer, centres, strengths, whole, curves) for curves in (None, lent))
    truth = exact(fewer, centres, strengths)
    np.testing.assert_allclose(plain, truth, atol=2e-3)
    np.testing.assert_allclose(quick, truth, atol=2e-3)
    assert np.abs(whole[0, 4] - truth[0, 4]) > 0.5  # it does move


def test_fewer_second_derivatives_are_computed_where_some_are_lent(batch, monkeypatch):
    rows, _, centres, strengths = batch
    objective, counted = LogisticRegression(), []
    usual = module._curves

    def counting(objective, rows, theta):
        counted.append(len(theta))
        return usual(objective, rows, theta)

    monkeypatch.setattr(module, "_curves", counting)
    whole = pulled(objective, rows, centres, strengths)
    lent = curvatures(objective, rows, whole)
    fold = rows.where(np.arange(600) % 10 != 3)
    counted.clear()
    pulled(objective, fold, centres, strengths, whole)
    alone = sum(counted)
    counted.clear()
    pulled(objective, fold, centres, strengths, whole, lent)
    assert alone >= len(centres)
    assert sum(counted) < 0.5 * alone


def test_second_derivatives_are_kept_only_where_they_help_and_fit(batch, monkeypatch):
    from parley.losses import LinearRegression

    rows, _, centres, _ = batch
    assert curvatures(LinearRegression(), rows, centres) is None  # in closed form
    assert curvatures(LogisticRegression(), rows, centres).shape == (9, 6, 6)
    monkeypatch.setattr(module, "KEPT", 300)
    assert curvatures(LogisticRegression(), rows, centres) is None


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
