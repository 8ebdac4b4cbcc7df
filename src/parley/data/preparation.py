"""From a raw table to a design: coding, filling gaps, transforms, clipping, scaling and PCA, by terms and public data
alone.

Formal guarantee: a prepared row is a function of that row, the terms and the public sample. No other private row
touches it, so replacing one record of the table replaces one row of the design.

Formal guarantee: every prepared feature and target is 0 or from `SMALLEST` to `LARGEST` in size, whatever double the
cell held, and within its bounds. No row has a norm above that of `feature_bound`, and no target a size above
`target_bound`. Subtracting the centre, dividing by the scale, clipping and rounding to a grid (`rowwise.clip_to_grid`)
each keep the order of numbers, in floating point too. So what holds for the ends of an interval holds for all numbers
within.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.data import rowwise
from parley.data.basis import basis_features
from parley.data.design import Design, Summable
from parley.data.encoding import NUMBER_FORMAT_HINT, Encoding, make_encoding
from parley.data.forest import Forest
from parley.data.holdout import (
    Marks,
    count_rows,
    counted_rows,
    gather_designs,
    held_out_people,
    parts_of,
    require_room,
    small_parts,
    split_places,
    trained_places,
)
from parley.data.rowwise import clip_to_grid, sizes, standardised_ends
from parley.data.sources import Rows, Table, TableSource, open_table
from parley.data.sources.source import chosen_rows
from parley.data.streamed import StreamedDesign
from parley.data.table import codes, numbers, require_columns
from parley.data.targets import (
    class_signs,
    class_words,
    count_words,
    exposure_weights,
    has_target,
    lifetime_labels,
    lifetime_words,
    rate_ends,
    weight_ends,
)
from parley.errors import DataError, TermsError
from parley.terms import Model, Terms
from parley.validate import LARGEST, Floats, few_names

LEAF_BATCH_ROWS = 4096  # rows whose leaves are found at once
MAX_UNWRITTEN_CELLS = 2**21  # of prepared rows that are held beside those already written


@dataclass(frozen=True, eq=False)
class Preparation:
    """The map from raw columns to features, fitted on public knowledge and applied by every owner alike."""

    model: Model
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    low: Floats  # bounds of the columns that features become, -inf where none is known
    high: Floats
    target_bounds: tuple[float, float]
    centre: Floats
    scale: Floats
    target_centre: float = 0.0
    target_scale: float = 1.0
    rotation: Floats | None = None  # [columns, components] of the public sample's PCA
    component_low: Floats | None = None
    component_high: Floats | None = None
    fills: Mapping[str, float] = field(default_factory=dict)  # what a missing number counts as
    # [points, columns or components] that features say the nearness to; of waves the frequencies, and phases last; of
    # polynomials the degrees
    basis: Floats | None = None
    forest: Forest | None = None  # whose leaves are the features
    shares: Floats | None = None  # of public rows in each bin, where columns are cut into some; nothing depends on them

    def under(self, terms: Terms) -> "Preparation":
        """Return the preparation by other terms of the same columns: the same, where nothing else is part of it."""
        return self

    @cached_property
    def encodings(self) -> tuple[Encoding, ...]:
        """The encoding of each feature."""
        names, fills = self.categories, self.fills
        return tuple(make_encoding(self.model, c, names.get(c), fills.get(c, np.nan)) for c in self.features)

    @cached_property
    def unturned(self) -> "Preparation":
        """The same without rotation, basis or leaves: the columns that trees take. Itself if it has none."""
        if self.rotation is None and self.basis is None and self.forest is None:
            return self
        return replace(self, rotation=None, component_low=None, component_high=None, basis=None, forest=None)

    @property
    def named(self) -> list[NDArray[np.intp]]:
        """The places of each feature's names among the columns, for features with three or more."""
        sizes = [size for encoding in self.encodings for size in encoding.groups]
        ends = np.cumsum(sizes)
        return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True) if size > 2]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the columns that features become."""
        return tuple(label for encoding in self.encodings for label in encoding.labels)

    @cached_property
    def width(self) -> int:
        """p: columns, leaves, components or points of a basis, plus the constant if there is one."""
        if self.forest is not None:
            return self.forest.width + self.model.has_intercept
        columns = len(self.labels) if self.rotation is None else self.rotation.shape[1]
        return (columns if self.basis is None else len(self.basis)) + self.model.has_intercept

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, from the terms or the public sample, for a classifier of several classes."""
        return self.categories[self.model.target]

    @property
    def outcomes(self) -> int:
        """q: how many numbers a model predicts for a row; one per class for several classes."""
        return len(self.classes) if self.model.predicts == "classes" else 1

    @cached_property
    def feature_bound(self) -> Floats | None:
        """The largest |x_j| of any prepared record, which bounds its L1, L2 and Linf norms; None if some feature is
        unbounded.

        Formal guarantee: there is one number for each column, except for columns of which at most one differs from 0
        (`_groups`). In every norm, the norm of such a group is the size of that one; so it has one number, its largest.
        A nearness lies between 0 and 1, a wave or a polynomial between -1 and 1, whatever cells hold; one of a tree's
        leaves is 1; margins are clipped.
        """
        if self.forest is not None:
            bound = self.forest.sizes
        elif self.basis is not None:
            bound = np.ones(len(self.basis))
        elif self.component_low is not None and self.component_high is not None:
            bound = sizes(self.component_low, self.component_high)
        elif np.isfinite([self.low, self.high]).all():
            bound = np.maximum.reduceat(sizes(*self._interval), np.cumsum([0, *self._groups[:-1]]))
        else:
            return None
        # A hair larger: sums and products of bounds are rounded too.
        return np.append(bound, [1.0] * self.model.has_intercept) * (1 + 1e-12)

    @cached_property
    def _groups(self) -> list[int]:
        """Sizes of groups of prepared columns, at most one of them nonzero: one-hot columns whose 0 remains 0."""
        sizes: list[int] = []
        for size in (size for encoding in self.encodings for size in encoding.groups):
            begun = sum(sizes)
            sizes += [1] * size if self.centre[begun : begun + size].any() else [size]
        return sizes

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The bounds of every feature in its own units; for names, of the numbers that they become."""
        first = np.cumsum([0, *(len(encoding.labels) for encoding in self.encodings)])[:-1]
        return {
            e.column: e.range(float(self.low[i]), float(self.high[i]))
            for e, i in zip(self.encodings, first, strict=True)
        }

    @property
    def target_bound(self) -> float:
        """The largest |y| of any record after preparation; 1 for classes and for labels of lifetimes."""
        if self.model.predicts not in ("number", "count"):
            return 1.0
        if not np.isfinite(self.target_bounds).all():
            return np.inf
        return float(np.abs(self.target_interval).max()) * (1 + 1e-12)

    @property
    def target_interval(self) -> tuple[float, float]:
        """The smallest and the largest target of any record after preparation."""
        low, high = clip_to_grid(np.array(self._target_limits), -LARGEST, LARGEST)
        return float(low), float(high)

    @property
    def prepared_bounds(self) -> tuple[Floats, Floats]:
        """The smallest and the largest known value of every column after preparation, before any rotation."""
        return self._interval

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        """The interval to which centred and scaled features are clipped."""
        return standardised_ends(self.low, self.centre, self.scale), standardised_ends(
            self.high, self.centre, self.scale
        )

    @cached_property
    def _target_limits(self) -> tuple[float, float]:
        """The interval to which a centred and scaled target is clipped; for counts, that of the rate."""
        if self.model.predicts == "count":
            return rate_ends(self.model, self.target_centre, self.target_bounds)
        low, high = standardised_ends(np.array(self.target_bounds), self.target_centre, self.target_scale)
        return float(low), float(high)

    def matrix(self, frame: Rows, name: str) -> Floats:
        """Return the design matrix [n, p] of a table that has the feature columns."""
        return np.ascontiguousarray(self.columns(frame, name).T)

    def columns(self, frame: Rows, name: str, secret: bool = False) -> Floats:
        """Return the design matrix by columns [p, n]; if `secret`, no step depends on other rows (`data.rowwise`)."""
        require_columns(frame, self.features, name)
        return self._prepared((encoding.read(frame, name) for encoding in self.encodings), len(frame), secret)

    def transform(self, raw: Floats) -> Floats:
        """Return the design matrix of raw features [n, features]: numbers, places of names, NaN for gaps to fill."""
        coded = (encoding.coded(values) for encoding, values in zip(self.encodings, raw.T, strict=True))
        return np.ascontiguousarray(self._prepared(coded, len(raw)).T)

    def coded(self, frame: Rows, name: str) -> Floats:
        """Return the columns that features become [columns, n], before clipping and scaling."""
        require_columns(frame, self.features, name)
        return np.array([column for e in self.encodings for column in e.columns(e.read(frame, name))])

    def clipped(self, coded: Floats) -> Floats:
        """Clip coded columns [columns, n] to their bounds and to `LARGEST`, for trees."""
        low, high = np.maximum(self.low, -LARGEST), np.minimum(self.high, LARGEST)
        return np.clip(coded, low[:, None], high[:, None])

    @cached_property
    def origin(self) -> Floats | None:
        """The public model [P] where training begins and towards which a penalty pulls; None: zero."""
        if self.forest is None or not self.forest.begin.any():
            return None
        constant = np.zeros((self.outcomes, int(self.model.has_intercept)))
        return np.concatenate([self.forest.begin, constant], axis=1).ravel()

    def _prepared(self, features: Iterable[Floats], rows: int, secret: bool = False) -> Floats:
        """Return prepared columns [p, n] of coded raw features [n], column by column to stay in the cache."""
        columns = (column for e, coded in zip(self.encodings, features, strict=True) for column in e.columns(coded))
        if self.forest is not None:
            return self.leaf_columns(self.clipped(np.array(list(columns)).reshape(len(self.low), rows)))
        made = np.empty((len(self.low) + 1, rows))  # and one for the constant
        with np.errstate(over="ignore"):  # clipped next
            for x, column, centre, scale, low, high in zip(
                made, columns, self.centre, self.scale, *self._interval, strict=False
            ):
                if centre != 0 or scale != 1:
                    column = np.divide(np.subtract(column, centre, out=x), scale, out=x)
                clip_to_grid(column, low, high, x)
        if self.rotation is not None and self.component_low is not None and self.component_high is not None:
            X, made = made[:-1], np.empty((self.rotation.shape[1] + 1, rows))
            if secret:
                made[:-1] = rowwise.products(X.T, self.rotation.T)
            else:
                np.matmul(self.rotation.T, X, out=made[:-1])
            clip_to_grid(made[:-1], self.component_low[:, None], self.component_high[:, None], made[:-1])
        if self.basis is not None:
            made = np.vstack([self.near(made[:-1], secret), made[-1:]])
        made[-1] = 1.0
        return made[: self.width]

    def leaf_columns(self, coded: Floats) -> Floats:
        """Return the leaves [p, n] of clipped columns [columns, n] and the constant, each row's adjacent in memory."""
        leaves = 0 if self.forest is None else self.forest.width
        made = np.ones((coded.shape[1], leaves + self.model.has_intercept)).T
        if self.forest is not None:
            for start in range(0, coded.shape[1], LEAF_BATCH_ROWS):
                rows = slice(start, start + LEAF_BATCH_ROWS)
                made[:leaves, rows] = self.forest.indicators(coded[:, rows])
        return made

    def near(self, columns: Floats, secret: bool = False) -> Floats:
        """Return the basis features [points, n] of prepared columns [columns, n]: nearness to points, from 0 to 1, or
        waves or polynomials, from -1 to 1. Without a basis, return the columns."""
        if self.basis is None or self.model.basis is None:
            return columns
        return basis_features(columns, self.basis, self.model.basis, self.basis_ends, secret)

    @property
    def basis_ends(self) -> tuple[Floats, Floats]:
        """The smallest and the largest known value of every column that the basis uses."""
        if self.component_low is None or self.component_high is None:
            return self._interval
        return self.component_low, self.component_high

    def targets(self, frame: Rows, name: str) -> tuple[Floats, Floats]:
        """Return (targets, weights of their losses) [n]; for counts, rates and weights of exposures."""
        if self.model.predicts != "count":
            y = self.target(frame, name)
            return y, self.weights(y)
        weight = self.exposure_weights(frame, name)
        clipped = np.clip(self.target_column(frame, name), *self.target_bounds)
        return clip_to_grid(clipped / weight, *self._target_limits), weight

    def exposure_weights(self, frame: Rows, name: str) -> Floats:
        """Return each record's expected count at the typical rate [n]."""
        return exposure_weights(self.model, self.target_centre, frame, name)

    @property
    def largest_weight(self) -> float:
        """The largest weight of one record's loss."""
        if self.model.predicts == "count":
            return weight_ends(self.model, self.target_centre)[1]
        return self.model.largest_weight

    def target(self, frame: Rows, name: str) -> Floats:
        """Return the targets [n]: numbers clipped and scaled, two classes as -1 and 1, places of classes, or labels."""
        column = self.model.target
        require_columns(frame, [column], name)
        if self.model.predicts == "survival":
            return lifetime_labels(self.model, frame, name)
        if self.model.predicts == "two classes":
            return class_signs(self.model, self.categories, frame, name)
        y = self.target_column(frame, name)
        if self.model.predicts == "classes":
            unknown = np.flatnonzero(~(y < len(self.classes)))
            if unknown.size:
                raise DataError(
                    f"{name}: column {column!r}, row {unknown[0] + 1}: the value is not one of the agreed classes "
                    f"({few_names(self.classes)}). Names are case-sensitive; fix the file or model.categories"
                )
            return y
        with np.errstate(over="ignore"):  # clipped next
            return clip_to_grid((y - self.target_centre) / self.target_scale, *self._target_limits)

    @property
    def target_words(self) -> str | None:
        """A sentence on which targets count as 1 and 0, or what is counted or waited for; None if none is needed."""
        if self.model.predicts == "survival":
            return lifetime_words(self.model)
        if self.model.predicts == "count":
            return count_words(self.model)
        return class_words(self.model, self.categories) if self.model.predicts == "two classes" else None

    def weights(self, y: Floats) -> Floats:
        """Return the weight of each record's loss: that of its class in the terms, else 1."""
        weight = self.model.class_weight
        if not weight:
            return np.ones(len(y))
        if self.model.predicts == "classes":
            return np.array([weight.get(name, 1.0) for name in self.classes])[y.astype(np.intp)]
        return np.where(y > 0, weight.get("1", 1.0), weight.get("0", 1.0))

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        """Return (training, held-out) designs of one owner's table, as the terms promise them.

        Rows are held out by place, never by content: places are public. If people are held out instead, every row has
        its place in both designs, and in one of them it is zeros of weight 0. So a row of either is a function of its
        raw row, and no size depends on who is held out.
        """
        source, columns = open_table(table), [*self.features, *self.model.outcome_columns]
        require_columns(source.example, columns, name)
        kept = counted_rows(source, terms.privacy, name)
        rows = count_rows(source, kept)
        dropped = rows != len(source)
        require_records(terms, name, rows, f" ({len(source)} before keeping those that count per person)" * dropped)
        if source.streams:
            return self._streamed(source, columns)
        require_room(source, rows if self.model.holdout_by is None else 2 * rows, self.width)
        parts = small_parts(parts_of(source, columns, kept), max(1, MAX_UNWRITTEN_CELLS // self.width))
        if self.model.holdout_by is None:
            return gather_designs(parts, trained_places(self.model, rows), self.width, self.block, name)
        held_out = held_out_people(source, terms, name, kept)
        return self._in_place(parts, held_out, name, (terms.train_rows(name), terms.held_out_rows(name)))

    def design(self, frame: Rows, name: str) -> Design:
        """Return a design of these rows, prepared as the terms say."""
        block = self.block(frame, name)
        return Design(np.ascontiguousarray(block.X), block.y, block.weight)

    def block(self, frame: Rows, name: str, secret: bool = False) -> Design:
        """Return a design in column order, for sums alone; rows without a target are zeros of weight 0."""
        require_columns(frame, [*self.features, *self.model.outcome_columns], name)
        columns, present = self.columns(frame, name, secret), has_target(frame, self.model, name)
        if present.all():
            return Design(columns.T, *self.targets(frame, name), secret=secret)
        some = chosen_rows(frame, present)
        y = np.full(len(present), self._no_target)
        weight = np.zeros(len(present))
        y[present], weight[present] = self.targets(some, f"{name}, of the rows with a target")
        columns[:, ~present] = 0.0
        return Design(columns.T, y, weight, secret=secret)

    @property
    def _no_target(self) -> float:
        """The placeholder target of a row of weight 0."""
        return -1.0 if self.model.predicts == "two classes" else 0.0

    def _in_place(
        self, parts: Iterable[tuple[int, Rows]], held_out: Marks, name: str, means_over: tuple[int, int]
    ) -> tuple[Design, Design]:
        """Return (training, held-out) designs of all rows, each with zeros of weight 0 in the other's places."""
        rows = len(held_out)
        train, kept = (
            Design(np.zeros((rows, self.width)), np.full(rows, self._no_target), np.zeros(rows), mean_over=over)
            for over in means_over
        )
        for start, some in parts:
            block = self.block(some, name if not start else f"{name}, counted from row {start + 1} on")
            is_held_out = held_out[start : start + len(block)]
            for whole, chosen in ((train, ~is_held_out), (kept, is_held_out)):
                places = start + np.flatnonzero(chosen)
                whole.X[places], whole.y[places], whole.weight[places] = (
                    block.X[chosen],
                    block.y[chosen],
                    block.weight[chosen],
                )
        return train, kept

    def _streamed(self, table: TableSource, columns: list[str]) -> tuple[Summable, Summable]:
        parts = split_places(self.model, len(table))
        designs = [StreamedDesign(table, columns, kept, self.width, self.block) for kept in parts]
        for design in designs:
            design.check()
        return designs[0], designs[1]

    def trained_on(self, rows: int) -> NDArray[np.bool_]:
        """Mark the places for training, the same for all tables of this size; a `TermsError` if people are held out."""
        if self.model.holdout_by is not None:
            raise TermsError(
                "model.holdout_by: this key holds out people, so row numbers do not tell which rows are for training; "
                "remove the key"
            )
        return trained_places(self.model, rows)

    def target_column(self, frame: Rows, name: str) -> Floats:
        """Return the raw target [n]: numbers, or names as their places in the agreed list."""
        column = self.model.target
        if column in self.categories:
            return codes(frame, column, self.categories[column], name)
        return numbers(
            frame, column, name, hint=f"{NUMBER_FORMAT_HINT}; a target of names needs a classifier as model.kind"
        )


def require_records(terms: Terms, name: str, found: int, note: str = "") -> None:
    """Refuse a table of another size than the terms promise."""
    declared = terms.owner(name).records
    if found != declared:
        raise DataError(
            f"{name}: the terms state {declared} records, but the table has {found}{note}; use the agreed table, or "
            "agree on new terms"
        )
