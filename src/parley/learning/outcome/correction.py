"""From the joint model to an owner's own: a correction, as much of it as the owner's own rows bear out.

A personal model says what the joint model says, and adds a correction: nothing; a ridge of own rows that is pulled
towards the joint model (`ridge`); on top of what that leaves, boosted trees of own rows (`tree_study`); and a way from
there to trees of own rows that know no joint model, for where that one has the wrong shape. Each is judged on rows
that it was not made of, beside what it corrects. They say which length of it, from 0 to 1, is best; if it is then z
standard errors of the rows' own differences better, 1 - 1/z^2 of that is kept, and none where z is 1 or less: the
one-standard-error rule towards the joint model, without a jump, as the positive part of James and Stein's estimate
shrinks. So owners of one law stay at the joint model or near it. That model has seen these rows too, through noise and
among all others, which makes it look a little better than it is: this errs towards keeping it.

Formal guarantee: none. Everything here is a function of private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from parley.data import Design
from parley.data.forest import Forest
from parley.learning.outcome.boosting import lead
from parley.learning.outcome.margin_trees import BinnedColumns, Trees, boosted_from, forest_of
from parley.learning.outcome.ridge import JudgedModel, Places, Ridge, RidgeModel, judged_rows
from parley.learning.outcome.tree_study import (
    LENGTHS,
    KeptTrees,
    TreeStudy,
    TriedTrees,
    WayName,
    bearable,
    kept_share,
    share_of_others,
)
from parley.losses import EmpiricalRisk
from parley.losses.objectives.margin import MarginObjective
from parley.validate import Floats

ALONE, JOINT = "no model", "the joint model"

RawRows = tuple[Design, Floats]
MadeOf = Literal["the joint model", "linear", "linear and trees", "boosted trees"]

NEARLY = 0.9  # of the way to trees of own rows alone: the rest is not worth a word


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

    @property
    def has_trees(self) -> bool:
        """Whether trees of own rows are kept."""
        return self.chosen in ("trees", "own")

    @property
    def made_of(self) -> MadeOf:
        """What it is, in a word."""
        kept = {way.name: way.share for way in self.ways}
        if kept.get("own", 0.0) >= NEARLY:
            return "boosted trees"
        linear: MadeOf = "linear" if kept["ridge"] > 0 else "the joint model"
        return "linear and trees" if self.has_trees else linear

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "chosen": self.chosen, "ways": [way.to_json() for way in self.ways]}


def said(objective: EmpiricalRisk, rows: Design, theta: Floats, trees: Forest | None, columns: Floats) -> RawRows:
    """(rows, parameters) that have the raw predictions of a linear model with trees, one column for each; `columns`
    [n, columns] are those before any rotation, basis or leaves."""
    if trees is None:
        return rows, theta
    raw = raw_predictions(objective, rows, theta) + trees.added(columns.T)
    return Design(raw.T, rows.y, rows.weight), np.eye(len(raw)).ravel()


def raw_predictions(objective: EmpiricalRisk, rows: Design, theta: Floats) -> Floats:
    """What parameters [..., P] say of the rows, [..., outcomes, n]."""
    found = objective.scores(rows.X, theta)
    return found[..., None, :] if isinstance(objective, MarginObjective) else np.moveaxis(found, -1, -2)


def corrected(
    ridge: Ridge, pulled: Sequence[RidgeModel], joints: Floats, columns: Floats | None, grown: bool = True
) -> list[PersonalModel]:
    """Each of these joint models [k, P] with the correction that the rows bear out. `pulled` are their ridges towards
    each, `columns` [n, columns] is what trees may look at (None: no trees), and `grown` whether trees of all rows are
    wanted, too, or only what they would cost. A joint model of zeros is none: there is nothing to stay near, and its
    ridge is kept as it is."""
    judged = [_Judged.of(ridge, joint) for joint in joints]
    linear = [each.shrunk(model) for each, model in zip(judged, pulled, strict=True)]
    found = [list[KeptTrees]() for _ in judged] if columns is None else _trees(ridge, linear, columns)
    forests = _Forests(ridge, None if columns is None or not grown else BinnedColumns.of(columns))
    return [_personal(forests, *each) for each in zip(judged, pulled, linear, found, strict=True)]


def _personal(
    forests: "_Forests", judged: "_Judged", pulled: RidgeModel, linear: "_Linear", found: list[KeptTrees]
) -> PersonalModel:
    """What is kept of one ridge and its trees."""
    ways = [
        Way.of("joint", judged.joint, 1.0, judged.joint, judged.joint),
        Way.of("ridge", pulled.losses, linear.share, linear.losses, judged.joint),
    ]
    theta = judged.start + linear.share * (pulled.theta - judged.start)
    shares = {name: linear.share * share for name, share in pulled.shares.items()}
    shares[JOINT] = shares.get(JOINT, 0.0) + 1 - linear.share
    losses, own = linear.losses, 0.0
    for trees in found:
        ways.append(Way.of(trees.name, trees.full, trees.share, trees.kept, judged.joint))
        losses, own = trees.kept, trees.share if trees.name == "own" else 0.0
    return PersonalModel((1 - own) * theta, shares, losses, forests.of(found, theta, own), tuple(ways))


@dataclass(frozen=True, eq=False)
class _Linear:
    """A shrunk ridge: the share that is kept, the model without each fold [folds, P], and each row's loss by that."""

    share: float
    without: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class _Forests:
    """Trees of all rows, whose columns are `binned`; None: none are wanted. Those that know no joint model are grown
    once."""

    ridge: Ridge
    binned: BinnedColumns | None
    own: dict[tuple[int, int], list[Trees]] = field(default_factory=dict)

    def of(self, found: Sequence[KeptTrees], theta: Floats, own: float) -> Forest | None:
        """All of which something is kept, each with its share; `own` is that of those that know no joint model."""
        if self.binned is None:
            return None
        made, start = list[tuple[Trees, float]](), raw_predictions(self.ridge.objective, self.ridge.rows, theta)
        for trees in found:
            share = own if trees.name == "own" else (1 - own) * trees.share
            if share > 0 and trees.name == "own" and trees.size not in self.own:
                self.own[trees.size] = self._grown(self.binned, np.zeros_like(start), trees.size)
            if share > 0:
                known = self.own[trees.size] if trees.name == "own" else self._grown(self.binned, start, trees.size)
                made += [(each, share) for each in known]
        return forest_of(made, self.binned) if made else None

    def _grown(self, binned: BinnedColumns, start: Floats, size: tuple[int, int]) -> list[Trees]:
        """Trees that go on from raw predictions [outcomes, n]."""
        rows, loss, (depth, count) = self.ridge.rows, self.ridge.objective.loss, size
        grown = boosted_from(loss, binned, rows.y, rows.weight[None], start[None], depth, range(count))
        return [trees for trees, _ in grown]


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
        if not self.start.any():
            return _Linear(1.0, pulled.without, pulled.losses)
        along, losses = np.empty((len(LENGTHS), len(self.fold))), np.empty_like(self.joint)
        for k, theta in enumerate(pulled.without):
            along[:, self.fold == k] = self._losses(k, self.start + LENGTHS[:, None] * (theta - self.start))
        shares = np.array([share_of_others(along, self.fold == k) for k in range(len(pulled.without))])
        without = self.start + shares[:, None] * (pulled.without - self.start)
        for k, theta in enumerate(without):
            losses[self.fold == k] = self._losses(k, theta)
        return _Linear(kept_share(along), without, losses)

    def _losses(self, k: int, theta: Floats) -> Floats:
        """The losses of the rows of a fold by parameters [..., P]."""
        return self.ridge.plain.record_losses(self.ridge.rows.where(self.places[self.fold == k]), theta)


def _trees(ridge: Ridge, linear: Sequence[_Linear], columns: Floats) -> list[list[KeptTrees]]:
    """For each linear model trees on top of it, then trees without it, which are the same for all; none where rows are
    too few, the loss is none that trees can follow, or trees are plainly worse."""
    places, fold = judged_rows(len(ridge.rows))
    rows, found = ridge.rows.where(places), [list[KeptTrees]() for _ in linear]
    binned = BinnedColumns.of(columns[places]) if bearable(ridge.preparation, rows) else None
    if binned is None or not binned.places.size:
        return found
    study = TreeStudy(ridge.objective, binned, rows, fold)
    begin = np.array([raw_predictions(ridge.objective, rows, each.without) for each in linear])
    there = [each[fold, :, np.arange(len(rows))].T for each in begin]  # of [folds, outcomes, n]

    def keep(name: WayName, model: int, tried: TriedTrees) -> None:
        found[model].append(made := study.kept(name, there[model], tried))
        there[model] = made.raw

    for model, tried in enumerate(study.on_top(begin, there)):
        keep("trees", model, tried)
    own = study.from_nothing(np.zeros_like(begin[0]), there)
    for model in range(len(linear)):
        if own is not None and not study.behind(own, there[model]):
            keep("own", model, own)
    return found
