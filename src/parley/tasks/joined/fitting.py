"""Models from noisy second moments over matched people.

Least squares is solved as elsewhere (`losses.moments`). Logistic regression is not a function of second moments: its
slope sigma(m) at a margin m = x.theta is replaced by a straight line alpha + beta m. The cost's minimum then solves

    beta A theta + r theta = (b + a)/2 - alpha a,    A = mean of x x', a = mean of x, b = mean of x y, y = -1 or 1.

The line is the tangent at margin 0, then the best line for margins that are normal with the mean and variance that
theta itself gives them, until they agree: for normal x that is the true minimum (Stein's lemma; Erdogdu, Bayati and
Dicker 2016). From a public start it is the best line for the margins of the public rows under their own best fit, and
where noise hides a direction of the columns the model stays near that fit instead of zero.
"""

from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from parley import losses
from parley.data import Design, Preparation
from parley.errors import DataError
from parley.learning.outcome.posterior import Posterior
from parley.learning.start import public_fit
from parley.losses import EmpiricalRisk
from parley.losses.moments import Solved, covariances, solve
from parley.tasks.joined.plan import JoinPlan
from parley.validate import Floats

NODES = 60  # of the quadrature over normal margins
MAX_TURNS = 200
LEAST_SLOPE = 1e-3  # of the line: below it margins would grow without end
TANGENT = (0.5, 0.25)  # alpha and beta at margin 0
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class MeanMoments:
    """The mean of z z' over matched people, in units of values; its constant is 1. `deviation`: of one number's noise;
    `people`: the noisy number of matched people, at least 1."""

    matrix: Floats
    people: float
    deviation: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model theta [P] in the units of prepared columns, and its certainty, if known."""

    theta: Floats
    posterior: Posterior | None
    drowned: bool  # whether some direction does not stand clear of the noise


def mean_moments(packed: Floats, unit: int, deviation: float) -> MeanMoments:
    """Return the mean of z z' from the opened sums, row by row of the upper triangle, in squared grid steps."""
    size = int((np.sqrt(8 * len(packed) + 1) - 1) / 2)
    sums, upper = np.empty((size, size)), np.triu_indices(size)
    sums[upper] = sums.T[upper] = packed / unit**2
    people = max(float(sums[-1, -1]), 1.0)
    return MeanMoments(sums / people, people, deviation / people)


def fit_moments(
    plan: JoinPlan, moments: MeanMoments, only: Places | None = None, start: "PublicStart | None" = None
) -> Fitted:
    """Return the model that these moments imply; `only` these of the model's columns count, by default all. `start`: by
    default what the terms say."""
    model = plan.whole.model
    places = np.append(plan.features, [plan.constant] * model.has_intercept).astype(np.intp)
    chosen = np.arange(len(places)) if only is None else only
    taken = np.concatenate([places[chosen], plan.targets])
    matrix, width = moments.matrix[np.ix_(taken, taken)], len(chosen)
    solved = without_negative(solve(matrix, width, moments.deviation, "l1", model.penalty), matrix, model.penalty)
    theta, covariance, residual = solved.theta, None, None
    if model.predicts == "two classes":
        mean = moments.matrix[places[chosen], plan.constant]
        if start is None and plan.terms.learning.start is not None:
            start = public_start(plan)
        theta = _logistic(_Surrogate(solved, matrix[:width, width], mean, model.penalty), start, chosen, plan)[None]
    else:
        covariance, spread = covariances(matrix, solved, moments.deviation, "l1", moments.people)
        residual = np.sqrt(spread) * plan.target_size
    scale = plan.target_size / plan.sizes[chosen]
    whole = np.zeros((len(theta), len(places)))
    whole[:, chosen] = theta * scale
    posterior = None
    if covariance is not None and residual is not None and only is None:
        around = covariance * np.outer(scale, scale)
        posterior = Posterior(whole, around, residual, moments.people, bool(solved.drowned))
    return Fitted(whole.reshape(-1), posterior, bool(solved.drowned))


def without_negative(solved: Solved, matrix: Floats, ridge: float) -> Solved:
    """Return the solution with eigenvalues of A below 0, which only noise makes, set to 0 before A is lifted.

    The lift is then at most the noise's norm. Where many columns drown, as bins do, an eigenvalue far below 0 would
    otherwise lift all others with it. Where every eigenvalue stands clear of the noise nothing changes.
    """
    width = solved.theta.shape[-1]
    values = np.maximum(solved.values, 0.0)
    lift = np.maximum(solved.lift + solved.values[0] - values[0], 0.0) if solved.lift > 0 else solved.lift
    curvature = values + lift + ridge / 2
    along = matrix[:width, width:].T @ solved.vectors
    theta = (along * _inverse(curvature)) @ solved.vectors.T
    return replace(solved, theta=theta, lift=lift, values=values, curvature=curvature)


def _inverse(curvature: Floats) -> Floats:
    """Return 1/curvature, and 0 where there is none."""
    clear = curvature > 1e-13 * curvature[-1]
    return np.divide(1.0, curvature, out=np.zeros_like(curvature), where=clear)


@dataclass(frozen=True, eq=False)
class PublicStart:
    """The best fit of the public sample, in the units of prepared columns, and the line for its margins."""

    theta: Floats
    level: float
    slope: float


@dataclass(frozen=True, eq=False)
class _Surrogate:
    """The quadratic cost of one release, in units of divided columns."""

    solved: Solved
    b: Floats
    mean: Floats
    ridge: float

    def minimum(self, level: float, slope: float, towards: Floats | float = 0.0) -> Floats:
        """Solve (A + lift + r/beta) theta = ((b + a)/2 - alpha a)/beta + lift times `towards`."""
        solved = self.solved
        wanted = ((self.b + self.mean) / 2 - level * self.mean) / slope + solved.lift * towards
        inverse = _inverse(solved.values + solved.lift + self.ridge / slope)
        return np.asarray(solved.vectors @ (inverse * (wanted @ solved.vectors)))


def _logistic(cost: _Surrogate, start: PublicStart | None, chosen: Places, plan: JoinPlan) -> Floats:
    """Return theta [p]: by the line of the public start and near it, or by the line that fits its own margins."""
    if start is not None:
        return cost.minimum(start.level, start.slope, start.theta[chosen] * plan.sizes[chosen])
    level, slope = TANGENT
    theta = cost.minimum(level, slope)
    for _ in range(MAX_TURNS):
        found = normal_line(float(cost.mean @ theta), _variance(cost.solved, cost.mean, theta))
        level, slope, before = found[0], max(found[1], LEAST_SLOPE), slope
        theta = cost.minimum(level, slope)
        if abs(slope - before) <= 1e-10:
            break
    return theta


def _variance(solved: Solved, mean: Floats, theta: Floats) -> float:
    along = theta @ solved.vectors
    return max(float((solved.values * along) @ along) - float(mean @ theta) ** 2, 0.0)


def normal_line(mean: float, variance: float) -> tuple[float, float]:
    """Return (alpha, beta) of the line that is best for sigma at margins of a normal law: beta = E sigma'(m).

    >>> normal_line(0.0, 0.0)
    (0.5, 0.25)
    """
    nodes, weights = _quadrature()
    sigma = expit(mean + np.sqrt(variance) * nodes)
    slope = float(weights @ (sigma * (1 - sigma)))
    return round(float(weights @ sigma) - slope * mean, 15), round(slope, 15)


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Return the nodes of a normal law and their weights, which add up to 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=4)
def public_start(plan: JoinPlan) -> PublicStart:
    """Return the start that the whole public sample gives."""
    if plan.public is None:
        raise DataError("model.public: missing; learning.start = 'public' needs a public sample")
    return start_from(plan, plan.public)


def start_from(plan: JoinPlan, rows: Design) -> PublicStart:
    """Return the best fit of these public rows, and the line that is best for sigma at their margins."""
    objective = risk(plan.whole)
    fit = public_fit(objective, rows, None, objective.start(plan.whole))
    if fit is None:
        raise DataError(
            "learning.start: the public sample has no best fit (its classes may be separable); remove learning.start"
        )
    margins = objective.scores(rows.X, fit.theta)
    variance, sigma = float(np.var(margins)), expit(margins)
    slope = float(np.cov(margins, sigma, bias=True)[0, 1]) / variance if variance > 0 else TANGENT[1]
    level = float(sigma.mean()) - slope * float(margins.mean())
    return PublicStart(fit.theta, level, max(slope, LEAST_SLOPE))


def risk(preparation: Preparation) -> EmpiricalRisk:
    """Return the cost whose minimum is the model."""
    objective = losses.make(preparation.model).bounded_by(preparation)
    if not isinstance(objective, EmpiricalRisk):
        raise DataError(f"model.kind = {preparation.model.kind!r}: this model has no cost by record")
    return objective


def scored_rows(plan: JoinPlan, features: Floats, y: Floats) -> Design:
    """Return matched people as the model takes them: `features` [n, p] at most 1 in size, prepared targets [n]."""
    constant = np.ones((len(features), int(plan.whole.model.has_intercept)))
    return Design(np.column_stack([features, constant]) * plan.sizes, y, np.ones(len(y)))
