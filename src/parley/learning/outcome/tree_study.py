"""Choose boosted trees of own rows, and how much of them to keep, on rows they were not made of.

Trees continue linear models made without one fold, and leave out the same fold. All folds and starts are grown at once
(`margin_trees`). For each fold, the others say how long adding trees helps.

Formal guarantee: none. Everything here is a function of private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.learning.outcome.boosting import ERRORS_BEHIND, MAX_CLASSES, mean_saving
from parley.learning.outcome.margin_trees import BinnedColumns, boosted_from
from parley.learning.outcome.ridge import Places
from parley.losses import EmpiricalRisk
from parley.losses.loss import Loss
from parley.validate import Floats

CORRECTION_LENGTHS = np.linspace(0.0, 1.0, 11)  # of a correction
DEPTH, DEEPER_DEPTH = 3, 5  # of a tree, and of those that begin at nothing where rows are many
MANY_ROWS = 2000
ITERATIONS = (10, 25, 50, 100)
LEAST_STAGES = 2  # of them are tried of trees that begin at nothing, whatever they bring
LEAST_ROWS = 200  # fewer have no trees
LEAST_CLASS_ROWS = 20
MAX_CELLS_AT_ONCE = 400_000  # cells of all trees that are grown together: what is larger is not quicker

WayName = Literal["joint", "ridge", "trees", "own", "alone"]


@dataclass(frozen=True, eq=False)
class KeptWay:
    """Losses of each row at the end of a way (`full`), the share of it that is kept, losses (`kept`) and raw
    predictions [outcomes, n] with that share, and the number of trees."""

    name: WayName
    full: Floats
    share: float
    kept: Floats
    raw: Floats
    trees: int = 0


@dataclass(frozen=True, eq=False)
class TriedTrees:
    """Raw predictions [iterations, outcomes, n] of every row by trees without its fold, and losses [iterations, n],
    infinite where not made. `start` [n] has the losses before any tree, infinite if trees begin at nothing."""

    raw: Floats
    losses: Floats
    start: Floats

    def best(self, rows: NDArray[np.bool_] | slice = slice(None)) -> int:
        """Return the stage with the least mean loss of these rows, among stages reached while each one helped."""
        means = self.losses[:, rows].mean(axis=1)
        before = self.start[rows].mean()
        for stage in range(1, len(means)):
            if not means[stage - 1] < (means[stage - 2] if stage > 1 else before):
                means[stage:] = np.inf
        return int(means.argmin())


@dataclass(frozen=True, eq=False)
class WayStudy:
    """Rows on which ways are judged, with their folds."""

    objective: EmpiricalRisk
    rows: Design
    fold: Places

    def losses(self, raw: Floats) -> Floats:
        """Return every row's weighted loss [..., n] at raw predictions [..., outcomes, n]."""
        loss, y = self.objective.loss, self.rows.y
        found = loss.loss(raw[..., 0, :], y) if isinstance(loss, Loss) else loss.loss(raw, y)
        return np.asarray(found * self.rows.weight)

    def kept(self, name: WayName, start: Floats, end: Floats, trees: int = 0) -> KeptWay:
        """Shrink the way between raw predictions [outcomes, n]; for each fold the others choose the share."""
        shares, along = np.empty(len(self.rows)), self.losses(start + CORRECTION_LENGTHS[:, None, None] * (end - start))
        for held in self.fold_masks:
            shares[held] = share_of_others(along, held)
        raw = start + shares * (end - start)
        return KeptWay(name, along[-1], kept_share(along), self.losses(raw), raw, trees)

    @property
    def fold_masks(self) -> list[NDArray[np.bool_]]:
        """Masks of each fold's rows."""
        return [self.fold == k for k in range(int(self.fold.max()) + 1)]


@dataclass(frozen=True, eq=False)
class TreeStudy(WayStudy):
    """Rows on which trees are grown and judged."""

    binned: BinnedColumns

    def on_top(self, starts: Floats, there: Sequence[Floats]) -> list[TriedTrees]:
        """Grow trees from models without each fold [starts, folds, outcomes, n]; `other_losses` [outcomes, n] are their
        raw predictions for each row without its own fold."""
        growing = _Growing.from_starts(self, DEPTH, starts, np.array([self.losses(each) for each in there]))
        growing.advance(range(starts.shape[1]), 0)
        return self._all(growing, 1)

    def from_nothing(self, start: Floats, other_losses: Sequence[Floats]) -> TriedTrees | None:
        """Grow trees from raw predictions [folds, outcomes, n]; None if `behind` all of `other_losses` in the "
        "first fold."""
        depth, nothing = own_depth(len(self.rows)), np.full((1, len(self.rows)), np.inf)
        growing, folds = _Growing.from_starts(self, depth, start[None], nothing), range(len(start))
        first_stages = min(LEAST_STAGES, len(ITERATIONS))
        for stage in range(first_stages):
            growing.advance(folds[:1], stage)
        if all(self.behind(growing.found(0), each) for each in other_losses):
            return None
        for stage in range(first_stages):
            growing.advance(folds[1:], stage)
        return self._all(growing, first_stages)[0]

    def _all(self, growing: "_Growing", stage: int) -> list[TriedTrees]:
        """Try further stages while the last trees helped for some start."""
        starts, folds = range(len(growing.raw)), range(growing.raw.shape[1])
        for later in range(stage, len(ITERATIONS)):
            if not any(self._lowered_cost(growing.found(start), later) for start in starts):
                break
            growing.advance(folds, later)
        return [growing.found(start) for start in starts]

    def behind(self, tried: TriedTrees, beside: Floats) -> bool:
        """Whether trees lie more than `ERRORS_BEHIND` standard errors behind `other_losses` in the first fold."""
        held = self.fold == 0
        tree_losses, other_losses = tried.losses[:, held], self.losses(beside)[held]
        mean, error = mean_saving(other_losses, tree_losses[int(tree_losses.mean(axis=1).argmin())])
        return mean < -ERRORS_BEHIND * error

    def kept_trees(self, name: WayName, start: Floats, tried: TriedTrees) -> KeptWay:
        """Shrink the way to the trees' predictions; for each fold the others also choose the number of trees."""
        chosen = np.empty_like(start)
        for held in self.fold_masks:
            chosen[:, held] = tried.raw[tried.best(~held)][:, held]
        return self.kept(name, start, chosen, ITERATIONS[tried.best()])

    def _lowered_cost(self, tried: TriedTrees, stage: int) -> bool:
        """Whether the last trees lowered the cost of all rows, or of all without some fold."""
        last, before = tried.losses[stage - 1], tried.losses[stage - 2] if stage > 1 else tried.start
        kept = [np.ones(len(last), dtype=bool), *(~held for held in self.fold_masks)]
        return any(last[rows].mean() < before[rows].mean() for rows in kept if rows.any())


@dataclass(frozen=True, eq=False)
class _Growing:
    """Trees of all starts and folds so far: raw predictions of all rows [starts, folds, outcomes, n], and of each row
    without its fold [starts, iterations, outcomes, n]."""

    study: TreeStudy
    depth: int
    raw: Floats
    judged: Floats
    start: Floats  # losses [starts, n] before any tree

    @classmethod
    def from_starts(cls, study: TreeStudy, depth: int, starts: Floats, losses: Floats) -> "_Growing":
        made = np.full((len(starts), len(ITERATIONS), *starts.shape[2:]), np.nan)
        return cls(study, depth, starts.copy(), made, losses)

    def advance(self, folds: Sequence[int], stage: int) -> None:
        """Grow trees up to the given stage of `ITERATIONS`, leaving out each of these folds."""
        study, first = self.study, 0 if stage == 0 else ITERATIONS[stage - 1]
        folds_at_once = max(1, MAX_CELLS_AT_ONCE // (self.raw.shape[-2] * max(study.binned.codes.size, 1)))
        for begin in range(0, len(folds), folds_at_once):
            without = np.array(folds[begin : begin + folds_at_once])
            weights_without_fold = np.where(study.fold == without[:, None], 0.0, study.rows.weight)
            raw, trees = self.raw[:, without], range(first, ITERATIONS[stage])
            boosting_inputs = (
                study.objective.loss,
                study.binned,
                study.rows.y,
                weights_without_fold,
                raw,
                self.depth,
                trees,
            )
            for _, now in boosted_from(*boosting_inputs):
                raw = now
            self.raw[:, without] = raw
            for place, k in enumerate(without):
                held = study.fold == k
                self.judged[:, stage][..., held] = raw[:, place][..., held]

    def found(self, start: int) -> TriedTrees:
        """Return the trees tried from one start."""
        raw = self.judged[start]
        made = ~np.isnan(raw[:, 0])
        losses = np.where(made, self.study.losses(np.where(made[:, None], raw, 0.0)), np.inf)
        return TriedTrees(raw, losses, self.start[start])


def own_depth(rows: int) -> int:
    """Return the depth of trees that begin at nothing."""
    return DEEPER_DEPTH if rows >= MANY_ROWS else DEPTH


def kept_share(along: Floats) -> float:
    """Return the share of a correction to keep, from the losses of rows [lengths, n] at each of `CORRECTION_LENGTHS`.

    >>> kept_share(np.linspace([3.0, 5.0], [1.0, 4.0], len(CORRECTION_LENGTHS)))
    0.888...
    """
    best = int(along.mean(axis=1).argmin())
    gain, error = mean_saving(along[0], along[best])
    return float(CORRECTION_LENGTHS[best]) * max(0.0, 1 - (error / gain) ** 2) if gain > 0 else 0.0


def share_of_others(along: Floats, held: NDArray[np.bool_]) -> float:
    """Return the share chosen by all other rows; 0 if there are none."""
    return kept_share(along[:, ~held]) if not held.all() else 0.0


def trees_possible(preparation: Preparation, rows: Design) -> bool:
    """Whether trees can continue a linear model here: a number or classes, and enough rows of each."""
    predicts = preparation.model.predicts
    if predicts not in ("number", "two classes", "classes") or len(rows) < LEAST_ROWS:
        return False
    if predicts == "number":
        return True
    counts, classes = np.unique(rows.y, return_counts=True)[1], 2 if predicts == "two classes" else preparation.outcomes
    return len(counts) == classes <= MAX_CLASSES and int(counts.min()) >= LEAST_CLASS_ROWS
