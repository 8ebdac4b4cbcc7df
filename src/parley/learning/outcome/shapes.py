"""What each column adds to a prediction, where columns add up: bins of a column, and trees that look at one column.

Formal guarantee: a function of the model, of the public numbers that prepare a row and, for bands, of further models or
of the known variance of the noise. Whatever protects the model protects its shapes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from parley.data import Preparation
from parley.data.cut_points import Hinged
from parley.data.encoding import INVERSES, Encoding, Places
from parley.data.forest import Forest
from parley.learning.outcome.posterior import Posterior
from parley.validate import Floats

BAND_LEVEL = 0.9  # how much lies within a band
OVER_PUBLIC, OVER_BINS = "over public rows", "over bins, each counted alike"  # where a column adds 0 on average


@dataclass(frozen=True, eq=False)
class ShapeFunction:
    """One column's contribution: steps between `cuts` in its own units, or lines between knots that are flat beyond,
    and a value for each name (others and gaps among them)."""

    column: str
    cuts: Floats  # the ends of the steps, one more than there are; empty for a column of names
    names: tuple[str, ...]
    values: Floats  # [..., steps or knots, and names]; the dots are the classes, where there may be several
    shares: Floats  # [steps or knots, and names]: what part of rows is thought to lie in each
    band: Floats | None = None  # [2, ..., steps or knots, and names]: its lower and its upper end
    knots: Floats = field(default_factory=lambda: np.empty(0))  # instead of cuts, where lines join them

    @property
    def numbers(self) -> int:
        """The number of values for numbers: steps, or knots."""
        return max(len(self.cuts) - 1, 0) + len(self.knots)

    @property
    def steps(self) -> Floats:
        """Contributions between the cuts, or at the knots [..., steps or knots]."""
        return self.values[..., : self.numbers]

    @property
    def of_names(self) -> Floats:
        """Contribution of each name [..., names]."""
        return self.values[..., self.numbers :]

    @property
    def spread(self) -> float:
        """The root mean square contribution over rows; for classes the largest."""
        return float(np.sqrt(self.values**2 @ self.shares).max())

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "cuts": self.cuts.tolist(),
            "knots": self.knots.tolist(),
            "names": list(self.names),
            "adds": self.values.tolist(),
            "shares": self.shares.tolist(),
            "band": None if self.band is None else self.band.tolist(),
        }


@dataclass(frozen=True, eq=False)
class PairShape:
    """The joint contribution of two columns beyond each alone, by bins of both: an axis' steps, then its names."""

    axes: tuple["Axis", "Axis"]
    values: Floats  # [..., bins, bins]
    shares: Floats  # [bins, bins]
    band: Floats | None = None  # [2, ..., bins, bins]

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [axis.column for axis in self.axes],
            "cuts": [axis.cuts.tolist() for axis in self.axes],
            "names": [list(axis.names) for axis in self.axes],
            "adds": self.values.tolist(),
            "shares": self.shares.tolist(),
            "band": None if self.band is None else self.band.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Shapes:
    """The common level and the contributions of columns and crossed pairs. They add up to the model's scores, for a
    number in its own units."""

    level: Floats  # [...]
    columns: tuple[ShapeFunction, ...]
    centred: str | None = None  # over what a column adds 0 on average; None: as it was learned
    about: str | None = None  # what bands are; None: there are none
    classes: tuple[str, ...] = ()  # where there may be several
    pairs: tuple[PairShape, ...] = ()

    def __iter__(self) -> Iterator[ShapeFunction]:
        return iter(self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the object under `shapes` in `parley train --json`."""
        return {
            "level": self.level.tolist(),
            "classes": list(self.classes),
            "centred": self.centred,
            "band": self.about,
            "columns": [each.to_json() for each in self.columns],
            "pairs": [each.to_json() for each in self.pairs],
        }


@dataclass(frozen=True, eq=False)
class Axis:
    """The bins of one column, in its own units: steps between `cuts`, or `knots` joined by lines, then `names`."""

    column: str
    cuts: Floats
    knots: Floats
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Bins:
    """The bins of a column, or of two, and the leaves that a row in each bin reaches [bins, leaves]."""

    axes: tuple[Axis, ...]
    leaves: Floats


def additive_shapes(
    preparation: Preparation, theta: Floats, runs: Floats | None = None, posterior: Posterior | None = None
) -> Shapes | None:
    """Return the contributions of a model's columns, with bands from several runs [runs, P] or from its posterior. None
    without trees, or if some look at several columns and are not one for each pair."""
    every = _all_bins(preparation)
    if every is None or preparation.forest is None:
        return None
    coefficients, level = _leaf_and_level_parts(preparation, theta)
    several = None if runs is None or len(runs) < 2 else _leaf_and_level_parts(preparation, runs)[0]
    is_number = preparation.model.predicts == "number"
    unit, origin = (preparation.target_scale, preparation.target_centre) if is_number else (1.0, 0.0)
    alone, pairs, same = list[ShapeFunction](), list[PairShape](), _constant_leaves(preparation.forest)
    for each in every:
        shares = _shares(preparation, each)
        usual = shares @ each.leaves
        same += usual
        change = unit * (each.leaves - usual)
        adds, band = coefficients @ change.T, None
        if several is not None:
            band = middle_band(several @ change.T)
        elif posterior is not None:
            band = _posterior_band(adds, change, posterior)
        if len(each.axes) == 1:
            axis = each.axes[0]
            alone.append(ShapeFunction(axis.column, axis.cuts, axis.names, adds, shares, band, axis.knots))
        else:
            pairs.append(_pair(each.axes, adds, shares, band))
    return Shapes(
        level=np.asarray(unit * (level + coefficients @ same) + origin),
        columns=tuple(alone),
        centred=OVER_BINS if preparation.shares is None else OVER_PUBLIC,
        about=band_words(runs, posterior is not None),
        classes=preparation.classes if preparation.model.predicts == "classes" else (),
        pairs=tuple(pairs),
    )


def own_units(encoding: Encoding, cuts: Floats) -> Floats:
    """Undo a column's transform for its cut points."""
    return cuts if encoding.transform is None else INVERSES[encoding.transform](cuts)


def middle_band(several: Floats) -> Floats:
    """Return the ends [2, ...] of the middle of several runs' numbers [runs, ...]."""
    tail = (1 - BAND_LEVEL) / 2
    return np.asarray(np.quantile(several, [tail, 1 - tail], axis=0))


def band_words(runs: Floats | None, sure: bool = False) -> str | None:
    """Describe the bands; None if there are none."""
    if runs is not None and len(runs) > 1:
        return f"the middle {BAND_LEVEL:.0%} of {len(runs):,} runs on the same rows, each with noise of its own"
    return f"{BAND_LEVEL:.0%} intervals, over the noise and the draw of the records" if sure else None


def _pair(axes: tuple[Axis, ...], adds: Floats, shares: Floats, band: Floats | None) -> PairShape:
    """Return a pair's shape from bins in one row, the second column's within the first's."""
    first, second = axes
    size = max(len(first.cuts) - 1, 0) + len(first.names), max(len(second.cuts) - 1, 0) + len(second.names)
    shaped = (None if each is None else each.reshape(*each.shape[:-1], *size) for each in (adds, shares, band))
    values, parts, ends = shaped
    return PairShape((first, second), np.asarray(values), np.asarray(parts), ends)


def _all_bins(preparation: Preparation) -> list[_Bins] | None:
    """Return the bins of every feature, then of every pair; None if trees do not add up so."""
    forest = preparation.forest
    if forest is None or forest.width > forest.leaves:  # a margin looks at many
        return None
    widths = [len(encoding.labels) for encoding in preparation.encodings]
    feature = np.repeat(np.arange(len(widths)), widths)  # of each coded column
    looked = [
        tuple(dict.fromkeys(feature[columns[columns >= 0]].tolist()))
        for columns in np.split(forest.column, forest.roots[1:])
    ]
    several = [features for features in looked if len(features) > 1]
    if any(len(features) > 2 for features in several) or len({frozenset(pair) for pair in several}) < len(several):
        return None
    groups = [*((place,) for place in range(len(widths))), *several]
    return [_bins(preparation, forest, group, np.array([features == group for features in looked])) for group in groups]


def _constant_leaves(forest: Forest) -> Floats:
    """Mark with 1 the leaves that all rows reach [leaves]."""
    whole = np.zeros(forest.leaves)
    whole[forest.left[forest.roots[forest.column[forest.roots] < 0]]] = 1.0
    return whole


def _bins(preparation: Preparation, forest: Forest, features: tuple[int, ...], trees: NDArray[np.bool_]) -> _Bins:
    firsts = np.cumsum([0, *(len(encoding.labels) for encoding in preparation.encodings)])
    axes, cells = list[Axis](), list[Floats]()
    for place in features:
        axis, rows = _axis(preparation, forest, preparation.encodings[place], int(firsts[place]), trees)
        axes.append(axis)
        cells.append(rows)
    which = np.indices([rows.shape[1] for rows in cells]).reshape(len(cells), -1)
    table = np.zeros((len(preparation.low), which.shape[1]))
    for place, rows, chosen in zip(features, cells, which, strict=True):
        table[firsts[place] : firsts[place + 1]] = rows[:, chosen]
    return _Bins(tuple(axes), forest.indicators(preparation.clipped(table)).T * trees[forest.tree_of_leaf])


def _axis(
    preparation: Preparation, forest: Forest, encoding: Encoding, first: int, trees: NDArray[np.bool_]
) -> tuple[Axis, Floats]:
    """Return the bins of a feature in some trees, and coded cells [columns, bins] of a row in each."""
    gaps = ("missing",) if encoding.fills else ()
    if isinstance(encoding, Places):
        names = (*encoding.names, "others", *gaps)
        rows = np.array(list(encoding.columns(np.arange(float(len(names))))))
        return Axis(encoding.column, np.empty(0), np.empty(0), names), rows
    low, high = float(preparation.low[first]), float(preparation.high[first])
    tree_of_node = np.searchsorted(forest.roots, np.arange(len(forest.column)), side="right") - 1
    inner = np.unique(forest.threshold[(forest.column == first) & trees[tree_of_node]])
    cuts, knots = np.concatenate([[low], inner[(low <= inner) & (inner < high)], [high]]), np.empty(0)
    if isinstance(forest, Hinged):
        knots = forest.knots[trees[forest.tree_of_leaf] & (forest.lines == first)]
    numbers, cuts = (knots, np.empty(0)) if len(knots) else (cuts[1:], cuts)
    gap = np.array(list(encoding.columns(np.full(len(gaps), np.nan)))).reshape(len(encoding.labels), -1)
    rows = np.hstack([np.vstack([numbers, *[np.zeros(len(numbers))] * len(gaps)]), gap])
    return Axis(encoding.column, own_units(encoding, cuts), own_units(encoding, knots), gaps), rows


def _shares(preparation: Preparation, bins: _Bins) -> Floats:
    """Return the share of rows in each bin, by the public rows if known, else equal."""
    alike = np.full(len(bins.leaves), 1 / len(bins.leaves))
    if preparation.shares is None:
        return alike
    shares = bins.leaves @ preparation.shares
    return shares / shares.sum() if shares.sum() > 0 else alike


def _leaf_and_level_parts(preparation: Preparation, theta: Floats) -> tuple[Floats, Floats]:
    """Split models [..., P] into contributions of leaves [..., leaves] and the constant level [...]. The dots end in
    classes if there are several; the level has periods for survival models."""
    width, leaves = preparation.width, preparation.width - preparation.model.has_intercept
    predicts = preparation.model.predicts
    if predicts == "classes":
        theta = theta.reshape(*theta.shape[:-1], -1, width)
    parts, before = theta[..., -width:], theta[..., :-width]
    constant = parts[..., leaves:].sum(axis=-1)
    return parts[..., :leaves], before + constant[..., None] if predicts == "survival" else constant


def _posterior_band(adds: Floats, change: Floats, posterior: Posterior) -> Floats:
    """Return the posterior's intervals [2, ..., bins] for the population's contributions."""
    covariance = posterior.covariance[:, : change.shape[1], : change.shape[1]]
    variance = np.einsum("bi,qij,bj->qb", change, covariance, change)
    reach = float(ndtri((1 + BAND_LEVEL) / 2)) * np.sqrt(np.maximum(variance, 0.0)).reshape(adds.shape)
    return np.stack([adds - reach, adds + reach])
