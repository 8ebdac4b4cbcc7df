"""Which trees there are: tables of leaves over one column or two, asked for in turn. All of it follows from the terms.

Formal guarantee: a structure is a function of the section `[model]`: no private row decided where a column is cut, or
which columns come together, so that it costs nothing.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation
from parley.data.encoding import Places
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
    if preparation.model.depth == 2:
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
