"""The worth of public trees on rows they were not grown on, and how far their leaf values lie from the best.

Trees fit the rows they were grown on far too well, so public rows judge by folds: trees are grown again without each
(`protocol.tree_folds`), and its rows give the trees' cost, gradient and curvature.

Around a public fit of n rows the best theta* lies away by a normal vector of covariance c(h) s/(n h) in a direction of
curvature h, s being the noise of one record's gradient in units of the curvature. Boosting stops early, so it errs less
where the cost is flat: c(h) = c (1/4 + 3/4 h/(h + r)), r a hundredth of the largest curvature. c and s are measured on
the folds: a fold's mean gradient is H (theta0 - theta*) and noise, and sums over pairs of different rows separate the
two without bias.

For an interval the public rows are drawn again, in columns that were grown on them; leaf values stay. So losses and
curvatures of single rows are found once. Nearly all of the cost's curvature lies in some directions; the rest is spread
evenly among the others. That moves a version's forecast by less than 1e-3 of itself, and versions differ by a tenth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from scipy.sparse.linalg import eigsh

from parley.data.split import HeldBack
from parley.decisions.knowledge.sources import Landscape, Sample, Source
from parley.errors import DataError, SettingError
from parley.losses import EmpiricalRisk
from parley.losses.loss import Loss
from parley.protocol.setup import Setup, resolve
from parley.protocol.tree_folds import TreeFold, require_as_good, tree_folds
from parley.terms import Terms
from parley.terms.keys import Trees
from parley.validate import Floats

SETTLED_CURVATURE = 1e-3  # of the largest curvature: in flatter directions nothing is learned, whatever lies there
MIN_KNOWN_CURVATURE = 1e-4  # of the largest curvature: flatter directions are not told apart in rows drawn again
# ways of growing to choose from, slow by halves of the sample or fast by all of it
GROWTH_SETTINGS = ({"rate": 0.05, "rows": 0.5}, {"rate": 0.1, "rows": 1.0}, {"rate": 0.2, "rows": 1.0})
# where fast ones are best: more and larger trees, of which as many leaves are fitted again, and the rest is a margin
LARGE_TREES = {"count": 200, "leaves": 24, "rate": 0.1, "rows": 1.0, "refitted": 33}
MAX_FOREST_COLUMNS = 40  # columns beyond which a forest takes seconds to grow
CHOOSING_FOLDS = 4  # of the folds, those that choose how trees are grown
MEASURING_FOLDS = 5  # of the folds, those whose gradients are looked at: a curvature is dear
STOPPING_CURVATURE = 1e-2  # of the largest curvature: r
FLAT_SHARE = 0.25  # of c, where the cost is flat
# the c that such trees mostly have (0.7 to 1.3 on three tables), and how many measurements that counts for: one of them
# is off by about 1
USUAL_SHARE, USUAL_SHARE_WEIGHT = 0.9, 8.0
LEAST_SHARE, LARGEST_SHARE = 0.1, 3.0  # what c may come out as
DRAWN_LEAF_VALUES = 16  # leaf values as they may come out


@dataclass(frozen=True)
class CrossFit:
    """The judgement of rows on trees that were grown without them."""

    held_back: HeldBack  # what the trees alone cost, prepared
    noise: float  # s
    share: float  # c
    curvature: float  # of rows that no tree was grown on, in units of that of the others
    scores: Floats  # [n]: what trees say of each row that were grown without it

    def draws(self, curvature: Floats, directions: Floats, records: int) -> Floats:
        """Draw possible errors of leaf values [B, P], in opposite pairs; curvature [P] and directions [P, P] are the
        cost's."""
        largest = float(curvature.max())
        curved = curvature > SETTLED_CURVATURE * largest
        share = self.share * (FLAT_SHARE + (1 - FLAT_SHARE) * curvature / (curvature + STOPPING_CURVATURE * largest))
        deviation = np.sqrt(share * self.noise / records / np.where(curved, curvature, 1.0)) * curved
        drawn = np.random.default_rng(0).standard_normal((DRAWN_LEAF_VALUES // 2, len(curvature))) * deviation
        return np.concatenate([drawn, -drawn]) @ directions.T


def cross_fit(setup: Setup) -> CrossFit:
    """Grow the terms' trees again without each fold of their public sample, and judge them on that fold."""
    loss = setup.risk.loss
    if not isinstance(loss, Loss):
        raise SettingError(
            "model.columns: trees for several classes cannot be forecast yet; train without a forecast, or use 'bins'"
        )
    costs, judged = list[float](), list[tuple[float, float, float]]()
    scores = np.empty(0 if setup.public is None else len(setup.public))
    for fold in tree_folds(setup):
        scores[fold.held] = fold.objective.scores(fold.judges.X, fold.theta)
        costs.append(fold.cost)
        if len(judged) < MEASURING_FOLDS:
            judged.append(_judged(fold, loss))
    noises, signals, curvatures = np.array(judged).T
    noise, curvature = float(noises.mean()), float(curvatures.mean())
    if not noise > 0:
        raise DataError(
            "the public sample: trees predict held-out rows without error, so there is nothing to forecast; remove "
            "any column that reveals the target"
        )
    measured = float(signals.mean()) / noise
    share = float(
        np.clip((measured + USUAL_SHARE_WEIGHT * USUAL_SHARE) / (1 + USUAL_SHARE_WEIGHT), LEAST_SHARE, LARGEST_SHARE)
    )
    grown = HeldBack(np.array(costs))
    require_as_good(setup, grown)
    return CrossFit(grown, noise / curvature, share, curvature, scores)


def with_best_growth(terms: Terms) -> Terms:
    """Return the terms with the way of growing whose trees cost least on public rows held back."""
    size, box = Trees() if terms.model.trees is None else terms.model.trees, terms.model.radius
    if _wide(terms, size):
        return _grown_by(terms, size, GROWTH_SETTINGS[0])
    best, cost = _cheapest(terms, size, GROWTH_SETTINGS)
    if best == 0 or box is not None or size.model_fields_set & {"count", "leaves"}:
        return _grown_by(
            terms, size, GROWTH_SETTINGS[best]
        )  # a margin needs a weight that no box bears; a chosen size stays
    return _grown_by(
        terms, size, LARGE_TREES if _cheapest(terms, size, [LARGE_TREES])[1] < cost else GROWTH_SETTINGS[best]
    )


def with_best_margin(terms: Terms) -> Terms:
    """Return the terms with lines beside the margin of those trees that cost least on public rows held back."""
    size, margins = Trees(), [{**growth, "refitted": 0} for growth in GROWTH_SETTINGS]
    if _wide(terms, size):
        return _grown_by(terms, size, margins[0])
    return _grown_by(terms, size, margins[_cheapest(terms, size, margins)[0]])


@dataclass(frozen=True, eq=False)
class GrownSample(Sample):
    """Public rows in columns grown on them: their own cost is too small, and most directions are too flat to learn."""

    optimism: float = 0.0  # by how much the rows cost too little
    flatness: float = 1.0  # what their curvature is to be multiplied with

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        seen = super().landscape(objective, radius, origin)
        curvature, least = seen.curvature * self.flatness, seen.least_cost + self.optimism
        above = 0.5 * float(np.mean(seen.starts**2 @ (curvature + objective.regularisation)))
        return replace(seen, least_cost=least, start_cost=least + above, curvature=curvature, records=None)

    def _estimation(self, spread: Floats, curvature: Floats, penalty: float) -> float:
        """Return the same in directions that are not flat."""
        curved = curvature > SETTLED_CURVATURE * float(curvature[-1])
        return float((spread[curved] / curvature[curved]).sum()) / 2

    def redrawn(
        self, objective: EmpiricalRisk, here: Landscape, rng: np.random.Generator, count: int
    ) -> "list[tuple[RedrawnRows, Floats]]":
        """Draw `count` versions with replacement, each with a start [1, r] of `here`, the landscape of these rows."""
        bends, directions, n = objective.record_curvatures(self.design, here.optimum), here.directions, len(self.design)
        if bends is None or directions is None:
            raise SettingError("model.columns: the trees have too many leaves for a forecast; use fewer trees")
        curved = here.curvature > MIN_KNOWN_CURVATURE * float(here.curvature.max())
        bends = bends * (self.flatness / n)
        seen = GrownRows(
            here,
            (self.design.X @ directions[:, curved]) * np.sqrt(bends)[:, None],
            bends * self.design.row_norms("l2") ** 2,
            (objective.record_losses(self.design, here.optimum) + float(objective.penalty(here.optimum))) / n,
            self.optimism,
        )
        starts, drawn = here.starts[:, curved], [rng.integers(n, size=n) for _ in range(count)]
        return [
            (RedrawnRows(self, seen, np.bincount(rows, minlength=n)), starts[[b % len(starts)]])
            for b, rows in enumerate(drawn)
        ]


@dataclass(frozen=True, eq=False)
class GrownRows:
    """Each row's contributions at the leaf values, in `here`, the landscape of all rows once each."""

    here: Landscape
    bent: Floats  # [n, r]: the row in those directions that bend, times the root of its share in the curvature
    squares: Floats  # [n]: its share in the curvature of all directions together
    losses: Floats  # [n]: its share in the cost
    optimism: float


@dataclass(frozen=True, eq=False)
class RedrawnRows(Source):
    """The rows, each counted as often as it was drawn. Parameters are counted from the leaf values, in curved
    directions. For moments alone: no algorithm can run on them."""

    sample: GrownSample
    seen: GrownRows
    times: NDArray[np.intp]  # [n]

    @property
    def width(self) -> int:
        return int(self.seen.bent.shape[1])

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        curvature, directions = self._principal
        away = np.zeros((1, self.width)) if origin is None else np.atleast_2d(origin)
        starts, least = away @ directions, float(self.times @ self.seen.losses) + self.seen.optimism
        above = 0.5 * float(np.mean(starts**2 @ (curvature + objective.regularisation)))
        estimation, best = self.seen.here.estimation, np.zeros(self.width)
        return Landscape(starts, least, least + above, curvature, directions, estimation, None, best=best)

    @cached_property
    def _principal(self) -> tuple[Floats, Floats]:
        """Curvature [p] and its directions [r, p]: the curved ones, and the flat ones, all alike."""
        some = np.flatnonzero(self.times)
        rows = self.seen.bent[some] * np.sqrt(self.times[some])[:, None]
        values, directions = np.linalg.eigh(rows.T @ rows)
        flat = len(self.seen.here.curvature) - len(values)
        left = max(float(self.times @ self.seen.squares) - float(values.sum()), 0.0) / max(flat, 1)
        curvature = np.concatenate([np.maximum(values, 0.0), np.full(flat, left)])
        return curvature, np.concatenate([directions, np.zeros((len(values), flat))], axis=1)

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        return self.sample.interval(forecast, as_if_true, others, records)

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        return self.sample.others(rng, count)


def _cheapest(terms: Terms, size: Trees, growths: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    setup = resolve(_grown_by(terms, size, growths[0]))  # all have one preparation, except for the trees themselves
    folds = [islice(tree_folds(replace(setup, terms=_grown_by(terms, size, each))), CHOOSING_FOLDS) for each in growths]
    costs = np.mean([[fold.cost for fold in each] for each in folds], axis=1)
    return int(np.argmin(costs)), float(costs.min())


def _wide(terms: Terms, size: Trees) -> bool:
    return (
        len(resolve(_grown_by(terms, size, {**GROWTH_SETTINGS[0], "refitted": None})).preparation.unturned.labels)
        > MAX_FOREST_COLUMNS
    )


def _grown_by(terms: Terms, size: Trees, growth: Mapping[str, Any]) -> Terms:
    return terms.changed(model={"trees": {**size.model_dump(), **growth}})


def _judged(fold: TreeFold, loss: Loss) -> tuple[float, float, float]:
    """Return (s, c s, curvature in units of that of the rows grown on) by the rows of one fold."""
    objective, theta, grown, held = fold.objective, fold.theta, fold.grown, fold.judges
    bends = objective.record_curvatures(grown, theta)
    if bends is None:
        raise SettingError(
            "model.columns: there are too many parameters to measure how far leaf values are from their optimum; use "
            "fewer trees, or train without a forecast"
        )
    curvature = grown.curved(bends) / len(grown)
    gradients, rows = objective.record_gradients(held, theta), len(held)
    ridge = STOPPING_CURVATURE * float(eigsh(curvature, 1, return_eigenvectors=False, tol=1e-2)[0])
    factor = cholesky(curvature + ridge * np.eye(len(theta)), lower=True)
    turned = cho_solve((factor, True), gradients.T)
    half = ridge * dpotri(factor, lower=1)[0]  # r (H + r)^-1, of which one half says all; the other is zero
    own = np.diagonal(half)
    curved = len(theta) - float(own.sum())  # tr A, A = (H + r)^-1 H
    both = curved - float(own.sum()) + 2 * float(np.vdot(half, half)) - float(own @ own)  # tr A^2
    each = float(np.einsum("ij,ji->", gradients, turned))
    pairs = float(gradients.sum(axis=0) @ turned.sum(axis=1)) - each
    signal = pairs / (rows * (rows - 1)) / (FLAT_SHARE * curved + (1 - FLAT_SHARE) * both) * len(grown)
    outside, inside = (float(np.mean(loss.hessian(d.X @ theta, d.y) * d.weight)) for d in (held, grown))
    return each / rows / curved, signal, outside / inside
