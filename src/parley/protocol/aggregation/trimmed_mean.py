"""The coordinate-wise trimmed mean of owners' answers, weighted by their records."""

import numpy as np

from parley.validate import Floats, Integers


def trimmed_mean(values: Floats, weights: Integers, liars: int) -> Floats:
    """In each coordinate the mean of answers [..., N, p] without both ends, owners counted by their weights [N]:
    [..., p].

    As much weight is cut off at each end as the `liars` heaviest owners have, so whoever they are nothing is left of
    them, or what is left lies between honest answers; an owner at the edge may count in part. Owners of one size: the
    `liars` lowest and highest answers go.

    Where it fails: a liar that stays within the honest answers is averaged like one of them; cutting unequal tails of
    owners of different laws moves the mean; with hardly more than twice the liars it is the median, noise and all.

    >>> trimmed_mean(np.array([[0.0], [1.0], [3.0], [90.0]]), np.array([1, 1, 1, 1]), 1)
    array([2.])
    """
    order = np.argsort(values, axis=-2, kind="stable")
    own = weights[order]
    above, total = np.cumsum(own, axis=-2), int(weights.sum())
    cut = int(np.sort(weights)[len(weights) - liars :].sum())
    counts = np.clip(np.minimum(above, total - cut) - np.maximum(above - own, cut), 0, None)
    kept = np.take_along_axis(values, order, axis=-2) * (counts / (total - 2 * cut))
    return np.asarray(kept.sum(axis=-2))
