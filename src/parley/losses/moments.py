"""Second moments of records z = [x, y] as one bounded vector, and the least-squares model that noisy ones imply.

With classes, y is a row of 0 with a 1 at the record's class. A record's share is the upper triangle of z z'; one beyond
the bound is scaled down as a whole, so it merely counts for less. For L2, off-diagonal entries are multiplied by sqrt
2: the vector then has the matrix's norm |z|^2, whatever the basis. S, the mean of z z' plus noise of known variance in
each packed number, has blocks A = x x', b = x y and c = y y'. Noise drives A's eigenvalues apart, and the inverse
depends most on the smallest, so A is shrunk first (`shrunk_moments`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF
from parley.losses.loss import RecordBound, tightest
from parley.privacy.mechanisms import Norm
from parley.validate import SMALLEST, Floats


class SufficientMoments(ABC):
    """An objective that depends on a table only through second moments of its records."""

    @abstractmethod
    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        """Return what gives a block's numbers [n, q] whose second moments with x determine the loss."""


def moments_length(width: int, outcomes: int = 1) -> int:
    """Return how many numbers one release has."""
    return (width + outcomes) * (width + outcomes + 1) // 2


def moments_bound(preparation: Preparation, clip: float | None, norm: Norm) -> RecordBound | None:
    """Return Xi, the smaller of the clip and the largest norm of one record's z z' within the columns' bounds."""
    features = preparation.feature_bound
    implied = math.inf
    if features is not None:  # of a class's row one number is 1
        implied = float(_norms(np.append(features, preparation.target_bound)[None, :], norm)[0]) * (1 + 1e-12)
    return tightest(clip, implied, norm)


def moments_sensitivity(bound: RecordBound, records: int, slack: float, records_per_person: int = 1) -> float:
    """Return how far one person can move the computed mean of z z' over `records` rows.

    Formal guarantee: 2 k Xi/n in L1 and sqrt 2 k Xi/n in L2. The old and new rows' sums of z z' are positive
    semidefinite and never point apart, so in L2 their difference is at most the hypotenuse. Rounding adds 2 slack Xi,
    as for gradients. A row without a target has z = 0: its sum stays positive semidefinite and its norm does not grow.
    """
    reach = 2.0 if bound.norm == "l1" else math.sqrt(2) * (1 + 4 * UNIT_ROUNDOFF)
    return bound.value * (reach * records_per_person / records + 2 * slack)


def targets(block: Design) -> Floats:
    """Return the targets of a block as a column [n, 1]."""
    return block.y[:, None]


def mean_moments(design: Summable, bound: RecordBound, outcomes: Callable[[Design], Floats] = targets) -> Floats:
    """Return the mean of z z' over the rows z = [x, outcomes], packed [d].

    >>> design = Design(np.array([[1.0], [2.0]]), np.array([1.0, 0.0]), np.ones(2))
    >>> mean_moments(design, RecordBound(100.0, "l1", clips=True))
    array([2.5, 0.5, 0.5])
    """

    def part(block: Design) -> Floats:
        z = _rows(block, outcomes)
        i, j, scale = _layout(z.shape[1], bound.noise_norm)
        counted = z * _share(z, bound)[:, None] if bound.clips else z
        return np.asarray((counted.T @ z)[i, j] * scale)

    return design.sum(part) / design.divisor


def unpack_moments(value: Floats, width: int, norm: Norm, outcomes: int = 1) -> Floats:
    """Return the symmetric matrices [..., p + q, p + q] of packed vectors [..., d]."""
    size = width + outcomes
    i, j, scale = _layout(size, norm)
    matrix = np.empty((*value.shape[:-1], size, size))
    matrix[..., i, j] = matrix[..., j, i] = value / scale
    return matrix


def moment_norms(design: Design, norm: Norm, outcomes: Callable[[Design], Floats] = targets) -> Floats:
    """Return the norm of each record's z z', unclipped."""
    return _norms(_rows(design, outcomes), norm)


def _rows(block: Design, outcomes: Callable[[Design], Floats]) -> Floats:
    """Return z = [x, outcomes] [n, p + q]; zeros for a row without a target, which is of no class either."""
    z = np.column_stack([block.X, outcomes(block)])
    z[~block.present] = 0.0
    return z


def _layout(size: int, norm: Norm) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return row, column and scale of every number in the packed vector."""
    i, j = np.triu_indices(size)
    return i, j, np.where(i == j, 1.0, 1.0 if norm == "l1" else math.sqrt(2))


def _norms(z: Floats, norm: Norm) -> Floats:
    squares: Floats = np.einsum("ij,ij->i", z, z)
    if norm == "l2":
        return squares
    return np.asarray((np.abs(z).sum(axis=1) ** 2 + squares) / 2)


def _share(z: Floats, bound: RecordBound) -> Floats:
    """Return each row's factor, slightly below Xi/norm so that rounding cannot lift it above Xi."""
    limit = bound.value / np.maximum(_norms(z, bound.noise_norm), SMALLEST**2)
    return np.asarray(np.minimum(1.0, limit * (1 - (4 * z.shape[1] + 16) * UNIT_ROUNDOFF)))


Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Solved:
    """The minimum of the noisy cost for every replicate, theta [..., q, p], and how A was lifted clear of noise."""

    theta: Floats
    lift: Floats  # [...]
    drowned: Bools  # [...]: whether A as released, not settled, has a direction that does not stand clear of the noise
    kept: Floats  # [...]: what is left of the variance of A's noise
    values: Floats  # eigenvalues of A [..., p], settled
    vectors: Floats
    curvature: Floats  # of the cost that was minimised, halved [..., p]


def shrunk_moments(A: Floats, deviation: float, norm: Norm) -> tuple[Floats, Floats]:
    """Return (A after James and Stein (1961) [..., p, p], the share of its noise's variance that is left [...]).

    The D + 1 = p (p + 1)/2 packed numbers of A have noise of variance v each. A's difference from m I, with m the mean
    of its diagonal, is multiplied by 1 - (D - 2) v/|A - m I|^2, at least 0, in the norm of packed numbers. For Gaussian
    noise and D > 2 that is closer to any truth on average. It is the posterior for numbers that vary around m I by an
    unknown variance; their variance is the same factor times v. Clear of the noise, A hardly changes; without noise not
    at all.
    """
    width = A.shape[-1]
    one, free = np.eye(width), width * (width + 1) // 2 - 3
    mean = np.trace(A, axis1=-2, axis2=-1)[..., None, None] / width * one
    difference = A - mean
    entry_weights = np.where(
        one > 0, 1.0, 0.5 if norm == "l1" else 1.0
    )  # entries off the diagonal are there twice; in L2 packed times sqrt 2
    size = np.einsum("...ij,...ij,ij->...", difference, difference, entry_weights)
    kept = np.maximum(0.0, 1 - max(free, 0) * deviation**2 / np.maximum(size, 1e-300))
    return mean + kept[..., None, None] * difference, kept


def solve(moments: Floats, width: int, deviation: float, norm: Norm, regularisation: float) -> Solved:
    """Solve (2 A + (r + 2 lift) I) theta = 2 b, A settled, with lift = max(0, noise norm - least eigenvalue).

    The matrices are [..., p + q, p + q]. A symmetric matrix whose entries deviate by d has norm about 2 d sqrt p; in L2
    layout off-diagonal entries have half the variance. Settled entries deviate by sqrt kept d, the unshrunk mean of p
    numbers by d/sqrt p. Settling hides a direction lost in the noise, so `shrinkage_doubt` is judged from A as
    released.
    """
    raw = moments[..., :width, :width]
    A, kept = shrunk_moments(raw, deviation, norm)
    values, vectors = np.linalg.eigh(A)
    entry = deviation / (1.0 if norm == "l1" else np.sqrt(2))
    lift = np.maximum(0.0, 2 * entry * np.sqrt(kept * width + (1 - kept) / width) - values[..., 0])
    drowned = np.linalg.eigvalsh(raw)[..., 0] < 2 * entry * np.sqrt(width)
    curvature = values + lift[..., None] + regularisation / 2
    along = np.einsum("...ji,...jq->...qi", vectors, moments[..., :width, width:])
    # Without noise a column that never varies has no curvature: no parameter of it matters.
    solved = along * _inverse(curvature)[..., None, :]
    return Solved(np.einsum("...ij,...qj->...qi", vectors, solved), lift, drowned, kept, values, vectors, curvature)


def covariances(moments: Floats, solved: Solved, deviation: float, norm: Norm, records: float) -> tuple[Floats, Floats]:
    """Return (covariance of theta around the population's [q, p, p], residual variance [q]) for one replicate's
    moments.

    theta - theta* is G (e_b - E theta* + mean of x residual), with G the inverse of the halved curvature, and E and e_b
    the noise left in A and b, of known covariance. The mean, over n records, has covariance s2 A/n if residuals spread
    alike everywhere, s2 = c - 2 b.theta + theta.A theta. A lift l draws theta towards 0 by l G theta*. That counts as
    doubt, as if coefficients were as large as theta's on average in every direction, since theta hides drowned ones.
    """
    width = solved.theta.shape[-1]
    G = (solved.vectors * _inverse(solved.curvature)) @ solved.vectors.T
    lifted_A = (solved.vectors * np.maximum(solved.values + solved.lift, 0.0)) @ solved.vectors.T
    A, shrinkage = (
        (solved.vectors * solved.values) @ solved.vectors.T,
        np.maximum(solved.values, 0.0) * _inverse(solved.curvature),
    )
    theta_covariances, spreads = [], []
    for place, theta in enumerate(solved.theta):
        b, c = moments[:width, width + place], moments[width + place, width + place]
        spread = max(0.0, float(c - 2 * b @ theta + theta @ A @ theta))
        shrinkage_doubt = (
            float(solved.lift) ** 2 * float(theta @ theta) / max(float(shrinkage @ shrinkage), 1e-9) * np.eye(width)
        )
        noise = noise_covariance(theta, deviation, norm, float(solved.kept))
        theta_covariances.append(G @ (noise + spread / records * lifted_A + shrinkage_doubt) @ G)
        spreads.append(spread)
    return np.array(theta_covariances), np.array(spreads)


def noise_covariance(theta: Floats, deviation: float, norm: Norm, kept: float = 1.0) -> Floats:
    """Return the covariance of e_b - E theta, E symmetric. Packed numbers have variance v; in L2, off-diagonal entries
    of E have v/2. `kept` of E's variance is left, except for that of the mean of its diagonal.

    >>> noise_covariance(np.array([2.0]), 1.0, "l1")
    array([[5.]])
    """
    v, squares, one = deviation**2, kept * float(theta @ theta), np.eye(len(theta))
    mean = (1 - kept) * v / len(theta) * np.outer(theta, theta)
    if norm == "l1":
        return np.asarray(v * ((1 + squares) * one + kept * (np.outer(theta, theta) - np.diag(theta**2))) + mean)
    return np.asarray(v / 2 * ((1 + squares) * one + kept * np.outer(theta, theta)) + mean)


def _inverse(curvature: Floats) -> Floats:
    """Return 1/curvature, and 0 where there is none."""
    return np.divide(1.0, curvature, out=np.zeros_like(curvature), where=curvature > 1e-13 * curvature[..., -1:])
