"""What noisy second moments say about the least-squares model: the model, and how far it may be off.

S = mean of z z' over the records z = [x, y], plus noise of known variance v in each packed number. Its blocks are A = x x', b = x y and
c = y y'. With a flat prior the moments are a posteriori normal around S: exactly for Gaussian noise, by its variance for Laplace noise.
"""

from dataclasses import dataclass

import numpy as np

from parley.mechanisms import Norm
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Solved:
    """The minimum of the noisy cost, for every replicate: theta [..., q, p], and by how much A was lifted to stand clear of the noise."""

    theta: Floats
    lift: Floats  # [...]
    values: Floats  # eigenvalues of A [..., p], as released
    vectors: Floats
    bend: Floats  # of the cost that was minimised, halved [..., p]


def solve(moments: Floats, width: int, deviation: float, norm: Norm, regularisation: float) -> Solved:
    """(2 A + (r + 2 lift) I) theta = 2 b for matrices [..., p + q, p + q]; lift = max(0, noise norm - least eigenvalue).

    A symmetric matrix whose entries deviate by d has a norm of about 2 d sqrt p; in L2 layout off-diagonal entries have half the variance.
    """
    values, vectors = np.linalg.eigh(moments[..., :width, :width])
    clear = 2 * deviation * np.sqrt(width) / (1.0 if norm == "l1" else np.sqrt(2))
    lift = np.maximum(0.0, clear - values[..., 0])
    bend = values + lift[..., None] + regularisation / 2
    along = np.einsum("...ji,...jq->...qi", vectors, moments[..., :width, width:])
    # Without noise a column that never varies bends nothing: no parameter of it matters.
    solved = along * _inverse(bend)[..., None, :]
    return Solved(np.einsum("...ij,...qj->...qi", vectors, solved), lift, values, vectors, bend)


def covariances(moments: Floats, solved: Solved, deviation: float, norm: Norm, records: float) -> tuple[Floats, Floats]:
    """(covariance of theta around the population's [q, p, p], residual variance [q]), of one replicate's moments, to first order.

    theta - theta* is close to G (e_b - E theta + mean of x residual), G the inverse of the halved bend: E and e_b are the noise in A and b,
    of known covariance; the mean over n records of x times the residual has covariance s2 A/n where residuals spread alike everywhere,
    s2 = c - 2 b.theta + theta.A theta. Where A was lifted by l, theta is drawn towards 0 by about l G theta: that counts as doubt, too.
    """
    width = solved.theta.shape[-1]
    G = (solved.vectors * _inverse(solved.bend)) @ solved.vectors.T
    sure = (solved.vectors * np.maximum(solved.values + solved.lift, 0.0)) @ solved.vectors.T
    found, spreads = [], []
    for place, theta in enumerate(solved.theta):
        b, c = moments[:width, width + place], moments[width + place, width + place]
        spread = max(0.0, float(c - 2 * b @ theta + theta @ moments[:width, :width] @ theta))
        away = solved.lift * (G @ theta)
        found.append(G @ (noise_covariance(theta, deviation, norm) + spread / records * sure) @ G + np.outer(away, away))
        spreads.append(spread)
    return np.array(found), np.array(spreads)


def noise_covariance(theta: Floats, deviation: float, norm: Norm) -> Floats:
    """Of e_b - E theta, E symmetric: packed numbers have variance v; in L2, packed times sqrt 2, entries off the diagonal have v/2.

    >>> noise_covariance(np.array([2.0]), 1.0, "l1")
    array([[5.]])
    """
    v, squares = deviation**2, float(theta @ theta)
    if norm == "l1":
        return np.asarray(v * ((1 + squares) * np.eye(len(theta)) + np.outer(theta, theta) - np.diag(theta**2)))
    return np.asarray(v / 2 * ((1 + squares) * np.eye(len(theta)) + np.outer(theta, theta)))


def _inverse(bend: Floats) -> Floats:
    """1/bend, and 0 where nothing bends."""
    return np.divide(1.0, bend, out=np.zeros_like(bend), where=bend > 1e-13 * bend[..., -1:])
