"""Trajectories of one damped rotor, and terms by which owners identify it."""

import numpy as np
import pandas as pd

import parley
from parley.tasks.dynamics import Plant

ROTOR = Plant.of([[-0.1, 1.1], [-1.1, -0.1]], [[1, -1], [-1, 2]], 2.5, 2.0)
COLUMNS = ["x1", "x2", "u1", "u2"]


def trajectories(runs: int, seed: int, samples: int = 40, noise: float = 0.04) -> pd.DataFrame:
    """All runs at once: the plant is stepped for every one of them together."""
    rng = np.random.default_rng(seed)
    A_d, blocks = ROTOR.sampled(2)
    u = rng.choice([-1.0, 1.0], size=(runs, samples, 2))
    held = np.concatenate([np.zeros((runs, 2, 2)), u], axis=1)
    x = np.zeros((runs, samples, 2))
    for k in range(samples - 1):
        recent = np.concatenate([held[:, k + 2], held[:, k + 1], held[:, k]], axis=1)
        x[:, k + 1] = x[:, k] @ A_d.T + recent @ blocks.T
    x += noise * rng.normal(size=x.shape)
    frame = pd.DataFrame(np.concatenate([x, u], axis=2).reshape(-1, 4), columns=COLUMNS)
    return frame.assign(run=np.repeat([f"run {r}" for r in range(runs)], samples))


def plant_terms(
    owners: int, runs: int, epsilon: float, noise: str = "each-owner", samples: int = 40, **privacy
) -> parley.Terms:
    content = {
        "title": "A rotor",
        "model": {
            "kind": "delayed-dynamics",
            "states": ["x1", "x2"],
            "inputs": ["u1", "u2"],
            "trajectory": "run",
            "period": 2.0,
            "max_delay": 3,
            "samples": samples,
            "bounds": {"x1": [-16.0, 16.0], "x2": [-16.0, 16.0], "u1": [-1.0, 1.0], "u2": [-1.0, 1.0]},
        },
        "learning": {"algorithm": "identification"},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "noise": noise, **privacy},
        "owners": [{"name": f"plant-{k}", "records": runs, "epsilon": epsilon} for k in range(owners)],
    }
    if noise == "shared":
        content["hosts"] = [{"name": f"host-{k}"} for k in range(3)]
    return parley.Terms.from_dict(content)
