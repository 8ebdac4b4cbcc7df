"""Boosted trees of public rows: scikit-learn grows them, and only numbers are kept (`forest`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from parley.data.blocks import Remembered, content_key
from parley.data.cut_points import cut
from parley.data.forest import Forest, Integers, MarginForest, MarginLines, name_orders
from parley.data.preparation import Preparation
from parley.data.public_numbers import PIN_AGAIN, TOLERANCE
from parley.errors import DataError, StalePinsError
from parley.terms.keys import Trees
from parley.terms.model import Model
from parley.validate import Floats

COLUMN_SHARE = (
    0.5  # of them, among which a split is looked for: of trees that differ, leaves say more when fitted again;
)
# all, where the later of many trees are a margin
LEAF_PENALTY = 0.3  # average rows' curvature by which a leaf's value is pulled to zero
MIN_CURVATURE = 1e-9  # curvature of a row that is as good as sure
PUBLIC_SAMPLE = "public sample"
MAX_FLOAT32 = 3e38  # scikit-learn's trees read cells as single floats

_grown_cache = Remembered["_Grown"](max_entries=64)  # those of the last few samples, and of their folds


def with_forest(fitted: Preparation, public: pd.DataFrame | None, pins: Mapping[str, Floats] | None) -> Preparation:
    """Add the leaves that the terms ask for: pinned trees, trees grown on the public sample, or bins. Machines may grow
    other trees if splits are equally good, so pinned trees of the agreed number and size are used as they are."""
    model, outcomes = fitted.model, fitted.outcomes
    if model.columns is None:
        return fitted
    known = None if public is None else fitted.clipped(fitted.coded(public, PUBLIC_SAMPLE))
    if model.bins is not None:
        ends, lines = (fitted.low, fitted.high), model.columns == "hinges"
        bins = cut(fitted.encodings, model.bins, ends, known, outcomes, joined=lines, crossed=model.crossed or ())
        return replace(fitted, forest=bins, shares=None if known is None else bins.indicators(known).mean(axis=1))
    if model.trees is None or public is None or known is None:
        raise DataError("model.columns: trees are grown on a public sample; set model.public to a public sample")
    if (why := model.trees.too_many(outcomes)) is not None:  # where the public sample says which classes there are
        raise DataError(f"model.trees: {why}")
    if pins is None:
        y = fitted.target(public, PUBLIC_SAMPLE)
        made = grow(model.trees, known, y, fitted.weights(y), outcomes, model.classifies, fitted.named)
    else:
        kinds: Mapping[int | None, type[Forest]] = {None: Forest, 0: MarginLines}
        try:
            made = kinds.get(model.trees.refitted, MarginForest).from_arrays(pins, len(fitted.labels), outcomes)
        except DataError as error:
            raise StalePinsError(f"{error}; {PIN_AGAIN}") from None
    _require_agreed(made, model, outcomes)
    if isinstance(made, MarginLines) and not made.matches_public_columns(known, TOLERANCE):
        raise StalePinsError(
            f"model.preparation: the file's centres, sizes and scales are not those of the public sample; {PIN_AGAIN}"
        )
    return replace(fitted, forest=made)


def _require_agreed(made: Forest, model: Model, outcomes: int) -> None:
    """Refuse trees of another number or size than the terms say, and leaf values outside the radius."""
    size = model.trees
    parts = [made, made.margin] if isinstance(made, MarginForest) else [made]
    if size is None or any(
        part.trees > count * outcomes or part.largest_tree > size.leaves
        for part, count in zip(parts, size.parts, strict=True)
    ):
        raise StalePinsError(
            f"model.preparation: the file contains more or larger trees than model.trees allows; {PIN_AGAIN}"
        )
    largest = float(np.abs(made.values).max(initial=0.0))
    if model.radius is not None and largest > model.radius:
        raise DataError(
            f"model.radius = {model.radius:g}: training begins at a public leaf value of {largest:.3g}; raise the "
            "radius to at least this value, or remove the radius"
        )


def grow(
    size: Trees,
    columns: Floats,
    y: Floats,
    weight: Floats,
    outcomes: int,
    classifies: bool,
    named: Sequence[Integers] = (),
) -> Forest:
    """Grow trees on coded columns [columns, n] and prepared targets [n] (-1 and 1, class places or numbers) of public
    rows; each class has its own. Each tree is a Newton step of the loss: a regression tree of -gradient/curvature,
    weighted by curvature. `named` are the places of names."""
    wanted = _wanted(y, outcomes, classifies)
    setting = size.model_dump(exclude={"refitted"}), bool(size.refitted), outcomes, classifies
    key = content_key(setting, columns, y, weight, *named)
    grown = _grown_cache.get(key, lambda: _grown(size, columns, wanted, weight, classifies, named))
    if size.refitted is None:
        return _as_forest(grown.trees, grown.begin)
    first = size.refitted * outcomes
    margin = _as_forest(grown.trees[first:], np.zeros(outcomes))
    if not first:
        return MarginLines.from_public_columns(margin, grown.begin, grown.orders, columns)
    return MarginForest(**vars(_as_forest(grown.trees[:first], grown.begin)), margin=margin, orders=grown.orders)


@dataclass(frozen=True, eq=False)
class _Grown:
    """Trees with node values, their starting point [outcomes], and orders of names [orders, columns]."""

    trees: Sequence[tuple[Any, Floats]]
    begin: Floats
    orders: Floats


def _grown(
    size: Trees, columns: Floats, wanted: Floats, weight: Floats, classifies: bool, named: Sequence[Integers]
) -> _Grown:
    from sklearn import config_context  # not for those without trees
    from sklearn.tree import DecisionTreeRegressor

    (outcomes, rows), rng, seeded = wanted.shape, np.random.default_rng(size.seed), np.random.RandomState(0)
    orders = name_orders(columns, wanted, weight, named if size.refitted else ())
    cells = np.concatenate([columns, orders @ columns])
    cells = np.ascontiguousarray(np.clip(cells, -MAX_FLOAT32, MAX_FLOAT32).T, dtype=np.float32)
    raw = np.repeat(_begin(wanted, weight, classifies)[:, None], rows, axis=1)
    begin, grown = raw[:, 0].copy(), list[tuple[Any, Floats]]()
    tree = DecisionTreeRegressor(
        max_leaf_nodes=size.leaves,
        min_samples_leaf=size.smallest,
        max_features=1.0 if size.refitted else COLUMN_SHARE,
        random_state=seeded,
    )
    with config_context(assume_finite=True, skip_parameter_validation=True):  # a check takes as long as a tree
        for _ in range(size.count):
            expected = _expected(raw, classifies)
            for outcome in range(outcomes):
                slope = weight * (expected[outcome] - wanted[outcome])
                curve = (
                    weight * np.maximum(expected[outcome] * (1 - expected[outcome]), MIN_CURVATURE)
                    if classifies
                    else weight
                )
                some = rng.permutation(rows)[: max(round(size.rows * rows), 1)]
                seeded.seed(int(rng.integers(2**31)))  # as a generator of its own, which takes longer to make
                slopes, curves = slope[some], curve[some]
                tree.fit(cells[some], (-slopes / curves).reshape(-1, 1), sample_weight=curves, check_input=False)
                leaf, nodes = tree.tree_.apply(cells), tree.tree_.node_count
                total, bend = (np.bincount(leaf[some], each, nodes) for each in (slopes, curves))
                value = -size.rate * total / (bend + LEAF_PENALTY * weight.mean())
                raw[outcome] += value[leaf]
                grown.append((tree.tree_, value))
    return _Grown(grown, begin, orders)


def _wanted(y: Floats, outcomes: int, classifies: bool) -> Floats:
    """Return the targets [outcomes, n]: 0 and 1 for each class; of two classes, for the second alone."""
    if not classifies:
        return y[None]
    if np.unique(y).size < max(outcomes, 2):
        raise DataError(
            "model.columns: a class is missing from the public rows for growing trees; use 'bins' or a larger public "
            "sample"
        )
    classes = np.arange(outcomes)[:, None] if outcomes > 1 else np.ones((1, 1))
    return np.asarray(y == classes, dtype=np.float64)


def _begin(wanted: Floats, weight: Floats, classifies: bool) -> Floats:
    """Return the prediction before the first tree [outcomes]: log-odds, a logarithm for each class, or a number."""
    mean = np.asarray(wanted @ weight / weight.sum())
    if not classifies:
        return mean
    return np.asarray(np.log(mean) - (np.log1p(-mean) if len(mean) == 1 else np.log(mean).mean()))


def _expected(raw: Floats, classifies: bool) -> Floats:
    """Return the expected targets for raw predictions [outcomes, n]."""
    if not classifies:
        return raw
    return np.asarray(softmax(raw, axis=0) if len(raw) > 1 else expit(raw))


def _as_forest(grown: Sequence[tuple[Any, Floats]], begin: Floats) -> Forest:
    """Return the arrays of trees, outcomes in turn; each outcome's first tree adds its starting point."""
    columns, thresholds, lefts, rights, roots, values = [], [], [], [], [], []
    nodes = leaves = 0
    for place, (tree, value) in enumerate(grown):
        outcome, leaf = place % len(begin), tree.children_left < 0
        places = leaves + np.cumsum(leaf) - 1
        columns.append(np.where(leaf, -1, tree.feature))
        thresholds.append(np.where(leaf, 0.0, tree.threshold))
        lefts.append(np.where(leaf, places, tree.children_left + nodes))
        rights.append(np.where(leaf, 0, tree.children_right + nodes))
        roots.append(nodes)
        added = np.zeros((len(begin), int(leaf.sum())))
        added[outcome] = value[leaf] + (begin[outcome] if place < len(begin) else 0.0)
        values.append(added)
        nodes, leaves = nodes + tree.node_count, leaves + added.shape[1]
    column, left, right = (np.concatenate(each).astype(np.intp) for each in (columns, lefts, rights))
    first, expected = np.array(roots, dtype=np.intp), np.concatenate(values, axis=1)
    return Forest(column, np.concatenate(thresholds), left, right, first, expected)
