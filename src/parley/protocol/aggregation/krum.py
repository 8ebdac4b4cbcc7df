"""Krum (Blanchard et al. 2017): the one answer that lies closest to its neighbours."""

import numpy as np

from parley.validate import Floats, Integers


def krum(values: Floats, weights: Integers, liars: int) -> Floats:
    """Of answers [..., N, p] the one with the least sum of squared distances to its N - `liars` - 2 nearest others:
    [..., p].

    Every owner counts once: a heavier one is no better protected from a neighbour that copies it. What is taken was
    said by one owner, liar or not, that a majority stands close to; of owners with unequal noise mostly a quiet one.

    Where it fails: nothing is averaged, so noise counts several times as much as in the mean, of many equal owners up
    to N times; in many coordinates noise drowns distances, and a lie of its size passes; of owners of different laws
    one law is taken for all.

    >>> krum(np.array([[0.0], [1.0], [1.1], [1.2], [50.0]]), np.ones(5, dtype=np.int64), 1)
    array([1.1])
    """
    owners = values.shape[-2]
    scores = []
    for own in range(owners):
        squared = np.sum((values - values[..., own : own + 1, :]) ** 2, axis=-1)
        squared[..., own] = np.inf
        scores.append(np.sort(squared, axis=-1)[..., : max(1, owners - liars - 2)].sum(axis=-1))
    best = np.argmin(np.stack(scores, axis=-1), axis=-1)
    return np.take_along_axis(values, best[..., None, None], axis=-2)[..., 0, :]
