"""From the joint model to an owner's own: a correction, as much of it as the owner's own rows bear out.

A personal model says what the joint model says, and adds a correction: nothing; a ridge of own rows that is pulled
towards the joint model (`ridge`); on top of what that leaves, boosted trees of own rows (`margin_trees`); and a way
from there to trees of own rows that know no joint model, for where that one has the wrong shape. Each is judged on rows
that it was not made of, beside what it corrects. They say which length of it, from 0 to 1, is best; if it is then z
standard errors of the rows' own differences better, 1 - 1/z^2 of that is kept, and none where z is 1 or less: the
one-standard-error rule towards the joint model, without a jump, as the positive part of James and Stein's estimate
shrinks. So owners of one law stay at the joint model or near it. That model has seen these rows too, through noise and
among all others, which makes it look a little better than it is: this errs towards keeping it.

Formal guarantee: none. Everything here is a function of private rows without noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.data.forest import Forest
from parley.learning.outcome.boosting import BEHIND, lead
from parley.learning.outcome.margin_trees import BinnedColumns, Tree, boosted_from, forest_of
from parley.learning.outcome.ridge import JudgedModel, Places, Ridge, RidgeModel, judged_rows
from parley.losses.objectives.margin import MarginObjective
from parley.validate import Floats

ALONE, JOINT = "no model", "the joint model"

LENGTHS = np.linspace(0.0, 1.0, 11)  # of a correction
DEPTHS = (2, 4)
ITERATIONS = (15, 45, 120)
LEAST_ROWS = 200  # fewer have no trees
LEAST_OF_CLASS = 20

WayName = Literal["joint", "ridge", "trees", "own"]


@dataclass(frozen=True)
class Way:
    """One way to a personal model, by rows that it was not made of: its mean loss if all of its correction were taken
    (`full`), the `share` that is kept, the mean loss with that, what this saves a row against the joint model, and the
    standard error of that."""

    name: WayName
    full: float
    share: float
    loss: float
    gain: float
    error: float

    @classmethod
    def of(cls, name: WayName, full: Floats, share: float, kept: Floats, joint: Floats) -> "Way":
        gain, error = lead(joint, kept)
        return cls(name, float(full.mean()), share, float(kept.mean()), gain, error)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "error": self.error if np.isfinite(self.error) else None}


@dataclass(frozen=True, eq=False)
class PersonalModel(JudgedModel):
    """The joint model with its correction: `trees` add to the raw prediction, and `shares` is about the linear part.
    Shares of corrections are chosen without the row that judges, too."""

    trees: Forest | None
    ways: tuple[Way, ...]

    @property
    def chosen(self) -> WayName:
        """The last way of which something is kept."""
        return [way.name for way in self.ways if way.share > 0][-1]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "chosen": self.chosen, "ways": [way.to_json() for way in self.ways]}


def with_trees(rows: Design, columns: Floats, theta: Floats, trees: Forest) -> tuple[Design, Floats]:
    """(rows, parameters) that have the margins of a linear model with trees: what these add is one column more.
    `columns` [n, columns] are those before any rotation, basis or leaves."""
    added = trees.added(columns.T)[0]
    return Design(np.column_stack([rows.X, added]), rows.y, rows.weight), np.append(theta, 1.0)


def corrected(ridge: Ridge, pulled: RidgeModel, joint: Floats, columns: Floats | None) -> PersonalModel:
    """The joint model [P] with the correction that these rows bear out; `pulled` is their ridge towards it, and
    `columns` [n, columns] what trees may look at; None: no trees."""
    judged = _Judged.of(ridge, joint)
    linear = judged.shrunk(pulled)
    ways = [
        Way.of("joint", judged.joint, 1.0, judged.joint, judged.joint),
        Way.of("ridge", pulled.losses, linear.share, linear.losses, judged.joint),
    ]
    theta = joint + linear.share * (pulled.theta - joint)
    shares = {name: linear.share * share for name, share in pulled.shares.items()}
    shares[JOINT] = shares.get(JOINT, 0.0) + 1 - linear.share
    found = [] if columns is None else list(_trees(ridge, judged, linear, columns))
    losses, own = linear.losses, 0.0
    for trees in found:
        ways.append(Way.of(trees.name, trees.full, trees.share, trees.kept, judged.joint))
        losses, own = trees.kept, trees.share if trees.name == "own" else 0.0
    if columns is None or not any(trees.share > 0 for trees in found):
        return PersonalModel(theta, shares, losses, None, tuple(ways))
    binned = BinnedColumns.of(columns)
    forest = forest_of(_grown(found, ridge.rows, theta, binned, own), binned)
    return PersonalModel((1 - own) * theta, shares, losses, forest, tuple(ways))


def kept_share(along: Floats) -> float:
    """The share of a correction that is kept, by the losses of rows [lengths, n] along it, at each of `LENGTHS`.

    >>> kept_share(np.linspace([3.0, 5.0], [1.0, 4.0], len(LENGTHS)))
    0.888...
    """
    best = int(along.mean(axis=1).argmin())
    gain, error = lead(along[0], along[best])
    return float(LENGTHS[best]) * max(0.0, 1 - (error / gain) ** 2) if gain > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _Linear:
    """A shrunk ridge: the share that is kept, the model without each fold [folds, P], and each row's loss by that."""

    share: float
    without: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class _Trees:
    """Trees that were tried: how they are grown, each row's loss with all of them (`full`), the share of the way to
    them that is kept, and each row's loss (`kept`) and raw prediction with that."""

    name: WayName
    objective: MarginObjective
    size: tuple[int, int]  # depth, iterations
    full: Floats
    share: float
    kept: Floats
    raw: Floats

    def grown(self, rows: Design, start: Floats, binned: BinnedColumns) -> list[Tree]:
        """Trees of all rows that go on from raw predictions [n]."""
        return [tree for tree, _ in boosted_from(self.objective.loss, binned, rows.y, rows.weight, start, *self.size)]


def _grown(
    found: Sequence[_Trees], rows: Design, theta: Floats, binned: BinnedColumns, own: float
) -> list[tuple[Tree, float]]:
    """The trees of all rows of which something is kept, each with its share; `own` is that of those that know no joint
    model."""
    made = list[tuple[Tree, float]]()
    for trees in found:
        start = np.zeros(len(rows)) if trees.name == "own" else trees.objective.scores(rows.X, theta)
        share = own if trees.name == "own" else (1 - own) * trees.share
        made += [(tree, share) for tree in (trees.grown(rows, start, binned) if share > 0 else [])]
    return made


@dataclass(frozen=True, eq=False)
class _Judged:
    """The rows that judge, with their folds, and what the joint model [P] costs each of them."""

    ridge: Ridge
    places: Places
    fold: Places
    start: Floats
    joint: Floats

    @classmethod
    def of(cls, ridge: Ridge, start: Floats) -> "_Judged":
        places, fold = judged_rows(len(ridge.rows))
        return cls(ridge, places, fold, start, ridge.plain.record_losses(ridge.rows.where(places), start))

    def shrunk(self, pulled: RidgeModel) -> _Linear:
        """As much of the ridge as is kept; for each fold by the others."""
        along, losses = np.empty((len(LENGTHS), len(self.fold))), np.empty_like(self.joint)
        for k, theta in enumerate(pulled.without):
            along[:, self.fold == k] = self._losses(k, self.start + LENGTHS[:, None] * (theta - self.start))
        shares = np.array([_share_of_others(along, self.fold == k) for k in range(len(pulled.without))])
        without = self.start + shares[:, None] * (pulled.without - self.start)
        for k, theta in enumerate(without):
            losses[self.fold == k] = self._losses(k, theta)
        return _Linear(kept_share(along), without, losses)

    def _losses(self, k: int, theta: Floats) -> Floats:
        """The losses of the rows of a fold by parameters [..., P]."""
        return self.ridge.plain.record_losses(self.ridge.rows.where(self.places[self.fold == k]), theta)


def _share_of_others(along: Floats, held: NDArray[np.bool_]) -> float:
    """The share that rows other than these give; 0 where there are none."""
    return kept_share(along[:, ~held]) if not held.all() else 0.0


def _trees(ridge: Ridge, judged: _Judged, linear: _Linear, columns: Floats) -> Iterator[_Trees]:
    """Trees on top of the linear model, then trees without it; none where rows are too few, the loss is none that trees
    can follow, or trees are plainly worse."""
    objective, rows, fold = ridge.objective, ridge.rows.where(judged.places), judged.fold
    if not isinstance(objective, MarginObjective) or not _bearable(ridge.preparation, objective, rows):
        return
    binned = BinnedColumns.of(columns[judged.places])
    if not binned.places.size:
        return
    raw = np.take_along_axis(objective.scores(rows.X, linear.without), fold[None, :], axis=0)[0]
    ways: tuple[tuple[WayName, Floats], ...] = (("trees", linear.without), ("own", np.zeros_like(linear.without)))
    for name, without in ways:
        found = _tried(objective, binned, rows, fold, without, raw)
        if found is not None:
            trees = _kept(name, objective, rows, fold, raw, found)
            raw = trees.raw
            yield trees


def _kept(
    name: WayName, objective: MarginObjective, rows: Design, fold: Places, start: Floats, tried: Floats
) -> _Trees:
    """As much of the way from raw predictions [n] to those of trees [settings, n] as is kept; settings and shares are
    chosen for each fold by the others."""

    def losses(raw: Floats) -> Floats:
        return np.asarray(objective.loss.loss(raw, rows.y) * rows.weight)

    seen, chosen, shares = losses(tried), np.empty(len(rows)), np.empty(len(rows))
    helds = [fold == k for k in range(int(fold.max()) + 1)]
    for held in helds:
        chosen[held] = tried[int(seen[:, ~held].mean(axis=1).argmin()), held]
    along = losses(start + LENGTHS[:, None] * (chosen - start))
    for held in helds:
        shares[held] = _share_of_others(along, held)
    depth, iterations = divmod(int(seen.mean(axis=1).argmin()), len(ITERATIONS))
    raw, size = start + shares * (chosen - start), (DEPTHS[depth], ITERATIONS[iterations])
    return _Trees(name, objective, size, along[-1], kept_share(along), losses(raw), raw)


def _tried(
    objective: MarginObjective, binned: BinnedColumns, rows: Design, fold: Places, without: Floats, beside: Floats
) -> Floats | None:
    """Raw predictions [settings, n] of every row by trees without its fold, which go on from linear models without it
    [folds, P], of each depth after so many `ITERATIONS`; None where in the first fold trees lie `BEHIND` what is there
    already, `beside` [n], and nothing speaks for them."""
    loss, found = objective.loss, np.empty((len(DEPTHS), len(ITERATIONS), len(rows)))
    for k, theta in enumerate(without):
        held, begin = fold == k, objective.scores(rows.X, theta)
        for place, depth in enumerate(DEPTHS):
            taught = np.where(held, 0.0, rows.weight)
            trees = boosted_from(loss, binned, rows.y, taught, begin, depth, ITERATIONS[-1])
            for count, (_, raw) in enumerate(trees, start=1):
                if count in ITERATIONS:
                    found[place, ITERATIONS.index(count), held] = raw[held]
        if k == 0:
            here = found[..., held].reshape(-1, int(held.sum()))
            losses = loss.loss(np.vstack([beside[held], here]), rows.y[held]) * rows.weight[held]
            mean, error = lead(losses[0], losses[1:][int(losses[1:].mean(axis=1).argmin())])
            if mean < -BEHIND * error:
                return None
    return found.reshape(-1, len(rows))


def _bearable(preparation: Preparation, objective: MarginObjective, rows: Design) -> bool:
    """Whether trees can go on from a linear model here: a number or two classes by a smooth loss, and enough rows."""
    if preparation.model.predicts not in ("number", "two classes") or not objective.loss.smooth:
        return False
    if preparation.model.predicts == "number":
        return len(rows) >= LEAST_ROWS
    counts = np.unique(rows.y, return_counts=True)[1]
    return len(rows) >= LEAST_ROWS and len(counts) == 2 and int(counts.min()) >= LEAST_OF_CLASS
