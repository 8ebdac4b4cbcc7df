"""Whom to ask: the coalition with the least privacy error (W Theorem 2's n^-2 sum eps^-2), exactly, in O(N log N).

The minimiser of A/B^2 over subsets, A = sum eps^-2, B = sum n, touches the parabola A = c B^2 from above, so it lies on the lower convex
hull of all points (B, A); the hull's corners are the prefixes of the owners sorted by n eps^2, descending.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.errors import SettingError
from parley.validate import finite


def best_coalition(records: ArrayLike, epsilons: ArrayLike) -> NDArray[np.int64]:
    """The places of the owners to ask, in ascending order.

    >>> best_coalition([100_000, 1000, 50_000], [1.0, 0.1, 1.0]).tolist()
    [0, 2]
    """
    n, epsilon = finite(records, "records"), finite(epsilons, "epsilons")
    if n.ndim != 1 or n.shape != epsilon.shape or not n.size or not (n > 0).all() or not (epsilon > 0).all():
        raise SettingError("records, epsilons: expected as many positive numbers of each, one for every owner")
    order = np.argsort(-n * epsilon**2, kind="stable")
    size, noise = np.cumsum(n[order]), np.cumsum(epsilon[order] ** -2.0)
    return np.sort(order[: int(np.argmin(noise / size**2)) + 1])
