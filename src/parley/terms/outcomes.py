"""What terms must say of the target where it is more than a number or a class, and of the columns that belong to it."""

from itertools import pairwise
from typing import Any

from parley.terms.catalogue import MODELS

Model = Any  # terms.model.Model, which calls this


def check_outcome(model: Model) -> None:
    """Refuse (ValueError) keys that belong to another kind of model, and a target that its kind cannot learn."""
    own = MODELS[model.kind].keys
    for kind, facts in MODELS.items():
        for key in facts.keys:
            if key not in own and getattr(model, key) is not None:
                raise ValueError(f"{key}|expected only with kind = {kind!r}")
    columns = model.outcome_columns
    if len({*columns}) < len(columns):
        raise ValueError(f"{own[0]}|expected another column than the target {model.target!r}")
    for column in columns[1:]:
        for key in ("features", "categories", "centres", "scales", "transforms", "dates", "missing"):
            about = getattr(model, key)
            if not isinstance(about, str) and column in (about or ()):
                raise ValueError(f"{key}.{column}|expected a feature: {column!r} belongs to the target")
    if model.predicts == "count":
        _check_count(model)
    if model.predicts == "survival":
        _check_survival(model)


def _check_count(model: Model) -> None:
    low = model.bounds.get(model.target, (-1.0, 0.0))[0]
    if not low >= 0:
        raise ValueError(
            f"bounds.{model.target}|expected [low, high] from 0 on: counts are cut to it, so that no record counts for "
            "more"
        )
    if model.exposure is not None and not model.bounds.get(model.exposure, (0.0, 0.0))[0] > 0:
        raise ValueError(
            f"bounds.{model.exposure}|expected [low, high] above 0: exposures are cut to it, and rates are counts over "
            "them"
        )
    if model.target in model.categories:
        raise ValueError(f"categories.{model.target}|expected none for a count")
    if model.target in model.scales:
        raise ValueError(f"scales.{model.target}|expected none for a count; centres.{model.target} is its usual rate")
    if model.target in model.centres and not model.centres[model.target] > 0:
        raise ValueError(f"centres.{model.target}|expected a rate above 0: what is usually counted a unit of exposure")


def _check_survival(model: Model) -> None:
    if model.event is None:
        raise ValueError("event|expected the column that says whether it happened: 1, or 0 where it had not by then")
    ends = model.periods
    if ends is None or any(not before < after for before, after in pairwise(ends)):
        raise ValueError("periods|expected the ends of the periods, each after the last, such as [30, 90, 365]")
    if model.intercept:
        raise ValueError("intercept|expected none with kind = 'survival': every period has a baseline of its own")
    for key in ("bounds", "categories", "centres", "scales"):
        for column in model.outcome_columns:
            if column in getattr(model, key):
                raise ValueError(f"{key}.{column}|expected none: the periods say all about times, an event is 1 or 0")
