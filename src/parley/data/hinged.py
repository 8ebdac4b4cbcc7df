"""Bins that straight lines join: between the knots of two neighbouring bins a row lies in both, by how near it is.

A column of numbers becomes what a piecewise linear function of it is made of, flat beyond the outer knots. Names and
gaps stay bins.

Formal guarantee: of the two bins of a tree that a row lies in, one holds t in [0, 1] and the other 1 - t, rounded once;
so a row measures 1 in each tree in L1, and at most 1 in L2, but for less than 1e-15: as a row of one leaf does. t is
made of public numbers and the row's own cell by three operations that every machine rounds alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parley.data.forest import PREFIX, Forest, Integers, bearable, whole
from parley.data.rounding import settle
from parley.errors import DataError
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Hinged(Forest):
    """A forest of bins, of which neighbours are joined.

    >>> bins = Forest(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 1]), np.array([2, 0, 0]),
    ...               np.array([0]), np.array([[0.0, 0.0]]))
    >>> Hinged(**vars(bins), knots=np.array([1.0, 2.0]), joined=np.array([0, -1])).indicators(
    ...     np.array([[0.0, 1.0, 1.25, 1.75, 9.0]]))
    array([[1.  , 1.  , 0.75, 0.25, 0.  ],
           [0.  , 0.  , 0.25, 0.75, 1.  ]])
    """

    knots: Floats  # [leaves]: where a row lies in this bin alone; 0 where it is none of numbers
    joined: Integers  # [leaves]: the coded column along which a bin is joined with the next; -1: it is not

    def indicators(self, columns: Floats) -> Floats:
        """How far each row of coded columns [columns, n] lies in each bin [leaves, n]."""
        made, rows = np.zeros((self.leaves, columns.shape[1])), np.arange(columns.shape[1])
        for leaf in self.reached(columns):
            before = np.where(leaf > 0, self.joined[leaf - 1], -1)
            above = (self.joined[leaf] >= 0) & (columns[self.joined[leaf], rows] > self.knots[leaf])
            below = (before >= 0) & (columns[before, rows] < self.knots[leaf])
            made[leaf, rows] = 1.0
            first = (leaf - below)[above | below]
            between, cell = rows[above | below], columns[self.joined[first], rows[above | below]]
            t = settle((cell - self.knots[first]) / (self.knots[first + 1] - self.knots[first]), 0.0, 1.0)
            made[first, between], made[first + 1, between] = 1 - t, t
        return made

    @property
    def lines(self) -> Integers:
        """The coded column along whose line a bin lies [leaves]; -1: along none."""
        return np.asarray(np.maximum(self.joined, np.append(-1, self.joined[:-1])))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """What each column says: of joined bins, which value it is nearest to."""
        return tuple(
            label if column < 0 else f"{label.partition(':')[0]}: {names[column]} near {knot:.6g}"
            for label, column, knot in zip(super().labels(names), self.lines, self.knots, strict=True)
        )

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "Hinged":
        """The joined bins that a file's numbers are; refused where they are none.

        Formal guarantee: bins are joined within a tree alone, and two that are have different knots.
        """
        bins = Forest.of_arrays(arrays, columns, outcomes)
        try:
            made = cls(
                **vars(bins), knots=bearable(arrays[PREFIX + "knots"], 1), joined=whole(arrays[PREFIX + "joined"])
            )
        except (KeyError, ValueError, OverflowError):
            raise DataError("model.preparation: expected the bins that parley init or parley pin wrote") from None
        if made.knots.shape != (made.leaves,) or made.joined.shape != (made.leaves,) or not made._sound(columns):
            raise DataError(
                "model.preparation: these bins cannot be joined; ask who wrote the terms for the right file"
            )
        return made

    def _sound(self, columns: int) -> bool:
        """Whether whatever is joined may be."""
        tree = self.tree_of_leaf
        first = np.flatnonzero(self.joined >= 0)
        if first.size and first[-1] + 1 >= self.leaves:
            return False
        apart = self.knots[first + 1] > self.knots[first]
        return bool(((tree[first] == tree[first + 1]) & apart & (self.joined[first] < columns)).all())
