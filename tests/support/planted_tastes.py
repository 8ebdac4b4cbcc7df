"""Ratings by planted tastes, for tests of learning them."""

import numpy as np

from parley.tasks.ratings.table import Ratings


def silent(done, total):
    pass


def planted(users=600, items=80, share=0.4, seed=0):
    """Whole ratings from 1 to 5 by tastes of two kinds."""
    rng = np.random.default_rng(seed)
    P, Q = rng.normal(0, 1, (users, 2)), rng.normal(0, 1, (items, 2))
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = np.clip(np.round(3.2 + 0.6 * np.einsum("nf,nf->n", P[u], Q[i]) + 0.4 * rng.standard_normal(len(u))), 1, 5)
    return Ratings(
        u.astype(np.int32), i.astype(np.int32), values, tuple(map(str, range(users))), tuple(map(str, range(items)))
    )
