"""Models of few rows: pulled towards centres, as strongly as cross-validation on the rows themselves says.

A model of n rows of its own, pulled towards a centre c, minimises the sum of its rows' losses + 1/2 k h |theta - c|^2, where h is how much
one row bends the loss in a direction on average. So k is in records: the centre counts for as much as k rows would. Everything here is
computed from private rows without noise: for an owner's own use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from parley.data import Design, Preparation, Summable
from parley.objectives import Objective
from parley.objectives.newton import projected_newton
from parley.validate import Floats

WEIGHTS = tuple(float(k) for k in np.geomspace(0.1, 1e6, 15))  # in records
FOLDS = 5
MOST_ROWS = 20_000  # on which a weight is chosen: the best weight in records hardly depends on how many there are
SHARPNESS = 3.0  # in log-likelihood: measured on loans and incomes, where 1 follows chance and 10 forgets what the rows say
INTERCEPT = 0.5  # records for which the centre of a free intercept counts: rows of one class alone have a finite model too


@dataclass(frozen=True, eq=False)
class Centre:
    """Where a model is pulled to: `theta` [P], with the intercept or, where that is `free`, but for it. `name` is for reports."""

    name: str
    theta: Floats
    free: bool

    def pull(self, weight: float, intercepts: Floats) -> Floats:
        """How many records each parameter's centre counts for [P]."""
        own = np.full(len(self.theta), weight)
        return np.where(intercepts > 0, np.minimum(own, INTERCEPT), own) if self.free else own


@dataclass(frozen=True, eq=False)
class RidgeModel:
    """An average of models, the shares of the centres they were pulled to, and its mean loss in cross-validation, with a standard error."""

    theta: Floats
    shares: dict[str, float]
    loss: float
    error: float

    def to_json(self) -> dict[str, Any]:
        return {"shares": self.shares, "loss": self.loss, "error": self.error}


@dataclass(frozen=True, eq=False)
class Ridge:
    """All models of these rows that are pulled towards one of some centres."""

    objective: Objective
    preparation: Preparation
    rows: Design

    def average(self, centres: Sequence[Centre]) -> RidgeModel:
        """Models of all centres and weights, averaged: each counts for what it did on rows that it was not made of.

        A model that is worse than the best by a log-likelihood of `SHARPNESS` counts e times less. Picking the best alone would follow
        chance: with few rows many are about as good. Rows are split by their places; no seed decides.
        """
        some = np.random.default_rng(0).permutation(len(self.rows))[:MOST_ROWS]
        fold = np.arange(len(some)) % min(FOLDS, len(some))
        parts = [(self.rows.where(some[fold != k]), fold == k) for k in range(int(fold.max()) + 1)]
        ways = [(centre, weight) for centre in centres for weight in (np.inf, *WEIGHTS[::-1])]
        thetas = [self._path(learned, ways) for learned, _ in parts]
        losses = np.empty((len(ways), len(some)))
        for found, (_, judged) in zip(thetas, parts, strict=True):
            losses[:, judged] = [self.plain.record_losses(self.rows.where(some[judged]), theta) for theta in found]
        share = _shares(losses, 2 * float(losses.mean(axis=1).min()) if self.objective.quadratic else 1.0)
        own = np.empty(len(some))
        for found, (_, judged) in zip(thetas, parts, strict=True):
            own[judged] = self.plain.record_losses(self.rows.where(some[judged]), share @ np.array(found))
        names = list(dict.fromkeys(centre.name for centre in centres))
        by_centre = {name: float(share[[way[0].name == name for way in ways]].sum()) for name in names}
        error = float(own.std(ddof=1) / np.sqrt(len(own))) if len(own) > 1 else np.inf
        return RidgeModel(share @ np.array(self._path(self.rows, ways)), by_centre, float(own.mean()), error)

    def fit(self, rows: Summable, centre: Centre, weight: float, start: Floats | None = None) -> Floats:
        """The model [P] of these rows that is pulled towards the centre."""
        if not len(rows) or (weight == np.inf and not centre.free):
            return centre.theta
        pull = centre.pull(weight if np.isfinite(weight) else 1e3 * WEIGHTS[-1], self._intercepts(len(centre.theta)))
        return _pulled(self._rounded, rows, centre.theta, pull, centre.theta if start is None else start)

    @property
    def plain(self) -> Objective:
        """The loss without the terms' penalty."""
        return replace(self.objective, regularisation=0.0)

    @property
    def _rounded(self) -> Objective:
        return replace(self.objective, regularisation=0.0).rounded

    def _path(self, rows: Design, ways: Sequence[tuple[Centre, float]]) -> list[Floats]:
        """A model for every way; weights fall, so that each begins where the last one ended."""
        found: list[Floats] = []
        for place, (centre, weight) in enumerate(ways):
            start = found[-1] if place and ways[place - 1][0] is centre else None
            found.append(self.fit(rows, centre, weight, start))
        return found

    def _intercepts(self, parameters: int) -> Floats:
        """1 for the parameter of each constant column [P]."""
        width = self.preparation.width
        constant = np.zeros(width)
        if self.preparation.model.has_intercept:
            constant[-1] = 1.0
        return np.tile(constant, parameters // width)


def _shares(losses: Floats, unit: float) -> Floats:
    """What each way counts for, by its losses [ways, n], `unit` of which are one unit of log-likelihood."""
    total = np.where(np.isfinite(losses).all(axis=1), losses.sum(axis=1), np.inf)
    share = np.exp(-(total - total.min()) / (SHARPNESS * max(unit, 1e-300)))
    return np.asarray(share / share.sum())


def _pulled(objective: Objective, rows: Summable, centre: Floats, pull: Floats, start: Floats) -> Floats:
    """The minimiser of the mean loss + 1/2 sum_j k_j h (theta_j - c_j)^2 / n."""
    bend = objective.largest_bend * float(np.trace(rows.statistics[0])) / rows.width
    strength = np.maximum(pull * bend / len(rows), 1e-300)

    def cost(theta: Floats) -> float:
        return float(objective.cost(rows, theta)) + 0.5 * float(strength @ (theta - centre) ** 2)

    def gradient(theta: Floats) -> Floats:
        return objective.mean_gradient(rows, theta) + strength * (theta - centre)

    def hessian(theta: Floats) -> Floats | None:
        curve = objective.hessian(rows, theta)
        return None if curve is None else curve + np.diag(strength)

    curve = hessian(start)
    if curve is None:  # too many parameters to write it out
        found = minimize(
            lambda t: (cost(t), gradient(t)), start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-7}
        )
        return np.asarray(found.x)
    if objective.quadratic:
        return np.asarray(start - np.linalg.solve(curve, gradient(start)))
    return projected_newton(cost, gradient, hessian, start, np.inf)  # type: ignore[arg-type]
