"""Boosted trees on rows that one has."""

import numpy as np
import pytest

from parley.learning.outcome.boosting import (
    LEAST_ROWS,
    TreeRows,
    boosted,
    chosen_by_others,
    folds,
    mean_saving,
    tree_losses,
)
from parley.losses import (
    LeastSquaresClasses,
    LinearRegression,
    LinearSVM,
    LogisticRegression,
    OneVsAll,
    SoftmaxRegression,
)

FLIPPED = 0.1


def exclusive_or(n, objective, seed=0):
    """Rows whose target is the sign of a product: nothing that a linear model sees. A tenth of all classes is
    flipped."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    sign = np.sign(X[:, 0] * X[:, 1]) * np.where(rng.random(n) < FLIPPED, -1, 1)
    if isinstance(objective, LinearRegression):
        return TreeRows(objective.loss, 0, X, sign, np.ones(n))
    if isinstance(objective, LinearSVM | LogisticRegression):
        return TreeRows(objective.loss, 2, X, sign, np.ones(n))
    return TreeRows(objective.loss, 2, X, (sign > 0) * 1.0, np.ones(n))


def least_loss(objective):
    """What the best prediction of the flipped signs costs, and what knowing nothing does."""
    p = FLIPPED
    entropy, nothing = -p * np.log(p) - (1 - p) * np.log(1 - p), np.log(2)
    return {
        LinearRegression: (1 - (1 - 2 * p) ** 2, 1.0),
        LinearSVM: (2 * p, 1.0),
        LogisticRegression: (entropy, nothing),
        SoftmaxRegression: (entropy, nothing),
        OneVsAll: (2 * entropy, 2 * nothing),
        LeastSquaresClasses: (2 * p * (1 - p), 0.5),
    }[type(objective)]


@pytest.mark.parametrize(
    "kind", [LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression, OneVsAll, LeastSquaresClasses]
)
def test_trees_come_near_the_best_loss_of_every_kind_of_model(kind):
    """Above what nobody can do better than, and nearer to it than to knowing nothing."""
    objective = kind()
    rows, fresh = exclusive_or(1500, objective), exclusive_or(4000, objective, 1)
    best, nothing = least_loss(objective)
    found = boosted(rows, np.full(len(rows), nothing))
    new = tree_losses(rows, fresh, found.leaves)[-1].mean()
    error = 3 * found.losses.std() / np.sqrt(len(rows))
    assert best - error < found.losses.mean() < (best + nothing) / 2
    assert new == pytest.approx(found.losses.mean(), abs=error + 0.1 * (nothing - best))


def test_the_same_rows_give_the_same_trees():
    rows = exclusive_or(300, LogisticRegression())
    first, second = (boosted(rows, np.full(300, np.log(2))).losses for _ in range(2))
    assert np.array_equal(first, second)


def test_small_tables_and_rare_classes_have_no_trees():
    rows = exclusive_or(LEAST_ROWS, LogisticRegression())
    assert boosted(rows, np.full(LEAST_ROWS, 100.0)) is not None
    assert boosted(rows.where(np.arange(LEAST_ROWS - 1)), np.full(LEAST_ROWS - 1, 100.0)) is None
    many = exclusive_or(400, LogisticRegression())
    rare = np.flatnonzero(many.y < 0)[9:]
    few = many.where(np.setdiff1d(np.arange(400), rare))
    assert np.sum(few.y < 0) == 9
    assert boosted(few, np.full(len(few), 100.0)) is None


def test_a_class_that_some_rows_do_not_have_is_thought_rare_and_not_impossible():
    rows = exclusive_or(200, SoftmaxRegression())
    only = rows.where(rows.y == 1)
    losses = tree_losses(only, rows, 4)
    assert np.isfinite(losses).all()
    assert losses[-1][rows.y == 0].mean() > 10 > 1 > losses[-1][rows.y == 1].mean()


def test_weighted_rows_count_for_their_weight():
    """The class that weighs nine times as much is what trees say where both are equally common."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.where(rng.random(600) < 0.5, 1.0, -1.0)
    weight = np.where(y > 0, 9.0, 1.0)
    loss = LogisticRegression().loss
    heavy = TreeRows(loss, 2, X, y, weight)
    even = TreeRows(loss, 2, X, y, np.ones(600))
    new = TreeRows(loss, 2, rng.normal(size=(600, 2)), np.ones(600), np.ones(600))
    assert tree_losses(heavy, new, 4)[0].mean() < 0.3 < 0.6 < tree_losses(even, new, 4)[0].mean()


def test_what_is_reported_was_not_chosen_for_being_small():
    """Forty ways of pure chance: their least mean lies far below the truth, 1; chosen by the other folds it does not,
    within 3 standard errors over 200 draws."""
    rng, least, honest = np.random.default_rng(0), [], []
    for _ in range(200):
        ways = rng.exponential(size=(40, 60))
        least.append(ways.mean(axis=1).min())
        honest.append(chosen_by_others(ways, folds(60)).mean())
    error = np.std(honest, ddof=1) / np.sqrt(200)
    assert abs(np.mean(honest) - 1) < 3 * error
    assert np.mean(least) < 1 - 10 * error


def test_trees_that_are_plainly_behind_are_given_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    noise = 0.1 * rng.normal(size=400)
    rows = TreeRows(LinearRegression().loss, 0, X, X @ np.arange(1.0, 5.0) + noise, np.ones(400))
    assert boosted(rows, noise**2) is None
    mean, error = mean_saving(np.full(400, 3.0) + noise, np.full(400, 1.0))
    assert mean == pytest.approx(2.0, abs=0.05)
    assert error == pytest.approx(0.005, rel=0.2)
