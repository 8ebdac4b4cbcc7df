import numpy as np
import pytest

from parley.decisions.expectation.error_moments import error_moments
from parley.learning.algorithms.averaged_subgradient import AveragedSubgradient
from parley.learning.algorithms.gradient_descent import GradientDescent
from parley.losses import LinearRegression, LinearSVM
from parley.losses.objective import Origin


def published_moments(T, c, curvature, start, variance):
    """The recursion of the specification for Algorithm 2, written out: m <- A m, C <- A C A' + diag(rho^2 v, 0)."""
    s = T**-0.5
    m, C = np.array([start, 0.0]), np.zeros((2, 2))
    for k in range(1, T + 1):
        rho = c / k**0.5
        A = np.array([[1 - rho * curvature, 0.0], [(s + 1) / (s + k), (k - 1) / (s + k)]])
        m, C = A @ m, A @ C @ A.T + np.diag([rho**2 * variance, 0.0])
    k = T + 1
    A = np.array([[0.0, 0.0], [(s + 1) / (s + k), (k - 1) / (s + k)]])
    return (A @ m)[1], (A @ C @ A.T)[1, 1]


@pytest.mark.parametrize(("T", "c"), [(1, 0.3), (7, 0.5), (60, 0.2)])
def test_algorithm_2_has_the_moments_of_the_recursion(T, c):
    curvature, start, r = np.array([0.1, 1.0, 3.0]), np.array([1.0, -2.0, 0.5]), 0.4
    moments = error_moments(AveragedSubgradient(LinearRegression(r), T, None, c), curvature, start)
    for j in range(3):
        mean, variance = published_moments(T, c, curvature[j] + r, start[j], 1.7)
        assert moments.bias[-1, j] == pytest.approx(mean, rel=1e-10)
        assert 1.7 * moments.gain[-1, j] == pytest.approx(variance, rel=1e-10)


def test_errors_know_nothing_of_where_a_penalty_pulls():
    curvature, start = np.array([0.1, 1.0]), np.array([1.0, -2.0])
    plain, pulled = (
        error_moments(GradientDescent(LinearRegression(0.4, origin), 7, None, 0.5, decay=0.0), curvature, start)
        for origin in (None, Origin(np.array([3.0, -5.0])))
    )
    assert np.array_equal(plain.bias, pulled.bias)
    assert np.array_equal(plain.gain, pulled.gain)


@pytest.mark.parametrize("kind", [AveragedSubgradient, GradientDescent])
def test_the_moments_are_those_of_the_algorithm_itself(kind):
    """4,000 runs of the algorithm's own code on a quadratic, at several rounds, in standard errors; half the noise is
    noticed."""
    T, curvature, start = 20, np.array([0.5, 2.0]), np.array([1.0, -1.0])
    step = 0.3 if kind is AveragedSubgradient else 0.4 * T**2
    algorithm = kind(LinearSVM(0.2), T, None, step)
    moments = error_moments(algorithm, curvature, start)
    rng = np.random.default_rng(0)
    state = algorithm.start(np.zeros(2), (4000,))
    state = type(state)(1, state.theta + start, state.memory)
    for k in range(1, T + 1):
        noise = rng.laplace(scale=0.7, size=state.theta.shape)
        state = algorithm.update(state, curvature * state.theta + noise)
        if k in (1, 5, T):
            model = algorithm.model(state)
            variance = 2 * 0.7**2 * moments.gain[k - 1]
            assert (np.abs(model.mean(axis=0) - moments.bias[k - 1]) < 4.5 * np.sqrt(variance / 4000) + 1e-12).all()
            ratio = model.var(axis=0)[variance > 0] / variance[variance > 0]
            assert (np.abs(ratio - 1) < 0.15).all()
