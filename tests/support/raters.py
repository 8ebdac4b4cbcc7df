"""Ratings by users with planted tastes, and terms by which owners learn the items."""

import numpy as np
import pandas as pd

import parley

ITEMS = 12


def tastes(users: int, seed: int, items: int = ITEMS, share: float = 0.6) -> pd.DataFrame:
    """Everybody has the same items and tastes of their own; some users have nearly all ratings, some few."""
    rng = np.random.default_rng(7)
    Q, b = rng.normal(0, 0.8, (items, 2)), rng.normal(0, 0.7, items)
    rng = np.random.default_rng(seed)
    P, often = rng.normal(0, 1, (users, 2)), rng.uniform(share / 2, min(1.5 * share, 1.0), users)
    rated = rng.random((users, items)) < often[:, None]
    rated[np.arange(users), rng.integers(items, size=users)] = True
    u, i = np.nonzero(rated)
    values = np.clip(np.round(3 + b[i] + np.einsum("nf,nf->n", P[u], Q[i]) + 0.3 * rng.standard_normal(len(u))), 1, 5)
    return pd.DataFrame(
        {"who": [f"user {seed}-{place}" for place in u], "film": [f"film {place}" for place in i], "stars": values}
    )


def rating_content(
    sizes: dict[str, int], epsilon: float = 1.0, items: int = ITEMS, noise: str = "each-owner", **privacy
) -> dict:
    content = {
        "title": "Films",
        "model": {
            "kind": "matrix-factorization",
            "user": "who",
            "item": "film",
            "target": "stars",
            "factors": 2,
            "items": [f"film {place}" for place in range(items)],
            "bounds": {"stars": [1.0, 5.0]},
            "regularisation": 2.0,
            "holdout": 0.2,
        },
        "learning": {"horizon": 6},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 5.0, "noise": noise, **privacy},
        "owners": [{"name": name, "records": users, "epsilon": epsilon} for name, users in sizes.items()],
    }
    if noise == "shared":
        content["hosts"] = [{"name": f"host-{k}"} for k in range(3)]
    return content


def rating_terms(sizes: dict[str, int], epsilon: float = 1.0, **rest) -> parley.Terms:
    return parley.Terms.from_dict(rating_content(sizes, epsilon, **rest))
