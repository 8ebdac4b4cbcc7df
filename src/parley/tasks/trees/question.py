"""What boosting asks, round after round: the sums of gradients and curvatures in the leaves of one tree.

Formal guarantee: a cell's place is a function of that cell and the terms, so that replacing one record of the table
replaces one placed record. A record without a target is in its leaves, and adds nothing to any sum.

A record with raw prediction f and target y has the gradient g and curvature h of its loss, in units in which |g| <= 1:

- two classes, q = 1/(1 + exp(-f)): g = q - [y = 1], h = q (1 - q);
- a number, with errors limited to G: g = (f - y)/G cut to [-1, 1], h = 1: the record is counted.

It adds (g, c h) to its leaf, c public. Formal guarantee: replacing one record by any other moves the sums over all
leaves together by at most `unit_sensitivity`: 2 in L2, and in L1 2 for classes and 2.5 for numbers. So in L2, and for
classes in L1, the curvature costs nothing beside the gradient. A record without a target adds (0, 0), and so does one
of somebody who is held out.

*Different leaves.* Each of the two records moves one leaf by at most v = (|g|, c h). For numbers v is at most (1, c):
L2^2 <= 2 (1 + c^2) = 4 with c = 1, L1 <= 2 (1 + c) = 2.5 with c = 1/4. For classes |g| = a gives h = a (1 - a), since
|g| is q or 1 - q. L2, c = 4: a^2 + 16 (a (1 - a))^2 <= 1 + 1 = 2, so that L2^2 <= 4. L1, c = 1: a + a (1 - a) =
1 - (1 - a)^2 <= 1, so that L1 <= 2.

*The same leaf.* Numbers: either both are counted, and the leaf moves by (at most 2, 0), or one is, and it moves by
(at most 1, c). Classes, one label or one record without a target: |dg| <= 1 and |dh| <= 1/4, so that L2^2 <= 1 + 1
and L1 <= 1.25. Two labels: with u = 1 - q of the one that says 0, v = q of the one that says 1, t = u + v,
|dg| = 2 - t and |dh| = |u - v| |1 - t|, where |u - v| <= m = min(t, 2 - t).
L2, c = 4: (2 - t)^2 + 16 m^2 (1 - t)^2. Up to t = 1 this is at most 4 if 16 t (1 - t)^2 <= 4 - t, and
t (1 - t)^2 <= 4/27, so that 64/27 < 3 does. Beyond, with w = 2 - t <= 1, it is w^2 + 16 w^2 (1 - w)^2 <= 1 + 1.
L1, c = 1: 2 - t + t (1 - t) = 2 - t^2 up to t = 1, and w + w (1 - w) <= 1 beyond.

*Rounding.* (g, c h) is computed with a relative error far below 2^-40 and rounded to whole steps of 2^-20, which moves
each of a record's two numbers by less than 0.501 steps: the difference of two records by less than 2.01 steps in L1,
so also in L2. Sums of up to 2^33 records are whole numbers of steps up to 2^53, which doubles add exactly, in any
order. Dividing by the number of records rounds once: two sums that measure at most 2 n each in L1 (a record's share is
at most (1, 1)) are off by at most 2 units of 2^-53 each, together 2^-51.

Which trees there are: tables of leaves over one column or two, asked for in turn. Formal guarantee: a structure is a
function of the section `[model]`: no private row decided where a column is cut, or which columns come together, so that
it costs nothing.
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
    """A column as a tree sees it: in which group a cell is, by its place."""

    column: int
    group: Cells  # of every place of the column
    groups: int
    ordered: int  # how many groups, the first ones, lie side by side; 0: none does


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree: a record is in exactly one of them. Trees with the same leaves share their values."""

    axes: tuple[Axis, ...]
    first: int  # where its values begin in theta

    @cached_property
    def size(self) -> int:
        """How many leaves there are."""
        return int(np.prod([axis.groups for axis in self.axes], dtype=np.int64))

    @property
    def values(self) -> slice:
        """Where its values stand in theta."""
        return slice(self.first, self.first + self.size)

    def of(self, places: NDArray[np.uint16]) -> Cells:
        """The leaf of every record [n] whose cells are at these places [n, columns]."""
        leaf = np.zeros(len(places), dtype=np.int64)
        for axis in self.axes:
            leaf = leaf * axis.groups + axis.group[places[:, axis.column]]
        return leaf


@dataclass(frozen=True, eq=False)
class Structure:
    """The level that all records share, the leaves of every column and, for trees of two columns, of some pairs."""

    leaves: tuple[Leaves, ...]
    columns: int

    @property
    def parameters(self) -> int:
        """P: how many leaf values there are."""
        return self.leaves[-1].first + self.leaves[-1].size

    @cached_property
    def largest(self) -> int:
        """How many leaves the largest tree has."""
        return max(each.size for each in self.leaves)

    def place(self, number: int) -> int:
        """Which leaves round `number` asks about: the level first; then cycles over columns, in turn with cycles over
        pairs."""
        if number == 1:
            return 0
        cycle, column = divmod(number - 2, self.columns)
        pairs = len(self.leaves) - 1 - self.columns
        if not pairs or cycle % 2 == 0:
            return 1 + column
        return 1 + self.columns + (cycle // 2 * self.columns + column) % pairs

    def scores(self, places: NDArray[np.uint16], theta: Floats) -> Floats:
        """What trees of leaf values theta [P] add up to for every record [n]."""
        total = np.full(len(places), theta[0])
        for each in self.leaves[1:]:
            values = theta[each.values]
            if values.any():
                total += values[each.of(places)]
        return total


def make_structure(preparation: Preparation) -> Structure:
    """The trees of a model, whoever asks."""
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
    """A leaf for every step within the bounds, or every listed name and all others; one more for gaps, if filled."""
    encoding = preparation.encodings[column]
    if isinstance(encoding, Places):
        groups, ordered = len(encoding.names) + 1 + encoding.fills, 0
    else:
        groups, ordered = steps + encoding.fills, steps
    return Axis(column, np.arange(groups), groups, ordered)


def _coarse(axis: Axis) -> Axis:
    """The same in few groups: neighbouring steps together, gaps apart; of many names those by their places in turn."""
    if not axis.ordered:
        groups = min(axis.groups, PAIR_STEPS + 1)
        return Axis(axis.column, np.arange(axis.groups) % groups, groups, 0)
    steps = min(axis.ordered, PAIR_STEPS)
    group = np.minimum(np.arange(axis.groups) * steps // axis.ordered, steps)
    return Axis(axis.column, group, int(group.max()) + 1, steps)


def _pairs(columns: int) -> list[tuple[int, int]]:
    """Pairs of columns in an order of no meaning that is the same on every machine."""
    every = combinations(range(columns), 2)
    return sorted(every, key=lambda pair: hashlib.sha256(f"{pair[0]}/{pair[1]}".encode()).digest())[:MOST_PAIRS]


class PlacedRows(TargetRows):
    """Records of places X [n, columns]; targets of classes are -1 and 1."""

    called: ClassVar[str] = "records in leaves"


def place_cells(preparation: Preparation, rows: Rows, name: str) -> NDArray[np.uint16]:
    """The place of every cell [n, columns]: its step within the bounds, or its name in the list; gaps come last."""
    require_columns(rows, preparation.features, name)
    coded = [encoding.read(rows, name) for encoding in preparation.encodings]
    return place_numbers(preparation, coded, len(rows))


def place_numbers(preparation: Preparation, coded: list[Floats], rows: int) -> NDArray[np.uint16]:
    """The same of cells that are numbers already: names as their places, gaps as NaN."""
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
    """Declared bounds and names, by which cells are placed; nothing is scaled."""

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
    """The preparation that the terms alone fix."""
    plain, _ = fit_preparation(terms)
    return TreePreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})


STEPS = 2.0**20  # of one unit of a record's share
ROUNDED = 3.0  # more steps than rounding moves the difference of two records
BLOCK = 1 << 16  # records summed at once: their sums are exact, so that this changes nothing


@dataclass(frozen=True)
class RecordShare:
    """What one record adds to its leaf; `limit`: of errors in the target's own units, where that is a number."""

    classes: bool
    limit: float
    norm: Norm

    @property
    def curvature_scale(self) -> float:
        """c: by what curvatures are multiplied before they are summed."""
        if self.classes:
            return 4.0 if self.norm == "l2" else 1.0
        return 1.0 if self.norm == "l2" else 0.25

    @property
    def unit_sensitivity(self) -> float:
        """How far replacing one record moves the sums of all leaves, before rounding."""
        return 2.5 if self.norm == "l1" and not self.classes else 2.0

    def sensitivity(self, records: int, records_per_person: int = 1, most: float = 1.0) -> float:
        """How far replacing a person's records moves the means over so many records, rounding included; `most`: rows
        over what their sums are divided by, more than 1 where people are held out."""
        moved = self.unit_sensitivity + ROUNDED / STEPS
        return moved * records_per_person / records * (1 + 2.0**-50) + 2.0**-50 * most

    def steps(self, scores: Floats, y: Floats, present: Floats) -> tuple[Floats, Floats]:
        """(g, c h) of records in whole steps, each [n]."""
        if self.classes:
            q = expit(scores)
            g, h = q - (y > 0), q * (1 - q)
        else:
            g, h = np.clip((scores - y) / self.limit, -1.0, 1.0), np.ones(len(y))
        size = STEPS * present
        return np.rint(g * size), np.rint(self.curvature_scale * h * size)


def leaf_means(
    rows: PlacedRows,
    structure: Structure,
    leaves: Leaves,
    theta: Floats,
    share: RecordShare,
    records: int | None = None,
) -> Floats:
    """The sums of records' shares leaf by leaf, over the number of records or another public one: gradients, then
    curvatures [2, leaves]."""
    total = np.zeros((2, leaves.size))
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        places, leaf = rows.X[block], leaves.of(rows.X[block])
        shares = share.steps(structure.scores(places, theta), rows.y[block], rows.present[block].astype(np.float64))
        total += [np.bincount(leaf, weights=each, minlength=leaves.size) for each in shares]
    return np.asarray(total / (STEPS * (len(rows) if records is None else records)))


@dataclass(frozen=True, eq=False)
class LeafSumsQuery(Query):
    """The mean shares of records in the leaves of round `round`'s tree, where the trees so far have leaf values theta
    [..., P]."""

    kind: ClassVar[str] = "leaf-sums"
    theta: Floats


@dataclass(frozen=True, eq=False)
class LeafSumsQuestion(Question):
    """A record is in exactly one leaf of a tree, and adds a bounded share to it; the number of records is public.

    Formal guarantee: which leaf a record is in follows from its own cells and the terms, its share from its own cells
    and the question: an owner remembers nothing. Replacing the records of one person moves an answer by at most
    `sensitivity` (above is the proof, rounding included). The leaves of one tree are one answer, for one cost;
    trees follow one after the other, each question chosen by the answers before, and every one of them is paid for.
    """

    asks = LeafSumsQuery

    structure: Structure
    share: RecordShare

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, structure = context.terms, make_structure(context.preparation)
        share = RecordShare(terms.model.classifies, error_limit(terms), context.norm)
        rows = terms.train_rows(owner)
        most = terms.train_places(owner) / rows
        low = np.repeat([-most, 0.0], structure.largest)
        return cls(
            parameters=structure.parameters,
            records=rows,
            size=2 * structure.largest,
            norm=context.norm,
            sensitivity=share.sensitivity(rows, terms.privacy.records_per_person, most),
            extent=Extent(low, np.full(len(low), most), 2.0 * most, context.norm),
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
    """Rows that were placed in leaves."""
    if not isinstance(rows, PlacedRows):
        raise DataError("records: expected a table prepared under terms of boosted trees")
    return rows
