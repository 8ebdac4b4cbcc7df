"""From released column statistics to terms that can be learned by: bounds, categories, centres and scales, and what
could not be said."""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.data.transforms import TRANSFORMS
from parley.tasks.column_statistics.agreement import ready_terms
from parley.tasks.column_statistics.release import ReleasedColumn, centre_and_scale
from parley.terms import Model, Terms
from parley.terms.columns import Transform

LEFT_OUT = ". It was left out of the features: put it back with what you declare"
NARROW = 64  # no scale is below this part of the bounds: noise may make a column look narrower than it is


@dataclass(frozen=True, eq=False)
class Ready:
    """Terms with what was released, and a sentence for each column that could not be read.

    Features that could not be read are left out, so that the terms can be learned by; what cannot be left out is in
    `waits`.
    """

    terms: Terms
    notes: tuple[str, ...]
    waits: tuple[str, ...] = ()  # columns of which a person has to say something before anything is learned


def make_ready(terms: Terms, features: Sequence[str], columns: Sequence[ReleasedColumn], named: bool = True) -> Ready:
    """The terms to learn by after their column statistics came out as `columns`; `named`: whether owners could release
    names."""
    model = terms.model
    made: dict[str, dict[str, Any]] = {
        key: dict(getattr(model, key)) for key in ("bounds", "categories", "centres", "scales")
    }
    unread: dict[str, str] = {}
    for found in columns:
        if found.kind == "names" and found.column in model.bounds and model.coding == "one-hot":
            unread[found.column] = (
                f"{found.column}: most of its rows hold names, and model.bounds.{found.column} is of numbers"
            )
            del made["bounds"][found.column]
        elif found.kind == "unclear" or (
            found.kind == "names"
            and (found.column in model.dates or len(found.names) < (2 if found.column == model.target else 1))
        ):
            unread[found.column] = _asks(found, named)
        elif found.kind == "names":
            _put_names(model, found, made)
        else:
            _put_numbers(model, found, made)
    unknown = {column for column in unread if column not in made["bounds"]}
    out = unknown & {*features}
    waits = tuple(column for column in unknown if column == model.target)
    if out == {*features}:  # nothing to learn from: the terms wait for a person
        out, waits = set(), (*waits, *features)
    notes = tuple(said + (LEFT_OUT if column in out else "") for column, said in unread.items())
    kept = tuple(column for column in features if column not in out)
    return Ready(ready_terms(terms, {**made, "features": kept, **_without(model, out)}), notes, waits)


def _without(model: Model, out: Container[str]) -> dict[str, Any]:
    """The keys about single features, without these columns."""
    kept = {
        key: {column: each for column, each in getattr(model, key).items() if column not in out}
        for key in ("transforms", "dates")
    }
    missing = model.missing
    if isinstance(missing, dict):
        missing = {column: rule for column, rule in missing.items() if column not in out}
    return {**kept, "missing": missing}


def _put_names(model: Model, found: ReleasedColumn, made: dict[str, dict[str, Any]]) -> None:
    made["categories"][found.column] = tuple(name for name, _ in found.names)
    if found.column == model.target or model.coding == "one-hot":
        return
    shares = [max(share, 0.0) for _, share in found.names]
    others = max(1 - found.missing - sum(shares), 0.0)
    centre, scale = centre_and_scale(np.arange(len(shares) + 1.0), [*shares, others])
    made["centres"][found.column], made["scales"][found.column] = centre, max(scale, 0.1)


def _put_numbers(model: Model, found: ReleasedColumn, made: dict[str, dict[str, Any]]) -> None:
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


def _asks(found: ReleasedColumn, named: bool) -> str:
    """A sentence about what only a person can say of a column."""
    if found.kind == "names":
        why = (
            "of which too few are held by enough rows to be released"
            if named
            else "which leave only with a delta and each owner's own noise"
        )
        return (
            f"{found.column}: a column of names, {why}; list them in model.categories.{found.column} to learn from them"
        )
    return (
        f"{found.column}: nothing stands clear of the noise; declare model.bounds.{found.column} or "
        f"model.categories.{found.column}, or ask again with a larger scale_epsilon"
    )
