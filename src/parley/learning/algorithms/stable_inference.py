"""Federated inference from answers with stable noise, which has no mean square.

For studies only: no sampler of that law is safe to release with (`mechanisms.stable`). Each owner's moments are located
by the law (`mechanisms.stable_law`), never averaged; owners are weighted by records, and the model is solved as in
`fedinfer`. A coefficient's error is a stable plus a normal number: exactly stable for single answers, nearly normal for
several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import SettingError
from parley.losses.moments import Solved, solve, unpack_moments
from parley.privacy.mechanisms.stable_law import check_alpha, posterior_moments, reach
from parley.validate import Floats, positive


@dataclass(frozen=True, eq=False)
class StableAnswers:
    """One owner's answers: its mean z z', packed for L1, m times [m, d], each with fresh noise.

    Parameters
    ----------
    values
        Answers [m, d].
    scale
        Scale of the noise of each.
    records
        The owner's number of records.

    Examples
    --------
    >>> StableAnswers(np.ones((1, 3)), 0.1, 200).records
    200
    """

    values: Floats
    scale: float
    records: int


@dataclass(frozen=True, eq=False)
class StableModel:
    """A model theta [q, p], in units of prepared columns, with errors that are stable numbers of scale `scales` [q, p]
    plus normal ones of deviation `deviations` [q, p]."""

    theta: Floats
    alpha: float
    scales: Floats
    deviations: Floats
    repaired: bool  # the moments drowned in noise and were lifted

    def intervals(self, level: float = 0.9) -> Floats:
        """Return (low, high) of every population coefficient [q, p, 2] at this probability."""
        if not 0 < level < 1:
            raise SettingError(f"level = {level}: expected a probability between 0 and 1")
        laws = zip(self.scales.ravel(), self.deviations.ravel(), strict=True)
        half = np.array(
            [reach(level, self.alpha, float(scale), float(deviation)) for scale, deviation in laws]
        ).reshape(self.theta.shape)
        return np.stack([self.theta - half, self.theta + half], axis=-1)


def infer_stable(
    answers: Sequence[StableAnswers], alpha: float, width: int, outcomes: int = 1, regularisation: float = 0.0
) -> StableModel:
    """Infer the model and the law of its errors from these owners' answers.

    Parameters
    ----------
    answers
        Each owner's answers.
    alpha
        Index of the stable law, below 2.
    width
        Number of features.
    outcomes
        Number of entries of y.
    regularisation
        Weight of the ridge.

    Returns
    -------
    StableModel
        The coefficients `theta`, and their `intervals`.

    Examples
    --------
    >>> packed = np.array([[1.0, 0.5, 0.5]])  # mean x x, x y, y y of one feature
    >>> infer_stable([StableAnswers(packed, 1e-6, 10_000)], alpha=1.7, width=1).theta.round(2).tolist()
    [[0.5]]
    """
    alpha = check_alpha(alpha)
    if alpha == 2:
        raise SettingError(
            "alpha = 2: stable noise with this alpha is Gaussian; train with mechanism = 'gaussian' and "
            "algorithm = 'fedinfer'"
        )
    rows = float(sum(owner.records for owner in answers))
    size = answers[0].values.shape[-1]
    # the sum of |weight scale|^alpha, and variances
    packed, stable, normal = np.zeros(size), np.zeros(size), np.zeros(size)
    for owner in answers:
        share, scale = owner.records / rows, positive(owner.scale, "scale")
        if len(owner.values) == 1:
            packed += share * owner.values[0]
            stable += (share * scale) ** alpha
        else:
            mean, variance = posterior_moments(owner.values, alpha, scale)
            packed += share * mean
            normal += share**2 * variance
    moments = unpack_moments(packed, width, "l1", outcomes)
    typical = reach(0.6827, alpha, float(np.median(stable)) ** (1 / alpha), float(np.median(normal)) ** 0.5)
    solved = solve(moments, width, typical, "l1", regularisation)
    scales, deviations = [], []
    for place, theta in enumerate(solved.theta):
        moved, other = _errors(moments, solved, theta, place, rows)
        scales.append((np.abs(moved) ** alpha @ stable) ** (1 / alpha))
        deviations.append(np.sqrt(moved**2 @ normal + np.diag(other)))
    return StableModel(solved.theta, alpha, np.array(scales), np.array(deviations), bool(solved.drowned))


def _errors(moments: Floats, solved: Solved, theta: Floats, place: int, records: float) -> tuple[Floats, Floats]:
    """Return the effect on coefficients of an error in each packed number [p, d], and the covariance of all else [p,
    p]. theta - theta* = G (e_b - E theta* + mean of x residual), as in `losses.moments`."""
    width, size = len(theta), len(moments)
    inverse = 1 / solved.curvature
    G, A = (solved.vectors * inverse) @ solved.vectors.T, (solved.vectors * solved.values) @ solved.vectors.T
    i, j = np.triu_indices(size)
    moves, left = np.zeros((width, len(i))), float(solved.kept) ** 0.5
    for k, (row, column) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        if column < width:
            moves[row, k] -= left * theta[column]
            moves[column, k] -= left * theta[row] * (row != column)
        elif row < width and column == width + place:
            moves[row, k] = 1.0
    b, c = moments[:width, width + place], moments[width + place, width + place]
    spread = max(0.0, float(c - 2 * b @ theta + theta @ A @ theta))
    kept = np.maximum(solved.values, 0.0) * inverse
    drowned = float(solved.lift) ** 2 * float(theta @ theta) / max(float(kept @ kept), 1e-9)
    positive_part = (solved.vectors * np.maximum(solved.values + solved.lift, 0.0)) @ solved.vectors.T
    return G @ moves, G @ (spread / records * positive_part + drowned * np.eye(width)) @ G
