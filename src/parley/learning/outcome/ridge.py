"""Models of few rows, pulled towards centres as strongly as cross-validation on the rows themselves says.

A pulled model minimises the sum of its rows' losses + 1/2 k h |theta - c|^2, where h is a row's average curvature in a
direction, so the centre c counts for k rows. Everything is computed from private rows without noise, for their owner.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.learning.outcome.shrinkage import pulled, without_each
from parley.losses import EmpiricalRisk
from parley.validate import Floats

Places = NDArray[np.int64]
Names = NDArray[np.str_]

CENTRE_WEIGHTS = tuple(float(k) for k in np.geomspace(0.1, 1e6, 15))  # in records
FOLDS = 10
FEWER_FOLDS = 5
MANY_ROWS = 2000  # from which on fewer folds say as much
MAX_JUDGED_ROWS = 20_000  # on which a weight is chosen: the best weight in records hardly depends on how many there are
# units of log-likelihood, in all: ways that differ by less are taken for about as good, however alike their rows'
# differences
CHANCE_LOG_LIKELIHOOD = 2.0
# of z^2 in the exponent: without it, the tail e^-z keeps a tenth in ways that are plainly worse
TAIL_SQUARE_SCALE = 10.0
# records for which the centre of a free intercept counts: rows of one class alone have a finite model too
INTERCEPT_RECORDS = 0.5


@dataclass(frozen=True, eq=False)
class Centre:
    """Where a model is pulled: `theta` [P], without the intercept if that is `free`. `name` is for reports."""

    name: str
    theta: Floats
    free: bool

    def pull(self, weights: Floats, intercepts: Floats) -> Floats:
        """Return the number of records each parameter's centre counts for [weights, P]."""
        own = np.repeat(weights[:, None], len(self.theta), axis=1)
        return np.where(intercepts > 0, np.minimum(own, INTERCEPT_RECORDS), own) if self.free else own


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """Parameters `theta` [P] made of own rows, the `shares` of their centres, and the loss of each row (`judged_rows`)
    by a model made without it."""

    theta: Floats
    shares: dict[str, float]
    losses: Floats

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def error(self) -> float:
        """The standard error of the loss."""
        return float(self.losses.std(ddof=1) / np.sqrt(len(self.losses))) if len(self.losses) > 1 else np.inf

    def to_json(self) -> dict[str, Any]:
        return {"shares": self.shares, "loss": self.loss, "error": self.error}


@dataclass(frozen=True, eq=False)
class RidgeModel(JudgedModel):
    """An average of models; `without` has that of the rows without each fold [folds, P]."""

    without: Floats


@dataclass(frozen=True, eq=False)
class Ridge:
    """The models of these rows that are pulled towards centres."""

    objective: EmpiricalRisk
    preparation: Preparation
    rows: Design

    def averages(
        self, sets: Sequence[Sequence[Centre]], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> list[RidgeModel]:
        """Average, for each set of centres, the models of all its centres and weights, by losses on held-out folds. A
        model one standard error of their difference behind the best counts about e times less (`_shares`), because
        picking the best alone would follow chance."""
        some, fold = judged_rows(len(self.rows))
        unlike = {id(centre): centre for centres in sets for centre in centres}
        ways, place = list(unlike.values()), {key: place for place, key in enumerate(unlike)}
        final, folds = self._models(self.rows, ways), int(fold.max()) + 1
        parts = [self.rows.where(some[fold == k]) for k in range(folds)]
        curves = without_each(self._smoothed, parts, final[0])
        tried, losses = np.empty((folds, *final.shape)), np.empty((*final.shape[:2], len(some)))
        for k in range(folds):
            progress(k, folds)
            tried[k] = self._models(self.rows.where(some[fold != k]), ways, final, curves[k])
            losses[:, :, fold == k] = self.plain.record_losses(parts[k], tried[k])
        chosen = [[place[id(centre)] for centre in centres] for centres in sets]
        return [self._averaged(one, [ways[c].name for c in one], parts, fold, tried, losses, final) for one in chosen]

    def _averaged(
        self,
        chosen: list[int],
        names: list[str],
        parts: list[Design],
        fold: Places,
        tried: Floats,
        losses: Floats,
        final: Floats,
    ) -> RidgeModel:
        """Average the chosen centres' models `final` [centres, weights, P] by the `losses` [centres, weights, n] of
        those `tried` without each fold. The average itself is judged on each fold with shares from the other folds."""
        seen = losses[chosen].reshape(-1, len(fold))
        each = np.repeat(names, len(CENTRE_WEIGHTS) + 1)
        unit = 2 * float(seen.mean(axis=1).min()) if self.objective.quadratic else 1.0
        share, own, without = _shares(seen, unit, each), np.empty(len(fold)), np.empty((len(tried), tried.shape[-1]))
        for k, models in enumerate(tried):
            others = _shares(seen[:, fold != k], unit, each).reshape(len(chosen), -1)
            without[k] = np.einsum("cw,cwp->p", others, models[chosen])
            own[fold == k] = self.plain.record_losses(parts[k], without[k])
        by_centre = {name: float(share[each == name].sum()) for name in dict.fromkeys(names)}
        theta = np.einsum("cw,cwp->p", share.reshape(len(chosen), -1), final[chosen])
        return RidgeModel(theta, by_centre, own, without)

    def _models(
        self, rows: Design, centres: Sequence[Centre], near: Floats | None = None, curve: Floats | None = None
    ) -> Floats:
        """Fit a model for every centre and weight [centres, 1 + weights, P], the first of infinite weight, searched
        from `near` with second derivatives `curve` [P, P]."""
        return self._fit_pulled(rows, centres, (np.inf, *CENTRE_WEIGHTS[::-1]), near, curve)

    def _fit_pulled(
        self,
        rows: Design,
        centres: Sequence[Centre],
        weights: Sequence[float],
        near: Floats | None = None,
        curve: Floats | None = None,
    ) -> Floats:
        at = np.array([np.broadcast_to(centre.theta, (len(weights), len(centre.theta))) for centre in centres])
        if not len(rows):
            return at
        intercepts = self.objective.constants(self.preparation)
        bound = np.array([weight if np.isfinite(weight) else 1e3 * CENTRE_WEIGHTS[-1] for weight in weights])
        pull = np.array([centre.pull(bound, intercepts) for centre in centres])
        thetas = at.copy()
        free = np.array([[centre.free or np.isfinite(weight) for weight in weights] for centre in centres])
        if free.any():
            squares = float(rows.weight @ rows.row_norms("l2") ** 2) / len(rows)
            curvature = self._smoothed.loss.largest_curvature * squares / rows.width
            strengths = np.maximum(pull[free] * curvature / len(rows), 1e-300)
            begin = None if near is None else near[free]
            thetas[free] = pulled(self._smoothed, rows, at[free], strengths, begin, curve)
        return thetas

    @property
    def plain(self) -> EmpiricalRisk:
        """The loss without the terms' penalty."""
        return replace(self.objective, regularisation=0.0)

    @property
    def _smoothed(self) -> EmpiricalRisk:
        return replace(self.objective, regularisation=0.0).smoothed


def judged_rows(count: int) -> tuple[Places, Places]:
    """Return the shuffled places of the judged rows, and the fold of each."""
    some = np.random.default_rng(0).permutation(count)[:MAX_JUDGED_ROWS]
    return some, np.arange(len(some)) % (FEWER_FOLDS if count >= MANY_ROWS else min(FOLDS, len(some)))


def _shares(losses: Floats, unit: float, names: Names) -> Floats:
    """Return the weight of each way from its losses [ways, n]: exp(-z - z^2/`TAIL_SQUARE_SCALE`) if it is z standard
    errors of the rows' own differences behind the best. All `names` of ways [ways] start with equal weight.

    A likelihood would take a few rows of a heavy tail for certain. `CHANCE_LOG_LIKELIHOOD`, in `unit`, keeps rows of
    one class from being certain of what they have not seen.
    """
    total = np.where(np.isfinite(losses).all(axis=1), losses.sum(axis=1), np.inf)
    many, finite = np.unique(names, return_inverse=True, return_counts=True), np.isfinite(total)
    z = np.where(finite.any() & ~finite, np.inf, 0.0)
    if losses.shape[1] > 1 and finite.any():
        excess_losses = losses[finite] - losses[total.argmin()]
        error = excess_losses.std(axis=1, ddof=1) * np.sqrt(losses.shape[1])
        z[finite] = excess_losses.sum(axis=1) / np.hypot(error, CHANCE_LOG_LIKELIHOOD * max(unit, 1e-300))
    share = np.exp(-z - z**2 / TAIL_SQUARE_SCALE) / many[2][many[1]]
    return np.asarray(share / share.sum())
