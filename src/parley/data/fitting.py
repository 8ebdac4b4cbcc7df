"""What public knowledge says about columns: which are features, their names, bounds, centres, scales and components.

From the terms and the public sample alone; no private row is looked at.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from parley.data.cell_table import survey_preparation
from parley.data.design import Design
from parley.data.preparation import Preparation
from parley.data.table import is_text, names, numbers, read_table, require_columns
from parley.errors import DataError
from parley.terms import Model, Terms
from parley.validate import LARGEST, SMALLEST, Floats

PUBLIC = "public sample"


def fit_preparation(terms: Terms, example: pd.DataFrame | None = None) -> tuple[Preparation, Design | None]:
    """The preparation that the terms and their public sample fix, and the public sample prepared by it.

    `example` is consulted for its column names and kinds alone, and only where neither the terms nor a public sample list the
    features.
    """
    model = terms.model
    public = None if model.public is None else _read_public(model)
    features = model.features or _numeric_columns(terms, example if public is None else public, public is not None)
    if terms.learning.facts.surveys:
        return survey_preparation(model, features), None
    categories = dict(model.categories)
    if public is not None:
        require_columns(public, [*features, model.target], PUBLIC)
        for column in (*features, model.target):
            named = model.task == "classes" and column == model.target
            if column not in categories and (named or not _numeric(public, column)):
                categories[column] = tuple(names(public, column, PUBLIC))
    for key in ("bounds", "categories"):
        for column in getattr(model, key):
            if column not in (*features, model.target):
                raise DataError(f"model.{key}.{column}: expected a feature or the target")
    if model.task == "classes":
        _require_classes(model, categories)
    declared = {column: (0.0, float(len(names))) for column, names in categories.items()} | model.bounds
    unbounded = (-np.inf, np.inf)
    low, high = np.array([declared.get(column, unbounded) for column in features]).T
    plain = Preparation(
        model=model,
        features=features,
        categories=categories,
        low=low,
        high=high,
        target_bounds=declared.get(model.target, unbounded),
        centre=np.zeros(len(features)),
        scale=np.ones(len(features)),
    )
    if public is None:
        return plain, None
    fitted = _fit_on_public(plain, public)
    y = fitted.target(public, PUBLIC)
    return fitted, Design(fitted.matrix(public, PUBLIC), y, fitted.weights(y))


def listed_features(terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
    """The features that this table alone would suggest; None where the terms or a public sample list them."""
    if terms.model.features is not None or terms.model.public is not None:
        return None
    return _numeric_columns(terms, table, public=False)


def _require_classes(model: Model, categories: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse classes that nobody listed, too few of them, or weights of others."""
    classes = categories.get(model.target, ())
    if len(classes) < 2:
        raise DataError(
            f"model.categories.{model.target}: expected the names of at least two classes, or a public sample that has them: which "
            "classes there are must not depend on private rows"
        )
    for name in model.class_weight:
        if name not in classes:
            raise DataError(f"model.class_weight.{name}: expected one of the classes {', '.join(classes)}")


def _fit_on_public(plain: Preparation, public: pd.DataFrame) -> Preparation:
    """Fill in what only data can tell: missing bounds, centre and scale, principal components."""
    model = plain.model
    raw = np.column_stack([plain.column(public, column, PUBLIC) for column in plain.features])
    low = np.where(np.isfinite(plain.low), plain.low, raw.min(axis=0))
    high = np.where(np.isfinite(plain.high), plain.high, raw.max(axis=0))
    y = plain.column(public, model.target, PUBLIC)
    target_bounds, target_centre, target_scale = plain.target_bounds, 0.0, 1.0
    if not model.classifies and not np.isfinite(target_bounds).all():
        target_bounds = (float(y.min()), float(y.max()))
        _require_bearable([model.target], np.array([target_bounds]).T)
    if not model.classifies and model.has_intercept:
        # With a constant among the features this only moves the origin: gradients start small, so a small clip will do.
        bounded = _capped(y, *target_bounds)
        target_centre, target_scale = float(bounded.mean()), float(_spread(bounded[:, None], [model.target])[0])
    _require_bearable(plain.features, np.array([low, high]))
    clipped = _capped(raw, low, high)
    centre, scale = clipped.mean(axis=0), _spread(clipped, plain.features)
    fitted = replace(
        plain,
        low=low,
        high=high,
        centre=centre,
        scale=scale,
        target_bounds=target_bounds,
        target_centre=target_centre,
        target_scale=target_scale,
    )
    if model.components is None:
        return fitted
    if not model.components <= min(raw.shape):
        raise DataError(f"model.components = {model.components}: expected at most {min(raw.shape)}, the size of the public sample")
    standard = (clipped - centre) / scale
    with np.errstate(invalid="ignore"):  # shares of a variance that is 0, which nobody reads
        rotation = np.ascontiguousarray(PCA(model.components, svd_solver="full").fit(standard).components_.T)
    scores = standard @ rotation
    low, high = (_capped(ends, -LARGEST, LARGEST) for ends in (scores.min(axis=0), scores.max(axis=0)))
    return replace(fitted, rotation=rotation, component_low=low, component_high=high)


def _capped(values: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Values clipped to their bounds, and to a size that arithmetic can bear where there are none."""
    return np.clip(values, np.maximum(low, -LARGEST), np.minimum(high, LARGEST))


def _spread(values: Floats, columns: Sequence[str]) -> Floats:
    """The standard deviation of each column; 1 for a constant one."""
    spread = values.std(axis=0)
    spread = np.where(spread > 1e-12 * np.abs(values).max(axis=0), spread, 1.0)
    small = np.flatnonzero(~(spread >= SMALLEST))
    if small.size:
        raise DataError(
            f"{PUBLIC}: column {columns[small[0]]!r}: its standard deviation is {spread[small[0]]:g}; expected at least {SMALLEST:g}, "
            "so give the column in larger units"
        )
    return spread


def _require_bearable(columns: Sequence[str], ends: Floats) -> None:
    """Refuse a public sample whose extremes [2, columns] are too large, or apart by too little, to compute with."""
    wide = np.abs(ends).max(axis=0) > LARGEST
    narrow = (ends[0] < ends[1]) & ~(ends[1] / 2 - ends[0] / 2 >= SMALLEST / 2)
    wrong = np.flatnonzero(wide | narrow)
    if wrong.size:
        raise DataError(
            f"{PUBLIC}: column {columns[wrong[0]]!r}: its values range from {ends[0, wrong[0]]:g} to {ends[1, wrong[0]]:g}; expected at "
            f"most {LARGEST:g} in size and at least {SMALLEST:g} apart, so give the column in other units or declare model.bounds"
        )


def _read_public(model: Model) -> pd.DataFrame:
    path = Path(str(model.public))
    frame = read_table(path)
    if model.public_sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != model.public_sha256:
        raise DataError(f"{path}: its SHA-256 differs from model.public_sha256; expected the sample all parties agreed on")
    if len(frame) < 2:
        raise DataError(f"{path}: expected at least two rows of public data")
    return frame


def _numeric_columns(terms: Terms, schema: pd.DataFrame | None, public: bool) -> tuple[str, ...]:
    """Every numeric column. In a private table a text column is refused rather than skipped: one odd cell must not drop a feature."""
    if schema is None:
        raise DataError("model.features: expected a list of columns, since there is no public sample or table to take them from")
    excluded = {terms.model.target, terms.privacy.person}
    columns = [str(c) for c in schema.columns if str(c) not in excluded]
    if public:
        columns = [c for c in columns if _numeric(schema, c)]
    else:
        columns = [c for c in columns if not isinstance(schema[c].dtype, pd.CategoricalDtype)]
    if not columns:
        raise DataError("model.features: the table has no numeric column besides the target")
    return tuple(columns)


def _numeric(public: pd.DataFrame, column: str) -> bool:
    """Whether every cell of a public column reads as a number."""
    if not is_text(public[column]):
        return True
    try:
        numbers(public, column, PUBLIC)
    except DataError:
        return False
    return True
