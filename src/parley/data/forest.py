"""Trees as columns: each leaf is a column of 0 and 1, and a row has exactly one 1 in every tree.

A tree is nothing but numbers: which coded column a node looks at, and up to which value a row goes left. Cells are
compared as they are read, before anything is scaled, so no arithmetic stands between a cell and its leaf.

Formal guarantee: a row's leaves are a function of that row and the trees, the same to the bit on every machine and
whatever rows stand beside it: coded cells are (`encoding`), and a comparison rounds nothing. Whatever
trees a file holds, a row measures the number of trees in L1 and its root in L2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parley.errors import DataError
from parley.terms.model import MOST_NODES
from parley.validate import LARGEST, Floats

PREFIX = "trees."  # of its arrays among public numbers

Integers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Forest:
    """Binary trees, their nodes one after the other.

    Node k asks whether coded column `column[k]` is at most `threshold[k]`, and goes on at node `left[k]` or `right[k]`,
    which come later; `column[k]` is -1 in a leaf, whose own column is number `left[k]`.

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
        """How many trees there are."""
        return len(self.roots)

    @property
    def leaves(self) -> int:
        """How many leaves all trees have together: as many columns."""
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        """How many columns there are: one a leaf."""
        return self.leaves

    @cached_property
    def sizes(self) -> Floats:
        """What a row measures at most, tree by tree."""
        return np.ones(self.trees)

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns] of the columns."""
        return self.values

    @property
    def largest_tree(self) -> int:
        """How many leaves the tree has that has most."""
        ends = np.append(self.roots, len(self.column))
        return int(max((self.column[a:b] < 0).sum() for a, b in pairwise(ends)))

    @cached_property
    def tree_of_leaf(self) -> Integers:
        """Which tree each leaf belongs to [leaves]."""
        found, ends = np.empty(self.leaves, dtype=np.intp), np.append(self.roots, len(self.column))
        for tree, (a, b) in enumerate(pairwise(ends)):
            found[self.left[a:b][self.column[a:b] < 0]] = tree
        return found

    def reached(self, columns: Floats) -> Integers:
        """The leaf that each row of coded columns [columns, n] reaches in each tree [trees, n]."""
        rows = np.arange(columns.shape[1])
        found = np.empty((self.trees, len(rows)), dtype=np.intp)
        for tree, root in enumerate(self.roots):
            node = np.full(len(rows), root)
            under = rows
            while under.size:
                at = node[under]
                under = under[self.column[at] >= 0]
                at = node[under]
                lower = columns[self.column[at], under] <= self.threshold[at]
                node[under] = np.where(lower, self.left[at], self.right[at])
            found[tree] = self.left[node]
        return found

    def indicators(self, columns: Floats) -> Floats:
        """The columns of 0 and 1 [leaves, n] that coded columns [columns, n] become."""
        made = np.zeros((self.leaves, columns.shape[1]))
        places = np.arange(columns.shape[1])
        for leaves in self.reached(columns):
            made[leaves, places] = 1.0
        return made

    def added(self, columns: Floats) -> Floats:
        """What the values of a row's leaves add up to [outcomes, n], of coded columns [columns, n]."""
        total = np.zeros((len(self.values), columns.shape[1]))
        for leaves in self.reached(columns):
            total += self.values[:, leaves]
        return total

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """What each leaf's column says, by the names of the coded columns."""
        found = [""] * self.leaves
        for tree, root in enumerate(self.roots):
            for leaf, path in self._paths(int(root), tuple(names)):
                found[leaf] = f"tree {tree + 1}: {' and '.join(path) or 'always'}"
        return tuple(found)

    def _paths(self, root: int, names: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
        """(leaf, what holds of its rows) of every leaf under a node."""
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
        """Its numbers, by the names they have in a file."""
        return {f"{PREFIX}{each.name}": np.asarray(getattr(self, each.name), dtype=np.float64) for each in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "Forest":
        """The forest that a file's numbers are, for so many coded columns and outcomes; refused where they are none.

        Formal guarantee: every row ends in one leaf of each tree: children come after their parents, every node but
        the roots has one parent, and every leaf one column of its own.
        """
        try:
            column, left, right, roots = (whole(arrays[PREFIX + key]) for key in ("column", "left", "right", "roots"))
            threshold, values = bearable(arrays[PREFIX + "threshold"], 1), bearable(arrays[PREFIX + "values"], 2)
            made = cls(column, threshold, left, right, roots, values)
        except (KeyError, ValueError, OverflowError):
            raise DataError("model.preparation: expected the trees that parley init or parley pin wrote") from None
        if (why := made._wrong(columns, outcomes)) is not None:
            raise DataError(f"model.preparation: these are no trees: {why}")
        return made

    def _wrong(self, columns: int, outcomes: int) -> str | None:
        """What is wrong with trees that a file holds; None: nothing."""
        nodes, inner = len(self.column), self.column >= 0
        if not 0 < nodes <= MOST_NODES or not self.trees:
            return f"expected from 1 to {MOST_NODES} nodes"
        if any(len(each) != nodes for each in (self.threshold, self.left, self.right)):
            return "expected as many thresholds and children as nodes"
        if not (self.column >= -1).all() or not (self.column < columns).all():
            return f"expected columns below {columns}"
        children = np.concatenate([self.left[inner], self.right[inner]])
        here = np.tile(np.flatnonzero(inner), 2)
        if not ((children > here) & (children < nodes)).all():
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


def bearable(array: Floats, axes: int) -> Floats:
    """Numbers of a file, if arithmetic bears them."""
    if array.ndim != axes or not (np.abs(array) <= LARGEST).all():
        raise ValueError("another shape, or numbers beyond what arithmetic bears")
    return array


def whole(array: Floats) -> Integers:
    """Whole numbers of a file [n]."""
    if not (bearable(array, 1) == np.rint(array)).all() or (np.abs(array) > 2**31).any():
        raise ValueError("expected whole numbers")
    return array.astype(np.intp)
