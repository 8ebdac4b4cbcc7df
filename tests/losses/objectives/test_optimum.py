import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.linear_model import Ridge

from parley.data import Design
from parley.errors import SettingError
from parley.losses import LinearRegression, LinearSVM, LogisticRegression


def designs(seed=0, n=400, p=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ np.diag([1, 2, 0.5, 1])
    y = np.where(X @ [1, -1, 0.5, 0] + rng.normal(size=n) > 0.3, 1.0, -1.0)
    w = np.where(y > 0, 3.0, 1.0)
    return [Design(X[:150], y[:150], w[:150]), Design(X[150:], y[150:], w[150:])], (X, y, w)


def total(objective, parts, theta):
    n = sum(len(d) for d in parts)
    return sum(len(d) / n * float(objective.cost(d, theta)) for d in parts)


def test_regression_equals_ridge():
    parts, (X, y, w) = designs()
    reference = Ridge(alpha=0.4 * len(y) / 2, fit_intercept=False).fit(X, y, sample_weight=w).coef_
    np.testing.assert_allclose(LinearRegression(0.4).optimum(parts), reference, rtol=1e-9)


def test_logistic_equals_scikit_learn():
    parts, (X, y, w) = designs()
    solver = SklearnLogistic(C=1 / (0.05 * len(y)), fit_intercept=False, tol=1e-12, max_iter=10_000)
    reference = solver.fit(X, y, sample_weight=w).coef_[0]
    theta = LogisticRegression(0.05).optimum(parts)
    np.testing.assert_allclose(theta, reference, rtol=1e-5, atol=1e-7)
    objective = LogisticRegression(0.05)
    gradient = sum(len(d) / len(y) * objective.mean_gradient(d, theta) for d in parts) + objective.penalty_gradient(
        theta
    )
    assert np.abs(gradient).max() < 1e-8


@pytest.mark.parametrize("regularisation", [1.0, 0.01])
def test_the_svm_agrees_with_its_certified_smoothing(regularisation, monkeypatch):
    parts, _ = designs()
    objective = LinearSVM(regularisation)
    dual = total(objective, parts, objective.optimum(parts))
    monkeypatch.setattr(LinearSVM, "_liblinear", lambda *_: None)
    smooth = total(objective, parts, objective.optimum(parts))
    assert dual == pytest.approx(smooth, rel=1e-9)


def test_no_direction_leads_below_the_svm_optimum():
    parts, _ = designs()
    objective = LinearSVM(0.1)
    theta = objective.optimum(parts)
    rng = np.random.default_rng(0)
    best = total(objective, parts, theta)
    for size in (1e-6, 1e-3, 0.1):
        for direction in rng.normal(size=(30, 4)):
            assert total(objective, parts, theta + size * direction) >= best - 1e-11


@pytest.mark.parametrize("objective", [LinearRegression(), LogisticRegression(), LinearSVM(0.01), LinearSVM(0.0)])
def test_inside_a_box_that_binds_nothing_feasible_is_better(objective):
    parts, _ = designs()
    theta = objective.optimum(parts, radius=0.2)
    assert np.abs(theta).max() == pytest.approx(0.2)
    best = total(objective, parts, theta)
    rng = np.random.default_rng(1)
    for direction in rng.normal(size=(200, 4)) * 0.05:
        assert total(objective, parts, np.clip(theta + direction, -0.2, 0.2)) >= best - 1e-9


def test_classes_that_separate_have_no_optimum_and_the_message_says_what_to_do():
    X = np.array([[-1.0], [1.0]] * 10)
    design = Design(X, X[:, 0], np.ones(20))
    theta = LogisticRegression().optimum([design], radius=3.0)
    assert theta[0] == 3.0
    flat = LogisticRegression(1e-3).optimum([design])
    assert 1 < flat[0] < 20
    with pytest.raises(SettingError, match=r"set model\.radius"):
        LogisticRegression().optimum([design])
