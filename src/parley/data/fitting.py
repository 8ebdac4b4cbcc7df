"""What the terms and the public sample say about columns: features, names, bounds, centres, scales and components."""

import difflib
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.basis import degrees
from parley.data.cells import TRUTH_VALUES
from parley.data.design import Design
from parley.data.preparation import Preparation
from parley.data.public_numbers import Pins, PublicNumbers, apply_pins, read_pins, require_principal
from parley.data.sources import read_table
from parley.data.table import is_text, names, numbers, require_columns
from parley.data.targets import TWO_CLASSES_HINT, dropped_rows_sentence, listed_classes, with_target
from parley.data.tree_growing import with_forest
from parley.data.whitening import Curvatures, rotated, whitened
from parley.errors import DataError
from parley.terms import Model, Terms
from parley.terms.keys import fold_name
from parley.validate import LARGEST, SMALLEST, Floats

PUBLIC_SAMPLE = "public sample"
MAX_PRODUCTS = 1000  # of a polynomial basis


def fit_preparation(
    terms: Terms,
    example: pd.DataFrame | None = None,
    redraw: int | None = None,
    curvatures: Curvatures | None = None,
) -> tuple[Preparation, Design | None]:
    """Return the preparation that the terms and their public sample fix, and the public sample prepared by it.

    `example` is used for its column names and kinds alone, if neither the terms nor a public sample list the features.
    `redraw` fits whitening to public rows drawn with replacement by that seed: forecasts need it. Whitening by
    curvature takes `curvatures`, which know the loss. Pinned numbers are used if they equal those found here up to
    rounding (`public_numbers`).
    """
    model = terms.model
    pins = read_pins(model) if redraw is None else None
    public = None if model.public is None else read_public(model)
    features = chosen_features(terms, example, public)
    if public is not None:
        require_columns(public, [*features, *model.outcome_columns], PUBLIC_SAMPLE)
    plain = _unscaled(model, features, _listed_names(model, features, public), public)
    if public is None:
        prepared = with_forest(_with_basis(plain, None), None, pins)
        return (prepared if pins is None else apply_pins(prepared, pins)), None
    fitted = _fit_on_public(plain, public, pins)
    if model.whitening is not None:
        fitted = whitened(fitted, fitted.design(public, PUBLIC_SAMPLE), redraw, curvatures)
    fitted = with_forest(_with_basis(fitted, public), public, pins)
    fitted = fitted if pins is None else apply_pins(fitted, pins)
    return fitted, fitted.design(public, PUBLIC_SAMPLE)


def chosen_features(
    terms: Terms, example: pd.DataFrame | None = None, public: pd.DataFrame | None = None
) -> tuple[str, ...]:
    """Return the features: the terms' list, else every numeric column of the public sample, else of the example."""
    features = terms.model.features or _numeric_columns(
        terms, example if public is None else public, public is not None
    )
    _require_features(terms.model, features)
    return features


def _require_features(model: Model, features: Sequence[str]) -> None:
    """Refuse keys about columns that are not features."""
    missing = model.missing if isinstance(model.missing, dict) else {}
    about_columns = ("bounds", "categories", "centres", "scales")
    for key, columns in ((key, getattr(model, key)) for key in about_columns):
        for column in columns:
            if column not in (*features, *model.outcome_columns):
                raise DataError(
                    f"model.{key}.{column}: the column is neither a feature nor the target; remove the key or correct "
                    "the name"
                )
    for key, about in (
        ("merged", model.merged),
        ("dates", model.dates),
        ("transforms", model.transforms),
        ("missing", missing),
    ):
        for column in about:
            if column not in features:
                raise DataError(
                    f"model.{key}.{column}: the column is not a feature; remove the key or correct the name"
                )


def _listed_names(model: Model, features: Sequence[str], public: pd.DataFrame | None) -> dict[str, tuple[str, ...]]:
    """Return the names in each column of names: the terms' list, else those of the public sample."""
    categories = dict(model.categories)
    for column in features if public is None else (*features, model.target):
        if public is None or column in categories:
            continue
        is_target = column == model.target
        if is_target and model.predicts in ("count", "survival"):
            continue
        if is_target and model.positive is not None:
            _require_familiar(model, names(public, column, PUBLIC_SAMPLE))
        elif (is_target and model.predicts == "classes") or not _numeric(model, public, column):
            spelled = names(public, column, PUBLIC_SAMPLE, model.fills(column))
            categories[column] = tuple(sorted({*map(fold_name, spelled)}) if column in model.merged else spelled)
    if model.predicts == "classes":
        _require_classes(model, categories)
    if (
        model.predicts == "two classes"
        and model.target not in model.categories
        and len(classes := categories.get(model.target, ())) > 2
    ):
        raise DataError(
            f"{PUBLIC_SAMPLE}: column {model.target!r} has {len(classes)} different values, but this model needs two "
            f"classes: {TWO_CLASSES_HINT}"
        )
    for column in categories.keys() & model.bounds.keys() - {model.target}:
        if model.coding == "one-hot":
            raise DataError(
                f"model.bounds.{column}: bounds are not allowed with coding = 'one-hot', and the public sample has "
                "names in this column; remove the bounds"
            )
    for column in model.transforms:
        if column in categories:
            raise DataError(
                f"model.transforms.{column}: the public sample has names in this column, not numbers; remove the "
                "transform"
            )
    return categories


def _require_familiar(model: Model, found: list[str]) -> None:
    """Refuse a name that nearly equals one of the public sample's."""
    near = difflib.get_close_matches(str(model.positive), found, n=1)
    if near and near[0] != model.positive and model.positive not in found:
        raise DataError(
            f"model.positive = {model.positive!r}: the public sample has no such name; did you mean {near[0]!r}?"
        )


def _unscaled(
    model: Model, features: tuple[str, ...], categories: Mapping[str, tuple[str, ...]], public: pd.DataFrame | None
) -> Preparation:
    """Return columns with the bounds, centres and scales that the terms declare, and the values that fill gaps."""
    none = np.empty(0)
    target_bounds = model.bounds.get(model.target, (-np.inf, np.inf))
    if model.target in categories:
        target_bounds = model.bounds.get(model.target, (0.0, float(len(categories[model.target]))))
    plain = Preparation(model, features, categories, none, none, target_bounds, none, none)
    fills, ends = {}, []
    for encoding in plain.encodings:
        declared = model.bounds.get(encoding.column)
        known = None if public is None else encoding.known(public, PUBLIC_SAMPLE)
        encoding.require_domain(declared, known)
        fill = encoding.filled(known, declared)
        if fill is not None and encoding.column in model.centres:
            with np.errstate(over="ignore"):  # clipped next: whoever wrote a centre may have meant anything
                raw = encoding.range(*2 * (model.centres[encoding.column],))[0]
            fill = float(np.clip(raw, *(declared or (-LARGEST, LARGEST))))
        if fill is not None:
            fills[encoding.column] = fill
        ends += encoding.ends(declared)
    low, high = np.array(ends).reshape(-1, 2).T
    centre = [model.centres.get(e.column, 0.0) if scaled else 0.0 for e in plain.encodings for scaled in e.scaled]
    scale = [model.scales.get(e.column, 1.0) if scaled else 1.0 for e in plain.encodings for scaled in e.scaled]
    return replace(
        plain,
        low=low,
        high=high,
        centre=np.array(centre),
        scale=np.array(scale),
        target_centre=model.centres.get(model.target, 0.0),
        target_scale=model.scales.get(model.target, 1.0),
        fills=fills,
    )


def listed_features(terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
    """Return the features that this table alone would suggest; None if the terms or a public sample list them."""
    if terms.model.features is not None or terms.model.public is not None:
        return None
    return _numeric_columns(terms, table, public=False)


def _require_classes(model: Model, categories: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse unlisted classes, too few of them, or weights of others."""
    classes = categories.get(model.target, ())
    if len(classes) < 2:
        raise DataError(
            f"model.categories.{model.target}: list at least two classes, or give a public sample that has the "
            "classes, because they must not depend on private rows"
        )
    for name in model.class_weight:
        if name not in classes:
            raise DataError(f"model.class_weight.{name}: expected one of the classes {', '.join(classes)}")


def _fit_on_public(plain: Preparation, public: pd.DataFrame, pins: Pins | None) -> Preparation:
    """Fill in what only data can tell: missing bounds, centre, scale and principal components, or pinned ones."""
    model = plain.model
    raw = np.ascontiguousarray(plain.coded(public, PUBLIC_SAMPLE).T)
    low = np.where(np.isfinite(plain.low), plain.low, raw.min(axis=0))
    high = np.where(np.isfinite(plain.high), plain.high, raw.max(axis=0))
    _require_computable(plain.labels, np.array([low, high]))
    clipped = _capped(raw, low, high)
    scaled = np.array([column for e in plain.encodings for column in e.scaled])
    centred = scaled | (model.whitening is not None)
    centre, scale = np.where(centred, clipped.mean(axis=0), 0.0), np.where(scaled, _spread(clipped, plain.labels), 1.0)
    fitted = replace(plain, low=low, high=high, centre=centre, scale=scale)
    if model.predicts == "number":
        fitted = _fit_target(fitted, fitted.target_column(public, PUBLIC_SAMPLE))
    elif model.predicts == "count" and model.has_intercept:
        fitted = replace(fitted, target_centre=_typical_rate(fitted, public))
    if model.components is None:
        return fitted
    standard = (clipped - centre) / scale
    if pins is not None:
        return rotated(fitted, standard, require_principal(pins.get("rotation"), standard, model.components))
    return rotated(fitted, standard, _principal(standard, model.components))


def _with_basis(fitted: Preparation, public: pd.DataFrame | None) -> Preparation:
    """Add the basis that the terms ask for: points that are listed, rows of the public sample, or drawn evenly within
    the bounds; waves, whose frequencies follow from width and seed alone; or polynomials."""
    basis, constant = fitted.model.basis, fitted.model.has_intercept
    if basis is None:
        return fitted
    rng, points = np.random.default_rng(basis.seed), basis.points
    columns = len(fitted.low) if fitted.rotation is None else fitted.rotation.shape[1]
    if basis.kind == "polynomial" or basis.width is None or points is None:  # other kinds have both
        return replace(fitted, basis=_powers(fitted, columns, basis.degree or 1))
    if basis.kind is not None and isinstance(points, int):
        waves = rng.normal(0.0, 1 / basis.width, (points, columns)), rng.uniform(0.0, 2 * np.pi, (points, 1))
        return replace(fitted, basis=np.hstack(waves))
    if not isinstance(points, int):
        if len(points[0]) != len(fitted.features):
            raise DataError(
                f"model.basis.points: each point needs {len(fitted.features)} numbers, one for each feature"
            )
        rows = fitted.transform(np.array(points, dtype=np.float64))
    elif public is not None:
        rows = fitted.matrix(public, PUBLIC_SAMPLE)
        if len(rows) < points:
            raise DataError(
                f"model.basis.points = {points}: expected at most {len(rows)}, the number of rows in the public sample"
            )
        rows = rows[rng.permutation(len(rows))[:points]]
    else:
        low, high = fitted.prepared_bounds
        if not (np.isfinite(fitted.low).all() and np.isfinite(fitted.high).all()):
            raise DataError(
                "model.basis.points: random points need bounds of every feature; declare model.bounds, give a public "
                "sample, or list the points"
            )
        return replace(fitted, basis=rng.uniform(low, high, (points, len(low))))
    return replace(fitted, basis=np.ascontiguousarray(rows[:, :-1] if constant else rows))


def _powers(fitted: Preparation, columns: int, degree: int) -> Floats:
    """Return the degrees of polynomials; refuse columns without ends, or too many products."""
    low, high = fitted.basis_ends
    bounded = fitted.rotation is not None or np.isfinite([fitted.low, fitted.high]).all()
    if not (bounded and (high > low).all()):
        raise DataError(
            "model.basis.kind: 'polynomial' needs bounds of every feature; declare model.bounds or give a public sample"
        )
    if (many := math.comb(columns + degree, degree) - 1) > MAX_PRODUCTS:
        raise DataError(
            f"model.basis.degree = {degree}: {columns} columns make {many:,} products, more than the limit of "
            f"{MAX_PRODUCTS:,}; use a lower degree or fewer features"
        )
    return degrees(columns, degree)


def _principal(standard: Floats, components: int) -> Floats:
    """Return the directions [features, components] in which the public sample spreads most."""
    if not components <= min(standard.shape):
        raise DataError(
            f"model.components = {components}: expected at most {min(standard.shape)}, the number of rows or of "
            "columns in the public sample, whichever is smaller"
        )
    with np.errstate(invalid="ignore"):  # shares of a variance that is 0, which nobody reads
        from sklearn.decomposition import PCA  # a library that most terms need not wait for

        return np.ascontiguousarray(PCA(components, svd_solver="full").fit(standard).components_.T)


def _fit_target(plain: Preparation, y: Floats) -> Preparation:
    """Fit the bounds, centre and scale of a regression's target that the terms leave open."""
    model, bounds = plain.model, plain.target_bounds
    if not np.isfinite(bounds).all():
        bounds = (float(y.min()), float(y.max()))
        _require_computable([model.target], np.array([bounds]).T)
    if not model.has_intercept:
        return replace(plain, target_bounds=bounds)
    # With a constant among the features this only moves the origin: gradients start small, so a small clip will do.
    bounded = _capped(y, *bounds)
    centre, scale = float(bounded.mean()), float(_spread(bounded[:, None], [model.target])[0])
    return replace(plain, target_bounds=bounds, target_centre=centre, target_scale=scale)


def _typical_rate(plain: Preparation, public: pd.DataFrame) -> float:
    """Return the count per unit of exposure over all rows; with a constant feature it is only a starting point."""
    counted = np.clip(plain.target_column(public, PUBLIC_SAMPLE), *plain.target_bounds).sum()
    return float(np.clip(counted / plain.exposure_weights(public, PUBLIC_SAMPLE).sum(), 0.0, LARGEST))


def _capped(values: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Clip values to their bounds, and to +-`LARGEST`."""
    return np.clip(values, np.maximum(low, -LARGEST), np.minimum(high, LARGEST))


def _spread(values: Floats, columns: Sequence[str]) -> Floats:
    """Return the standard deviation of each column; 1 for a constant one."""
    spread = values.std(axis=0)
    spread = np.where(spread > 1e-12 * np.abs(values).max(axis=0), spread, 1.0)
    small = np.flatnonzero(~(spread >= SMALLEST))
    if small.size:
        raise DataError(
            f"{PUBLIC_SAMPLE}: column {columns[small[0]]!r}: the standard deviation {spread[small[0]]:g} is below "
            f"{SMALLEST:g}; give the column in other units"
        )
    return spread


def _require_computable(columns: Sequence[str], ends: Floats) -> None:
    """Refuse a public sample whose extremes [2, columns] are too large or too close to compute with."""
    wide = np.abs(ends).max(axis=0) > LARGEST
    narrow = (ends[0] < ends[1]) & ~(ends[1] / 2 - ends[0] / 2 >= SMALLEST / 2)
    wrong = np.flatnonzero(wide | narrow)
    if wrong.size:
        raise DataError(
            f"{PUBLIC_SAMPLE}: column {columns[wrong[0]]!r}: the values from {ends[0, wrong[0]]:g} to "
            f"{ends[1, wrong[0]]:g} are larger than {LARGEST:g} or closer together than {SMALLEST:g}; use other units "
            "or declare model.bounds"
        )


def read_public(model: Model) -> pd.DataFrame:
    """Return the public sample's rows that have a target; refuse a file that the parties did not agree on."""
    path = Path(str(model.public))
    frame = read_table(path)
    if model.public_sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != model.public_sha256:
        raise DataError(
            f"{path}: the file's SHA-256 differs from model.public_sha256; use the public sample that all parties "
            "agreed on"
        )
    frame = with_target(frame, model.outcome_columns, listed_classes(model), PUBLIC_SAMPLE)
    if len(frame) < 2:
        raise DataError(f"{path}: the public sample needs at least two rows with a target")
    return frame


def grown_here(preparation: Preparation) -> bool | None:
    """Whether this machine grows the same trees on the public sample; None if the terms pin none."""
    model, forest = preparation.model, preparation.forest
    if model.trees is None or model.preparation is None or forest is None:
        return None
    own = with_forest(replace(preparation, forest=None), read_public(model), None).forest
    return own is not None and PublicNumbers(own.arrays, {}).difference(PublicNumbers(forest.arrays, {})) is None


def dropped_rows(model: Model) -> str | None:
    """Say how many rows of the public sample have no target; None if there are none, or no sample."""
    if model.public is None:
        return None
    return dropped_rows_sentence(
        read_table(Path(model.public)), model.outcome_columns, listed_classes(model), PUBLIC_SAMPLE
    )


def _numeric_columns(terms: Terms, schema: pd.DataFrame | None, public: bool) -> tuple[str, ...]:
    """Return every numeric column. A private table's text column is refused: one odd cell must not drop a feature."""
    if schema is None:
        raise DataError(
            "model.features: the key is missing, and neither a public sample nor a table gives the columns; list the "
            "features"
        )
    excluded = {*terms.model.outcome_columns, terms.privacy.person}
    columns = [str(c) for c in schema.columns if str(c) not in excluded]
    if public:
        columns = [c for c in columns if _numeric(terms.model, schema, c)]
    else:
        columns = [c for c in columns if not isinstance(schema[c].dtype, pd.CategoricalDtype)]
    if not columns:
        raise DataError(
            "model.features: the table has no numeric column except the target; list the features, or add columns"
        )
    return tuple(columns)


def _numeric(model: Model, public: pd.DataFrame, column: str) -> bool:
    """Whether every cell of a public column reads as a number; dates do, True and False in a text file do not."""
    if column in model.dates or not is_text(public[column]):
        return True
    gaps = model.fills(column)
    try:
        numbers(public, column, PUBLIC_SAMPLE, gaps)
    except DataError:
        return False
    return not public[column].isin([*TRUTH_VALUES]).any()
