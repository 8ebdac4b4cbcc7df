"""The coordinate-wise median of owners' answers, weighted by their records."""

import numpy as np

from parley.validate import Floats, Integers


def weighted_median(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """In each coordinate the middle of answers [..., N, p], owners counted by their weights [N]: [..., p].

    Half of the weight lies at or below it and half at or above; where a whole interval does that, its middle is taken.
    Owners with less than half of the weight, wherever they say they are, leave it between two honest answers.

    Where it fails: of owners of different laws it is nobody's mean, and in a skewed crowd of them it leans towards
    where most lie; normal noise of equal owners counts up to pi/2 times as much as in the mean, of unequal ones more
    (of one with nearly half of the weight beside many small ones it is the one's own, 4 times as much); in many
    coordinates at once a liar in each of them just beside the middle is never conspicuous.

    >>> weighted_median(np.array([[1.0], [2.0], [9.0]]), np.array([1, 1, 1]))
    array([2.])
    >>> weighted_median(np.array([[1.0], [2.0], [9.0]]), np.array([1, 1, 2]))
    array([5.5])
    """
    order = np.argsort(values, axis=-2, kind="stable")
    ascending = np.take_along_axis(values, order, axis=-2)
    below = 2 * np.cumsum(weights[order], axis=-2)
    total = weights.sum()
    low, high = (np.argmax(reached, axis=-2)[..., None, :] for reached in (below >= total, below > total))
    ends = np.take_along_axis(ascending, low, axis=-2) + np.take_along_axis(ascending, high, axis=-2)
    return np.asarray(ends[..., 0, :] / 2)
