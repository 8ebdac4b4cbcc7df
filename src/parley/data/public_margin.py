"""A public margin: of many public trees only the first ones' leaves are columns; what all others say is added up.

A large public model knows more than leaves that can be fitted again under noise. So its later trees add up to one
number for each outcome, the margin, which is one column more: made so small (`SMALL`) that nothing learned from it
matters, with a weight that is as large and begins where margin and weight together say what the trees do. Then a raw
prediction is the margin and what the leaves add, for every loss; no residual is ever formed, and of a record its
gradient is clipped as before.

Formal guarantee: a margin is a function of the row and the trees, the same to the bit on every machine: values are
added in the order of the trees, and multiplied by a power of two. Its size is clipped to the sum of each tree's largest
value, whatever a file holds; a row measures that times `SMALL` beside the number of trees whose leaves are columns, in
L1, and the root of the sum of squares in L2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from parley.data.forest import PREFIX, Forest
from parley.data.rounding import settle
from parley.validate import LARGEST, Floats

SMALL = 2.0**-20  # of its own unit: what a margin's column holds
MARGIN = PREFIX + "margin."  # of the arrays of trees that are added up


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

    @property
    def width(self) -> int:
        """How many columns there are: the leaves, and a margin for each outcome."""
        return self.leaves + len(self.values)

    @cached_property
    def sizes(self) -> Floats:
        """What a row measures at most: 1 a tree, and what margins do."""
        return np.append(super().sizes, self._most * SMALL)

    @property
    def begin(self) -> Floats:
        """The public model [outcomes, columns]: leaf values, and the weight that takes a margin for what it is."""
        return np.concatenate([self.values, np.eye(len(self.values)) / SMALL], axis=1)

    def indicators(self, columns: Floats) -> Floats:
        """The columns [width, n] that coded columns [columns, n] become."""
        most = self._most[:, None] * SMALL
        margin = settle(self.margin.added(columns) * SMALL, -most, most)
        return np.concatenate([super().indicators(columns), margin])

    def added(self, columns: Floats) -> Floats:
        """What the public model says [outcomes, n] of coded columns [columns, n]."""
        return super().added(columns) + self.margin.added(columns)

    @cached_property
    def _most(self) -> Floats:
        """The sum of each tree's largest value [outcomes]."""
        sizes, tree = np.abs(self.margin.values), self.margin.tree_of_leaf
        largest = [sizes[:, tree == place].max(axis=1) for place in range(self.margin.trees)]
        return np.asarray(np.minimum(np.sum(largest, axis=0), LARGEST))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """What each column says."""
        margins = (f"margin {place + 1} of {self.margin.trees} public trees" for place in range(len(self.values)))
        return (*super().labels(names), *margins)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """Its numbers, by the names they have in a file."""
        first = Forest(**{each.name: getattr(self, each.name) for each in fields(Forest)})
        later = {MARGIN + name.removeprefix(PREFIX): array for name, array in self.margin.arrays.items()}
        return first.arrays | later

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "MarginForest":
        """The trees that a file's numbers are; refused where either part is no forest."""
        first = Forest.of_arrays(arrays, columns, outcomes)
        later = {PREFIX + name.removeprefix(MARGIN): array for name, array in arrays.items() if name.startswith(MARGIN)}
        return cls(**vars(first), margin=Forest.of_arrays(later, columns, outcomes))
