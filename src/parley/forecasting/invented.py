"""Rows that nobody ever had: something to plan on where there is no public sample.

They lie within the declared ranges and have the declared names; how the target hangs on them is made up. Good for choosing rounds, step and
clip, which depend on the shape of the problem; worth nothing as a forecast of a model's quality.
"""

from typing import Any

import numpy as np
import pandas as pd

from parley.errors import DataError
from parley.terms import Model, Terms
from parley.validate import Floats

ROWS = 2000
SIGNAL = 1.5  # how strongly the target hangs on the features, in standard deviations of what it does not hang on


def invented_rows(terms: Terms, rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A table with the terms' features and target. The terms must list the features, with bounds of numbers and names of categories."""
    model, rng = terms.model, np.random.default_rng(seed)
    if model.features is None:
        raise DataError("model.features: expected a list: there is neither a public sample nor a table to take them from")
    table: dict[str, Any] = {}
    score = np.zeros(rows)
    for column in model.features:
        if column in model.categories:
            names = np.array(model.categories[column])
            place = rng.integers(len(names), size=rows)
            table[column], part = names[place], rng.standard_normal(len(names))[place]
        elif column in model.bounds:
            low, high = model.bounds[column]
            part = rng.standard_normal(rows)
            table[column] = np.clip((low + high) / 2 + part * (high - low) / 4, low, high)
        else:
            raise DataError(f"model.bounds.{column}: expected [low, high], model.categories.{column}, or a public sample")
        score += rng.standard_normal() * part
    table[model.target] = _target(model, SIGNAL * (score - score.mean()) / max(float(score.std()), 1e-12), rng)
    return pd.DataFrame(table)


def _target(model: Model, score: Floats, rng: np.random.Generator) -> Any:
    """What the made-up law gives for these scores [n]."""
    if model.task == "number":
        low, high = model.bounds.get(model.target, (-4.0, 4.0))
        spread = (high - low) / 4 / np.sqrt(1 + SIGNAL**2)
        return np.clip((low + high) / 2 + spread * (score + rng.standard_normal(len(score))), low, high)
    if model.task == "classes":
        names = np.array(model.categories[model.target])
        return names[np.argmax(np.outer(score, rng.standard_normal(len(names))) + rng.gumbel(size=(len(score), len(names))), axis=1)]
    positive = rng.logistic(size=len(score)) < score
    listed = model.categories.get(model.target)
    one = model.positive or (listed[1] if listed else 1)
    zero = next((name for name in listed if name != one), "") if listed else "other" if model.positive else 0
    return np.where(positive, one, zero)
