"""Graphs of owners without a centre, terms for them, and how fast a run on one settles."""

import numpy as np
from federated import family_terms

from parley.learning.algorithms.gossip import metropolis
from parley.terms.topology import edges

NAMES = tuple("abcdefgh")
SIZES = (40, 60, 100, 30, 80, 50)
PATH = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "f"]]
GRAPHS = {"ring": "ring", "grid": "grid", "star": "star", "complete": "complete", "pairs": PATH}


def gossip_terms(topology, *sizes, **overrides):
    usual = {"learning__algorithm": "gossip", "learning__topology": topology}
    return family_terms("federated-averaging", *(sizes or SIZES), **usual | overrides)


def weights_of(topology, count):
    return metropolis(NAMES[:count], edges(topology, NAMES[:count]))


def radius_of(W, hessians, step):
    """The factor by which errors grow a round at most in the long run, costs being quadratic with these Hessians [K, d,
    d]."""
    size, d = hessians.shape[:2]
    W, even, H = (
        np.kron(W, np.eye(d)),
        np.kron(np.full((size, size), 1 / size), np.eye(d)),
        np.zeros((size * d, size * d)),
    )
    for k, each in enumerate(hessians):
        H[k * d : (k + 1) * d, k * d : (k + 1) * d] = step * each
    twice, one = W @ W, np.eye(size * d)
    rule = np.block([[W - twice @ H, even - twice], [(W - one) @ H, W - even]])
    return float(np.abs(np.linalg.eigvals(rule)).max())
