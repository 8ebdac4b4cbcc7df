"""Mixing on a graph: weights that any two neighbours can agree on, how fast they even out, and steps that they bear."""

import numpy as np

from parley.terms.topology import Edges
from parley.validate import Floats


def metropolis(names: tuple[str, ...], joined: Edges) -> Floats:
    """W [K, K], symmetric, rows that add up to 1: neighbours weigh 1/(1 + the larger of their degrees), oneself the
    rest.

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

    Summed in one order, number by number, so that a row comes out the same to the bit whoever computes it, alone or
    with all others, and whether owners that weigh nothing are in the sum or not.
    """
    total = np.zeros((*said.shape[:-2], len(weights), said.shape[-1]))
    for j in range(said.shape[-2]):
        total += weights[:, j, None] * said[..., j, None, :]
    return total


def spectral_gap(weights: Floats) -> float:
    """1 - |second largest eigenvalue|: the share by which a round of mixing shrinks differences at least; 1: at once,
    0: never.

    >>> round(spectral_gap(np.full((3, 3), 1 / 3)), 12)
    1.0
    """
    away = weights - 1 / len(weights)
    return 1 - float(np.abs(np.linalg.eigvalsh(away)).max())


def bearable(weights: Floats, curvatures: Floats) -> float:
    """The longest step that the graph bears, whatever convex costs owners have whose curvature is at most `curvatures`
    [K]; inf: any.

    Formal guarantee: with a shorter step, without noise and with everybody asked in every round, gradients go to those
    of the pooled optimum and all owners' points to one another, from every start, as long as the box does not bind. Of
    nobody's curvature more than its bound has to be known, and nobody's cost has to be quadratic.

    Proof. Around the optimum let p be the points, q the gradients: convex costs make <p_l, q_l> >=
    |q_l|^2/curvatures_l. Eliminating trackers from `Gossip.update`, p = -step (z - 1) W^2 (z - W)^-2 q but for what
    start and first gradients leave, which dies out, and a constant in the mean. On |z| = 1, with c = Re z and w an
    eigenvalue of W, the real part of (z - 1) w^2/(z - w)^2 is w^2 (1 - c) (2 c + 1 - 2 w - w^2)/(1 - 2 w c + w^2)^2,
    and this is least at c = -1, where it is -2 w^2/(1 + w)^2: with s = 1 + w and t = 1 - c in [0, 2], 2 ((2 - s)^2 + 2
    (s - 1) t)^2 - s^2 t (s^2 - 4 + 2 t) = (2 - t) (2 - s) ((2 - s)^3 + 2 (3 s - 2) t) >= 0, for the last factor is
    linear in t, (2 - s)^3 at t = 0 and s^2 (6 - s) at t = 2. So, summed over rounds, <q, (1/curvatures - step M) q>
    grows no faster than the root of the sum of |q|^2, for M = 2 W^2 (1 + W)^-2 (Parseval; the mean's own part is a
    telescoping sum). Where step M < 1/curvatures the sum of |q|^2 is therefore finite: q goes to 0, and with it what W
    evens out. (Metropolis weights have w > -1: everybody weighs something to itself.)

    >>> round(bearable(np.full((3, 3), 1 / 3), np.ones(3)), 9)  # all hear all: gradient descent, 2/curvature
    2.0
    """
    w, V = np.linalg.eigh(weights)
    root = np.sqrt(curvatures)
    most = np.linalg.eigvalsh(root[:, None] * ((V * (2 * w**2 / (1 + w) ** 2)) @ V.T) * root)[-1]
    return float(1 / most) if most > 0 else float("inf")
