"""Boosted trees that go on from raw predictions of another model."""

import numpy as np
import pytest

from parley.data.forest import Forest
from parley.learning.outcome.margin_trees import (
    LEAF_PENALTY,
    LEARNING_RATE,
    LEAST_LEAF_CURVATURE,
    MAX_BINS,
    BinnedColumns,
    boosted_from,
    forest_of,
)
from parley.losses.class_loss import EachClass, Multinomial
from parley.losses.loss import Hinge, Logistic, Squared


def rows(seed: int, classes: bool, count: int = 500):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(count, 3)), rng.integers(0, 3, count), np.ones(count)])
    raw = np.sign(X[:, 0]) * X[:, 1]
    y = (
        np.where(rng.random(count) < 1 / (1 + np.exp(-3 * raw)), 1.0, -1.0)
        if classes
        else raw + 0.1 * rng.normal(size=count)
    )
    return X, y, X[:, 2] * 0.2


def grown(loss, X, y, weight, start, depth, count):
    """(trees, raw predictions [n]) after each tree, of one replicate."""
    steps = boosted_from(
        loss, BinnedColumns.from_columns(X), y, weight[None], start[None, None, None], depth, range(count)
    )
    return [(trees, raw[0, 0, 0]) for trees, raw in steps]


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_the_forest_says_of_cells_what_the_trees_said_of_codes(loss):
    X, y, start = rows(0, isinstance(loss, Logistic))
    binned = BinnedColumns.from_columns(X)
    made = grown(loss, X, y, np.ones(len(y)), start, 3, 15)
    forest = forest_of([(tree, 0, 1.0) for tree, _ in made], binned)
    np.testing.assert_allclose(start + forest.added(X.T)[0], made[-1][1], atol=1e-12)
    np.testing.assert_allclose(
        forest_of([(tree, 0, 0.25) for tree, _ in made], binned).added(X.T), forest.added(X.T) / 4
    )
    again = Forest.from_arrays(forest.arrays, X.shape[1], 1)
    np.testing.assert_array_equal(again.added(X.T), forest.added(X.T))


def test_values_beside_a_common_one_are_told_apart():
    """Nine of ten cells are 0; what the others do hangs on where they lie among themselves. By plain quantiles a few
    cut points would be left for them."""
    rng = np.random.default_rng(5)
    crowded = np.where(rng.random(6000) < 0.9, 0.0, rng.uniform(1, 2, 6000))
    X = np.column_stack([crowded, rng.integers(0, 2, 6000)])
    binned = BinnedColumns.from_columns(X)
    assert len(binned.cuts[0]) > MAX_BINS / 2
    assert binned.codes.max() < MAX_BINS
    y = np.where(crowded > 0, np.sin(40 * crowded), 0.0) + X[:, 1]
    made = grown(Squared(), X, y, np.ones(6000), np.zeros(6000), 4, 60)
    assert np.mean((made[-1][1] - y) ** 2) < 0.01
    forest = forest_of([(tree, 0, 1.0) for tree, _ in made], binned)
    np.testing.assert_allclose(forest.added(X.T)[0], made[-1][1], atol=1e-12)


def test_a_tree_splits_where_the_gradients_of_its_part_say():
    """Sums from unusual cells alone are those of all cells: the best of all cuts, each tried by itself."""
    X, y, start = rows(6, classes=False)
    binned = BinnedColumns.from_columns(X)
    (trees, _), *_ = boosted_from(Squared(), binned, y, np.ones((1, len(y))), start[None, None, None], 1, range(1))
    part = binned.parts[0].rows
    slope, gains = (start - y)[part], {}
    for column, cuts in enumerate(binned.cuts):
        for code in range(len(cuts)):
            left = binned.codes[column, part] <= code
            if min(left.sum(), (~left).sum()) >= LEAST_LEAF_CURVATURE:
                gains[column, code] = sum(
                    slope[side].sum() ** 2 / (side.sum() + LEAF_PENALTY) for side in (left, ~left)
                )
    assert max(gains, key=gains.get) == (trees.column[0, 0, 0], trees.code[0, 0, 0])


def test_other_starts_have_leaves_of_their_own_in_the_trees_of_the_first():
    X, y, start = rows(7, classes=True)
    binned, ones = BinnedColumns.from_columns(X), np.ones((1, len(y)))
    raw = np.array([start, -start, start])[:, None, None]
    made = list(boosted_from(Logistic(), binned, y, ones, raw, 3, range(30)))
    alone = list(boosted_from(Logistic(), binned, y, ones, raw[:1], 3, range(30)))
    np.testing.assert_array_equal(made[-1][1][:1], alone[-1][1])
    np.testing.assert_array_equal(made[-1][1][2], made[-1][1][0])
    forest = forest_of([(trees, 1, 1.0) for trees, _ in made], binned)
    np.testing.assert_allclose(-start + forest.added(X.T)[0], made[-1][1][1, 0, 0], atol=1e-12)
    borrowed = -start + forest_of([(trees, 0, 1.0) for trees, _ in made], binned).added(X.T)[0]
    costs = [Logistic().loss(each, y).mean() for each in (made[-1][1][1, 0, 0], borrowed, -start)]
    assert costs[0] < costs[1] < costs[2]


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_every_tree_lowers_the_loss_of_the_rows_it_was_made_of(loss):
    X, y, start = rows(1, isinstance(loss, Logistic))
    path = [start, *(raw for _, raw in grown(loss, X, y, np.ones(len(y)), start, 3, 30))]
    costs = [float(loss.loss(raw, y).mean()) for raw in path]
    assert (np.diff(costs) <= 1e-12).all()
    assert costs[-1] < 0.7 * costs[0]


def test_rows_of_weight_zero_teach_nothing_and_are_told_what_others_say():
    X, y, start = rows(2, classes=False)
    weight = np.where(np.arange(len(y)) < 100, 0.0, 1.0)
    other = np.where(weight > 0, y, 100.0)
    said = [grown(Squared(), X, t, weight, start, 3, 20)[-1][1] for t in (y, other)]
    np.testing.assert_array_equal(said[0], said[1])
    held = weight == 0
    assert np.mean((said[0] - y)[held] ** 2) < 0.5 * np.mean((start - y)[held] ** 2)


def test_a_leaf_is_a_newton_step():
    """Columns that cannot be cut leave one leaf: the mean residual, but for rate and penalty; a start that is right is
    left alone."""
    y = np.full(1000, 3.0)
    X = np.array([np.arange(1000.0)]).T
    ((tree, raw),) = grown(Squared(), X, y, np.ones(1000), np.ones(1000), 2, 1)
    np.testing.assert_allclose(raw, 1 + LEARNING_RATE * 2 * 1000 / 1005)
    assert tree.column[0, 0, 0] == -1
    ((_, same),) = grown(Squared(), X, y, np.ones(1000), y, 2, 1)
    np.testing.assert_array_equal(same, y)


def test_columns_that_are_constant_are_not_cut():
    binned = BinnedColumns.from_columns(rows(3, classes=False)[0])
    assert binned.places.tolist() == [0, 1, 2, 3]
    assert [len(each) for each in binned.cuts][3] == 2
    assert binned.codes.max() < MAX_BINS


def test_replicates_say_what_each_says_by_itself_and_trees_that_stopped_go_on():
    X, y, start = rows(4, classes=True)
    binned, rng = BinnedColumns.from_columns(X), np.random.default_rng(0)
    weight = (np.arange(len(y)) % 5 != np.arange(5)[:, None]).astype(float)  # as folds have it
    starts = start + rng.normal(size=(1, 5, 1, len(y)))
    together = [raw for _, raw in boosted_from(Logistic(), binned, y, weight, starts, 3, range(12))][-1]
    for place in range(5):
        one = slice(place, place + 1)
        half = [raw for _, raw in boosted_from(Logistic(), binned, y, weight[one], starts[:, one], 3, range(5))][-1]
        whole = [raw for _, raw in boosted_from(Logistic(), binned, y, weight[one], half, 3, range(5, 12))][-1]
        np.testing.assert_allclose(whole[0, 0], together[0, place], atol=1e-12)


@pytest.mark.parametrize("loss", [Multinomial(), EachClass(Hinge(), own=1.0, other=-1.0)])
def test_several_classes_have_a_tree_each_and_the_forest_says_the_same(loss):
    X, _, _ = rows(5, classes=False)
    y = np.where(X[:, 0] * X[:, 1] > 0, 2.0, np.where(X[:, 2] > 0, 1.0, 0.0))
    binned, ones = BinnedColumns.from_columns(X), np.ones((1, len(y)))
    made = list(boosted_from(loss, binned, y, ones, np.zeros((1, 1, 3, len(y))), 3, range(40)))
    forest = forest_of([(trees, 0, 1.0) for trees, _ in made], binned)
    np.testing.assert_allclose(forest.added(X.T), made[-1][1][0, 0], atol=1e-12)
    assert np.mean(made[-1][1][0, 0].argmax(axis=0) == y) > 0.9
    Forest.from_arrays(forest.arrays, X.shape[1], 3)
