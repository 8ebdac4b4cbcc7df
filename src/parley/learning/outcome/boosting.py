"""Boosted trees of own rows: the model alone where a linear model does not fit.

Trees take columns as coded, before any rotation or basis. The loss of the terms judges them, as it judges linear
models. The few settings are chosen by cross-validation, for each fold by all others.

Formal guarantee: none. Everything is a function of the rows without noise: of public rows it is for everybody, of
private ones for their owner alone.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from parley.data import Design, Preparation
from parley.losses import EmpiricalRisk
from parley.losses.class_loss import ClassLoss
from parley.losses.loss import Loss
from parley.validate import Floats

FOLDS = 5
LEAF_COUNTS = (4, 16)  # of a tree
ITERATIONS = (10, 20, 40)
LONG_ITERATIONS = (*ITERATIONS, 160)  # where the last ones still save much
LATE_SAVING = 0.1  # of the loss
LEARNING_RATE = 0.2
LEAST_ROWS = 40
LEAST_CLASS_ROWS = 10
MAX_CLASSES = 12  # a tree for each of them, every time
MAX_CELLS = 2_000_000  # rows times columns that are looked at
CUT_QUANTILES = 200  # places where a column of weighted rows may be cut
LEAST_PROBABILITY = 1e-6  # a probability that trees may think a class has, at least
ERRORS_BEHIND = 2.0  # standard errors by which trees may lie behind and still be looked at

Judge = Callable[["TreeRows", "TreeRows", int, Sequence[int]], Floats]  # as `tree_losses`


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Rows for trees: `columns` [n, columns], targets, weights, and the judging loss. `classes` is 0 for numbers."""

    loss: Loss | ClassLoss
    classes: int
    columns: Floats
    y: Floats
    weight: Floats

    @classmethod
    def from_design(
        cls, objective: EmpiricalRisk, preparation: Preparation, rows: Design, columns: Floats
    ) -> "TreeRows":
        """Take prepared rows, with their columns before any rotation."""
        predicts = preparation.model.predicts
        classes = 0 if predicts == "number" else 2 if predicts == "two classes" else preparation.outcomes
        return cls(objective.loss, classes, columns, rows.y, rows.weight)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def labels(self) -> Floats:
        """The target values of the classes [classes]."""
        return np.array([-1.0, 1.0]) if isinstance(self.loss, Loss) else np.arange(float(self.classes))

    @property
    def enough(self) -> bool:
        """Whether there are at least `LEAST_ROWS`, and `LEAST_CLASS_ROWS` of every class."""
        if len(self) < LEAST_ROWS or not self.columns.shape[1]:
            return False
        counts = np.unique(self.y, return_counts=True)[1]
        return not self.classes or (len(counts) == self.classes <= MAX_CLASSES and counts.min() >= LEAST_CLASS_ROWS)

    @property
    def digest(self) -> bytes:
        """A digest of these rows and their loss."""
        found = hashlib.sha256(repr((self.loss, self.classes, self.columns.shape)).encode())
        for each in (self.columns, self.y, self.weight):
            found.update(each.tobytes())
        return found.digest()

    def scored(self, scores: Floats) -> Floats:
        """Return every row's weighted loss [n] at a linear model's scores, [n] or [n, classes]."""
        return self.losses(scores.T if self.classes and not isinstance(self.loss, Loss) else scores)

    def where(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> "TreeRows":
        """Return the marked rows, or those at these places."""
        return replace(self, columns=self.columns[kept], y=self.y[kept], weight=self.weight[kept])

    def losses(self, raw: Floats) -> Floats:
        """Return every row's weighted loss [n] at raw predictions, [n] or [classes, n]."""
        return np.asarray(self.loss.loss(self.loss.comparable(raw), self.y) * self.weight)

    def raw(self, predicted: Floats) -> Floats:
        """Return raw predictions from the trees' predictions: a number [n], or probabilities [classes, n]."""
        if not self.classes:
            return predicted
        chances = np.clip(predicted, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return self.loss.raw_at(chances[1] if isinstance(self.loss, Loss) else chances)


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """The setting of some rows' trees, and each row's loss [n] by trees without it, with the setting that the other
    folds choose among the iterations `tried`."""

    leaves: int
    iterations: int
    losses: Floats
    tried: tuple[int, ...]


def folds(rows: int) -> NDArray[np.int64]:
    """Return the fold of every place [n], fixed by the number of rows alone."""
    return np.asarray(np.random.default_rng(0).permutation(rows) % FOLDS)


def tree_row_places(rows: int, columns: int) -> NDArray[np.int64]:
    """Return the places of the rows for trees: all, unless there are too many cells."""
    return np.random.default_rng(0).permutation(rows)[: max(LEAST_ROWS, MAX_CELLS // max(columns, 1))]


def boosted(rows: TreeRows, linear: Floats, judge: Judge | None = None) -> BoostedTrees | None:
    """Choose trees of these rows, against a linear model's losses `linear` [n] on rows it was not made of. Return None
    if rows are too few, or if trees are `ERRORS_BEHIND` in the first fold or in all. `judge` defaults to `tree_losses`.
    """
    judge = judge or tree_losses
    if not rows.enough:
        return None
    fold = folds(len(rows))
    held = fold == 0
    first = np.array([judge(rows.where(~held), rows.where(held), leaves, ITERATIONS) for leaves in LEAF_COUNTS])
    mean, error = mean_saving(linear[held], _losses_of_best_way(first.reshape(-1, int(held.sum()))))
    if mean < -ERRORS_BEHIND * error:
        return None
    tried = LONG_ITERATIONS if _still_improving(first.mean(axis=2)) else ITERATIONS
    seen = np.empty((len(LEAF_COUNTS), len(tried), len(rows)))
    for k in range(FOLDS):
        held = fold == k
        for place, leaves in enumerate(LEAF_COUNTS):
            known = k == 0 and tried is ITERATIONS
            seen[place][:, held] = first[place] if known else judge(rows.where(~held), rows.where(held), leaves, tried)
    ways = seen.reshape(-1, len(rows))
    losses = chosen_by_others(ways, fold)
    mean, error = mean_saving(linear, losses)
    leaves, iterations = divmod(int(ways.mean(axis=1).argmin()), len(tried))
    return (
        None if mean < -ERRORS_BEHIND * error else BoostedTrees(LEAF_COUNTS[leaves], tried[iterations], losses, tried)
    )


def _still_improving(means: Floats) -> bool:
    """Whether the best losses [leaves, iterations] still fall by `LATE_SAVING` in the last iterations."""
    best = means[int(means.min(axis=1).argmin())]
    return bool(best[-1] < (1 - LATE_SAVING) * best[-2])


def chosen_by_others(ways: Floats, fold: NDArray[np.int64]) -> Floats:
    """Return each row's loss [n] by the way [ways, n] that is best in all other folds."""
    found = np.empty(ways.shape[1])
    for k in np.unique(fold):
        others = ways[:, fold != k] if (fold != k).any() else ways
        found[fold == k] = ways[int(others.mean(axis=1).argmin()), fold == k]
    return found


def mean_saving(linear: Floats, trees: Floats) -> tuple[float, float]:
    """Return the trees' mean saving per row against a linear model, and its standard error."""
    apart = linear - trees
    return float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5 if len(apart) > 1 else np.inf


def tree_losses(rows: TreeRows, new: TreeRows, leaves: int, iterations: Sequence[int] = ITERATIONS) -> Floats:
    """Return losses of new rows by trees of these rows after each number of iterations [iterations, n]."""
    return np.array([new.losses(raw) for raw in tree_raw(rows, new, leaves, iterations)])


def tree_raw(rows: TreeRows, new: TreeRows, leaves: int, iterations: Sequence[int]) -> list[Floats]:
    """Return raw predictions of new rows, [n] or [classes, n], after each number of iterations, in rising order."""
    with _threads().limit(limits=1):  # so few rows are quicker so, and others have work to do
        return [new.raw(predicted) for predicted in _staged_predictions(rows, new.columns, leaves, iterations)]


@cache
def _threads() -> Any:
    import sklearn.ensemble  # noqa: F401

    return ThreadpoolController().select(user_api="openmp")


def _staged_predictions(rows: TreeRows, columns: Floats, leaves: int, iterations: Sequence[int]) -> Iterator[Floats]:
    """Yield the trees' predictions for columns [n, columns] after each number of iterations."""
    if rows.classes and (rows.y == rows.y[0]).all():
        yield from (_extend_to_all_classes(np.ones((1, len(columns))), rows.labels == rows.y[0]) for _ in iterations)
        return
    # slow to import, and only comparisons need it
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if rows.classes else HistGradientBoostingRegressor
    model = kind(
        learning_rate=LEARNING_RATE,
        max_iter=iterations[-1],
        max_leaf_nodes=leaves,
        min_samples_leaf=int(np.clip(len(rows) // 20, 4, 20)),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    weight = None if np.all(rows.weight == 1) else rows.weight
    varying_columns = (rows.columns != rows.columns[0]).any(
        axis=0
    )  # no tree asks for a column in which all rows are alike
    varying_columns[0] |= not varying_columns.any()
    own, columns = rows.columns[:, varying_columns], columns[:, varying_columns]
    if weight is not None:  # the library takes half a second to find where weighted columns may be cut
        own, columns = _quantile_codes(own, own), _quantile_codes(columns, own)
    model.fit(own, rows.y, sample_weight=weight)
    after = model.staged_predict_proba if rows.classes else model.staged_predict
    for iteration, predicted in enumerate(after(columns), start=1):
        if iteration in iterations:
            yield (
                predicted
                if not rows.classes
                else _extend_to_all_classes(predicted.T, np.isin(rows.labels, model.classes_))
            )


def _extend_to_all_classes(chances: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Extend probabilities of the classes seen to all classes [classes, n]."""
    full = np.zeros((len(seen), chances.shape[1]))
    full[seen] = chances
    return full


def _quantile_codes(columns: Floats, like: Floats) -> Floats:
    """Replace columns [n, columns] by their places among `CUT_QUANTILES` quantiles of other rows."""
    cuts = np.quantile(like, np.linspace(0, 1, CUT_QUANTILES), axis=0)
    return np.array([np.searchsorted(cut, column) for cut, column in zip(cuts.T, columns.T, strict=True)]).T * 1.0


def _losses_of_best_way(ways: Floats) -> Floats:
    """Return the losses [n] of the way [ways, n] with the least mean."""
    return np.asarray(ways[int(ways.mean(axis=1).argmin())])
