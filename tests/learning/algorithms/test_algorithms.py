import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.averaged_subgradient import AveragedSubgradient
from parley.learning.algorithms.gradient_descent import GradientDescent
from parley.losses import LinearRegression, LinearSVM
from parley.protocol.stages import Schedule


def answers(rounds, width, seed=0):
    return np.random.default_rng(seed).normal(size=(rounds, width))


def test_algorithm_2_is_the_published_recursion_with_all_rounds_and_one_more_average():
    T, c, radius, r = 7, 0.4, 0.8, 0.5
    noise = answers(T, 3)
    theta, bar = {1: np.zeros(3)}, {1: np.zeros(3)}
    s = 1 / np.sqrt(T)
    for k in range(1, T + 1):
        theta[k + 1] = np.clip(theta[k] - c / np.sqrt(k) * (r * theta[k] + noise[k - 1]), -radius, radius)
        bar[k + 1] = (k - 1) / (s + k) * bar[k] + (s + 1) / (s + k) * theta[k]
    bar[T + 2] = T / (s + T + 1) * bar[T + 1] + (s + 1) / (s + T + 1) * theta[T + 1]

    algorithm = AveragedSubgradient(LinearSVM(r), T, radius, c)
    state, asker = algorithm.start(np.zeros(3)), Asker("t", "l", Schedule(("a", "b"), T))
    for k in range(1, T + 1):
        questions = algorithm.questions(state, asker)
        assert list(questions) == ["a", "b"]
        for query in questions.values():
            np.testing.assert_allclose(query.theta, theta[k])
            assert query.round == k
        state = algorithm.update(state, noise[k - 1])
    np.testing.assert_allclose(algorithm.model(state), bar[T + 2])
    assert np.abs(state.theta).max() <= radius


def test_algorithm_1_is_the_published_recursion_with_all_rounds():
    T, rho = 5, 30.0
    noise = answers(T, 2)
    theta = np.zeros(2)
    for k in range(1, T + 1):
        theta = theta - rho / (T**2 * k) * (0.1 * theta + noise[k - 1])
    algorithm = GradientDescent(LinearRegression(0.1), T, None, rho)
    state = algorithm.start(np.zeros(2))
    for k in range(T):
        state = algorithm.update(state, noise[k])
    np.testing.assert_allclose(algorithm.model(state), theta)


def test_every_answer_reaches_the_model():
    """The documents' loop drops the last answers although the budget pays for them."""
    for kind in (AveragedSubgradient, GradientDescent):
        algorithm = kind(LinearRegression(), 4, None, 1.0)
        for changed in range(4):
            models = []
            for bump in (0.0, 1.0):
                noise = answers(4, 2)
                noise[changed] += bump
                state = algorithm.start(np.zeros(2))
                for row in noise:
                    state = algorithm.update(state, row)
                models.append(algorithm.model(state))
            assert np.abs(models[0] - models[1]).min() > 0


def test_without_noise_both_algorithms_approach_the_optimum():
    table = regression_table(2000)
    for algorithm, horizon in (("averaged-subgradient", 400), ("gradient-descent", 400)):
        step = 0.7 if algorithm == "averaged-subgradient" else 1.5 * 400**2
        terms = make_terms(
            2000, epsilon=1e7, learning__algorithm=algorithm, learning__horizon=horizon, learning__step=step
        )
        result = parley.train(terms, [parley.Owner("a", table)], seed=0)
        assert result.relative_fitness["mean"] < 0.02
        assert result.path[-1].mean() < result.path[0].mean()


def test_a_run_that_diverges_says_so():
    terms = make_terms(100, model__radius=None, learning__step=1e40, learning__horizon=50, privacy__clip=1e40)
    with pytest.raises(SettingError, match="the run diverged in round"):
        parley.train(terms, [parley.Owner("a", regression_table(100))], seed=0)
