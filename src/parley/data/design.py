"""A prepared table, the input of an objective.

Proof that no magnitude breaks a sensitivity (S = SMALLEST = 1e-50, H = LARGEST = 1e50, u = 2^-53; at most 1e15 rows and
p = 1e7 columns):

- Inputs. Features x and targets y are 0 or in [S, H] in size (`data.preparation`); so are their bounds, and weights w,
  clip, radius and regularisation (`terms`). Parameters are at most H.
- Sums of squares neither vanish nor overflow. x^2 is 0 or in [1e-100, 1e100], w x^2 in [1e-150, 1e150], a record's
  scaled-down z z' above 1e-270: all normal doubles, and sums of p of them are below 1e160. So norms of rows and of
  bounds, second moments and curvatures have the relative error that counting roundings gives, and a row is 0 only if
  all its cells are.
- Quotients are finite. A row's norm is 0 or from S to 1e57; that of a zero row is taken as S. So clip/|x| is in
  [1e-107, 1e100].
- Products are finite. |theta.x| <= 1e107, so a derivative before clipping is at most 1e160. A gradient, clipped or
  bounded by bounds, is at most 1e220; local steps stay in their box, and the rest is smaller. No infinity arises, so no
  NaN, and `MAX_MAGNITUDE` is far away.
- Some products may vanish: with a tiny parameter, tiny derivatives of the logistic loss, tiny steps. Each such
  operation is off by at most 2^-1075 instead of u times its result. A mean gradient has p^2 of them on the way to all
  coordinates (statistics times theta), together below 1e-309. `summation_slack` counts four roundings too many, worth 4
  u Xi, and Xi is at least 1e-150 (2 S^3 for a regression by bounds; else S^2 by bounds, S by clip). In a local step a
  margin may be off by p 2^-1075. That moves a gradient by B|x| times as much, B the largest curvature with weights.
  `LocalUpdate` allows for 32 u radius/rho, at least 16 u S B|f|^2 with f the bounds of x, which is more since |f| >= S.
  A correction is at most H and at most radius/rho and Xi, a pull at most 2 radius mu with rho mu <= 2: times rho they
  are at most 5 radius and rho Xi.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from parley.data import rowwise
from parley.data.blocks import sum_blocks
from parley.data.cluster import HeldBlocks, current_cluster
from parley.validate import Floats

T = TypeVar("T")

BLOCK_ROWS = 4096  # rows summed at once: small enough for the cache, and part of the rounding bound below
UNIT_ROUNDOFF = 2.0**-53  # relative error of one floating-point operation
_NORMS = {"_l1", "_l2", "_linf"}


class Summable(ABC):
    """Prepared rows to sum over, in memory or elsewhere. `secret`: they were drawn in secret, so what a row contributes
    must not depend on the others (`drawn`)."""

    secret: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows, including those without a target."""

    @property
    def divisor(self) -> int:
        """The public number by which sums are divided to give means: the rows, unless people are held out."""
        return len(self)

    @property
    @abstractmethod
    def width(self) -> int:
        """p: how many numbers a row has."""

    @property
    @abstractmethod
    def statistics(self) -> tuple[Floats, Floats, float]:
        """(X'WX, X'Wy, y'Wy) / `divisor`: all that a squared loss needs of the table, computed once."""

    @abstractmethod
    def sum(self, part: Callable[["Design"], Floats]) -> Floats:
        """Add up part(block) over blocks of at most `BLOCK_ROWS` rows, every row once.

        Formal guarantee: the rounding error is at most that of `summation_slack`; the result is the same to the bit
        every time.
        """

    @abstractmethod
    def in_memory(self) -> "Design":
        """Return the rows themselves; a `DataError` if they are too many to hold."""

    @abstractmethod
    def batch(self, places: NDArray[np.int64]) -> "Summable":
        """Return the rows at these places; how they are summed does not depend on what they hold."""

    @abstractmethod
    def drawn(self, places: NDArray[np.int64]) -> "Summable":
        """Return the rows at places that were drawn in secret.

        Formal guarantee: what a row contributes to a sum is a function of that row and the parameters; who else was
        drawn changes no bit of it (`data.rowwise`). The sum itself may be rounded in any order, as in
        `summation_slack`.
        """

    @property
    @abstractmethod
    def studied(self) -> "Design | None":
        """The rows, if nobody outside sees how long sums take, so that the time may depend on the rows; else None."""

    @abstractmethod
    def for_studies(self) -> "Summable":
        """Return the same rows for use where nothing leaves the machine."""

    @property
    def untargeted(self) -> int:
        """The number of rows without a target: they count, and contribute nothing. It is as private as the rows."""
        return 0

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value computed from this table, computed once per key."""
        if key not in self._derived:
            self._derived[key] = make()
        value: T = self._derived[key]
        return value

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Design(Summable):
    """Rows `X` [n, p], targets `y` [n] (classes as -1 and 1) and weights [n], 0 for a row without a target
    (`data.targets`).

    >>> Design(np.ones((4, 2)), np.zeros(4), np.ones(4)).statistics[0]
    array([[1., 1.],
           [1., 1.]])
    """

    X: Floats
    y: Floats
    weight: Floats
    # nobody outside sees how long sums over it take, so their work may depend on what the rows hold
    study: bool = False
    secret: bool = False
    mean_over: int | None = None  # the divisor of all rows, of which some count 0; None, as for some of them: the rows

    def __len__(self) -> int:
        return len(self.y)

    @property
    def divisor(self) -> int:
        return len(self) if self.mean_over is None else self.mean_over

    def empty(self) -> "Design":
        """Return a design of the same width without rows."""
        return self.cut(slice(0))

    def where(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> "Design":
        """Return the rows at a mask or at places."""
        return replace(self, X=self.X[kept], y=self.y[kept], weight=self.weight[kept], mean_over=None)

    def cut(self, rows: slice) -> "Design":
        """Return neighbouring rows without copying them."""
        return replace(self, X=self.X[rows], y=self.y[rows], weight=self.weight[rows], mean_over=None)

    def apart(self) -> "Design":
        """Copy the rows, keeping the order of rows and columns in memory."""
        return replace(self, X=np.copy(self.X, order="K"), y=self.y.copy(), weight=self.weight.copy())

    def batch(self, places: NDArray[np.int64]) -> "Design":
        all_rows = len(places) == len(self) and np.array_equal(places, np.arange(len(self)))
        return self._part(slice(None) if all_rows else places)  # a slice copies nothing

    def drawn(self, places: NDArray[np.int64]) -> "Design":
        batch = self.batch(places)
        secret = replace(batch, secret=True)
        vars(secret).update({norm: vars(batch)[norm] for norm in _NORMS & vars(batch).keys()})
        return secret

    def _part(self, rows: NDArray[np.int64] | slice) -> "Design":
        X = self.X[rows] if isinstance(rows, slice) else self.X.take(rows, axis=0)  # quicker than an index
        some = replace(self, X=X, y=self.y[rows], weight=self.weight[rows], study=False, mean_over=None)
        for norm in _NORMS & vars(self).keys():  # computed once for all rows
            vars(some)[norm] = vars(self)[norm][rows]
        return some

    def for_studies(self) -> "Design":
        return replace(self, study=True)

    def in_memory(self) -> "Design":
        return self

    @property
    def studied(self) -> "Design | None":
        return self if self.study else None

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    @property
    def present(self) -> NDArray[np.bool_]:
        """A mask of the rows that have a target [n]."""
        return self.weight > 0

    def targeted(self) -> "Design":
        """Return the rows that have a target. Only for the owner's own use: their number need not be public."""
        return self.where(self.present) if self.untargeted or self.divisor != len(self) else self

    @cached_property
    def untargeted(self) -> int:
        return len(self) - int(np.count_nonzero(self.present))

    @cached_property
    def weighted(self) -> bool:
        """Whether any record's weight differs from 1."""
        return bool((self.weight != 1).any())

    @cached_property
    def blocks(self) -> list[slice]:
        """Consecutive slices of at most `BLOCK_ROWS` rows."""
        return [slice(start, start + BLOCK_ROWS) for start in range(0, len(self), BLOCK_ROWS)]

    @cached_property
    def pieces(self) -> list["Design"]:
        """The same blocks as designs."""
        return [self._part(rows) for rows in self.blocks]

    def sum(self, part: Callable[["Design"], Floats]) -> Floats:
        cluster = current_cluster() if self.study and len(self) > BLOCK_ROWS else None
        if cluster is None:
            return sum_blocks(part, self.pieces)
        return cluster.sum(self, HeldBlocks, self.pieces, part)

    def margins(self, flat: Floats) -> Floats:
        """Return every row's products with parameters: [R, p] -> [R, n]."""
        return rowwise.products(self.X, flat) if self.secret else np.asarray(flat @ self.X.T)

    def curved(self, curvature: Floats) -> Floats:
        """Return X' diag(c) X [p, p] for c [n], none below 0; BLAS computes one half of this symmetric product."""
        weighted_rows = self.X * np.sqrt(curvature)[:, None]
        return np.asarray(weighted_rows.T @ weighted_rows)

    def exp(self, values: Floats) -> Floats:
        """Return e^x of values that belong to the rows [..., n]. May overwrite them."""
        return rowwise.exp(values) if self.secret else np.exp(values, out=values)

    def logistic(self, values: Floats) -> Floats:
        """Return 1/(1 + e^-x) of values that belong to the rows [..., n]. May overwrite them."""
        return rowwise.logistic(values) if self.secret else np.asarray(expit(values, out=values))

    def row_norms(self, norm: str) -> Floats:
        """Return the L1, L2 or Linf norm of every row of X, computed once."""
        if norm == "linf":
            return self._linf
        return self._l1 if norm == "l1" else self._l2

    @cached_property
    def _linf(self) -> Floats:
        return np.asarray(np.maximum(self.X.max(axis=1, initial=0.0), -self.X.min(axis=1, initial=0.0)))

    @cached_property
    def _l1(self) -> Floats:
        return rowwise.absolute_sums(self.X) if self.secret else np.asarray(np.abs(self.X).sum(axis=1))

    @cached_property
    def _l2(self) -> Floats:
        squares = rowwise.square_sums(self.X) if self.secret else np.einsum("ij,ij->i", self.X, self.X)
        return np.asarray(np.sqrt(squares))

    @cached_property
    def statistics(self) -> tuple[Floats, Floats, float]:
        p = self.width
        A, b, c = np.zeros((p, p)), np.zeros(p), 0.0
        for rows in self.blocks:
            X, y, w = self.X[rows], self.y[rows], self.weight[rows]
            XW = X * w[:, None]
            A += XW.T @ X
            b += XW.T @ y
            c += float((y * w) @ y)
        return A / self.divisor, b / self.divisor, c / self.divisor


def summation_slack(rows: int, width: int) -> float:
    """Return the relative error of a mean over `rows` rows, summed block by block in any order within a block.

    Formal guarantee: a sum of n products computed by blocks is off by at most gamma_m = m u/(1 - m u) times the sum of
    their absolute values, with m = BLOCK_ROWS + number of blocks + width + 8 roundings on any path from a term to the
    result (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1; u = 2^-53, fused or reordered
    operations included).
    """
    roundings = (min(BLOCK_ROWS, rows) + -(-rows // BLOCK_ROWS) + width + 8) * UNIT_ROUNDOFF
    return roundings / (1 - roundings)


def pooled(designs: list[Design]) -> Design:
    """Concatenate the rows of several designs."""
    if len(designs) == 1:
        return designs[0]
    return Design(
        np.concatenate([d.X for d in designs]),
        np.concatenate([d.y for d in designs]),
        np.concatenate([d.weight for d in designs]),
        secret=any(d.secret for d in designs),
        mean_over=sum(d.divisor for d in designs),
    )
