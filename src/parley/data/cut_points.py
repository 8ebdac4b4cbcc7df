"""Bins as trees: each feature's bins, or a crossed pair's, are the leaves of one tree, numbers cut and names apart.

Formal guarantee: cut points come from the public sample or from declared bounds; no private row decides one.

Bins may be joined by straight lines: a row between the knots of two neighbouring bins lies in both, by its distance. So
a column of numbers becomes a piecewise linear function, flat beyond the outer knots. Names and gaps stay bins.

Formal guarantee: of the two bins of a tree that a row lies in, one holds t in [0, 1] and the other 1 - t, rounded once.
So a row's norm in each tree is 1 in L1 and at most 1 in L2, up to 1e-15, as for a row of one leaf. t is made of public
numbers and the row's own cell by three operations that every machine rounds alike.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from parley.data.encoding import Encoding, Numbers, Places
from parley.data.forest import ARRAY_PREFIX, Forest, Integers, bounded_numbers, whole_numbers
from parley.data.rowwise import clip_to_grid
from parley.errors import DataError
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Hinged(Forest):
    """A forest of bins in which neighbours are joined.

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
        """Return the share of each row of coded columns [columns, n] in each bin [leaves, n]."""
        made, rows = np.zeros((self.leaves, columns.shape[1])), np.arange(columns.shape[1])
        for leaf in self.reached(columns):
            before = np.where(leaf > 0, self.joined[leaf - 1], -1)
            above = (self.joined[leaf] >= 0) & (columns[self.joined[leaf], rows] > self.knots[leaf])
            below = (before >= 0) & (columns[before, rows] < self.knots[leaf])
            made[leaf, rows] = 1.0
            first = (leaf - below)[above | below]
            between, cell = rows[above | below], columns[self.joined[first], rows[above | below]]
            t = clip_to_grid((cell - self.knots[first]) / (self.knots[first + 1] - self.knots[first]), 0.0, 1.0)
            made[first, between], made[first + 1, between] = 1 - t, t
        return made

    @property
    def lines(self) -> Integers:
        """The coded column along whose line a bin lies [leaves]; -1: none."""
        return np.asarray(np.maximum(self.joined, np.append(-1, self.joined[:-1])))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Describe each column; joined bins by the value that they are nearest to."""
        return tuple(
            label if column < 0 else f"{label.partition(':')[0]}: {names[column]} near {knot:.6g}"
            for label, column, knot in zip(super().labels(names), self.lines, self.knots, strict=True)
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], columns: int, outcomes: int) -> "Hinged":
        """Return the joined bins in a file's arrays; refuse broken ones.

        Formal guarantee: bins are joined only within a tree, and two that are joined have different knots.
        """
        bins = Forest.from_arrays(arrays, columns, outcomes)
        try:
            made = cls(
                **vars(bins),
                knots=bounded_numbers(arrays[ARRAY_PREFIX + "knots"], 1),
                joined=whole_numbers(arrays[ARRAY_PREFIX + "joined"]),
            )
        except (KeyError, ValueError, OverflowError):
            raise DataError(
                "model.preparation: the file does not contain bins that parley init or parley pin wrote"
            ) from None
        if made.knots.shape != (made.leaves,) or made.joined.shape != (made.leaves,) or not made._sound(columns):
            raise DataError(
                "model.preparation: the bins in the file are invalid; ask the author of the terms for the right file"
            )
        return made

    def _sound(self, columns: int) -> bool:
        """Whether joined bins are neighbours in one tree with increasing knots."""
        tree = self.tree_of_leaf
        first = np.flatnonzero(self.joined >= 0)
        if first.size and first[-1] + 1 >= self.leaves:
            return False
        apart = self.knots[first + 1] > self.knots[first]
        return bool(((tree[first] == tree[first + 1]) & apart & (self.joined[first] < columns)).all())


MAX_BINS_IN_PAIR = 6  # bins of a column of numbers in a pair, at most
MAX_CROSSED_BINS = 1000  # bins of a pair


@dataclass(frozen=True)
class _Question:
    """Whether a column is at most a number; one answer ends in a leaf, the other goes on."""

    column: int
    at: float
    ends: bool  # the answer that ends


_Levels = Sequence[Sequence[_Question]]  # of a tree, one for each feature that it looks at


@dataclass(frozen=True)
class _CutRules:
    """Public knowledge of where columns may be cut."""

    count: int  # of the bins of a column of numbers, at most
    ends: tuple[Floats, Floats]  # of coded columns
    known: Floats | None  # public columns [columns, n], at whose quantiles numbers are cut; else in equal steps

    def cuts(self, encoding: Encoding, place: int) -> list[float]:
        """Return the cut points of a feature's column of numbers or places, the one at `place`."""
        if isinstance(encoding, Places):
            return [i + 0.5 for i in range(len(encoding.names) + encoding.fills)]
        if self.known is not None:
            return quantile_cuts(self.known[place], self.count)
        return _steps(encoding.column, self.count, float(self.ends[0][place]), float(self.ends[1][place]))

    def knots(self, cuts: list[float], place: int) -> list[float]:
        """Return the middle of each bin: the median of its public values, else halfway between its ends."""
        if self.known is None:
            bounds = [float(self.ends[0][place]), *cuts, float(self.ends[1][place])]
            return [low / 2 + high / 2 for low, high in pairwise(bounds)]
        values = np.sort(self.known[place])
        parts = np.split(values, np.searchsorted(values, cuts, side="right"))
        return [float(part[(len(part) - 1) // 2]) for part in parts]


def cut(
    encodings: Sequence[Encoding],
    count: int,
    ends: tuple[Floats, Floats],
    known: Floats | None,
    outcomes: int,
    joined: bool = False,
    crossed: Sequence[tuple[str, str]] = (),
) -> Forest:
    """Return one tree for each feature, of at most `count` bins for numbers, then one of coarser bins for each crossed
    pair. Cuts are at quantiles of public columns `known` [columns, n], else in equal steps between `ends`. `joined`:
    join bins by straight lines."""
    where = _CutRules(count, ends, known)
    alone = list(_questions(encodings, where))
    made = _chained(
        [*([each] for each in alone), *_pairs(encodings, replace(where, count=min(count, MAX_BINS_IN_PAIR)), crossed)],
        outcomes,
    )
    return _joined(encodings, where, alone, made) if joined else made


def _pairs(encodings: Sequence[Encoding], where: _CutRules, crossed: Sequence[tuple[str, str]]) -> Iterator[_Levels]:
    """Yield the questions of each pair's tree: the first feature's, then the second's."""
    if not crossed:
        return
    questions_of = dict(zip((encoding.column for encoding in encodings), _questions(encodings, where), strict=True))
    for pair in crossed:
        if not questions_of.keys() >= set(pair):
            raise DataError(
                f"model.crossed: both columns of a pair must be features; correct the pair {' and '.join(pair)}"
            )
        if any(not questions_of[column] for column in pair):
            raise DataError(
                f"model.crossed: {' and '.join(pair)}: one of the two columns is constant in the public sample; remove "
                "the pair"
            )
        bins = math.prod(1 + len(questions_of[column]) for column in pair)
        if bins > MAX_CROSSED_BINS:
            raise DataError(
                f"model.crossed: {' and '.join(pair)} have {bins:,} bins together, more than the limit of "
                f"{MAX_CROSSED_BINS:,}; use fewer bins or list fewer names"
            )
        yield [questions_of[column] for column in pair]


def _joined(
    encodings: Sequence[Encoding], where: _CutRules, alone: Sequence[Sequence[_Question]], made: Forest
) -> Hinged:
    """Return the bins with the knots of their lines; those of one column of numbers are consecutive."""
    knots, along = list[float](), list[int]()
    for encoding, questions in zip(encodings, alone, strict=True):
        cuts = [question for question in questions if question.ends] if isinstance(encoding, Numbers) else []
        apart = len(questions) - len(cuts) + (not cuts)  # names, gaps, or a column that is one bin
        knots, along = knots + [0.0] * apart, along + [-1] * apart
        if cuts:
            knots += where.knots([question.at for question in cuts], cuts[0].column)
            along += [cuts[0].column] * len(cuts) + [-1]
    pairs = made.leaves - len(knots)
    lines = np.array(along + [-1] * pairs, dtype=np.intp)
    return Hinged(**vars(made), knots=np.array(knots + [0.0] * pairs), joined=lines)


def _questions(encodings: Sequence[Encoding], where: _CutRules) -> Iterator[list[_Question]]:
    """Yield the questions of each feature's tree: names and gaps first, then cut points."""
    first = 0
    for encoding in encodings:
        questions = [_Question(first + i, 0.5, ends=False) for i, number in enumerate(encoding.scaled) if not number]
        for place in (first + i for i, number in enumerate(encoding.scaled) if number):
            questions += [_Question(place, at, ends=True) for at in where.cuts(encoding, place)]
        yield questions
        first += len(encoding.scaled)


def quantile_cuts(values: Floats, count: int) -> list[float]:
    """Return cut points with about as many public values in each bin, halfway between two; a frequent value has its own
    bin.

    >>> quantile_cuts(np.array([1.0, 1.0, 1.0, 2.0, 3.0, 4.0]), 3)
    [1.5, 2.5]
    >>> quantile_cuts(np.array([1.0, 2.0, 2.0, 2.0, 2.0, 4.0]), 3)
    [1.5, 3.0]
    """
    present, often = np.unique(values, return_counts=True)
    if len(present) < 2:
        return []
    at = np.searchsorted(present, np.quantile(values, np.arange(1, count) / count, method="lower"))
    common = at[often[at] * count >= len(values)]
    after = np.unique(np.concatenate([at, common - 1]))
    after = after[(after >= 0) & (after < len(present) - 1)]
    return [float(present[i] / 2 + present[i + 1] / 2) for i in after]


def _steps(column: str, count: int, low: float, high: float) -> list[float]:
    if not np.isfinite([low, high]).all():
        raise DataError(
            f"model.columns: bins of {column!r} need model.bounds.{column} or a public sample, because cut points must "
            "not depend on private rows"
        )
    return [low + (high - low) * (part / count) for part in range(1, count)]


def _chained(trees: Sequence[_Levels], outcomes: int) -> Forest:
    """Return trees that ask one question after the other, level after level."""
    nodes, roots = list[tuple[int, float, int, int]](), list[int]()
    for levels in trees:
        roots.append(len(nodes))
        _grow(nodes, levels)
    column, left, right = (np.array([node[i] for node in nodes], dtype=np.intp) for i in (0, 2, 3))
    leaf = column < 0
    left[leaf] = np.arange(leaf.sum())
    threshold, first = np.array([node[1] for node in nodes]), np.array(roots, dtype=np.intp)
    return Forest(column, threshold, left, right, first, np.zeros((outcomes, int(leaf.sum()))))


def _grow(nodes: list[tuple[int, float, int, int]], levels: _Levels) -> None:
    """Add a tree's nodes: each question, what follows where it ends, then the next question."""
    if not levels:
        nodes.append((-1, 0.0, 0, 0))
        return
    for question in levels[0]:
        node = len(nodes)
        nodes.append((-1, 0.0, 0, 0))  # its children are known when they are there
        _grow(nodes, levels[1:])
        end, following = node + 1, len(nodes)
        nodes[node] = (question.column, question.at, *((end, following) if question.ends else (following, end)))
    _grow(nodes, levels[1:])
