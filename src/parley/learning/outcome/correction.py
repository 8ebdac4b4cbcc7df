"""From the joint model to an owner's own: a correction, as much of it as the owner's own rows support.

The candidates, in order: no correction; a ridge of own rows towards the joint model (`ridge`); boosted trees on top of
it (`tree_study`); trees of own rows without the joint model; and last the model alone, so that joining can hardly hurt.
Each is judged on rows it was not made of, against what it corrects. If the best length from 0 to 1 is better by z
standard errors of the rows' own differences, 1 - 1/z^2 of it is kept, and nothing if z is 1 or less. This shrinks
without a jump, like the positive part of James and Stein's estimate. So owners of one law stay at the joint model or
near it. That model has seen these rows too, through noise, so this errs towards keeping it.

Formal guarantee: none. Everything here is a function of private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from parley.data import Design
from parley.data.forest import Forest
from parley.learning.outcome.boosting import mean_saving
from parley.learning.outcome.margin_trees import BinnedColumns, Trees, boosted_from, forest_of
from parley.learning.outcome.ridge import JudgedModel, Places, Ridge, RidgeModel, judged_rows
from parley.learning.outcome.tree_study import (
    CORRECTION_LENGTHS,
    DEPTH,
    KeptWay,
    TreeStudy,
    WayName,
    WayStudy,
    kept_share,
    own_depth,
    share_of_others,
    trees_possible,
)
from parley.losses import EmpiricalRisk
from parley.losses.objectives.margin import MarginObjective
from parley.validate import Floats

NO_MODEL, PUBLIC, JOINT = "no model", "the public fit", "the joint model"

RawRows = tuple[Design, Floats]
MadeOf = Literal["the joint model", "the public fit", "linear", "linear and trees", "boosted trees"]

NEARLY_ALL_SHARE = 0.9  # of the way to trees of own rows alone: the rest is not worth a word


@dataclass(frozen=True)
class Way:
    """One way to a personal model, judged on rows it was not made of: mean loss with all of it (`full`), the `share`
    kept, mean loss with that share, and its gain per row against the joint model with the standard error."""

    name: WayName
    full: float
    share: float
    loss: float
    gain: float
    error: float

    @classmethod
    def from_losses(cls, name: WayName, full: Floats, share: float, kept: Floats, joint: Floats) -> "Way":
        gain, error = mean_saving(joint, kept)
        return cls(name, float(full.mean()), share, float(kept.mean()), gain, error)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "error": self.error if np.isfinite(self.error) else None}


@dataclass(frozen=True, eq=False)
class PersonalModel(JudgedModel):
    """The joint model with its correction: `trees` add to the raw prediction, `shares` describe the linear part. Shares
    are also chosen without the row that judges."""

    linear: Floats  # the ridge alone, as much of it as is kept, without trees [P]
    trees: Forest | None
    ways: tuple[Way, ...]
    start: str  # the name of the model that was corrected
    alone: "PersonalModel | None" = None  # to which its last way leads

    @property
    def chosen(self) -> WayName:
        """The last way of which a share is kept."""
        return [way.name for way in self.ways if way.share > 0][-1]

    @property
    def kept(self) -> dict[WayName, float]:
        """The share kept of every way."""
        return {way.name: way.share for way in self.ways}

    @property
    def made_of(self) -> MadeOf:
        """What it is made of, in a few words."""
        if self.alone is not None and self.kept["alone"] >= NEARLY_ALL_SHARE:
            return self.alone.made_of
        if self.kept.get("own", 0.0) >= NEARLY_ALL_SHARE:
            return "boosted trees"
        partly_alone = self.alone is not None and self.kept["alone"] > 0
        if any(self.kept.get(name, 0.0) > 0 for name in ("trees", "own")):
            return "linear and trees"
        if partly_alone and self.alone is not None and "trees" in self.alone.made_of:
            return "linear and trees"
        if partly_alone or self.kept["ridge"] > 0 or self.start == NO_MODEL:
            return "linear"
        return "the public fit" if self.start == PUBLIC else "the joint model"

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "chosen": self.chosen, "ways": [way.to_json() for way in self.ways]}


def rows_with_trees(
    objective: EmpiricalRisk, rows: Design, theta: Floats, trees: Forest | None, columns: Floats
) -> RawRows:
    """Return (rows, parameters) with the raw predictions of a linear model plus trees, one column each. Trees look at
    `columns` [n, columns], before any rotation, basis or leaves."""
    if trees is None:
        return rows, theta
    raw = raw_predictions(objective, rows, theta) + trees.added(columns.T)
    return Design(raw.T, rows.y, rows.weight), np.eye(len(raw)).ravel()


def raw_predictions(objective: EmpiricalRisk, rows: Design, theta: Floats) -> Floats:
    """Return the raw predictions [..., outcomes, n] of parameters [..., P] for the rows."""
    found = objective.scores(rows.X, theta)
    return found[..., None, :] if isinstance(objective, MarginObjective) else np.moveaxis(found, -1, -2)


@dataclass(frozen=True, eq=False)
class Start:
    """A model [P] to correct, its name, and the place of the start to whose result its last way leads, if any."""

    name: str
    theta: Floats
    leads: int | None


def corrected(
    ridge: Ridge, pulled: Sequence[RidgeModel], starts: Sequence[Start], columns: Floats | None, grown: bool = True
) -> list[PersonalModel]:
    """Correct each of these models as far as the rows support it; the first must be zeros. `pulled` holds ridges
    towards each; trees look at `columns` [n, columns] (None: no trees). If `grown` is false, only losses are computed.
    """
    judged = [_Judged.from_start(ridge, start) for start in starts]
    linear = [each.shrunk(model) for each, model in zip(judged, pulled, strict=True)]
    ways_by_model = _ways(ridge, starts, linear, columns)
    thetas = np.array(
        [e.theta + way.share * (p.theta - e.theta) for e, way, p in zip(judged, linear, pulled, strict=True)]
    )
    mixes = list[_Mix]()
    for place, (start, theta, ways) in enumerate(zip(starts, thetas, ways_by_model, strict=True)):
        mix = _Mix.from_ways(place, theta, ways)
        mixes.append(mix if start.leads is None else mix.towards(mixes[start.leads], ways[-1].share))
    forests = _forests(ridge, thetas, mixes, columns) if grown and columns is not None else [None] * len(mixes)
    made = list[PersonalModel]()
    for e, p, line, theta, ways, mix, forest in zip(
        judged, pulled, linear, thetas, ways_by_model, mixes, forests, strict=True
    ):
        leads = None if e.start.leads is None else made[e.start.leads]
        made.append(_personal(e, p, line, theta, ways, mix, forest, leads))
    return made


def _personal(
    judged: "_Judged",
    pulled: RidgeModel,
    linear: "_Linear",
    theta: Floats,
    found: list[KeptWay],
    mix: "_Mix",
    trees: Forest | None,
    alone: PersonalModel | None,
) -> PersonalModel:
    ways = [
        Way.from_losses("joint", judged.joint, 1.0, judged.joint, judged.joint),
        Way.from_losses("ridge", pulled.losses, linear.share, linear.losses, judged.joint),
        *(Way.from_losses(each.name, each.full, each.share, each.kept, judged.joint) for each in found),
    ]
    shares, name = {name: linear.share * share for name, share in pulled.shares.items()}, judged.start.name
    shares[name] = shares.get(name, 0.0) + 1 - linear.share
    if alone is not None and ways[-1].share > 0:
        alone_share = ways[-1].share
        shares = {
            n: (1 - alone_share) * shares.get(n, 0.0) + alone_share * alone.shares.get(n, 0.0)
            for n in {**shares, **alone.shares}
        }
    losses = found[-1].kept if found else linear.losses
    return PersonalModel(mix.theta, shares, losses, theta, trees, tuple(ways), name, alone)


@dataclass(frozen=True, eq=False)
class _Linear:
    """A shrunk ridge: the share kept, the model without each fold [folds, P], and each row's loss by that."""

    share: float
    without: Floats
    losses: Floats


@dataclass(frozen=True, eq=False)
class _Mix:
    """A linear model and trees: (share, place of the start they continue or None, number of trees)."""

    theta: Floats
    trees: tuple[tuple[float, int | None, int], ...]

    @classmethod
    def from_ways(cls, place: int, theta: Floats, ways: Sequence[KeptWay]) -> "_Mix":
        kept = {way.name: way for way in ways}
        own = kept["own"].share if "own" in kept else 0.0
        trees: list[tuple[float, int | None, int]] = []
        trees += [((1 - own) * kept["trees"].share, place, kept["trees"].trees)] if "trees" in kept else []
        trees += [(own, None, kept["own"].trees)] if "own" in kept else []
        return cls((1 - own) * theta, tuple(each for each in trees if each[0] > 0))

    def towards(self, other: "_Mix", share: float) -> "_Mix":
        """Mix this with a share of another."""
        if share == 0:
            return self
        both = ((1 - share, self), (share, other))
        trees = tuple((part * each, place, count) for part, mix in both for each, place, count in mix.trees)
        return _Mix((1 - share) * self.theta + share * other.theta, trees)


def _forests(ridge: Ridge, thetas: Floats, mixes: Sequence[_Mix], columns: Floats) -> list[Forest | None]:
    """Grow the trees of each mix from all rows, each kind once."""
    mixed_trees = [tree for mix in mixes for tree in mix.trees]
    if not mixed_trees:
        return [None] * len(mixes)
    binned, rows = BinnedColumns.from_columns(columns), ridge.rows
    starts = raw_predictions(ridge.objective, rows, thetas)

    def grown(begin: Floats, depth: int, count: int) -> list[Trees]:
        steps = boosted_from(
            ridge.objective.loss, binned, rows.y, rows.weight[None], begin[:, None], depth, range(count)
        )
        return [trees for trees, _ in steps]

    on_top = grown(starts, DEPTH, max((count for _, place, count in mixed_trees if place is not None), default=0))
    counts = [count for _, place, count in mixed_trees if place is None]
    own = grown(np.zeros_like(starts[:1]), own_depth(len(judged_rows(len(rows))[0])), max(counts, default=0))

    def forest(mix: _Mix) -> Forest | None:
        made = [
            (trees, place or 0, share)
            for share, place, count in mix.trees
            for trees in (own if place is None else on_top)[:count]
        ]
        return forest_of(made, binned) if made else None

    return [forest(mix) for mix in mixes]


@dataclass(frozen=True, eq=False)
class _Judged:
    """The judging rows with their folds, and each one's loss by the model to be corrected."""

    ridge: Ridge
    places: Places
    fold: Places
    start: Start
    joint: Floats

    @classmethod
    def from_start(cls, ridge: Ridge, start: Start) -> "_Judged":
        places, fold = judged_rows(len(ridge.rows))
        return cls(ridge, places, fold, start, ridge.plain.record_losses(ridge.rows.where(places), start.theta))

    @property
    def theta(self) -> Floats:
        return self.start.theta

    def shrunk(self, pulled: RidgeModel) -> _Linear:
        """Shrink the ridge; for each fold the others choose the share."""
        if not self.theta.any():
            return _Linear(1.0, pulled.without, pulled.losses)
        along, losses = np.empty((len(CORRECTION_LENGTHS), len(self.fold))), np.empty_like(self.joint)
        for k, theta in enumerate(pulled.without):
            along[:, self.fold == k] = self._losses(k, self.theta + CORRECTION_LENGTHS[:, None] * (theta - self.theta))
        shares = np.array([share_of_others(along, self.fold == k) for k in range(len(pulled.without))])
        without = self.theta + shares[:, None] * (pulled.without - self.theta)
        for k, theta in enumerate(without):
            losses[self.fold == k] = self._losses(k, theta)
        return _Linear(kept_share(along), without, losses)

    def _losses(self, k: int, theta: Floats) -> Floats:
        """Return the losses of a fold's rows at parameters [..., P]."""
        return self.ridge.plain.record_losses(self.ridge.rows.where(self.places[self.fold == k]), theta)


def _ways(
    ridge: Ridge, starts: Sequence[Start], linear: Sequence[_Linear], columns: Floats | None
) -> list[list[KeptWay]]:
    """Return the ways of each linear model: trees on top of it, trees without it (both only if they suit the loss and
    rows), then another start's result."""
    places, fold = judged_rows(len(ridge.rows))
    rows, ways_by_model = ridge.rows.where(places), [list[KeptWay]() for _ in linear]
    begin = np.array([raw_predictions(ridge.objective, rows, each.without) for each in linear])
    raw_without_fold = [each[fold, :, np.arange(len(rows))].T for each in begin]  # of [folds, outcomes, n]

    def keep(model: int, way: KeptWay) -> None:
        ways_by_model[model].append(way)
        raw_without_fold[model] = way.raw

    binned = (
        BinnedColumns.from_columns(columns[places])
        if columns is not None and trees_possible(ridge.preparation, rows)
        else None
    )
    if binned is not None and binned.places.size:
        study = TreeStudy(ridge.objective, rows, fold, binned)
        for model, tried in enumerate(study.on_top(begin, raw_without_fold)):
            keep(model, study.kept_trees("trees", raw_without_fold[model], tried))
        own = study.from_nothing(np.zeros_like(begin[0]), raw_without_fold)
        for model in range(len(linear)):
            if own is not None and not study.behind(own, raw_without_fold[model]):
                keep(model, study.kept_trees("own", raw_without_fold[model], own))
    judge = WayStudy(ridge.objective, rows, fold)
    for model, start in enumerate(starts):
        if start.leads is not None:
            keep(model, judge.kept("alone", raw_without_fold[model], raw_without_fold[start.leads]))
    return ways_by_model
