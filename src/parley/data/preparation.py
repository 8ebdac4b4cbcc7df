"""From a raw table to a design: coding, clipping to bounds, scaling, PCA - each from the terms or from public data only.

Formal guarantee: a prepared row is a function of that row, the terms and the public sample. No other private row touches it, so
replacing one record of the table replaces one row of the design.

Formal guarantee: every prepared feature and target is 0 or from `SMALLEST` to `LARGEST` in size, whatever double the cell held, and
not above `feature_bound` and `target_bound`. Subtracting the centre, dividing by the scale, clipping and rounding to the grid of
`settle` each keep the order of numbers, in floating point too; so what holds of the ends of an interval holds of all within.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from parley.data.design import Design, Summable
from parley.data.streamed import ParquetFolder, StreamedDesign
from parley.data.table import Rows, codes, is_text, keep_per_person, names, numbers, read_table, require_columns
from parley.errors import DataError
from parley.terms import Model, Terms, training_records
from parley.validate import LARGEST, SMALLEST, Floats

PUBLIC = "public sample"

GRID = 2.0**-166  # the least power of two above SMALLEST
SHIFT = 1.5 * 2**52 * GRID  # around it neighbouring floats lie GRID apart, so adding and subtracting it rounds to the grid


@dataclass(frozen=True, eq=False)
class Preparation:
    """How raw columns become features; fitted on public knowledge, applied by every owner alike."""

    model: Model
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    low: Floats  # bounds of the raw features, -inf where none is known
    high: Floats
    target_bounds: tuple[float, float]
    centre: Floats
    scale: Floats
    target_centre: float = 0.0
    target_scale: float = 1.0
    rotation: Floats | None = None  # [features, components] of the public sample's PCA
    component_low: Floats | None = None
    component_high: Floats | None = None

    @property
    def width(self) -> int:
        """p: features or components, plus the constant if there is one."""
        columns = len(self.features) if self.rotation is None else self.rotation.shape[1]
        return columns + self.model.has_intercept

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, where there may be several: from the terms or from the public sample."""
        return self.categories[self.model.target]

    @property
    def feature_bound(self) -> Floats | None:
        """The largest |x_j| any record can have after preparation [p]; None if some feature is unbounded."""
        if self.component_low is not None and self.component_high is not None:
            ends = np.array([self.component_low, self.component_high])
        elif np.isfinite([self.low, self.high]).all():
            ends = np.array(self._interval)
        else:
            return None
        bound = np.abs(settle(ends, -LARGEST, LARGEST)).max(axis=0)
        # A hair larger: sums and products of bounds are rounded too.
        return np.append(bound, 1.0)[: self.width] * (1 + 1e-12)

    @property
    def target_bound(self) -> float:
        """The largest |y| any record can have after preparation; 1 for classes."""
        if self.model.classifies:
            return 1.0
        if not np.isfinite(self.target_bounds).all():
            return np.inf
        return float(np.abs(self.target_interval).max()) * (1 + 1e-12)

    @property
    def target_interval(self) -> tuple[float, float]:
        """The least and the largest target any record can have after preparation."""
        low, high = settle(np.array(self._target_limits), -LARGEST, LARGEST)
        return float(low), float(high)

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        """What centred and scaled features are clipped to: their bounds, likewise, where arithmetic can bear them."""
        return _standard(self.low, self.centre, self.scale), _standard(self.high, self.centre, self.scale)

    @cached_property
    def _target_limits(self) -> tuple[float, float]:
        """The same for the target."""
        low, high = _standard(np.array(self.target_bounds), self.target_centre, self.target_scale)
        return float(low), float(high)

    def matrix(self, frame: Rows, name: str) -> Floats:
        """The design matrix [n, p] of a table that has the feature columns."""
        return np.ascontiguousarray(self.columns(frame, name).T)

    def columns(self, frame: Rows, name: str) -> Floats:
        """The same by columns [p, n]: as files hold them, and in one stretch for every step on the way."""
        require_columns(frame, self.features, name)
        return self._prepared((self._column(frame, column, name) for column in self.features), len(frame))

    def transform(self, raw: Floats) -> Floats:
        """The design matrix of coded raw features [n, features]."""
        return np.ascontiguousarray(self._prepared(raw.T, len(raw)).T)

    def _prepared(self, columns: Iterable[Floats], rows: int) -> Floats:
        """Prepared columns [p, n] of coded raw ones [n], each in one go while it is in the cache."""
        made = np.empty((len(self.features) + 1, rows))  # and one for the constant
        with np.errstate(over="ignore"):  # clipped next
            for x, column, centre, scale, low, high in zip(made, columns, self.centre, self.scale, *self._interval, strict=False):
                if centre != 0 or scale != 1:
                    column = np.divide(np.subtract(column, centre, out=x), scale, out=x)
                settle(column, low, high, x)
        if self.rotation is not None and self.component_low is not None and self.component_high is not None:
            X, made = made[:-1], np.empty((self.rotation.shape[1] + 1, rows))
            np.matmul(self.rotation.T, X, out=made[:-1])
            settle(made[:-1], self.component_low[:, None], self.component_high[:, None], made[:-1])
        made[-1] = 1.0
        return made[: self.width]

    def target(self, frame: Rows, name: str) -> Floats:
        """The targets [n]: clipped to their bounds, centred and scaled; two classes as -1 and 1; several as their places, 0, 1, 2, ..."""
        column = self.model.target
        require_columns(frame, [column], name)
        y = self._column(frame, column, name)
        if self.model.task == "classes":
            unknown = np.flatnonzero(~(y < len(self.classes)))
            if unknown.size:
                raise DataError(f"{name}: column {column!r}, row {unknown[0] + 1}: expected one of the agreed classes")
            return y
        if not self.model.classifies:
            with np.errstate(over="ignore"):  # clipped next
                return settle((y - self.target_centre) / self.target_scale, *self._target_limits)
        wrong = np.flatnonzero(~np.isin(y, (-1.0, 0.0, 1.0)))
        if wrong.size:
            raise DataError(f"{name}: column {column!r}, row {wrong[0] + 1}: expected a class, 1 or 0 (or -1)")
        return np.where(y > 0, 1.0, -1.0)

    def weights(self, y: Floats) -> Floats:
        """The weight of each record's loss: that of its class in the terms, else 1."""
        weight = self.model.class_weight
        if not weight:
            return np.ones(len(y))
        if self.model.task == "classes":
            return np.array([weight.get(name, 1.0) for name in self.classes])[y.astype(np.intp)]
        return np.where(y > 0, weight.get("1", 1.0), weight.get("0", 1.0))

    def designs(self, table: pd.DataFrame | ParquetFolder, terms: Terms, name: str) -> tuple[Summable, Summable]:
        """(training, held-out) designs of one owner's table, as the terms promise them.

        Rows are held out by their place in the table, never by their content: places are public, contents are not.
        """
        if isinstance(table, ParquetFolder):
            return self._streamed(table, terms, name)
        frame = table
        if terms.privacy.person is not None:
            frame = keep_per_person(frame, terms.privacy.person, terms.privacy.records_per_person, name)
        note = f" ({len(table)} before keeping those that count per person)" if len(frame) != len(table) else ""
        _require_records(terms, name, len(frame), note)
        train = self._trained_on(len(frame))
        design = self.design(frame, name)
        if train.all():
            return design, design.empty()
        return design.where(train), design.where(~train)

    def design(self, frame: pd.DataFrame, name: str) -> Design:
        """Some rows, prepared."""
        X, y = self.matrix(frame, name), self.target(frame, name)
        return Design(X, y, self.weights(y))

    def _block(self, rows: Rows, name: str) -> Design:
        """The same in the order of columns, for sums alone."""
        X, y = self.columns(rows, name).T, self.target(rows, name)
        return Design(X, y, self.weights(y))

    def _streamed(self, folder: ParquetFolder, terms: Terms, name: str) -> tuple[Summable, Summable]:
        if terms.privacy.person is not None:
            raise DataError(
                f"{name}: privacy.person: a streamed table cannot count each person's rows; give one file, or one row a person"
            )
        _require_records(terms, name, len(folder))
        columns = [*self.features, self.model.target]
        require_columns(folder.example(), columns, name)
        train = self._trained_on(len(folder)) if self.model.holdout else None
        held = np.zeros(len(folder), dtype=bool) if train is None else ~train
        designs = [StreamedDesign(folder, columns, kept, self.width, self._block) for kept in (train, held)]
        for design in designs:
            design.check()
        return designs[0], designs[1]

    def _trained_on(self, rows: int) -> NDArray[np.bool_]:
        """Which places are learned from; the same for all tables of this size: it hides nothing."""
        train = np.ones(rows, dtype=bool)
        train[np.random.default_rng(0).permutation(rows)[training_records(rows, self.model.holdout) :]] = False
        return train

    def _column(self, frame: Rows, column: str, name: str) -> Floats:
        if column in self.categories:
            return codes(frame, column, self.categories[column], name)
        return numbers(frame, column, name)


def _require_records(terms: Terms, name: str, found: int, note: str = "") -> None:
    declared = terms.owner(name).records
    if found != declared:
        raise DataError(f"{name}: the terms promise {declared} records, the table has {found}{note}")


def fit_preparation(terms: Terms, example: pd.DataFrame | None = None) -> tuple[Preparation, Design | None]:
    """The preparation that the terms and their public sample fix, and the public sample prepared by it.

    `example` is consulted for its column names and kinds alone, and only where neither the terms nor a public sample list the
    features.
    """
    model = terms.model
    public = None if model.public is None else _read_public(model)
    features = model.features or _numeric_columns(terms, example if public is None else public, public is not None)
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


def listed_features(terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
    """The features that this table alone would suggest; None where the terms or a public sample list them."""
    if terms.model.features is not None or terms.model.public is not None:
        return None
    return _numeric_columns(terms, table, public=False)


def _fit_on_public(plain: Preparation, public: pd.DataFrame) -> Preparation:
    """Fill in what only data can tell: missing bounds, centre and scale, principal components."""
    model = plain.model
    raw = np.column_stack([plain._column(public, column, PUBLIC) for column in plain.features])
    low = np.where(np.isfinite(plain.low), plain.low, raw.min(axis=0))
    high = np.where(np.isfinite(plain.high), plain.high, raw.max(axis=0))
    y = plain._column(public, model.target, PUBLIC)
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


def settle(values: Floats, low: Floats | float, high: Floats | float, out: Floats | None = None) -> Floats:
    """Values clipped to [low, high], then rounded to the grid of `GRID` where they are small.

    Formal guarantee: for limits within +-LARGEST the result is 0 or from SMALLEST to LARGEST in size, and larger values never become
    smaller ones. With S = `SHIFT`, v + S - S is a multiple of GRID for |v| <= 2^51 GRID: v + S lies where floats are GRID apart, and
    the subtraction is exact. Beyond, all floats in play are multiples of GRID/2 or coarser, and only |v| <= GRID/2 comes back as 0.
    From 2^-60 on, 1e-18, a value returns as it was.

    >>> settle(np.array([0.1, -3e-51, 1e-300, -1e300]), -1e50, 1e50)
    array([ 1.e-01,  0.e+00,  0.e+00, -1.e+50])
    """
    settled: Floats = np.clip(values, low, high, out=out)
    settled += SHIFT
    settled -= SHIFT
    return settled


def _standard(ends: Floats, centre: Floats | float, scale: Floats | float) -> Floats:
    with np.errstate(over="ignore"):  # clipped next
        return np.clip((ends - centre) / scale, -LARGEST, LARGEST)


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
