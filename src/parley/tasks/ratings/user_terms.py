"""The compiled inner loop of `question`: solve each user and clip its terms."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from parley.data.design import UNIT_ROUNDOFF
from parley.tasks.ratings.table import Places
from parley.validate import Floats

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F) -> F:
    """Compile, cached beside the source where possible, so a restarted owner answers at once."""
    try:
        kept: Any = njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no place for it
        kept = njit(nogil=True, error_model="numpy")(function)
    return cast(F, kept)


@_compiled
def terms_of_users(
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
    """Return (the sum of clipped terms [items, m + 1], solved users [users, m], norms [users]); m = factors + 1."""
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
        shrink = 1.0 if size * (1 + 4 * many * UNIT_ROUNDOFF) <= clip else clip / size / (1 + 4 * many * UNIT_ROUNDOFF)
        for j in range(begin, end):
            for c in range(m + 1):
                total[items[j], c] += shrink * terms[j - begin, c]
    return total, solved, sizes


@_compiled
def _solve(A: Floats, y: Floats) -> None:
    """Solve A x = y by Cholesky for a positive definite A (lower half read). Changes A; y becomes x."""
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
