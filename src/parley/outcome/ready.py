"""From released scales to terms that can be learned by: bounds, categories, centres and scales, and what could not be said."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.data.transforms import TRANSFORMS
from parley.outcome.scales import ColumnScale, centre_and_scale
from parley.terms import Model, Terms, ready_terms
from parley.terms.columns import Transform

NARROW = 64  # no scale is below this part of the bounds: noise may make a column look narrower than it is


@dataclass(frozen=True, eq=False)
class Ready:
    """Terms with what was released, and a sentence for each column that needs a person."""

    terms: Terms
    notes: tuple[str, ...]


def make_ready(terms: Terms, features: Sequence[str], columns: Sequence[ColumnScale], named: bool = True) -> Ready:
    """The terms to learn by after their scales came out as `columns`; `named`: whether owners could release names."""
    model = terms.model
    made: dict[str, dict[str, Any]] = {key: dict(getattr(model, key)) for key in ("bounds", "categories", "centres", "scales")}
    notes = []
    for found in columns:
        if found.kind == "unclear" or (found.kind == "names" and len(found.names) < (2 if found.column == model.target else 1)):
            notes.append(_asks(found, named))
        elif found.kind == "names":
            _put_names(model, found, made)
        else:
            _put_numbers(model, found, made)
    return Ready(ready_terms(terms, {**made, "features": tuple(features)}), tuple(notes))


def _put_names(model: Model, found: ColumnScale, made: dict[str, dict[str, Any]]) -> None:
    made["categories"][found.column] = tuple(name for name, _ in found.names)
    if found.column == model.target or model.coding == "one-hot":
        return
    shares = [max(share, 0.0) for _, share in found.names]
    others = max(1 - found.missing - sum(shares), 0.0)
    centre, scale = centre_and_scale(np.arange(len(shares) + 1.0), [*shares, others])
    made["centres"][found.column], made["scales"][found.column] = centre, max(scale, 0.1)


def _put_numbers(model: Model, found: ColumnScale, made: dict[str, dict[str, Any]]) -> None:
    column, edges = found.column, np.array(found.edges)
    low, high = made["bounds"].get(column, (found.low, found.high))
    transform = model.transforms.get(column)
    if transform is not None:
        low = _defined(transform, low, high)
    if column not in made["bounds"] or low != made["bounds"][column][0]:
        made["bounds"][column] = (low, high)
    if column == model.target and (model.classifies or not model.has_intercept):
        return
    points, shares = np.array([edges[0], *(edges[:-1] + edges[1:]) / 2, edges[-1]]), np.array(found.shares)
    ends, within = np.array([low, high]), float(edges[1] - edges[0])
    if transform is not None:
        if found.powers:
            points, shares = np.array(found.powers).T
        points, ends, within = TRANSFORMS[transform](np.clip(points, low, high)), TRANSFORMS[transform](ends), 0.0
    centre, scale = centre_and_scale(np.clip(points, *ends), shares, within)
    made["centres"].setdefault(column, centre)
    made["scales"].setdefault(column, max(scale, float(f"{(ends[1] - ends[0]) / NARROW:.4g}")))


def _defined(transform: Transform, low: float, high: float) -> float:
    """The least bound that the transform takes."""
    if transform == "log":
        return low if low > 0 else high / 1024 if high > 0 else math.nan
    return max(low, {"log1p": -0.999, "sqrt": 0.0}.get(transform, -math.inf))


def _asks(found: ColumnScale, named: bool) -> str:
    """What only a person can say."""
    if found.kind == "names":
        why = (
            "of which too few are held by enough rows to be released"
            if named
            else "which leave only with a delta and each owner's own noise"
        )
        return f"{found.column}: a column of names, {why}; list them in model.categories.{found.column}"
    return (
        f"{found.column}: nothing stands clear of the noise; declare model.bounds.{found.column} or model.categories.{found.column}, "
        "leave the column out, or ask again with a larger scale_epsilon"
    )
