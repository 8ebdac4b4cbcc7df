"""What one user's ratings say about the items, bounded as a whole: the gradient that owners release of a matrix factorisation.

A rating is about middle + b_i + a_u + p_u.q_i. The items' V = [b, Q] are public in every round. An owner solves (a_u, p_u) for each of its
users from that user's ratings and V alone, so it has no state between rounds. Then each rated item gets e (1, p_u), e the error that is
left, and a constant that counts it. One rating moves its user's (a_u, p_u) and so all of that user's terms: whatever the unit of privacy,
it is the user's terms together that are clipped.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from parley.data.design import UNIT
from parley.data.ratings import Places, Ratings
from parley.errors import SettingError
from parley.mechanisms import Bounded, Norm
from parley.objectives.objective import RecordBound
from parley.validate import Floats, positive, whole

LARGEST_ITEM = 1e6  # of V: far beyond any use, and squares of it are far from overflowing


@dataclass(frozen=True, eq=False)
class UserRatings:
    """Ratings user by user, as distances from the middle of the scale: those of user `u` lie at first[u] to first[u + 1]."""

    first: NDArray[np.int64]
    items: Places
    values: Floats
    item_count: int

    def __len__(self) -> int:
        return len(self.first) - 1


def by_user(ratings: Ratings, users: NDArray[np.int64], low: float, high: float) -> UserRatings:
    """The ratings of these users (public, some may have none), moved into [low, high]; of those of one user for one item, the first."""
    row = np.full(len(ratings.user_names), -1)
    row[users] = np.arange(len(users))
    place = row[ratings.users]
    if len(ratings) and (place.min() < 0 or ratings.items.min() < 0 or ratings.items.max() >= len(ratings.item_names)):
        raise SettingError("users: expected everybody who rated something, and only listed items")
    _, order = np.unique(place * len(ratings.item_names) + ratings.items, return_index=True)
    first = np.searchsorted(place[order], np.arange(len(users) + 1)).astype(np.int64)
    values = np.clip(ratings.values[order], low, high) - (low + high) / 2
    return UserRatings(first, ratings.items[order], values, len(ratings.item_names))


@dataclass(frozen=True)
class UserUpdate:
    """How a user's terms are made and bounded: `ridge` on p_u and `own_ridge` on a_u, `count` what a rated item counts, `clip` on all."""

    clip: float
    norm: Norm = "l2"
    ridge: float = 10.0
    own_ridge: float = 1.0
    count: float = 0.3

    def __post_init__(self) -> None:
        for name in ("clip", "ridge", "own_ridge", "count"):
            value = positive(getattr(self, name), name)
            if not 1e-50 <= value <= 1e50:
                raise SettingError(f"{name} = {value:g}: expected a number from 1e-50 to 1e50")

    def mean(self, table: UserRatings, V: Floats) -> Bounded:
        """The mean over users of their clipped terms [items (factors + 2)]: the gradient in b, in Q, and how often an item is rated.

        Formal guarantee: replacing all ratings of one user (and so replacing, adding or removing one rating) moves the computed value by at
        most `sensitivity` in `norm`, the number of users being public. A user's terms are a function of its ratings and V. What is added of
        them measures at most clip: the size of m stored numbers is computed with a relative error of at most (m + 2) u, which the margin of
        4 (m + 8) u covers with its own rounding and that of every product; squares that vanish belong to terms below 1e-150, nothing beside
        a clip of 1e-50; what measures infinity or is no number counts for nothing. So the exact mean moves by at most 2 clip/n. A user has
        one rating of an item (`by_user`) and adds one number to each coordinate at most, in the order of users: a computed sum is off by
        at most gamma_n times the sum of sizes, the mean by gamma_n clip, the slack of `RecordBound`.
        """
        if V.ndim != 2 or V.shape[0] != table.item_count or not np.abs(V).max(initial=0.0) <= LARGEST_ITEM:
            raise SettingError(f"V: expected a row for each of {table.item_count} items, of numbers up to {LARGEST_ITEM:g} in size")
        total, _, _ = self._terms(table, V)
        return Bounded(total.ravel() / len(table), self.sensitivity(len(table)), self.norm)

    def sensitivity(self, users: int) -> float:
        """How far one of so many users can move the mean."""
        roundings = (whole(users, "users") + 8) * UNIT
        return RecordBound(self.clip, self.norm, clips=True).sensitivity(users, roundings / (1 - roundings))

    def solved(self, table: UserRatings, V: Floats) -> tuple[Floats, Floats]:
        """(a_u and p_u of every user [n, factors + 1], what its terms measure before they are clipped [n]). They stay with the owner."""
        _, own, sizes = self._terms(table, V)
        return own, sizes

    def _terms(self, table: UserRatings, V: Floats) -> tuple[Floats, Floats, Floats]:
        settings = self.own_ridge, self.ridge, self.count, self.clip, self.norm == "l1"
        own = np.array(V)  # what is read-only would be compiled for once more
        found: tuple[Floats, Floats, Floats] = _terms(table.first, table.items, table.values, own, *settings)
        return found


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _terms(
    first: NDArray[np.int64],
    items: Places,
    values: Floats,
    V: Floats,
    own_ridge: float,
    ridge: float,
    count: float,
    clip: float,
    absolute: bool,
) -> tuple[Floats, Floats, Floats]:
    """(the sum of clipped terms [items, m + 1], what users are solved to [users, m], sizes [users]); m = factors + 1."""
    users, m = len(first) - 1, V.shape[1]
    total = np.zeros((V.shape[0], m + 1))
    solved, sizes = np.zeros((users, m)), np.zeros(users)
    longest = 1
    for u in range(users):
        longest = max(longest, first[u + 1] - first[u])
    terms, A, x = np.zeros((longest, m + 1)), np.zeros((m, m)), np.zeros(m)
    for u in range(users):
        begin, end = first[u], first[u + 1]
        if begin == end:
            continue
        y = solved[u]
        for c in range(m):
            for d in range(c + 1):
                A[c, d] = 0.0
        for j in range(begin, end):
            i = items[j]
            left = values[j] - V[i, 0]
            for c in range(m):
                x[c] = V[i, c] if c else 1.0
                y[c] += x[c] * left
                for d in range(c + 1):
                    A[c, d] += x[c] * x[d]
        A[0, 0] += own_ridge
        for c in range(1, m):
            A[c, c] += ridge
        _solve(A, y)
        size = 0.0
        for j in range(begin, end):
            i, at = items[j], j - begin
            error = values[j] - V[i, 0] - y[0]
            for c in range(1, m):
                error -= y[c] * V[i, c]
            terms[at, 0], terms[at, m] = error, count
            for c in range(1, m):
                terms[at, c] = error * y[c]
            for c in range(m + 1):
                size += abs(terms[at, c]) if absolute else terms[at, c] * terms[at, c]
        if not absolute:
            size = np.sqrt(size)
        if not size < np.inf:  # NaN too; a division by 0 gives one, and never an error that would tell
            for c in range(m):
                y[c] = 0.0
            continue
        sizes[u] = size
        many = (end - begin) * (m + 1) + 8
        shrink = 1.0 if size * (1 + 4 * many * UNIT) <= clip else clip / size / (1 + 4 * many * UNIT)
        for j in range(begin, end):
            for c in range(m + 1):
                total[items[j], c] += shrink * terms[j - begin, c]
    return total, solved, sizes


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _solve(A: Floats, y: Floats) -> None:
    """Solve A x = y for a positive definite A, of which the lower half is read: Cholesky. Changes A; x is left in y."""
    m = len(y)
    for j in range(m):
        for c in range(j):
            A[j, j] -= A[j, c] * A[j, c]
        A[j, j] = np.sqrt(A[j, j])
        for i in range(j + 1, m):
            for c in range(j):
                A[i, j] -= A[i, c] * A[j, c]
            A[i, j] /= A[j, j]
    for i in range(m):
        for c in range(i):
            y[i] -= A[i, c] * y[c]
        y[i] /= A[i, i]
    for i in range(m - 1, -1, -1):
        for c in range(i + 1, m):
            y[i] -= A[c, i] * y[c]
        y[i] /= A[i, i]
