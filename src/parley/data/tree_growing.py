"""Boosted trees of rows that everybody may see: scikit-learn grows them, numbers are what is kept (`forest`)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from parley.data.cut_points import cut
from parley.data.forest import Forest
from parley.data.preparation import Preparation
from parley.errors import DataError
from parley.terms.model import Model, Trees
from parley.validate import Floats

# of rows, and of columns, that a tree or a split looks at: of trees that differ, leaves say more when fitted again
ROWS = COLUMNS = 0.5
PUBLIC = "public sample"
FLOAT32 = 3e38  # scikit-learn's trees read cells as single floats


def with_forest(fitted: Preparation, public: pd.DataFrame | None, pins: Mapping[str, Floats] | None) -> Preparation:
    """The preparation with the leaves that the terms ask for: pinned trees, trees grown on the public sample, bins.

    Machines may grow other trees where splits are of equal worth, so pinned ones are taken as they are, in the number
    and the size that the terms say; where columns are cut no machine can disagree.
    """
    model, outcomes = fitted.model, fitted.outcomes
    if model.columns is None:
        return fitted
    known = None if public is None else fitted.clipped(fitted.coded(public, PUBLIC))
    if model.bins is not None:
        ends, lines = (fitted.low, fitted.high), model.columns == "hinges"
        bins = cut(fitted.encodings, model.bins, ends, known, outcomes, joined=lines, crossed=model.crossed or ())
        return replace(fitted, forest=bins, shares=None if known is None else bins.indicators(known).mean(axis=1))
    if model.trees is None or public is None or known is None:
        raise DataError("model.columns: expected a public sample to grow trees on")
    if (why := model.trees.too_many(outcomes)) is not None:  # where the public sample says which classes there are
        raise DataError(f"model.trees: {why}")
    if pins is None:
        y = fitted.target(public, PUBLIC)
        made = grow(model.trees, known, y, fitted.weights(y), outcomes, model.classifies)
    else:
        made = Forest.of_arrays(pins, len(fitted.labels), outcomes)
    _require_agreed(made, model, outcomes)
    return replace(fitted, forest=made)


def _require_agreed(made: Forest, model: Model, outcomes: int) -> None:
    """Refuse trees of another number or size than the terms say, and leaf values that leave their box."""
    size = model.trees
    if size is None or made.trees > size.count * outcomes or made.largest_tree > size.leaves:
        raise DataError("model.preparation: these are other trees than model.trees says; ask for the right file")
    largest = float(np.abs(made.values).max(initial=0.0))
    if model.radius is not None and largest > model.radius:
        raise DataError(
            f"model.radius = {model.radius:g}: expected at least {largest:.3g}, the largest public leaf value, where "
            "training begins; or none"
        )


def grow(size: Trees, columns: Floats, y: Floats, weight: Floats, outcomes: int, classifies: bool) -> Forest:
    """Trees of this size for public rows: coded columns [columns, n] and prepared targets [n] (-1 and 1, places of
    classes, or numbers). Of several classes each has its own."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor  # not for those without trees

    kind = GradientBoostingClassifier if classifies else GradientBoostingRegressor
    grower = kind(
        n_estimators=size.count,
        learning_rate=size.rate,
        max_leaf_nodes=size.leaves,
        max_depth=None,
        min_samples_leaf=size.smallest,
        subsample=ROWS,
        max_features=COLUMNS,
        random_state=size.seed,
    )
    named = _every_class(y, outcomes) if classifies else y
    fitted = grower.fit(np.clip(columns, -FLOAT32, FLOAT32).T, named, sample_weight=weight)
    return _kept(fitted, size.rate, outcomes)


def _every_class(y: Floats, outcomes: int) -> Floats:
    """The targets, if every class has a row among them."""
    present = np.unique(y).size
    if present < max(outcomes, 2):
        raise DataError(
            "model.columns: expected every class among the public rows that trees are grown on; take 'bins', or a "
            "larger public sample"
        )
    return y


def _kept(fitted: Any, rate: float, outcomes: int) -> Forest:
    """The numbers of a fitted ensemble; where it begins is added to each class's first tree."""
    columns, thresholds, lefts, rights, roots, values = [], [], [], [], [], []
    begin = _begin(fitted.init_)
    nodes = leaves = 0
    for round_, trees in enumerate(fitted.estimators_):
        for outcome, each in enumerate(trees):
            tree = each.tree_
            leaf = tree.children_left < 0
            places = leaves + np.cumsum(leaf) - 1
            columns.append(np.where(leaf, -1, tree.feature))
            thresholds.append(np.where(leaf, 0.0, tree.threshold))
            lefts.append(np.where(leaf, places, tree.children_left + nodes))
            rights.append(np.where(leaf, 0, tree.children_right + nodes))
            roots.append(nodes)
            added = np.zeros((outcomes, int(leaf.sum())))
            added[outcome] = rate * tree.value[leaf, 0, 0] + (begin[outcome] if round_ == 0 else 0.0)
            values.append(added)
            nodes, leaves = nodes + tree.node_count, leaves + added.shape[1]
    column, left, right = (np.concatenate(each).astype(np.intp) for each in (columns, lefts, rights))
    first, said = np.array(roots, dtype=np.intp), np.concatenate(values, axis=1)
    return Forest(column, np.concatenate(thresholds), left, right, first, said)


def _begin(constant: Any) -> Floats:
    """What an ensemble says of every row before its first tree: log-odds, a logarithm for each class, or a number."""
    if not hasattr(constant, "class_prior_"):
        return np.ravel(constant.constant_)
    logarithms = np.log(constant.class_prior_)
    return np.array([logarithms[1] - logarithms[0]]) if len(logarithms) == 2 else logarithms - logarithms.mean()
