"""What public trees are worth on rows they were not grown on, and how far their leaf values lie from the best.

Trees fit the rows they were grown on far too well, so these cannot judge them. Public rows judge by folds: trees are
grown anew without each (`protocol.tree_folds`), and its rows say what the trees cost, which way the cost falls there,
and by how much.

Around a public fit of n rows the best parameter theta* lies about as a likelihood has it, away by a normal vector of
covariance c(h) s/(n h) in a direction of curvature h, s being the noise of one record's gradient in units of the
curvature. Boosting stops early, so it errs less where the cost is flat: c(h) = c (1/4 + 3/4 h/(h + r)), r a hundredth
of the largest curvature. c and s are measured on the folds: a fold's mean gradient g is H (theta0 - theta*) and noise,
and sums over pairs of different rows tell the first from the second without bias. Curvature is that of rows that were
not grown on, too: probabilities of the others lie too close to 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from scipy.sparse.linalg import eigsh

from parley.decisions.knowledge.grown_sample import SETTLED
from parley.errors import SettingError
from parley.losses.loss import Loss
from parley.protocol.setup import Setup, resolve
from parley.protocol.tree_folds import HeldBack, TreeFold, require_as_good, tree_folds
from parley.terms import Terms
from parley.terms.model import Trees
from parley.validate import Floats

# ways of growing to choose from, slow by halves of the sample or fast by all of it
GROWTHS = ({"rate": 0.05, "rows": 0.5}, {"rate": 0.1, "rows": 1.0}, {"rate": 0.2, "rows": 1.0})
# where fast ones are best: more and larger trees, of which as many leaves are fitted again, and the rest is a margin
LARGE = {"count": 200, "leaves": 24, "rate": 0.1, "rows": 1.0, "refitted": 33}
WIDEST = 40  # columns beyond which large trees take minutes to grow
CHOOSING = 4  # of the folds, those that choose how trees are grown
TELLING = 5  # of the folds, those whose gradients are looked at: a curvature is dear
HEARD = 1e-2  # of the largest curvature: r
FLAT = 0.25  # of c, where the cost is flat
# the c that such trees mostly have (0.7 to 1.3 on three tables), and how many measurements that counts for: one of them
# is off by about 1
USUAL, SURE = 0.9, 8.0
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
    costs, found = list[float](), list[tuple[float, float, float]]()
    said = np.empty(0 if setup.public is None else len(setup.public))
    for fold in tree_folds(setup):
        said[fold.held] = fold.objective.scores(fold.judges.X, fold.theta)
        costs.append(fold.cost)
        if len(found) < TELLING:
            found.append(_judged(fold, loss))
    noises, signals, curvatures = np.array(found).T
    noise, curvature = float(noises.mean()), float(curvatures.mean())
    measured = float(signals.mean()) / noise
    share = float(np.clip((measured + SURE * USUAL) / (1 + SURE), LEAST, MOST))
    grown = HeldBack.of(costs)
    require_as_good(setup, grown)
    return CrossFit(grown.cost, grown.spread, noise / curvature, share, curvature, said)


def with_best_growth(terms: Terms) -> Terms:
    """The terms with that way of growing for which trees cost least on public rows held back; larger samples bear
    faster ones, and some a large model, of which most is a margin."""
    size, box = Trees() if terms.model.trees is None else terms.model.trees, terms.model.radius
    best, cost = _cheapest(terms, size, GROWTHS)
    wide = len(resolve(_grown_by(terms, size, GROWTHS[0])).preparation.labels) > WIDEST
    if best == 0 or wide or box is not None or size.model_fields_set & {"count", "leaves"}:
        return _grown_by(terms, size, GROWTHS[best])  # a margin needs a weight that no box bears; a chosen size stays
    return _grown_by(terms, size, LARGE if _cheapest(terms, size, [LARGE])[1] < cost else GROWTHS[best])


def with_best_margin(terms: Terms) -> Terms:
    """The terms with straight lines beside a margin of those trees that cost least on public rows held back."""
    size, margins = Trees(), [{**growth, "refitted": 0} for growth in GROWTHS]
    return _grown_by(terms, size, margins[_cheapest(terms, size, margins)[0]])


def _cheapest(terms: Terms, size: Trees, growths: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """(the place of the growth whose trees cost least on rows that they were grown without, what they cost)."""
    setup = resolve(_grown_by(terms, size, growths[0]))  # but for the trees themselves all have one preparation
    folds = [islice(tree_folds(replace(setup, terms=_grown_by(terms, size, each))), CHOOSING) for each in growths]
    costs = np.mean([[fold.cost for fold in each] for each in folds], axis=1)
    return int(np.argmin(costs)), float(costs.min())


def _grown_by(terms: Terms, size: Trees, growth: Mapping[str, Any]) -> Terms:
    return terms.changed(model={"trees": {**size.model_dump(), **growth}})


def _judged(fold: TreeFold, loss: Loss) -> tuple[float, float, float]:
    """(s, c s, curvature in units of that of the rows grown on) as the rows of one fold show them."""
    objective, theta, grown, held = fold.objective, fold.theta, fold.grown, fold.judges
    bends = objective.record_curvatures(grown, theta)
    if bends is None:
        raise SettingError(
            "model.columns: how far leaf values are from the best cannot be told of so many parameters; take fewer "
            "trees, or train without a forecast"
        )
    curvature = grown.curved(bends) / len(grown)
    gradients, rows = objective.record_gradients(held, theta), len(held)
    ridge = HEARD * float(eigsh(curvature, 1, return_eigenvectors=False, tol=1e-2)[0])
    factor = cholesky(curvature + ridge * np.eye(len(theta)), lower=True)
    turned = cho_solve((factor, True), gradients.T)
    half = ridge * dpotri(factor, lower=1)[0]  # r (H + r)^-1, of which one half says all; the other is zero
    own = np.diagonal(half)
    told = len(theta) - float(own.sum())  # tr A, A = (H + r)^-1 H
    both = told - float(own.sum()) + 2 * float(np.vdot(half, half)) - float(own @ own)  # tr A^2
    each = float(np.einsum("ij,ji->", gradients, turned))
    pairs = float(gradients.sum(axis=0) @ turned.sum(axis=1)) - each
    signal = pairs / (rows * (rows - 1)) / (FLAT * told + (1 - FLAT) * both) * len(grown)
    outside, inside = (float(np.mean(loss.hessian(d.X @ theta, d.y) * d.weight)) for d in (held, grown))
    return each / rows / told, signal, outside / inside
