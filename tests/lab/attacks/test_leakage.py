"""One record off one gradient: to 1e-12 without protection, within the posterior bound with it."""

import math

import numpy as np
import pytest

from parley.data import Design
from parley.errors import SettingError
from parley.losses import RecordBound, make
from parley.terms import Model
from parley_lab.attacks.leakage import alone, leak, read_record

KINDS = ("linear-svm", "logistic-regression", "linear-regression")


def records(kind, n, seed, features=6):
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.uniform(-3, 3, (n, features)), np.ones((n, 1))])
    y = rng.uniform(-3, 3, n) if kind == "linear-regression" else rng.choice([-1.0, 1.0], n)
    return Design(X, y, np.ones(n)), 0.05 * rng.normal(size=features + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_read_off_an_unprotected_gradient(kind):
    objective = make(Model(kind=kind, target="y"))
    for seed in range(20):
        one, theta = records(kind, 1, seed)
        found = read_record(objective.loss, objective.mean_gradient(one, theta), theta)
        assert np.abs(found.x - one.X[0]).max() < 1e-12
        assert abs(found.y - one.y[0]) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_so_is_the_one_that_is_not_known_among_many(kind):
    objective = make(Model(kind=kind, target="y"))
    rows, theta = records(kind, 50, 1)
    mean = objective.mean_gradient(rows, theta)
    found = read_record(objective.loss, alone(objective, mean, rows.cut(slice(1, None)), theta), theta)
    assert np.abs(found.x - rows.X[0]).max() < 1e-11  # the mean of 50 has lost a digit
    assert abs(found.y - rows.y[0]) < 1e-11
    nobody, start = rows.empty(), np.zeros(7)
    assert np.array_equal(alone(objective, start, nobody, theta), start)


def test_a_flat_loss_tells_nothing():
    objective = make(Model(kind="linear-svm", target="y"))
    one, _ = records("linear-svm", 1, 0)
    assert read_record(objective.loss, objective.mean_gradient(one, 100 * one.X[0] * one.y[0]), one.X[0]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_with_noise_guesses_stay_within_the_posterior_bound_and_features_are_not_read(kind):
    objective, bound = make(Model(kind=kind, target="y")), RecordBound(2.0, "l1", clips=True)
    two, theta = records(kind, 2, 3)
    two.y[:] = [1.0, -1.0]
    two.X[1] = two.X[0]  # the same features, the other class: gradients as far apart as the clip allows
    found = {epsilon: leak(objective, two, theta, bound, epsilon, 20_000) for epsilon in (0.1, 1.0, 10.0, 1e9)}
    assert all(each.holds for each in found.values())
    assert found[1.0].most == pytest.approx(math.e / (1 + math.e))
    assert 0.55 < found[1.0].right < found[1.0].most
    assert found[1.0].error > 0.9  # reading 0 of everything has 1
    assert found[1e9].error < 1e-6
    assert found[1e9].right == 1
    assert [found[e].right for e in sorted(found)] == sorted(found[e].right for e in found)


def test_a_missing_factor_two_is_caught_by_guesses_alone(monkeypatch):
    objective, bound = make(Model(kind="linear-svm", target="y")), RecordBound(1.0, "l1", clips=True)
    two = Design(np.array([[1.0], [1.0]]), np.array([1.0, -1.0]), np.ones(2))
    assert leak(objective, two, np.zeros(1), bound, 1.0, 50_000).holds
    monkeypatch.setattr(RecordBound, "sensitivity", lambda self, *settings: self.value)  # the factor 2 is missing
    assert not leak(objective, two, np.zeros(1), bound, 1.0, 50_000).holds
    with pytest.raises(SettingError):
        leak(objective, two, np.zeros(1), RecordBound(1.0, "l2", clips=True), 1.0, 10)
