"""Tables with planted shapes, and terms by which owners fill the leaves of trees."""

import numpy as np
import pandas as pd

import parley

COLOURS = ("red", "green", "blue")


def grove(rows: int, seed: int, classes: bool = True) -> pd.DataFrame:
    """A bump in `age`, a level for each colour, nothing in `idle`; some cells of `age` and some colours are unlisted or
    missing."""
    rng = np.random.default_rng(seed)
    age, idle = rng.uniform(0, 100, rows), rng.normal(0, 1, rows)
    colour = rng.choice([*COLOURS, "violet"], rows)
    score = 2 * np.exp(-(((age - 40) / 15) ** 2)) - 1 + np.select([colour == "red", colour == "blue"], [1.0, -1.0], 0.0)
    y = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(float) if classes else score + rng.normal(0, 0.5, rows)
    return pd.DataFrame({"age": np.where(rng.random(rows) < 0.05, np.nan, age), "idle": idle, "colour": colour, "y": y})


def grove_content(
    sizes: dict[str, int], epsilon: float = 1.0, classes: bool = True, noise: str = "each-owner", **sections
) -> dict:
    bounds = {"age": [0.0, 100.0], "idle": [-3.0, 3.0]} | ({} if classes else {"y": [-4.0, 4.0]})
    content = {
        "title": "Grove",
        "model": {
            "kind": "boosted-classification" if classes else "boosted-regression",
            "target": "y",
            "bounds": bounds,
            "categories": {"colour": list(COLOURS)},
            "missing": "fill",
            "bins": 10,
            **sections.get("model", {}),
        },
        "learning": {"horizon": 13, **sections.get("learning", {})},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "noise": noise, **sections.get("privacy", {})},
        "owners": [{"name": name, "records": rows, "epsilon": epsilon} for name, rows in sizes.items()],
    }
    if noise == "shared":
        content["hosts"] = [{"name": f"host-{k}"} for k in range(3)]
    return content


def grove_terms(sizes: dict[str, int], epsilon: float = 1.0, **rest) -> parley.Terms:
    return parley.Terms.from_dict(grove_content(sizes, epsilon, **rest))
