"""Mixing on a graph: weights that any two neighbours can agree on, how fast they even out, and steps that they bear."""

import numpy as np

from parley.terms.topology import Edges
from parley.validate import Floats

MARGIN = 1.5  # by how much everybody's curvature may exceed what the step was chosen for
LEAST = 2.0**-30


def metropolis(names: tuple[str, ...], joined: Edges) -> Floats:
    """W [K, K], symmetric, rows that add up to 1: neighbours weigh 1/(1 + the larger of their degrees), oneself the rest.

    >>> metropolis(("a", "b", "c"), (("a", "b"), ("b", "c"))).round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """
    place = {name: k for k, name in enumerate(names)}
    ends = np.array([(place[one], place[other]) for one, other in joined], dtype=np.intp).reshape(-1, 2)
    degrees = np.bincount(ends.ravel(), minlength=len(names))
    W = np.zeros((len(names), len(names)))
    one, other = ends.T
    W[one, other] = W[other, one] = 1 / (1 + np.maximum(degrees[one], degrees[other]))
    return np.asarray(W + np.diag(1 - W.sum(axis=1)))


def mixed(weights: Floats, said: Floats) -> Floats:
    """What those with these rows of W [R, J] hear of `said` [..., J, P]: [..., R, P].

    Summed in one order, number by number, so that a row comes out the same to the bit whoever computes it, alone or with all others,
    and whether owners that weigh nothing are in the sum or not.
    """
    total = np.zeros((*said.shape[:-2], len(weights), said.shape[-1]))
    for j in range(said.shape[-2]):
        total += weights[:, j, None] * said[..., j, None, :]
    return total


def spectral_gap(weights: Floats) -> float:
    """1 - |second largest eigenvalue|: the share by which a round of mixing shrinks differences at least; 1: at once, 0: never.

    >>> round(spectral_gap(np.full((3, 3), 1 / 3)), 12)
    1.0
    """
    away = weights - 1 / len(weights)
    return 1 - float(np.abs(np.linalg.eigvalsh(away)).max())


def contraction(weights: Floats, bends: Floats) -> float:
    """The factor by which errors shrink a round in the long run, where owner l's cost has curvature `bends`[l]/step; above 1: they grow.

    With x the owners' errors and v = step (tracker - own gradient) of the round before, `Gossip.update` without noise is
    x <- W x - W W (v + b x), v <- W (v + b x) - b x; the sum of v stays 0, so that direction is left out.
    """
    size = len(weights)
    even, twice, bend = np.full((size, size), 1 / size), weights @ weights, np.diag(bends)
    rule = np.block([[weights - twice @ bend, even - twice], [(weights - np.eye(size)) @ bend, weights - even]])
    return float(np.abs(np.linalg.eigvals(rule)).max())


def bearable(weights: Floats, scale: Floats, excess: float = 1.0) -> float:
    """The part of a step of 1/curvature that the graph bears: the largest of 1, 1/2, 1/4, ... with which errors shrink.

    `scale` [K] is K n_l/n; an owner's own curvature may be `excess` times everybody's (which bounds it: n_l/n of it is part of that).
    Looked at are owners alike, and one alone that has all the curvature: the one that counts most, and the one that hears least. No
    private record is looked at. Owners that all hear each other bear the whole step, whatever they are like.
    """
    size = len(scale)
    ones = [np.eye(size)[k] * min(size, excess * scale[k]) for k in {int(np.argmax(scale)), int(np.argmax(np.diag(weights)))}]
    part = 1.0
    while part > LEAST and not all(contraction(weights, part * bends) < 1 for bends in (MARGIN * scale, *ones)):
        part /= 2
    return part
