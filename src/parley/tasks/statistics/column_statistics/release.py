"""Reading released column statistics and making terms from them, at no further cost. A figure is read only where counts
exceed the noise; a column without such counts is unclear."""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parley.data.encoding import TRANSFORMS
from parley.errors import GuaranteeError
from parley.privacy.mechanisms.name_counts import MAX_NAMES, NUMBERS_PER_NAME, decode_name
from parley.protocol.setup import Setup
from parley.tasks.statistics.column_statistics.question import (
    BINS,
    EQUAL,
    MAGNITUDE_EDGES,
    MAGNITUDES,
    NAMES,
    NUMBERS_PER_COLUMN,
    CellPreparation,
    ColumnStatisticsQuestion,
)
from parley.tasks.statistics.column_statistics.terms import ready_terms
from parley.terms import Model, Terms
from parley.terms.catalogue import MECHANISMS
from parley.terms.keys import Transform
from parley.validate import Floats

FALSE_BIN_PROBABILITY = 0.05  # how likely it is at most that noise alone makes a bin that is read
TAIL_SHARE = 0.01  # share of the rows that may lie beyond each bound
WINDOW_BINS = (1, 2, 4, 8)  # bins that are looked at together
MERGED_BINS = (1, 2, 4, 8)  # bins that are read as one where they are few rows each
READABLE_SHARE = 0.8  # of the rows
MAX_HIDDEN_SHARE = 0.1  # of the rows: no end is drawn where noise could hide more beyond it
ZERO_BIN = len(MAGNITUDE_EDGES) // 2  # the bin around 0 of the powers of two


@dataclass(frozen=True)
class ReleasedColumn:
    """A column's distribution: `shares` of rows in bins between `edges`, or of `names`; unclear if noise hides it."""

    column: str
    kind: Literal["numbers", "names", "unclear"]
    missing: float  # share of its cells, with noise
    low: float | None = None
    high: float | None = None
    edges: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    powers: tuple[tuple[float, float], ...] = ()  # (middle, share) of the occupied bins between powers of two
    names: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "names": dict(self.names)}


@dataclass(frozen=True)
class StatisticsReader:
    """The reading of answers from public knowledge: the columns asked, and the noise."""

    columns: tuple[str, ...]
    model: Model
    named: bool  # whether owners may release names
    deviation: float  # of the noise in one combined share
    gaussian: bool
    weights: tuple[float, ...]  # of the owners' answers

    @classmethod
    def from_setup(cls, setup: Setup) -> "StatisticsReader":
        preparation, noise = setup.preparation, setup.aggregation.noise(setup)
        question = next(iter(setup.parts.values())).training.question
        if not isinstance(preparation, CellPreparation) or not isinstance(question, ColumnStatisticsQuestion):
            raise GuaranteeError("terms: expected terms for column statistics")
        weights = tuple((noise.records / noise.records.sum()).tolist())
        named, gaussian = question.names_in is not None, MECHANISMS[setup.terms.privacy.mechanism].approximate
        return cls(preparation.asked, setup.terms.model, named, noise.all_together**0.5, gaussian, weights)

    def clear(self, bins: int) -> float:
        """Return the level that noise alone reaches in none of `bins` bins per column, with near certainty."""
        odds = bins * len(self.columns) / FALSE_BIN_PROBABILITY
        return self.deviation * (math.sqrt(2 * math.log(odds)) if self.gaussian else math.log(odds) / math.sqrt(2))

    def first_grid(self) -> Floats:
        """Return powers of two, or equal bins within bounds that the terms have."""
        bounds = self.model.bounds
        return np.array(
            [(EQUAL, *bounds[column]) if column in bounds else (MAGNITUDES, 0.0, 0.0) for column in self.columns]
        )

    def second_grid(self, first: Floats) -> Floats:
        """Return a grid as fine as the first answer [C x WIDTH] allows."""
        rows = zip(self.columns, first.reshape(-1, NUMBERS_PER_COLUMN), self.first_grid(), strict=True)
        return np.array([self._second_grid(column, row, tuple(grid)) for column, row, grid in rows])

    def _second_grid(self, column: str, row: Floats, grid: tuple[float, float, float]) -> tuple[float, float, float]:
        if self._names(column, row, grid[0]):
            return (NAMES, 0.0, 0.0) if self.named else grid
        if grid[0] == EQUAL:
            return grid
        occupied = self._occupied(row[2 : len(MAGNITUDE_EDGES) + 3])
        if not occupied.size:
            return grid
        ends = np.concatenate([[2 * MAGNITUDE_EDGES[0]], MAGNITUDE_EDGES, [2 * MAGNITUDE_EDGES[-1]]])
        low = 0.0 if occupied[0] == ZERO_BIN else float(ends[occupied[0]])
        high = 0.0 if occupied[-1] == ZERO_BIN else float(ends[occupied[-1] + 1])
        return (EQUAL, low, high) if low < high else (EQUAL, 0.0, 1.0)

    def _occupied(self, bins: Floats) -> NDArray[np.int64]:
        """Return the places of bins in runs of 1, 2, 4 or 8 that exceed the noise."""
        held = np.zeros(len(bins), dtype=bool)
        for length in WINDOW_BINS:
            sums = np.concatenate(
                [[0.0], np.cumsum(np.where(held, 0.0, bins))]
            )  # what is known to hold rows proves nothing of others
            clear = math.sqrt(length) * self.clear(len(WINDOW_BINS) * len(bins))
            for start in np.flatnonzero(sums[length:] - sums[:-length] >= clear):
                inside = np.arange(start, start + length)
                held[inside[bins[inside] >= self.deviation]] = True  # ends that hold nothing do not belong to it
        return np.flatnonzero(held)

    def _names(self, column: str, row: Floats, kind: float) -> bool:
        """Whether a column holds names: the classes of a target, or more text than numbers."""
        if column == self.model.target and self.model.predicts == "classes":
            return True
        bins = row[2 : (len(MAGNITUDE_EDGES) if kind == MAGNITUDES else BINS + 1) + 3]
        least = self.clear(len(bins))
        return bool(row[1] >= least and row[1] > bins[bins >= least].sum())

    def read(self, first: Floats, second: Floats, own: Floats) -> tuple[ReleasedColumn, ...]:
        """Read every column from both combined answers [C x WIDTH] and owners' own second answers [N, C x WIDTH]."""
        grids = np.stack([self.first_grid(), self.second_grid(first)], axis=1)
        answers = np.stack([first.reshape(-1, NUMBERS_PER_COLUMN), second.reshape(-1, NUMBERS_PER_COLUMN)], axis=1)
        singles = own.reshape(len(own), -1, NUMBERS_PER_COLUMN).swapaxes(0, 1)
        return tuple(self._column(*known) for known in zip(self.columns, answers, grids, singles, strict=True))

    def _column(self, column: str, answers: Floats, grids: Floats, own: Floats) -> ReleasedColumn:
        (first, second), grid = answers, grids[1]
        missing = float(min(max(answers[:, 0].mean(), 0.0), 1.0))
        if self._names(column, first, grids[0][0]):
            return ReleasedColumn(column, "names", missing, names=self._released(own) if grid[0] == NAMES else ())
        bins, (low, high) = second[2 : BINS + 4], grid[1:]
        if grid[0] != EQUAL or not bins.sum() > 3 * self.deviation * math.sqrt(len(bins)):
            return ReleasedColumn(column, "unclear", missing)
        edges = np.linspace(low, high, BINS + 1)
        if column not in self.model.bounds:
            low, high = self._ends(bins, edges, 1 - second[:2].sum())
        edges, shares = self._readable(bins, edges)
        if not shares.any():
            return ReleasedColumn(column, "unclear", missing)
        powers = self._powers(first[2 : len(MAGNITUDE_EDGES) + 3]) if grids[0][0] == MAGNITUDES else ()
        spread = tuple(edges.tolist()), tuple(shares.tolist()), powers
        return ReleasedColumn(column, "numbers", missing, float(low), float(high), *spread)

    def _powers(self, bins: Floats) -> tuple[tuple[float, float], ...]:
        """Return the occupied powers of two, for columns with a logarithm."""
        middles = np.append(MAGNITUDE_EDGES, 2 * MAGNITUDE_EDGES[-1]) * np.where(
            np.arange(len(bins)) > ZERO_BIN, 0.75, 1.5
        )
        middles[ZERO_BIN] = 0.0
        return tuple((float(middles[place]), float(bins[place])) for place in self._occupied(bins) if bins[place] > 0)

    def _readable(self, bins: Floats, edges: Floats) -> tuple[Floats, Floats]:
        """Merge bins until most rows are in readable ones; one bin lies beyond each end."""
        below, inner, above = bins[0], bins[1:-1], bins[-1]
        for merged in MERGED_BINS:
            sums = np.array([below, *inner.reshape(-1, merged).sum(axis=1), above])
            noise = self.deviation * np.array([1.0, *[math.sqrt(merged)] * (len(sums) - 2), 1.0])
            shares = np.where(sums >= 2 * noise, sums, 0.0)
            if shares.sum() >= READABLE_SHARE * bins.sum():
                break
        return edges[::merged], shares

    def _ends(self, bins: Floats, edges: Floats, rows: float) -> tuple[float, float]:
        """Return bounds beyond which a hundredth of these rows lies, or as many as noise hides, plus a bin, rounded
        outwards. If noise could hide more than a tenth of the rows, fewer bins are cut off. If they may lie beyond all
        bins, the bound is the next power of two, or 0."""
        low, high = self._cut(bins, edges, BINS)
        in_range = (edges[:-1] >= low) & (edges[1:] <= high)
        if rows - bins[1:-1][in_range].sum() + 3 * self.deviation * math.sqrt(in_range.sum() + 2) > MAX_HIDDEN_SHARE:
            low, high = self._cut(bins, edges, min(int((MAX_HIDDEN_SHARE / (3 * self.deviation)) ** 2), BINS))
            if bins[0] + 3 * self.deviation > MAX_HIDDEN_SHARE:
                low = min(2 * edges[0], 0.0)
            if bins[-1] + 3 * self.deviation > MAX_HIDDEN_SHARE:
                high = max(2 * edges[-1], 0.0)
        return (outward(low, -1), outward(high, 1)) if low < high else (float(edges[0]), float(edges[-1]))

    def _cut(self, bins: Floats, edges: Floats, max_cut: int) -> tuple[float, float]:
        """Return the ends after cutting at most `max_cut` bins on either side. A bin above the noise by itself is kept:
        many rows of one value are not a tail."""
        width, total = edges[1] - edges[0], bins.sum()

        def beyond(ordered: Floats) -> int:
            """Return the first bin, from outside, where the tail exceeds its limit."""
            allowed = np.maximum(TAIL_SHARE * total, 3 * self.deviation * np.sqrt(np.arange(1, len(ordered) + 1)))
            return int(np.argmax(np.append(np.cumsum(ordered) > allowed, True)))

        left, right = min(beyond(bins), max_cut), min(beyond(bins[::-1]), max_cut)
        low = max(edges[0], edges[max(left - 1, 0)] - width)
        high = min(edges[-1], edges[BINS - max(right - 1, 0)] + width)
        seen = np.flatnonzero(bins[1:-1] >= self.clear(BINS))
        if seen.size:
            low, high = min(low, edges[seen[0]]), max(high, edges[seen[-1] + 1])
        return low, high

    def _released(self, own: Floats) -> tuple[tuple[str, float], ...]:
        """Return every released name with its share of all rows."""
        found: dict[str, float] = {}
        for weight, row in zip(self.weights, own, strict=True):
            for place in row[2 : 2 + MAX_NAMES * NUMBERS_PER_NAME].reshape(-1, NUMBERS_PER_NAME):
                name = decode_name(place[1:])
                if name is not None:
                    found[name] = found.get(name, 0.0) + weight * float(place[0])
        return tuple(sorted(found.items()))


def outward(value: float, side: int, digits: int = 3) -> float:
    """Return the value to `digits` digits, rounded down (`side` -1) or up (1).

    >>> outward(1234.5, 1), outward(-0.012345, -1), outward(0.0, 1)
    (1240.0, -0.0124, 0.0)
    """
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    unit = 10.0 ** abs(exponent)
    scaled = value / unit if exponent > 0 else value * unit
    whole = math.ceil(scaled) if side > 0 else math.floor(scaled)
    return float(whole * unit if exponent > 0 else whole / unit)


def centre_and_scale(
    points: Sequence[float] | Floats, shares: Sequence[float] | Floats, bin_width: float = 0.0
) -> tuple[float, float]:
    """Return mean and deviation to four digits of points with these shares, each spread over a length `in_range`."""
    x, weight = np.asarray(points, dtype=float), np.asarray(shares, dtype=float)
    mean = float(weight @ x / weight.sum())
    spread = math.sqrt(float(weight @ (x - mean) ** 2 / weight.sum()) + bin_width**2 / 12)
    return float(f"{mean:.4g}"), float(f"{spread:.4g}")


LEFT_OUT = ". The column was left out of the features: put the column back after you declare its bounds or names"
MIN_SCALE_DIVISOR = 64  # no scale is below this part of the bounds: noise may make a column look narrower than it is


@dataclass(frozen=True, eq=False)
class Ready:
    """The terms after a release, with a note on each unread column; columns that need a person are in `waits`."""

    terms: Terms
    notes: tuple[str, ...]
    waits: tuple[str, ...] = ()  # columns of which a person has to say something before anything is learned


def make_ready(terms: Terms, features: Sequence[str], columns: Sequence[ReleasedColumn], named: bool = True) -> Ready:
    """Return the terms to learn by after these statistics; `named` says if owners could release names."""
    model = terms.model
    made: dict[str, dict[str, Any]] = {
        key: dict(getattr(model, key)) for key in ("bounds", "categories", "centres", "scales")
    }
    unread: dict[str, str] = {}
    for released in columns:
        if released.kind == "names" and released.column in model.bounds and model.coding == "one-hot":
            unread[released.column] = (
                f"{released.column}: most rows of this column hold names, but model.bounds.{released.column} is for "
                "numbers"
            )
            del made["bounds"][released.column]
        elif released.kind == "unclear" or (
            released.kind == "names"
            and (released.column in model.dates or len(released.names) < (2 if released.column == model.target else 1))
        ):
            unread[released.column] = _what_to_declare(released, named)
        elif released.kind == "names":
            _put_names(model, released, made)
        else:
            _put_numbers(model, released, made)
    unknown = {column for column in unread if column not in made["bounds"]}
    out = unknown & {*features}
    waits = tuple(column for column in unknown if column == model.target)
    if out == {*features}:  # nothing to learn from: the terms wait for a person
        out, waits = set(), (*waits, *features)
    notes = tuple(note + (LEFT_OUT if column in out else "") for column, note in unread.items())
    kept = tuple(column for column in features if column not in out)
    return Ready(ready_terms(terms, {**made, "features": kept, **_without_columns(model, out)}), notes, waits)


def _without_columns(model: Model, out: Container[str]) -> dict[str, Any]:
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
    ends, bin_width = np.array([low, high]), float(edges[1] - edges[0])
    if transform is not None:
        if found.powers:
            points, shares = np.array(found.powers).T
        points, ends, bin_width = TRANSFORMS[transform](np.clip(points, low, high)), TRANSFORMS[transform](ends), 0.0
    centre, scale = centre_and_scale(np.clip(points, *ends), shares, bin_width)
    made["centres"].setdefault(column, centre)
    made["scales"].setdefault(column, max(scale, float(f"{(ends[1] - ends[0]) / MIN_SCALE_DIVISOR:.4g}")))


def _defined(transform: Transform, low: float, high: float) -> float:
    """Return the least bound in the transform's domain."""
    if transform == "log":
        return low if low > 0 else high / 1024 if high > 0 else math.nan
    return max(low, {"log1p": -0.999, "sqrt": 0.0}.get(transform, -math.inf))


def _what_to_declare(found: ReleasedColumn, named: bool) -> str:
    if found.kind == "names":
        why = (
            "but too few names are held by enough rows for a release"
            if named
            else "which are released only with a delta and each owner's own noise"
        )
        return (
            f"{found.column}: a column of names, {why}; list them in model.categories.{found.column} to learn from them"
        )
    return (
        f"{found.column}: the noise hides all values; declare model.bounds.{found.column} or "
        f"model.categories.{found.column}, or ask again with a larger scale_epsilon"
    )
