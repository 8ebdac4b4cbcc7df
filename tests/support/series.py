"""NARMA-10, which remembers ten inputs and their products, and terms by which owners learn it with a reservoir."""

import numpy as np
import pandas as pd

import parley


def narma(runs: int, seed: int, samples: int = 100) -> pd.DataFrame:
    """Recordings of y[t+1] = 0.3 y[t] + 0.05 y[t] (y[t] + ... + y[t-9]) + 1.5 u[t] u[t-9] + 0.1 beside u[t], of those
    that stay below 1."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(0.0, 0.5, (2 * runs, samples))
    y = np.zeros((2 * runs, samples + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(9, samples):
            last = y[:, t - 9 : t + 1].sum(axis=1)
            y[:, t + 1] = 0.3 * y[:, t] + 0.05 * y[:, t] * last + 1.5 * u[:, t] * u[:, t - 9] + 0.1
    kept = np.flatnonzero(y.max(axis=1) < 1)[:runs]
    run = np.repeat([f"run {k}" for k in range(runs)], samples)
    return pd.DataFrame({"run": run, "u": u[kept].ravel(), "y": y[kept, 1:].ravel()})


def series_terms(owners: int, runs: int, epsilon: float, noise: str = "each-owner", **sections) -> parley.Terms:
    """With keys of `model`, `reservoir` and `privacy` changed."""
    reservoir = {"recording": "run", "samples": 100, "washout": 30, "nodes": 20} | sections.get("reservoir", {})
    content = {
        "title": "A series",
        "model": {
            "kind": "echo-state",
            "features": ["u"],
            "target": "y",
            "bounds": {"u": [0.0, 0.5], "y": [0.0, 1.0]},
            "reservoir": reservoir,
            **sections.get("model", {}),
        },
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "noise": noise, **sections.get("privacy", {})},
        "owners": [{"name": f"site-{k}", "records": runs, "epsilon": epsilon} for k in range(owners)],
    }
    if noise == "shared":
        content["hosts"] = [{"name": f"host-{k}"} for k in range(3)]
    return parley.Terms.from_dict(content)
