"""The second moments of records z = [x, y] as one bounded vector: all that a squared loss needs of a table, in a single
release.

Where there are classes, y is a row of 0 with a 1 at the record's class (`SufficientMoments.outcomes`): one number
beside x, as far as bounds go.

One record's share is the upper triangle of z z'. A record that exceeds the bound is scaled down as a whole, so the
released matrix is that of a table in which it merely counts for less. For noise calibrated in L2 the off-diagonal
entries are multiplied by sqrt 2: the vector's norm is then the matrix's, |z|^2, whatever the basis.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.record_bound import RecordBound, tightest
from parley.privacy.mechanisms import Norm
from parley.validate import SMALLEST, Floats


class SufficientMoments(ABC):
    """What an objective knows of which the second moments of records say everything."""

    @abstractmethod
    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        """What the second moments of a record need beside x, [n, q] of a block, to say everything about its loss."""


def moments_length(width: int, outcomes: int = 1) -> int:
    """How many numbers one release has for `width` features and so many numbers of y."""
    return (width + outcomes) * (width + outcomes + 1) // 2


def moments_bound(preparation: Preparation, clip: float | None, norm: Norm) -> RecordBound | None:
    """Xi: the most that one record's z z' can measure: the smaller of the terms' clip and what the bounds of its
    columns imply."""
    features = preparation.feature_bound
    implied = math.inf
    if features is not None:  # of a class's row one number is 1
        implied = float(_norms(np.append(features, preparation.target_bound)[None, :], norm)[0]) * (1 + 1e-12)
    return tightest(clip, implied, norm)


def moments_sensitivity(bound: RecordBound, records: int, slack: float, records_per_person: int = 1) -> float:
    """How far one person can move the computed mean of z z' over `records` rows.

    Formal guarantee: in L1, 2 k Xi/n. In L2, sqrt 2 k Xi/n: the old rows' sum of z z' and the new rows' are both
    positive semidefinite, so they never point apart, and their difference is at most the hypotenuse. Rounding adds 2
    slack Xi as for gradients. A row without a target has z = 0: the sum it is part of is positive semidefinite as
    before, and measures less.
    """
    reach = 2.0 if bound.norm == "l1" else math.sqrt(2) * (1 + 4 * UNIT)
    return bound.value * (reach * records_per_person / records + 2 * slack)


def targets(block: Design) -> Floats:
    """The targets of a block as a column [n, 1]."""
    return block.y[:, None]


def mean_moments(design: Summable, bound: RecordBound, outcomes: Callable[[Design], Floats] = targets) -> Floats:
    """The mean of z z' over the rows z = [x, outcomes], packed [d].

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
    """The symmetric matrices [..., p + q, p + q] of packed vectors [..., d]."""
    size = width + outcomes
    i, j, scale = _layout(size, norm)
    matrix = np.empty((*value.shape[:-1], size, size))
    matrix[..., i, j] = matrix[..., j, i] = value / scale
    return matrix


def moment_norms(design: Design, norm: Norm, outcomes: Callable[[Design], Floats] = targets) -> Floats:
    """How large each record's z z' is, unclipped."""
    return _norms(_rows(design, outcomes), norm)


def _rows(block: Design, outcomes: Callable[[Design], Floats]) -> Floats:
    """z = [x, outcomes] [n, p + q]; all zeros for a row without a target, which is of no class either."""
    z = np.column_stack([block.X, outcomes(block)])
    z[~block.present] = 0.0
    return z


def _layout(size: int, norm: Norm) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Row, column and scale of every number in the packed vector."""
    i, j = np.triu_indices(size)
    return i, j, np.where(i == j, 1.0, 1.0 if norm == "l1" else math.sqrt(2))


def _norms(z: Floats, norm: Norm) -> Floats:
    """The norm of every row's packed z z'."""
    squares: Floats = np.einsum("ij,ij->i", z, z)
    if norm == "l2":
        return squares
    return np.asarray((np.abs(z).sum(axis=1) ** 2 + squares) / 2)


def _share(z: Floats, bound: RecordBound) -> Floats:
    """How much each row counts, a hair below Xi/norm so that rounding cannot lift it above Xi."""
    limit = bound.value / np.maximum(_norms(z, bound.noise_norm), SMALLEST**2)
    return np.asarray(np.minimum(1.0, limit * (1 - (4 * z.shape[1] + 16) * UNIT)))
