"""Which boosted trees of own rows, and how much of them: tried on rows that they were not made of.

Trees go on from linear models, each of which was made without one fold of the rows; so are the trees, and every row is
judged by what knows nothing of it. All folds and all models to start from are grown at once (`margin_trees`). Trees are
added as long as the last ones helped: for each fold, the others say so.

Formal guarantee: none. Everything here is a function of private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.learning.outcome.boosting import BEHIND, MOST_CLASSES, lead
from parley.learning.outcome.margin_trees import BinnedColumns, boosted_from
from parley.learning.outcome.ridge import Places
from parley.losses import EmpiricalRisk
from parley.losses.loss import Loss
from parley.validate import Floats

LENGTHS = np.linspace(0.0, 1.0, 11)  # of a correction
DEPTHS = (3,)
ITERATIONS = (10, 30, 80)
SURE = 2  # of them are tried of trees that begin at nothing, whatever they bring
LEAST_ROWS = 200  # fewer have no trees
LEAST_OF_CLASS = 20
AT_ONCE = 200_000  # cells of all trees that are grown together: what is larger is not quicker

WayName = Literal["joint", "ridge", "trees", "own"]


@dataclass(frozen=True, eq=False)
class KeptTrees:
    """Trees of a size (depth, iterations), each row's loss with all of them (`full`), the share of the way to them that
    is kept, and each row's loss (`kept`) and raw predictions [outcomes, n] with that."""

    name: WayName
    size: tuple[int, int]
    full: Floats
    share: float
    kept: Floats
    raw: Floats


@dataclass(frozen=True, eq=False)
class TriedTrees:
    """Raw predictions [settings, outcomes, n] of every row by trees without its fold, of each depth after so many
    `ITERATIONS`, and its losses [settings, n]: infinite where so many were not made. `start` [n]: its losses before any
    tree, infinite where trees begin at nothing."""

    raw: Floats
    losses: Floats
    start: Floats

    def best(self, rows: NDArray[np.bool_] | slice = slice(None)) -> int:
        """The setting of the least mean loss of these rows, of those at which one arrives: trees are added as long as
        the last ones helped."""
        means = self.losses[:, rows].mean(axis=1).reshape(-1, len(ITERATIONS))
        before = np.broadcast_to(self.start[rows].mean(), len(means))
        for stage in range(1, len(ITERATIONS)):
            stopped = ~(means[:, stage - 1] < (means[:, stage - 2] if stage > 1 else before))
            means[stopped, stage:] = np.inf
        return int(means.argmin())


@dataclass(frozen=True, eq=False)
class TreeStudy:
    """Rows that trees are made of and judged on, with their folds."""

    objective: EmpiricalRisk
    binned: BinnedColumns
    rows: Design
    fold: Places

    def losses(self, raw: Floats) -> Floats:
        """Every row's weighted loss [..., n] at raw predictions [..., outcomes, n]."""
        loss, y = self.objective.loss, self.rows.y
        found = loss.loss(raw[..., 0, :], y) if isinstance(loss, Loss) else loss.loss(raw, y)
        return np.asarray(found * self.rows.weight)

    def on_top(self, starts: Floats, there: Sequence[Floats]) -> list[TriedTrees]:
        """Trees that go on from raw predictions by models without each fold [starts, folds, outcomes, n], which say
        `there` [outcomes, n] of each row without its own."""
        growing = _Growing.of(self, starts, np.array([self.losses(each) for each in there]))
        growing.advance(range(len(starts)), range(starts.shape[1]), 0)
        return self._all(growing, 1)

    def from_nothing(self, start: Floats, beside: Sequence[Floats]) -> TriedTrees | None:
        """Trees that begin at these raw predictions [folds, outcomes, n], whatever they may be; None where in the first
        fold they are `behind` all that stands `beside` [outcomes, n]."""
        growing, folds = _Growing.of(self, start[None], np.full((1, len(self.rows)), np.inf)), range(len(start))
        sure = min(SURE, len(ITERATIONS))
        for stage in range(sure):
            growing.advance([0], folds[:1], stage)
        if all(self.behind(growing.found(0), each) for each in beside):
            return None
        for stage in range(sure):
            growing.advance([0], folds[1:], stage)
        return self._all(growing, sure)[0]

    def _all(self, growing: "_Growing", stage: int) -> list[TriedTrees]:
        """Whatever is tried from this stage on: more trees where the last ones helped."""
        starts, folds = range(growing.raw.shape[1]), range(growing.raw.shape[2])
        for later in range(stage, len(ITERATIONS)):
            for depth in range(len(DEPTHS)):
                further = [start for start in starts if self._helped(growing.found(start), depth, later)]
                growing.advance(further, folds, later, (depth,))
        return [growing.found(start) for start in starts]

    def behind(self, tried: TriedTrees, beside: Floats) -> bool:
        """Whether in the first fold trees lie `BEHIND` what is there already, and nothing speaks for them."""
        held = self.fold == 0
        here, there = tried.losses[:, held], self.losses(beside)[held]
        mean, error = lead(there, here[int(here.mean(axis=1).argmin())])
        return mean < -BEHIND * error

    def kept(self, name: WayName, start: Floats, tried: TriedTrees) -> KeptTrees:
        """As much of the way from raw predictions [outcomes, n] to those of trees as is kept; settings and shares are
        chosen for each fold by the others."""
        chosen, shares = np.empty_like(start), np.empty(len(self.rows))
        for held in self._helds:
            chosen[:, held] = tried.raw[tried.best(~held)][:, held]
        along = self.losses(start + LENGTHS[:, None, None] * (chosen - start))
        for held in self._helds:
            shares[held] = share_of_others(along, held)
        depth, iterations = divmod(tried.best(), len(ITERATIONS))
        raw, size = start + shares * (chosen - start), (DEPTHS[depth], ITERATIONS[iterations])
        return KeptTrees(name, size, along[-1], kept_share(along), self.losses(raw), raw)

    @property
    def _helds(self) -> list[NDArray[np.bool_]]:
        return [self.fold == k for k in range(int(self.fold.max()) + 1)]

    def _helped(self, tried: TriedTrees, depth: int, stage: int) -> bool:
        """Whether the last trees of this depth lowered the cost of all rows, or of all without some fold."""
        place = depth * len(ITERATIONS) + stage
        last, before = tried.losses[place - 1], tried.losses[place - 2] if stage > 1 else tried.start
        kept = [np.ones(len(last), dtype=bool), *(~held for held in self._helds)]
        return any(last[rows].mean() < before[rows].mean() for rows in kept if rows.any())


@dataclass(frozen=True, eq=False)
class _Growing:
    """Trees of all starts and folds so far: raw predictions of all rows [depths, starts, folds, outcomes, n], and of
    each row by those without its fold [starts, depths, iterations, outcomes, n]."""

    study: TreeStudy
    raw: Floats
    judged: Floats
    start: Floats  # losses [starts, n] before any tree

    @classmethod
    def of(cls, study: TreeStudy, starts: Floats, losses: Floats) -> "_Growing":
        made = np.full((len(starts), len(DEPTHS), len(ITERATIONS), *starts.shape[2:]), np.nan)
        return cls(study, np.repeat(starts[None], len(DEPTHS), axis=0), made, losses)

    def advance(
        self, starts: Sequence[int], folds: Sequence[int], stage: int, depths: Sequence[int] | None = None
    ) -> None:
        """As many more trees as it takes to the next of `ITERATIONS`, of these starts without these folds."""
        study, first = self.study, 0 if stage == 0 else ITERATIONS[stage - 1]
        pairs = [(start, k) for start in starts for k in folds]
        cells = self.raw.shape[-2] * max(study.binned.codes.size, 1)
        most = max(1, AT_ONCE // cells)
        for depth in range(len(DEPTHS)) if depths is None else depths:
            for begin in range(0, len(pairs), most):
                which, without = (np.array(each) for each in zip(*pairs[begin : begin + most], strict=True))
                taught = np.where(study.fold == without[:, None], 0.0, study.rows.weight)
                raw = self.raw[depth, which, without]
                trees = range(first, ITERATIONS[stage])
                for _, now in boosted_from(
                    study.objective.loss, study.binned, study.rows.y, taught, raw, DEPTHS[depth], trees
                ):
                    raw = now
                self.raw[depth, which, without] = raw
                for start, k, each in zip(which, without, raw, strict=True):
                    held = study.fold == k
                    self.judged[start, depth, stage][:, held] = each[:, held]

    def found(self, start: int) -> TriedTrees:
        """All that is known of one start."""
        raw = self.judged[start].reshape(-1, *self.judged.shape[-2:])
        made = ~np.isnan(raw[:, 0])
        losses = np.where(made, self.study.losses(np.where(made[:, None], raw, 0.0)), np.inf)
        return TriedTrees(raw, losses, self.start[start])


def kept_share(along: Floats) -> float:
    """The share of a correction that is kept, by the losses of rows [lengths, n] along it, at each of `LENGTHS`.

    >>> kept_share(np.linspace([3.0, 5.0], [1.0, 4.0], len(LENGTHS)))
    0.888...
    """
    best = int(along.mean(axis=1).argmin())
    gain, error = lead(along[0], along[best])
    return float(LENGTHS[best]) * max(0.0, 1 - (error / gain) ** 2) if gain > 0 else 0.0


def share_of_others(along: Floats, held: NDArray[np.bool_]) -> float:
    """The share that rows other than these give; 0 where there are none."""
    return kept_share(along[:, ~held]) if not held.all() else 0.0


def bearable(preparation: Preparation, rows: Design) -> bool:
    """Whether trees can go on from a linear model here: a number or classes, and enough rows of each."""
    predicts = preparation.model.predicts
    if predicts not in ("number", "two classes", "classes") or len(rows) < LEAST_ROWS:
        return False
    if predicts == "number":
        return True
    counts, classes = np.unique(rows.y, return_counts=True)[1], 2 if predicts == "two classes" else preparation.outcomes
    return len(counts) == classes <= MOST_CLASSES and int(counts.min()) >= LEAST_OF_CLASS
