"""The question of boosting: sums of gradients and curvatures in the leaves of one tree per round.

Formal guarantee: a cell's place is a function of that cell and the terms, so replacing one record of the table replaces
one placed record. A record with raw prediction f and target y adds (g, c h) to its leaf, c public, in units in which
|g| <= 1. For two classes with q = 1/(1 + exp(-f)), g = q - [y = 1] and h = q (1 - q). For a number with errors limited
to G, g = (f - y)/G cut to [-1, 1] and h = 1. A record without a target, or of somebody held out, adds (0, 0). Replacing
one record by any other moves the sums over all leaves together by at most `unit_sensitivity`: 2 in L2, and in L1 2 for
classes and 2.5 for numbers. The trees are a function of the section `[model]` alone and cost nothing.

*Different leaves.* Each record moves one leaf by at most v = (|g|, c h). Numbers: v is at most (1, c), so L2^2 <= 2 (1
+ c^2) = 4 with c = 1 and L1 <= 2 (1 + c) = 2.5 with c = 1/4. Classes: |g| = a gives h = a (1 - a). In L2, c = 4, a^2 +
16 (a (1 - a))^2 <= 2, so L2^2 <= 4. In L1, c = 1, a + a (1 - a) = 1 - (1 - a)^2 <= 1, so L1 <= 2.

*The same leaf.* Numbers: if both are counted it moves by (at most 2, 0), if one is by (at most 1, c). Classes with one
label, or one record without a target: |dg| <= 1 and |dh| <= 1/4, so L2^2 <= 2 and L1 <= 1.25. Classes with two labels:
let u = 1 - q of the record labelled 0, v = q of the one labelled 1, t = u + v, m = min(t, 2 - t). Then |dg| = 2 - t and
|dh| = |u - v| |1 - t| <= m |1 - t|. In L2, c = 4, the square is at most (2 - t)^2 + 16 m^2 (1 - t)^2. Up to t = 1 this
is at most 4 because 16 t (1 - t)^2 <= 64/27 < 3 <= 4 - t. Beyond, with w = 2 - t <= 1, it is w^2 + 16 w^2 (1 - w)^2 <=
2. In L1, c = 1, it is at most 2 - t^2 up to t = 1 and w + w (1 - w) <= 1 beyond.

*Rounding.* (g, c h) is computed with a relative error far below 2^-40 and rounded to steps of 2^-20. This moves each of
its two numbers by less than 0.501 steps, and the difference of two records by less than 2.01 steps in L1 and L2. Sums
of up to 2^33 records are whole numbers of steps up to 2^53, which doubles add exactly in any order. The division by the
number of records n rounds once. Two sums with L1 norm at most 2 n each are off by at most 2 units of 2^-53 each,
together 2^-51.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from parley.data import Preparation, fit_preparation
from parley.data.encoding import Numbers, Places
from parley.data.sources import Rows
from parley.data.table import require_columns
from parley.errors import DataError
from parley.privacy.mechanisms import Extent, Norm
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.records import TargetPreparation, TargetRows
from parley.tasks.trees.terms import TreesModel, error_limit
from parley.terms import Terms
from parley.validate import Floats

PAIR_STEPS = 6  # of a column in a tree of two
MOST_PAIRS = 100

Cells = NDArray[np.int64]  # the place of each cell of a column, or of each record among leaves


@dataclass(frozen=True, eq=False)
class Axis:
    """One column of a tree: the group of a cell by its place."""

    column: int
    group: Cells  # of every place of the column
    groups: int
    ordered: int  # how many groups, the first ones, lie side by side; 0: none does


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree. A record is in exactly one; trees with the same leaves share their values."""

    axes: tuple[Axis, ...]
    first: int  # where its values begin in theta

    @cached_property
    def size(self) -> int:
        """The number of leaves."""
        return int(np.prod([axis.groups for axis in self.axes], dtype=np.int64))

    @property
    def values(self) -> slice:
        """The slice of theta that holds the leaf values."""
        return slice(self.first, self.first + self.size)

    def leaf_of(self, places: NDArray[np.uint16]) -> Cells:
        """Return the leaf of every record [n] whose cells are at these places [n, columns]."""
        leaf = np.zeros(len(places), dtype=np.int64)
        for axis in self.axes:
            leaf = leaf * axis.groups + axis.group[places[:, axis.column]]
        return leaf


@dataclass(frozen=True, eq=False)
class Structure:
    """The common level, the leaves of every column and, for trees of two columns, of some pairs."""

    leaves: tuple[Leaves, ...]
    columns: int

    @property
    def parameters(self) -> int:
        """P: the number of leaf values."""
        return self.leaves[-1].first + self.leaves[-1].size

    @cached_property
    def largest(self) -> int:
        """The number of leaves of the largest tree."""
        return max(each.size for each in self.leaves)

    def place(self, number: int) -> int:
        """Return the place of the leaves that round `number` asks about: the level, then columns and pairs in turn."""
        if number == 1:
            return 0
        cycle, column = divmod(number - 2, self.columns)
        pairs = len(self.leaves) - 1 - self.columns
        if not pairs or cycle % 2 == 0:
            return 1 + column
        return 1 + self.columns + (cycle // 2 * self.columns + column) % pairs

    def scores(self, places: NDArray[np.uint16], theta: Floats) -> Floats:
        """Return the sum of the trees with leaf values theta [P] for every record [n]."""
        total = np.full(len(places), theta[0])
        for each in self.leaves[1:]:
            values = theta[each.values]
            if values.any():
                total += values[each.leaf_of(places)]
        return total


def make_structure(preparation: Preparation) -> Structure:
    """Return the trees that the terms fix."""
    steps = preparation.model.bins or 0
    whole = [_axis(preparation, column, steps) for column in range(len(preparation.features))]
    axes: list[tuple[Axis, ...]] = [(), *((axis,) for axis in whole)]
    if TreesModel.expect(preparation.model).depth == 2:
        coarse = [_coarse(axis) for axis in whole]
        axes += [(coarse[a], coarse[b]) for a, b in _pairs(len(whole))]
    leaves, first = list[Leaves](), 0
    for each in axes:
        leaves.append(Leaves(each, first))
        first += leaves[-1].size
    return Structure(tuple(leaves), len(whole))


def _axis(preparation: Preparation, column: int, steps: int) -> Axis:
    """One group per step within the bounds, or per listed name plus one for others; one more for filled gaps."""
    encoding = preparation.encodings[column]
    if isinstance(encoding, Places):
        groups, ordered = len(encoding.names) + 1 + encoding.fills, 0
    else:
        groups, ordered = steps + encoding.fills, steps
    return Axis(column, np.arange(groups), groups, ordered)


def _coarse(axis: Axis) -> Axis:
    """Merge groups into few: neighbouring steps together, gaps apart, names in turn by their place."""
    if not axis.ordered:
        groups = min(axis.groups, PAIR_STEPS + 1)
        return Axis(axis.column, np.arange(axis.groups) % groups, groups, 0)
    steps = min(axis.ordered, PAIR_STEPS)
    group = np.minimum(np.arange(axis.groups) * steps // axis.ordered, steps)
    return Axis(axis.column, group, int(group.max()) + 1, steps)


def _pairs(columns: int) -> list[tuple[int, int]]:
    """Return pairs of columns in an arbitrary order that is the same on every machine."""
    every = combinations(range(columns), 2)
    return sorted(every, key=lambda pair: hashlib.sha256(f"{pair[0]}/{pair[1]}".encode()).digest())[:MOST_PAIRS]


class PlacedRows(TargetRows):
    """Records of places X [n, columns]; targets of classes are -1 and 1."""

    called: ClassVar[str] = "records in leaves"


def place_cells(preparation: Preparation, rows: Rows, name: str) -> NDArray[np.uint16]:
    """Return the place of every cell [n, columns]: its step within bounds or its name in the list; gaps come last."""
    require_columns(rows, preparation.features, name)
    coded = [encoding.read(rows, name) for encoding in preparation.encodings]
    return place_numbers(preparation, coded, len(rows))


def place_numbers(preparation: Preparation, coded: list[Floats], rows: int) -> NDArray[np.uint16]:
    """Place cells that are numbers already: names given as places, gaps as NaN."""
    places, steps = np.empty((rows, len(coded)), dtype=np.uint16), preparation.model.bins or 0
    first = 0
    for column, (encoding, values) in enumerate(zip(preparation.encodings, coded, strict=True)):
        if isinstance(encoding, Numbers):
            low, high, gaps = preparation.low[first], preparation.high[first], np.isnan(values)
            with np.errstate(over="ignore"):  # what is beyond the bounds is cut next
                share = (encoding.transformed(np.where(gaps, 0.0, values)) - low) / (high - low)
                values = np.where(gaps, steps, np.clip(np.floor(share * steps), 0, steps - 1))
        places[:, column] = values
        first += len(encoding.labels)
    return places


class TreePreparation(TargetPreparation):
    """The declared bounds and names by which cells are placed; nothing is scaled."""

    made_of: ClassVar = PlacedRows

    @property
    def width(self) -> int:
        return len(self.features)

    @property
    def no_target(self) -> float:
        return -1.0 if self.model.classifies else self.target_bounds[0]

    def cells(self, rows: Rows, name: str) -> NDArray[np.uint16]:
        return place_cells(self, rows, name)


def tree_preparation(terms: Terms) -> TreePreparation:
    """Return the preparation that the terms alone fix."""
    plain, _ = fit_preparation(terms)
    return TreePreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})


STEPS_PER_UNIT = 2.0**20  # of one unit of a record's share
MAX_ROUNDING_STEPS = 3.0  # more steps than rounding moves the difference of two records
RECORDS_PER_BLOCK = 1 << 16  # records summed at once: their sums are exact, so that this changes nothing


@dataclass(frozen=True)
class RecordShare:
    """What one record adds to its leaf; `limit` is the error limit in the target's units."""

    classes: bool
    limit: float
    norm: Norm

    @property
    def curvature_scale(self) -> float:
        """c: the factor of curvatures before they are summed."""
        if self.classes:
            return 4.0 if self.norm == "l2" else 1.0
        return 1.0 if self.norm == "l2" else 0.25

    @property
    def unit_sensitivity(self) -> float:
        """How far replacing one record moves the sums of all leaves, before rounding."""
        return 2.5 if self.norm == "l1" and not self.classes else 2.0

    def sensitivity(self, records: int, records_per_person: int = 1, most: float = 1.0) -> float:
        """Return how far replacing a person's records moves the means over `records`, rounding included. "
        "`row_share` is the
        number of rows over the divisor of their sums: above 1 where people are held out."""
        moved = self.unit_sensitivity + MAX_ROUNDING_STEPS / STEPS_PER_UNIT
        return moved * records_per_person / records * (1 + 2.0**-50) + 2.0**-50 * most

    def steps(self, scores: Floats, y: Floats, present: Floats) -> tuple[Floats, Floats]:
        """Return (g, c h) of records in whole steps, each [n]."""
        if self.classes:
            q = expit(scores)
            g, h = q - (y > 0), q * (1 - q)
        else:
            g, h = np.clip((scores - y) / self.limit, -1.0, 1.0), np.ones(len(y))
        size = STEPS_PER_UNIT * present
        return np.rint(g * size), np.rint(self.curvature_scale * h * size)


def leaf_means(
    rows: PlacedRows,
    structure: Structure,
    leaves: Leaves,
    theta: Floats,
    share: RecordShare,
    records: int | None = None,
) -> Floats:
    """Return the sums of records' shares by leaf [2, leaves] over `records`, default the number of rows."""
    total = np.zeros((2, leaves.size))
    for start in range(0, len(rows), RECORDS_PER_BLOCK):
        block = slice(start, start + RECORDS_PER_BLOCK)
        places, leaf = rows.X[block], leaves.leaf_of(rows.X[block])
        shares = share.steps(structure.scores(places, theta), rows.y[block], rows.present[block].astype(np.float64))
        total += [np.bincount(leaf, weights=each, minlength=leaves.size) for each in shares]
    return np.asarray(total / (STEPS_PER_UNIT * (len(rows) if records is None else records)))


@dataclass(frozen=True, eq=False)
class LeafSumsQuery(Query):
    """The mean shares of records in the leaves of this round's tree, at leaf values theta [..., P]."""

    kind: ClassVar[str] = "leaf-sums"
    theta: Floats


@dataclass(frozen=True, eq=False)
class LeafSumsQuestion(Question):
    """Every record is in exactly one leaf of a tree and adds a bounded share to it; the number of records is public.

    Formal guarantee: a record's leaf follows from its own cells and the terms, its share from its own cells and the
    question; an owner has no state. Replacing the records of one person moves an answer by at most `sensitivity`,
    rounding included (proof in the module docstring). All leaves of one tree are one answer at one cost; trees follow
    adaptively, and every one is paid for.
    """

    asks = LeafSumsQuery

    structure: Structure
    share: RecordShare

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, structure = context.terms, make_structure(context.preparation)
        share = RecordShare(terms.model.classifies, error_limit(terms), context.norm)
        rows = terms.train_rows(owner)
        row_share = terms.train_places(owner) / rows
        low = np.repeat([-row_share, 0.0], structure.largest)
        return cls(
            parameters=structure.parameters,
            records=rows,
            size=2 * structure.largest,
            norm=context.norm,
            sensitivity=share.sensitivity(rows, terms.privacy.records_per_person, row_share),
            extent=Extent(low, np.full(len(low), row_share), 2.0 * row_share, context.norm),
            bound=None,
            structure=structure,
            share=share,
        )

    @property
    def public_numbers(self) -> dict[str, float]:
        return {"limit": self.share.limit, "leaves": float(self.structure.parameters)}

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.parameters))

    def exact(self, query: LeafSumsQuery, tables: Tables) -> Floats:
        rows, structure = placed_rows_of(tables.train), self.structure
        leaves = structure.leaves[structure.place(query.round)]
        flat = query.theta.reshape(-1, self.parameters)
        found = np.zeros((len(flat), 2, structure.largest))
        for place, theta in enumerate(flat):
            found[place, :, : leaves.size] = leaf_means(rows, structure, leaves, theta, self.share, self.records)
        return found.reshape(*query.theta.shape[:-1], self.size)

    def words(self) -> str:
        return (
            f"the sums of errors and curvatures over {self.records:,} records in the leaves of one tree, "
            f"{self.size:,} numbers"
        )


def placed_rows_of(rows: Any) -> PlacedRows:
    """Return rows that were placed in leaves; refuse others."""
    if not isinstance(rows, PlacedRows):
        raise DataError("records: expected a table prepared with terms for boosted trees")
    return rows
