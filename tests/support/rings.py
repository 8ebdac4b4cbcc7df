"""Points on rings around a centre, which no linear model tells apart: for tests of networks."""

from typing import Any

import numpy as np
import pandas as pd

import parley


def rings(rows: int, seed: int = 0) -> pd.DataFrame:
    """Points (u, v) with the ring that each is on, `ring`, and how far out it lies, `radius`."""
    rng = np.random.default_rng(seed)
    ring, turn = rng.integers(0, 3, rows), rng.uniform(0, 2 * np.pi, rows)
    radius = 0.6 + ring + rng.normal(0, 0.15, rows)
    names = np.array(["inner", "middle", "outer"])[ring]
    return pd.DataFrame({"u": radius * np.cos(turn), "v": radius * np.sin(turn), "ring": names, "radius": radius})


def rings_content(sizes: dict[str, int], epsilon: float = 8.0, classes: bool = True, **sections: Any) -> dict[str, Any]:
    """Terms of a network that learns which ring points are on, or how far out they lie."""
    model: dict[str, Any] = {
        "kind": "network-classification" if classes else "network-regression",
        "target": "ring" if classes else "radius",
        "features": ["u", "v"],
        "bounds": {"u": [-4.0, 4.0], "v": [-4.0, 4.0]} | ({} if classes else {"radius": [0.0, 4.0]}),
        "layers": [16],
    }
    if classes:
        model["categories"] = {"ring": ["inner", "middle", "outer"]}
    content = {
        "model": model,
        "learning": {"batches": 8, "epochs": 5, "step": 1.0},
        "privacy": {"mechanism": "gaussian", "delta": 1e-5, "clip": 1.0},
    }
    for name, section in content.items():
        section.update(sections.get(name, {}))
    owners = [{"name": name, "records": rows, "epsilon": epsilon} for name, rows in sizes.items()]
    return {**content, "owners": owners, **{k: v for k, v in sections.items() if k not in content}}


def rings_terms(sizes: dict[str, int], epsilon: float = 8.0, classes: bool = True, **sections: Any) -> parley.Terms:
    """The same as terms."""
    return parley.Terms.from_dict(rings_content(sizes, epsilon, classes, **sections))
