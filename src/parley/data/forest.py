"""Trees as columns: each leaf is a column of 0 and 1, and a row has exactly one 1 in every tree.

Formal guarantee: a row's leaves are a function of that row and the trees, the same to the bit on every machine,
whatever other rows there are: so are coded cells (`encoding`), and a comparison rounds nothing. Whatever trees a file
holds, a row's norm is the number of trees in L1 and its square root in L2.

## A public margin

With many public trees, only the leaves of the first are columns; the later trees' values add up to a margin, one column
per outcome. `MARGIN_SCALE` makes it too small for anything learned from it to matter. Its weight is as large, and
training begins where the two give the trees' prediction. No residual is formed, and gradients are clipped as usual.

Formal guarantee: a margin is a function of the row and the trees, the same to the bit on every machine: ranks and
values are added one by one in a fixed order, and multiplied by a power of two. Its size is clipped to the sum of each
tree's largest value, whatever a file holds, and rounded in the same step (`rowwise.clip_to_grid`). A row's L1 norm is
at most that times `MARGIN_SCALE` plus the number of trees whose leaves are columns; its L2 norm is the root of the sum
of squares. Lines beside a margin are clipped to the largest size in public rows, column by column.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parley.data.rowwise import clip_to_grid, sizes
from parley.errors import DataError
from parley.terms.keys import MAX_FOREST_NODES
from parley.validate import LARGEST, Floats

ARRAY_PREFIX = "trees."  # of its arrays among public numbers
MARGIN_SCALE = 2.0**-20  # of its own unit: what a margin's column holds
MARGIN_PREFIX = ARRAY_PREFIX + "margin."  # of the arrays of trees that are added up
ORDERS_ARRAY, LINES_ARRAY = ARRAY_PREFIX + "orders", ARRAY_PREFIX + "lines"
MIN_SPREAD, ROUNDING_SHARE = (
    1e-50,
    1e-12,
)  # a spread by which a column can be divided; of its size, what rounding may make
RIDGE_ROWS = 30.0  # rows by which what a name adds is pulled to zero

Integers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Forest:
    """Binary trees, their nodes one after the other.

    Node k sends a row to `left[k]` if coded column `column[k]` is at most `threshold[k]`, else to `right[k]`; both come
    later. In a leaf `column[k]` is -1 and `left[k]` is the leaf's number.

    >>> stump = Forest(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 1]), np.array([2, 0, 0]),
    ...                np.array([0]), np.array([[-1.0, 1.0]]))
    >>> stump.indicators(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """

    column: Integers  # [nodes]
    threshold: Floats
    left: Integers
    right: Integers
    roots: Integers  # [trees]
    values: Floats  # [outcomes, leaves]: what each leaf adds to the public model

    @property
    def trees(self) -> int:
        """The number of trees."""
        return len(self.roots)

    @property
    def leaves(self) -> int:
        """The number of leaves of all trees."""
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        """The number of columns: one for each leaf."""
        return self.leaves

    @cached_property
    def sizes(self) -> Floats:
        """The largest norm of a row's leaves in each tree."""
        return np.ones(self.trees)

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns] of the columns."""
        return self.values

    @property
    def largest_tree(self) -> int:
        """The number of leaves of the largest tree."""
        ends = np.append(self.roots, len(self.column))
        return int(max((self.column[a:b] < 0).sum() for a, b in pairwise(ends)))

    @cached_property
    def tree_of_leaf(self) -> Integers:
        """The tree of each leaf [leaves]."""
        trees, ends = np.empty(self.leaves, dtype=np.intp), np.append(self.roots, len(self.column))
        for tree, (a, b) in enumerate(pairwise(ends)):
            trees[self.left[a:b][self.column[a:b] < 0]] = tree
        return trees

    def reached(self, columns: Floats) -> Integers:
        """Return the leaf that each row of coded columns [columns, n] reaches in each tree [trees, n]."""
        all_rows = np.arange(columns.shape[1])
        leaf_of_row = np.empty((self.trees, len(all_rows)), dtype=np.intp)
        for tree, root in enumerate(self.roots):
            stack = [(root, all_rows)]
            while stack:
                node, rows = stack.pop()
                if self.column[node] < 0:
                    leaf_of_row[tree, rows] = self.left[node]
                    continue
                lower = columns[self.column[node]].take(rows) <= self.threshold[node]
                stack += [(self.left[node], rows[lower]), (self.right[node], rows[~lower])]
        return leaf_of_row

    def indicators(self, columns: Floats) -> Floats:
        """Return the columns of 0 and 1 [leaves, n] for coded columns [columns, n]."""
        made = np.zeros((self.leaves, columns.shape[1]))
        places = np.arange(columns.shape[1])
        for leaves in self.reached(columns):
            made[leaves, places] = 1.0
        return made

    def added(self, columns: Floats) -> Floats:
        """Add up the values of each row's leaves [outcomes, n], for coded columns [columns, n]."""
        total = np.zeros((len(self.values), columns.shape[1]))
        for leaves in self.reached(columns):
            total += self.values[:, leaves]
        return total

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Describe each leaf's column, with the names of the coded columns."""
        descriptions = [""] * self.leaves
        for tree, root in enumerate(self.roots):
            for leaf, path in self._paths(int(root), tuple(names)):
                descriptions[leaf] = f"tree {tree + 1}: {' and '.join(path) or 'always'}"
        return tuple(descriptions)

    def _paths(self, root: int, names: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
        """Yield each leaf under a node with the conditions that lead to it."""
        waiting: list[tuple[int, list[str]]] = [(root, [])]
        while waiting:
            node, path = waiting.pop()
            if self.column[node] < 0:
                yield int(self.left[node]), path
                continue
            name, threshold = names[self.column[node]], self.threshold[node]
            waiting.append((int(self.right[node]), [*path, f"{name} > {threshold:.6g}"]))
            waiting.append((int(self.left[node]), [*path, f"{name} <= {threshold:.6g}"]))

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The arrays by their names in a file."""
        return {
            f"{ARRAY_PREFIX}{each.name}": np.asarray(getattr(self, each.name), dtype=np.float64)
            for each in fields(self)
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "Forest":
        """Return the forest in a file's arrays, for this many coded columns and outcomes; refuse broken arrays.

        Formal guarantee: every row ends in one leaf of each tree: children come after their parents, every node except
        the roots has one parent, and every leaf has a column of its own.
        """
        try:
            column, left, right, roots = (
                whole_numbers(arrays[ARRAY_PREFIX + key]) for key in ("column", "left", "right", "roots")
            )
            threshold, values = (
                bounded_numbers(arrays[ARRAY_PREFIX + "threshold"], 1),
                bounded_numbers(arrays[ARRAY_PREFIX + "values"], 2),
            )
            made = cls(column, threshold, left, right, roots, values)
        except (KeyError, ValueError, OverflowError):
            raise DataError(
                "model.preparation: the file does not contain trees that parley init or parley pin wrote"
            ) from None
        if (why := made._defect(columns, outcomes)) is not None:
            raise DataError(f"model.preparation: the trees in the file are broken: {why}")
        return made

    def _defect(self, columns: int, outcomes: int) -> str | None:
        """Say what is wrong with trees from a file; None if nothing is."""
        nodes, inner = len(self.column), self.column >= 0
        if not 0 < nodes <= MAX_FOREST_NODES or not self.trees:
            return f"expected from 1 to {MAX_FOREST_NODES} nodes"
        if any(len(each) != nodes for each in (self.threshold, self.left, self.right)):
            return "expected as many thresholds and children as nodes"
        if not (self.column >= -1).all() or not (self.column < columns).all():
            return f"expected columns below {columns}"
        children = np.concatenate([self.left[inner], self.right[inner]])
        parents = np.tile(np.flatnonzero(inner), 2)
        if not ((children > parents) & (children < nodes)).all():
            return "expected children after their parents"
        if not (np.diff(self.roots) > 0).all() or self.roots[0] != 0:
            return "expected trees one after the other"
        if sorted([*children.tolist(), *self.roots.tolist()]) != list(range(nodes)):
            return "expected every node to be a root or the child of one other"
        if self.values.shape != (outcomes, int((~inner).sum())):
            return "expected a value for each leaf and outcome"
        if sorted(self.left[~inner].tolist()) != list(range(self.leaves)):
            return "expected every leaf to have a column of its own"
        return None


def bounded_numbers(array: Floats, axes: int) -> Floats:
    """Return an array from a file if its numbers are small enough to compute with."""
    if array.ndim != axes or not (np.abs(array) <= LARGEST).all():
        raise ValueError("an array has the wrong shape, or contains numbers that are too large")
    return array


def whole_numbers(array: Floats) -> Integers:
    """Return whole numbers [n] from a file."""
    if not (bounded_numbers(array, 1) == np.rint(array)).all() or (np.abs(array) > 2**31).any():
        raise ValueError("expected whole numbers")
    return array.astype(np.intp)


@dataclass(frozen=True, eq=False)
class MarginForest(Forest):
    """Trees whose leaves are columns, and `margin`: later trees whose values are added up.

    >>> stump = Forest(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 1]), np.array([2, 0, 0]),
    ...                np.array([0]), np.array([[-1.0, 1.0]]))
    >>> both = MarginForest(**vars(stump), margin=stump)
    >>> both.indicators(np.array([[1.0, 2.0]])) / [[1.0], [1.0], [MARGIN_SCALE]]
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1.,  1.]])
    >>> both.begin @ both.indicators(np.array([[1.0, 2.0]]))
    array([[-2.,  2.]])
    """

    margin: Forest
    orders: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [orders, columns]: the ranks of names in each

    def reached(self, columns: Floats) -> Integers:
        """Return the leaf that each row of coded columns [columns, n] reaches in each tree whose leaves are columns."""
        return super().reached(self._with_ranks(columns))

    def _with_ranks(self, columns: Floats) -> Floats:
        """Append the ranks of names in each order to coded columns [columns, n]."""
        ranks = np.zeros((len(self.orders), columns.shape[1]))
        for rank, order in zip(ranks, self.orders, strict=True):
            for place in np.flatnonzero(order):
                rank += order[place] * columns[place]
        return np.concatenate([columns, ranks])

    @property
    def width(self) -> int:
        """The number of columns: the leaves, and a margin for each outcome."""
        return self.leaves + len(self.values)

    @cached_property
    def sizes(self) -> Floats:
        """The largest norm of a row's columns: 1 for each tree, then those of the margins."""
        return np.append(super().sizes, self._most)

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns]: leaf values, and the weight that undoes the margins' scale."""
        return np.concatenate([self.values, np.eye(len(self.values)) / MARGIN_SCALE], axis=1)

    def indicators(self, columns: Floats) -> Floats:
        """Return the columns [width, n] for coded columns [columns, n]."""
        most = self._most[:, None]
        margin = clip_to_grid(self.margin.added(self._with_ranks(columns)) * MARGIN_SCALE, -most, most)
        return np.concatenate([super().indicators(columns), margin])

    def added(self, columns: Floats) -> Floats:
        """Return the public model's prediction [outcomes, n] for coded columns [columns, n]."""
        return super().added(columns) + self.margin.added(self._with_ranks(columns))

    @cached_property
    def _most(self) -> Floats:
        """The largest size of each margin's column [outcomes]: the sum of each tree's largest value, rounded alike."""
        sizes, tree = np.abs(self.margin.values), self.margin.tree_of_leaf
        largest = [sizes[:, tree == place].max(axis=1) for place in range(self.margin.trees)]
        return clip_to_grid(np.sum(largest, axis=0) * MARGIN_SCALE, 0.0, LARGEST * MARGIN_SCALE)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Describe each column."""
        margins = (f"margin {place + 1} of {self.margin.trees} public trees" for place in range(len(self.values)))
        ranks = (f"rank of {names[int(np.abs(order).argmax())].partition(' = ')[0]}" for order in self.orders)
        return (*super().labels([*names, *ranks]), *margins)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The arrays by their names in a file."""
        first = Forest(**{each.name: getattr(self, each.name) for each in fields(Forest)})
        later = {MARGIN_PREFIX + name.removeprefix(ARRAY_PREFIX): array for name, array in self.margin.arrays.items()}
        return first.arrays | later | ({ORDERS_ARRAY: self.orders} if len(self.orders) else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "MarginForest":
        """Return the trees in a file's arrays; refuse them if either part is broken."""
        orders = arrays.get(ORDERS_ARRAY, np.zeros((0, columns)))
        fits = orders.ndim == 2 and orders.shape[1] == columns and len(orders) <= columns * outcomes
        if not fits or not (np.abs(orders) <= LARGEST).all():
            raise DataError(
                "model.preparation: the file orders the names of categories wrongly; expected at most one order for "
                "each column and outcome"
            )
        first = Forest.from_arrays(arrays, columns + len(orders), outcomes)
        later = {
            ARRAY_PREFIX + name.removeprefix(MARGIN_PREFIX): array
            for name, array in arrays.items()
            if name.startswith(MARGIN_PREFIX)
        }
        return cls(**vars(first), margin=Forest.from_arrays(later, columns + len(orders), outcomes), orders=orders)


@dataclass(frozen=True, eq=False)
class MarginLines(MarginForest):
    """Coded columns and the margins of all trees, centred, scaled and clipped to public rows, with a constant."""

    lines: Floats = field(kw_only=True)  # [3, columns + outcomes]: centre, scale and largest size of each

    @classmethod
    def from_public_columns(cls, margin: Forest, begin: Floats, orders: Floats, columns: Floats) -> "MarginLines":
        """Return the margins of these trees, starting at `begin` [outcomes], beside public columns [columns, n]."""
        zero = np.zeros(1, dtype=np.intp)
        constant = Forest(zero - 1, np.zeros(1), zero, zero, zero, begin[:, None])
        made = cls(**vars(constant), margin=margin, orders=orders, lines=np.empty((3, 0)))
        cells = made._cells(columns)
        centre, spread = cells.mean(axis=1), cells.std(axis=1)
        centre[len(columns) :] = 0.0
        scale = np.where(spread > np.maximum(MIN_SPREAD, ROUNDING_SHARE * np.abs(cells).max(axis=1)), spread, 1.0)
        largest_sizes = np.abs((cells - centre[:, None]) / scale[:, None]).max(axis=1)
        return replace(made, lines=np.stack([centre, scale, largest_sizes]))

    def matches_public_columns(self, columns: Floats, tolerance: float) -> bool:
        """Whether its lines match those of public columns [columns, n], up to `tolerance` of the columns' scales."""
        own = MarginLines.from_public_columns(self.margin, self.values[:, 0], self.orders, columns).lines
        unit = np.stack([own[1], own[1], np.maximum(own[2], 1.0)])
        return bool((np.abs(self.lines - own) <= tolerance * unit).all())

    def _cells(self, columns: Floats) -> Floats:
        """Append the values of all trees to coded columns [columns, n]."""
        return np.concatenate([columns, self.margin.added(self._with_ranks(columns))])

    @property
    def width(self) -> int:
        """The number of columns: the constant, the lines, and a margin for each outcome."""
        return 1 + int(self.lines.shape[1])

    @cached_property
    def sizes(self) -> Floats:
        """The largest size of a row's columns: 1 for the constant, then those of lines and margins."""
        return np.append(1.0, sizes(-self.lines[2], self.lines[2]))

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns], which undoes the margins' scale."""
        outcomes = len(self.values)
        lines = np.zeros((outcomes, self.lines.shape[1] - outcomes))
        return np.concatenate([self.values, lines, np.diag(self.lines[1, -outcomes:])], axis=1)

    def indicators(self, columns: Floats) -> Floats:
        """Return the columns [width, n] for coded columns [columns, n]."""
        centre, scale, most = self.lines[..., None]
        lines = clip_to_grid((self._cells(columns) - centre) / scale, -most, most)
        return np.concatenate([np.ones((1, columns.shape[1])), lines])

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Describe each column."""
        constant, *margins = super().labels(names)
        return (constant, *names, *margins)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The arrays by their names in a file."""
        return super().arrays | {LINES_ARRAY: self.lines}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "MarginLines":
        """Return the margins and lines in a file's arrays; refuse lines that are too large or have no scale."""
        lines, made = arrays.get(LINES_ARRAY, np.empty(0)), MarginForest.from_arrays(arrays, columns, outcomes)
        fits = lines.shape == (3, columns + outcomes) and made.leaves == 1
        if not fits or not ((np.abs(lines) <= LARGEST) & (lines >= [[-LARGEST], [MIN_SPREAD], [0]])).all():
            raise DataError(
                "model.preparation: the file lacks a valid centre, scale or size for a column; ask the author of the "
                "terms for the right file"
            )
        return cls(**vars(made), lines=lines)


def name_orders(columns: Floats, wanted: Floats, weight: Floats, groups: Sequence[Integers]) -> Floats:
    """Order names [orders, columns] by their coefficients in a ridge regression of public targets [outcomes, n] on
    coded columns [columns, n]; `groups` are the places of each column's names. Unknown names get the middle rank, 0."""
    if not groups:
        return np.zeros((0, len(columns)))
    share = weight / weight.sum()
    centred = columns - (columns @ share)[:, None]
    spread = np.sqrt(centred**2 @ share)
    unit = np.where(spread > 0, spread, 1.0)
    standardised = centred / unit[:, None]
    moments = (standardised * share) @ standardised.T + RIDGE_ROWS / len(weight) * np.eye(len(standardised))
    coefficients = (
        np.linalg.solve(moments, (standardised * share) @ (wanted - (wanted @ share)[:, None]).T) / unit[:, None]
    )
    orders = np.zeros((len(groups), len(wanted), len(columns)))
    for order, group in zip(orders, groups, strict=True):
        order[:, group] = 2 * coefficients[group].T.argsort(axis=1).argsort(axis=1) - (len(group) - 1)
    return orders.reshape(-1, len(columns))
