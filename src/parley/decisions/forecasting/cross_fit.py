"""What public trees are worth on rows they were not grown on, and how far their leaf values lie from the best.

Trees fit the rows they were grown on far too well, so these cannot judge them. Public rows judge by folds: trees are
grown anew without each fold, and its rows say what the trees cost, which way the cost falls there, and by how much.

Around a public fit of n rows the best parameter theta* lies about as a likelihood has it, away by a normal vector of
covariance c(h) s/(n h) in a direction of curvature h, s being the noise of one record's gradient in units of the
curvature. Boosting stops early, so it errs less where the cost is flat: c(h) = c (1/4 + 3/4 h/(h + r)), r a hundredth
of the largest curvature. c and s are measured on the folds: a fold's mean gradient g is H (theta0 - theta*) and noise,
and sums over pairs of different rows tell the first from the second without bias. Curvature is that of rows that were
not grown on, too: probabilities of the others lie too close to 0 and 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import eigsh

from parley.data import Design
from parley.data.fitting import PUBLIC, read_public
from parley.data.tree_growing import grow
from parley.decisions.forecasting.grown_sample import SETTLED
from parley.errors import DataError, SettingError
from parley.learning.start import folds
from parley.losses import EmpiricalRisk
from parley.losses.loss import Loss
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.model import Trees
from parley.validate import Floats

FOLDS = 10
# ways of growing to choose from, slow by halves of the sample or fast by all of it, and the folds that choose
GROWTHS, GROWTH_FOLDS = ({"rate": 0.05, "rows": 0.5}, {"rate": 0.1, "rows": 1.0}, {"rate": 0.2, "rows": 1.0}), 5
# where fast ones are best: more and larger trees, of which as many leaves are fitted again, and the rest is a margin
LARGE = {"count": 200, "leaves": 24, "rate": 0.1, "rows": 1.0, "refitted": 33}
TELLING = 5  # of the folds, those whose gradients are looked at: a curvature is dear
HEARD = 1e-2  # of the largest curvature: r
FLAT = 0.25  # of c, where the cost is flat
# the c that such trees mostly have (0.7 to 1.3 on three tables), and how many measurements that counts for: one of them
# is off by about 1
USUAL, SURE = 0.9, 8.0
WORSE = 3.0  # standard errors by which pinned trees may cost more on the public sample than trees that never saw it
LEAST, MOST = 0.1, 3.0  # what c may come out as
DRAWN = 16  # leaf values as they may come out


@dataclass(frozen=True)
class CrossFit:
    """What rows say of trees that were grown without them."""

    cost: float  # of the trees alone, prepared
    spread: float  # its standard error
    noise: float  # s
    share: float  # c
    curvature: float  # of rows that no tree was grown on, in units of that of the others
    scores: Floats  # [n]: what trees say of each row that were grown without it

    def draws(self, curvature: Floats, directions: Floats, records: int) -> Floats:
        """How far leaf values grown on so many rows may lie from the best [B, P], in opposite pairs; curvature [P] and
        its directions [P, P] are those of the cost."""
        largest = float(curvature.max())
        told = curvature > SETTLED * largest
        share = self.share * (FLAT + (1 - FLAT) * curvature / (curvature + HEARD * largest))
        deviation = np.sqrt(share * self.noise / records / np.where(told, curvature, 1.0)) * told
        drawn = np.random.default_rng(0).standard_normal((DRAWN // 2, len(curvature))) * deviation
        return np.concatenate([drawn, -drawn]) @ directions.T


def cross_fit(setup: Setup) -> CrossFit:
    """The trees of these terms, grown anew without each fold of their public sample, which judges them."""
    loss = setup.risk.loss
    if not isinstance(loss, Loss):
        raise SettingError(
            "model.columns: what trees of several classes are worth cannot be told yet; train without a forecast, or "
            "take 'bins'"
        )
    costs, found, scores = list[float](), list[tuple[float, float, float]](), dict[int, float]()
    for objective, theta, design, held in _folds(setup):
        scores |= zip(np.flatnonzero(held).tolist(), objective.scores(design.X[held], theta).tolist(), strict=True)
        judges = design.where(held)
        costs.append(_cost(objective, theta, judges))
        if len(found) < TELLING:
            found.append(_judged(objective, loss, theta, design.where(~held), judges))
    noises, signals, curvatures = np.array(found).T
    noise, curvature = float(noises.mean()), float(curvatures.mean())
    measured = float(signals.mean()) / noise
    share = float(np.clip((measured + SURE * USUAL) / (1 + SURE), LEAST, MOST))
    cost, spread = float(np.mean(costs)), float(np.std(costs, ddof=1)) / len(costs) ** 0.5
    said = np.array([scores[place] for place in range(len(scores))])
    _require_as_good(setup, cost + WORSE * spread)
    return CrossFit(cost, spread, noise / curvature, share, curvature, said)


def _require_as_good(setup: Setup, most: float) -> None:
    """Refuse (DataError) pinned trees that cost more than this on the very rows that they are said to be grown on."""
    there = setup.preparation
    if there.model.preparation is None:
        return
    columns, y, weight = _known(setup)
    objective = replace(setup.risk, origin=None).around(there)
    cost = _cost(objective, objective.start(there), Design(there.leaf_columns(columns).T, y, weight))
    if not cost <= most:
        raise DataError(
            f"model.preparation: the trees of this file cost {cost / most:.3g} times as much on the public sample as "
            "trees that are grown without the rows they are judged by, so they were not grown on it as model.trees "
            "says; pin them anew (parley pin)"
        )


def with_best_growth(terms: Terms) -> Terms:
    """The terms with that way of growing for which trees cost least on public rows held back; larger samples bear
    faster ones, and some a large model, of which most is a margin."""
    size, box = Trees() if terms.model.trees is None else terms.model.trees, terms.model.radius
    tried = [terms.changed(model={"trees": {**size.model_dump(), **growth}}) for growth in GROWTHS]
    setup = resolve(tried[0])  # but for the trees themselves all have one preparation
    costs = [_grown_cost(replace(setup, terms=each)) for each in tried]
    best = tried[int(np.argmin(costs))]
    if best is tried[0] or box is not None or size.model_fields_set & {"count", "leaves"}:
        return best  # a margin needs a weight that no box bears, and a size that somebody chose stays
    large = terms.changed(model={"trees": {**size.model_dump(), **LARGE}})
    return large if _grown_cost(replace(setup, terms=large)) < min(costs) else best


def _grown_cost(setup: Setup) -> float:
    """What trees cost on rows that they were grown without."""
    found = _folds(setup, GROWTH_FOLDS)
    return float(np.mean([_cost(objective, theta, rows.where(held)) for objective, theta, rows, held in found]))


def _folds(setup: Setup, count: int = FOLDS) -> Iterator[tuple[EmpiricalRisk, Floats, Design, NDArray[np.bool_]]]:
    """(objective, public leaf values, rows, which of them judge trees that were grown on the others) for each fold."""
    preparation, size = setup.preparation, setup.terms.model.trees
    if size is None:
        raise DataError("model.columns: expected 'trees'")
    columns, y, weight = _known(setup)
    for held in folds(len(y), count):
        known = columns[:, ~held], y[~held], weight[~held]
        forest = grow(size, *known, preparation.outcomes, preparation.model.classifies, preparation.named)
        there = replace(preparation, forest=forest)
        design = Design(there.leaf_columns(columns).T, y, weight)
        objective = replace(setup.risk, origin=None).around(there)
        yield objective, objective.start(there), design, held


def _known(setup: Setup) -> tuple[Floats, Floats, Floats]:
    """The public sample: coded columns [columns, n], prepared targets [n], weights [n]."""
    preparation, public = setup.preparation, read_public(setup.terms.model)
    y = preparation.target(public, PUBLIC)
    return preparation.clipped(preparation.coded(public, PUBLIC)), y, preparation.weights(y)


def _cost(objective: EmpiricalRisk, theta: Floats, rows: Design) -> float:
    """What these rows cost at public leaf values, which no penalty pulls away."""
    return float(np.mean(objective.record_losses(rows, theta)))


def _judged(
    objective: EmpiricalRisk, loss: Loss, theta: Floats, grown: Design, held: Design
) -> tuple[float, float, float]:
    """(s, c s, curvature in units of that of the rows grown on) as the rows of one fold show them."""
    bends = objective.record_curvatures(grown, theta)
    if bends is None:
        raise SettingError(
            "model.columns: how far leaf values are from the best cannot be told of so many parameters; take fewer "
            "trees, or train without a forecast"
        )
    curvature = grown.curved(bends) / len(grown)
    gradients, rows = objective.record_gradients(held, theta), len(held)
    ridge = HEARD * float(eigsh(curvature, 1, return_eigenvectors=False, tol=1e-2)[0])
    factor = cho_factor(curvature + ridge * np.eye(len(theta)))
    turned = cho_solve(factor, gradients.T)
    inverse = ridge * cho_solve(factor, np.eye(len(theta)))
    told = len(theta) - float(np.trace(inverse))  # tr A, A = (H + r)^-1 H
    both = told - float(np.trace(inverse)) + float(np.einsum("ij,ij->", inverse, inverse))  # tr A^2
    each = float(np.einsum("ij,ji->", gradients, turned))
    pairs = float(gradients.sum(axis=0) @ turned.sum(axis=1)) - each
    signal = pairs / (rows * (rows - 1)) / (FLAT * told + (1 - FLAT) * both) * len(grown)
    outside, inside = (float(np.mean(loss.hessian(d.X @ theta, d.y) * d.weight)) for d in (held, grown))
    return each / rows / told, signal, outside / inside
