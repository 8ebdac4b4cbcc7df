"""A public margin: of many public trees only the first ones' leaves are columns; what all others say is added up.

A large public model knows more than leaves that can be fitted again under noise. So its later trees add up to one
number for each outcome, the margin, which is one column more: made so small (`SMALL`) that nothing learned from it
matters, with a weight that is as large and begins where margin and weight together say what the trees do. Then a raw
prediction is the margin and what the leaves add, for every loss; no residual is ever formed, and of a record its
gradient is clipped as before. Such trees may also ask for the rank of a name in a public order, so that one split parts
several names from the others.

Formal guarantee: a margin is a function of the row and the trees, the same to the bit on every machine: ranks and
values are added one by one in a fixed order, and multiplied by a power of two. Its size is clipped to the sum of each
tree's largest value, whatever a file holds, and settles where that does (`rounding`); a row measures that times `SMALL`
beside the number of trees whose leaves are columns, in L1, and the root of the sum of squares in L2. Lines beside a
margin measure what public rows reach at most, column by column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from parley.data.forest import PREFIX, Forest, Integers
from parley.data.rowwise import settle, sizes
from parley.errors import DataError
from parley.validate import LARGEST, Floats

SMALL = 2.0**-20  # of its own unit: what a margin's column holds
MARGIN = PREFIX + "margin."  # of the arrays of trees that are added up
ORDERS, LINES = PREFIX + "orders", PREFIX + "lines"
FLATTEST, ROUNDED = 1e-50, 1e-12  # a spread by which a column can be divided; of its size, what rounding may make
RIDGE = 30.0  # rows by which what a name adds is pulled to zero


@dataclass(frozen=True, eq=False)
class MarginForest(Forest):
    """Trees whose leaves are columns, and `margin`: trees that came after them, of which only the sum counts.

    >>> stump = Forest(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 1]), np.array([2, 0, 0]),
    ...                np.array([0]), np.array([[-1.0, 1.0]]))
    >>> both = MarginForest(**vars(stump), margin=stump)
    >>> both.indicators(np.array([[1.0, 2.0]])) / [[1.0], [1.0], [SMALL]]
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1.,  1.]])
    >>> both.begin @ both.indicators(np.array([[1.0, 2.0]]))
    array([[-2.,  2.]])
    """

    margin: Forest
    orders: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [orders, columns]: the ranks of names in each

    def reached(self, columns: Floats) -> Integers:
        """The leaf that each row of coded columns [columns, n] reaches in each tree whose leaves are columns."""
        return super().reached(self._ranked(columns))

    def _ranked(self, columns: Floats) -> Floats:
        """Coded columns [columns, n], and the ranks of their names in each order."""
        ranks = np.zeros((len(self.orders), columns.shape[1]))
        for rank, order in zip(ranks, self.orders, strict=True):
            for place in np.flatnonzero(order):
                rank += order[place] * columns[place]
        return np.concatenate([columns, ranks])

    @property
    def width(self) -> int:
        """How many columns there are: the leaves, and a margin for each outcome."""
        return self.leaves + len(self.values)

    @cached_property
    def sizes(self) -> Floats:
        """What a row measures at most: 1 a tree, and what margins do."""
        return np.append(super().sizes, self._most)

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns]: leaf values, and the weight that takes a margin for what it is."""
        return np.concatenate([self.values, np.eye(len(self.values)) / SMALL], axis=1)

    def indicators(self, columns: Floats) -> Floats:
        """The columns [width, n] that coded columns [columns, n] become."""
        most = self._most[:, None]
        margin = settle(self.margin.added(self._ranked(columns)) * SMALL, -most, most)
        return np.concatenate([super().indicators(columns), margin])

    def added(self, columns: Floats) -> Floats:
        """What the public model says [outcomes, n] of coded columns [columns, n]."""
        return super().added(columns) + self.margin.added(self._ranked(columns))

    @cached_property
    def _most(self) -> Floats:
        """What margins' columns measure at most [outcomes]: the sum of each tree's largest value, as it settles."""
        sizes, tree = np.abs(self.margin.values), self.margin.tree_of_leaf
        largest = [sizes[:, tree == place].max(axis=1) for place in range(self.margin.trees)]
        return settle(np.sum(largest, axis=0) * SMALL, 0.0, LARGEST * SMALL)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """What each column says."""
        margins = (f"margin {place + 1} of {self.margin.trees} public trees" for place in range(len(self.values)))
        ranks = (f"rank of {names[int(np.abs(order).argmax())].partition(' = ')[0]}" for order in self.orders)
        return (*super().labels([*names, *ranks]), *margins)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """Its numbers, by the names they have in a file."""
        first = Forest(**{each.name: getattr(self, each.name) for each in fields(Forest)})
        later = {MARGIN + name.removeprefix(PREFIX): array for name, array in self.margin.arrays.items()}
        return first.arrays | later | ({ORDERS: self.orders} if len(self.orders) else {})

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "MarginForest":
        """The trees that a file's numbers are; refused where either part is no forest."""
        orders = arrays.get(ORDERS, np.zeros((0, columns)))
        fits = orders.ndim == 2 and orders.shape[1] == columns and len(orders) <= columns * outcomes
        if not fits or not (np.abs(orders) <= LARGEST).all():
            raise DataError(
                "model.preparation: expected ranks of names for each column, or none, in at most one order for each "
                "column and outcome"
            )
        first = Forest.of_arrays(arrays, columns + len(orders), outcomes)
        later = {PREFIX + name.removeprefix(MARGIN): array for name, array in arrays.items() if name.startswith(MARGIN)}
        return cls(**vars(first), margin=Forest.of_arrays(later, columns + len(orders), outcomes), orders=orders)


@dataclass(frozen=True, eq=False)
class MarginLines(MarginForest):
    """The columns themselves, and margins of all trees as columns like them: centred, scaled, and clipped to what
    public rows reach. Its one leaf is the constant. What a margin counts can be learned again here."""

    lines: Floats = field(kw_only=True)  # [3, columns + outcomes]: centre, scale and largest size of each

    @classmethod
    def beside(cls, margin: Forest, begin: Floats, orders: Floats, columns: Floats) -> "MarginLines":
        """The margins of these trees, which begin at `begin` [outcomes], beside public columns [columns, n]."""
        nothing = np.zeros(1, dtype=np.intp)
        constant = Forest(nothing - 1, np.zeros(1), nothing, nothing, nothing, begin[:, None])
        made = cls(**vars(constant), margin=margin, orders=orders, lines=np.empty((3, 0)))
        cells = made._cells(columns)
        centre, spread = cells.mean(axis=1), cells.std(axis=1)
        centre[len(columns) :] = 0.0
        scale = np.where(spread > np.maximum(FLATTEST, ROUNDED * np.abs(cells).max(axis=1)), spread, 1.0)
        most = np.abs((cells - centre[:, None]) / scale[:, None]).max(axis=1)
        return replace(made, lines=np.stack([centre, scale, most]))

    def follows(self, columns: Floats, tolerance: float) -> bool:
        """Whether its lines are those of its margins beside these public columns [columns, n], up to a share of the
        columns' scales."""
        own = MarginLines.beside(self.margin, self.values[:, 0], self.orders, columns).lines
        unit = np.stack([own[1], own[1], np.maximum(own[2], 1.0)])
        return bool((np.abs(self.lines - own) <= tolerance * unit).all())

    def _cells(self, columns: Floats) -> Floats:
        """Coded columns [columns, n], and what all trees say."""
        return np.concatenate([columns, self.margin.added(self._ranked(columns))])

    @property
    def width(self) -> int:
        """How many columns there are: the constant, lines, and a margin for each outcome."""
        return 1 + int(self.lines.shape[1])

    @cached_property
    def sizes(self) -> Floats:
        """What a row measures at most: 1 for the constant, and what lines and margins reach."""
        return np.append(1.0, sizes(-self.lines[2], self.lines[2]))

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns], which takes margins for what they are."""
        outcomes = len(self.values)
        lines = np.zeros((outcomes, self.lines.shape[1] - outcomes))
        return np.concatenate([self.values, lines, np.diag(self.lines[1, -outcomes:])], axis=1)

    def indicators(self, columns: Floats) -> Floats:
        """The columns [width, n] that coded columns [columns, n] become."""
        centre, scale, most = self.lines[..., None]
        lines = settle((self._cells(columns) - centre) / scale, -most, most)
        return np.concatenate([np.ones((1, columns.shape[1])), lines])

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """What each column says."""
        constant, *margins = super().labels(names)
        return (constant, *names, *margins)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """Its numbers, by the names they have in a file."""
        return super().arrays | {LINES: self.lines}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "MarginLines":
        """The same from a file's numbers; refused where lines are none that arithmetic bears."""
        lines, made = arrays.get(LINES, np.empty(0)), MarginForest.of_arrays(arrays, columns, outcomes)
        fits = lines.shape == (3, columns + outcomes) and made.leaves == 1
        if not fits or not ((np.abs(lines) <= LARGEST) & (lines >= [[-LARGEST], [FLATTEST], [0]])).all():
            raise DataError("model.preparation: expected a constant, and a centre, a scale and a size for each column")
        return cls(**vars(made), lines=lines)


def name_orders(columns: Floats, wanted: Floats, weight: Floats, groups: Sequence[Integers]) -> Floats:
    """Orders of names [orders, columns] by what each adds in a ridge regression of public targets [outcomes, n] on
    coded columns [columns, n]; `groups` are the places of each column's names. Unknown names have the middle rank,
    0."""
    if not groups:
        return np.zeros((0, len(columns)))
    share = weight / weight.sum()
    centred = columns - (columns @ share)[:, None]
    spread = np.sqrt(centred**2 @ share)
    unit = np.where(spread > 0, spread, 1.0)
    even = centred / unit[:, None]
    moments = (even * share) @ even.T + RIDGE / len(weight) * np.eye(len(even))
    adds = np.linalg.solve(moments, (even * share) @ (wanted - (wanted @ share)[:, None]).T) / unit[:, None]
    orders = np.zeros((len(groups), len(wanted), len(columns)))
    for order, group in zip(orders, groups, strict=True):
        order[:, group] = 2 * adds[group].T.argsort(axis=1).argsort(axis=1) - (len(group) - 1)
    return orders.reshape(-1, len(columns))
