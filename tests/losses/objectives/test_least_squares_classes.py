"""Classes by least squares: gradients, the clip of local steps, and how far one record can go."""

import numpy as np
import pytest

from parley.data import Design
from parley.losses import LeastSquaresClasses, RecordBound


def random_design(n=30, p=4, classes=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return Design(rng.normal(0, scale, (n, p)), rng.integers(0, classes, n).astype(float), np.ones(n))


def test_gradient_and_hessian_are_those_of_the_cost():
    design, objective = random_design(), LeastSquaresClasses(0.3)
    theta = np.random.default_rng(1).normal(size=12)
    away = np.eye(12) * 1e-6
    gradient = (objective.cost(design, theta + away) - objective.cost(design, theta - away)) / 2e-6
    np.testing.assert_allclose(
        objective.mean_gradient(design, theta) + objective.penalty_gradient(theta), gradient, atol=1e-7
    )
    hessian = (objective.mean_gradient(design, theta + away) - objective.mean_gradient(design, theta - away)) / 2e-6
    np.testing.assert_allclose(objective.hessian(design, theta), hessian + 0.3 * np.eye(12), atol=1e-7)


def test_the_optimum_is_the_normal_equations():
    design, objective = random_design(), LeastSquaresClasses(0.2)
    Y = np.eye(3)[design.y.astype(int)]
    best = np.linalg.solve(2 * design.X.T @ design.X / 30 + 0.2 * np.eye(4), 2 * design.X.T @ Y / 30).T
    np.testing.assert_allclose(objective.optimum([design]), best.ravel(), atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_no_record_of_a_local_step_measures_more_than_the_clip(seed):
    """Rows of any size, parameters of any size; half the clip would be exceeded."""
    rng = np.random.default_rng(seed)
    bound, objective, largest = RecordBound(1.5, "l2", clips=True), LeastSquaresClasses(), 0.0
    for _ in range(200):
        design = random_design(1, scale=10.0 ** rng.uniform(-3, 3), seed=int(rng.integers(10**6)))
        theta = rng.normal(size=12) * 10.0 ** rng.uniform(-3, 3)
        largest = max(largest, float(np.linalg.norm(objective.local_gradient(design, theta, bound))))
    assert 0.75 < largest <= 1.5


def test_clipped_steps_bring_no_two_points_apart():
    """Along the local gradient steps of 2/L are non-expansive; along gradients clipped as a whole they need not be."""
    rng, bound, objective = np.random.default_rng(0), RecordBound(0.5, "l2", clips=True), LeastSquaresClasses()
    worst = 0.0
    for seed in range(300):
        design = random_design(3, seed=seed)
        step = 2 / (2 * float(np.linalg.eigvalsh(design.statistics[0])[-1]))
        a, d = rng.normal(size=12), rng.normal(size=12) * 10.0 ** rng.uniform(-3, 0)
        moved = [w - step * objective.local_gradient(design, w, bound) for w in (a, a + d)]
        worst = max(worst, float(np.linalg.norm(moved[0] - moved[1]) / np.linalg.norm(d)))
    assert 0.9 < worst <= 1 + 1e-9
