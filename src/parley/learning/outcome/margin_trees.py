"""Boosted trees that go on from another model: raw predictions of rows are given, and each tree is a Newton step of the
loss from where those before it arrived. Replicates, such as folds and joint models to start from, are an axis: they
take little more time than one.

Columns are cut at quantiles, so that a split is found by adding up (histograms). A tree looks for splits among half as
many rows, up to a thousand, drawn with a fixed seed, and its leaves take their values from all rows. What comes out is
numbers (`data.forest`).

Formal guarantee: none. Everything is a function of the rows without noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from parley.data.cut_points import quantile_cuts
from parley.data.forest import Forest
from parley.losses.class_loss import ClassLoss
from parley.losses.loss import Loss
from parley.validate import Floats

BINS = 32  # of a column, at most
RATE = 0.3
SHARE = 0.5  # as many draws of rows as this, among which a tree looks for splits
MOST_LOOKED_AT = 1000  # of them
SMALLEST = 20  # average rows' curvature that a leaf has at least, of large tables
PENALTY = 5.0  # average rows' curvature by which a leaf's value is pulled to zero

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BinnedColumns:
    """Columns that can be cut: their `places` in the table, their cut points, and of every row how many of these lie
    below its cell (`codes` [columns, n]). A cell is at most cut point b if its code is."""

    places: Places
    cuts: tuple[Floats, ...]
    codes: NDArray[np.uint8]

    @cached_property
    def firsts(self) -> Places:
        """The first bin of each column, all columns' bins counted together."""
        return np.cumsum([0, *(len(each) + 1 for each in self.cuts[:-1])])

    @cached_property
    def lasts(self) -> Places:
        """The last bin of each column."""
        return self.firsts + np.array([len(each) for each in self.cuts], dtype=np.intp)

    @cached_property
    def column_of(self) -> Places:
        """The column of each bin."""
        return np.repeat(np.arange(len(self.cuts)), [len(each) + 1 for each in self.cuts])

    @classmethod
    def of(cls, columns: Floats) -> "BinnedColumns":
        """Those of a table [n, columns]."""
        cuts = [_cuts(column) for column in columns.T]
        places = np.array([place for place, each in enumerate(cuts) if each.size], dtype=np.intp)
        codes = np.empty((len(places), len(columns)), dtype=np.uint8)
        for row, place in zip(codes, places, strict=True):
            row[:] = np.searchsorted(cuts[place], columns[:, place])
        return cls(places, tuple(cuts[place] for place in places), codes)


@dataclass(frozen=True, eq=False)
class Trees:
    """A tree for every replicate and outcome, of binned columns, nodes by levels [replicates, outcomes, nodes]: node k
    goes on at 2 k + 1 where the code of `column[k]` is at most `code[k]`, else at 2 k + 2; `column[k]` is -1 in a leaf,
    which adds `value[k]`."""

    column: Places
    code: Places
    value: Floats


def _cuts(column: Floats) -> Floats:
    """Its cut points, fewer than BINS: common values have bins of their own, so that there may be more than asked
    for."""
    found = (np.array(quantile_cuts(column, count)) for count in range(BINS, 0, -1))
    return next(cuts for cuts in found if len(cuts) < BINS)


def boosted_from(
    loss: Loss | ClassLoss,
    binned: BinnedColumns,
    y: Floats,
    weight: Floats,
    raw: Floats,
    depth: int,
    trees: range,
) -> Iterator[tuple[Trees, Floats]]:
    """These trees of this depth, the first of all being number 0, and after each the raw predictions of all rows
    [replicates, outcomes, n], which began at `raw`.

    Rows whose weight [replicates, n] is 0 teach nothing and are told what the others say. Which rows a tree looks at
    hangs on its number alone, so what stops may go on, and replicates say what each would by itself if equally many
    rows teach them.
    """
    replicates, outcomes, n = raw.shape
    teaching = weight > 0
    count = int(teaching.sum(axis=1).min())
    active = np.argsort(~teaching, axis=1, kind="stable")[:, :count].repeat(outcomes, axis=0)
    many = int(min(np.ceil(SHARE * count), MOST_LOOKED_AT))
    for number in trees:
        slopes = (each * weight[:, None] for each in _slopes(loss, raw, y))
        gradient, curvature = (each.reshape(-1, n) for each in slopes)
        some = active[:, np.random.default_rng([0, number]).integers(max(count, 1), size=many)]
        column, code, value, at = _grown(binned, gradient, curvature, some, depth)
        raw = raw + np.take_along_axis(value, at, axis=1).reshape(raw.shape)
        shape = replicates, outcomes, -1
        yield Trees(column.reshape(shape), code.reshape(shape), value.reshape(shape)), raw


def forest_of(trees: Sequence[tuple[Trees, float]], binned: BinnedColumns) -> Forest:
    """The trees of one replicate as numbers that compare cells, each with its share of what its leaves add."""
    column, left, right, roots = list[int](), list[int](), list[int](), list[int]()
    threshold, values = list[float](), list[tuple[int, float]]()
    outcomes = trees[0][0].column.shape[1]
    for (made, share), outcome in product(trees, range(outcomes)):
        asked, code, value = (each[0, outcome] for each in (made.column, made.code, made.value))
        used = _used(asked)
        number = {node: len(column) + place for place, node in enumerate(used)}
        roots.append(len(column))
        for node in used:
            which, leaf = asked[node], asked[node] < 0
            column.append(-1 if leaf else int(binned.places[which]))
            threshold.append(0.0 if leaf else float(binned.cuts[which][code[node]]))
            left.append(len(values) if leaf else number[2 * node + 1])
            right.append(0 if leaf else number[2 * node + 2])
            if leaf:
                values.append((outcome, share * float(value[node])))
    columns, lefts, rights, firsts = (np.array(each, dtype=np.intp) for each in (column, left, right, roots))
    added = np.zeros((outcomes, len(values)))
    for place, (outcome, adds) in enumerate(values):
        added[outcome, place] = adds
    return Forest(columns, np.array(threshold), lefts, rights, firsts, added)


def _used(column: Places) -> list[int]:
    """The nodes of a tree that rows can reach, parents first."""
    found = [0]
    for node in found:
        if column[node] >= 0:
            found += [2 * node + 1, 2 * node + 2]
    return found


def _slopes(loss: Loss | ClassLoss, raw: Floats, y: Floats) -> tuple[Floats, Floats]:
    """First and second derivatives by each raw prediction [replicates, outcomes, n]; 1 for the second of a loss with
    corners, whose own is 0 or nowhere: its trees are steps along the slope."""
    if isinstance(loss, Loss):
        one = raw[:, 0]
        curvature = loss.hessian(one, y) if loss.smooth else np.ones_like(one)
        return loss.gradient(one.copy(), y)[:, None], curvature[:, None]
    curvature = np.ones_like(raw)
    for own, each in zip(curvature, raw, strict=True) if loss.smooth else ():
        for first, second, derivative in loss.hessian(each, y):
            if first == second:
                own[first] = derivative
    return loss.gradient(raw.copy(), y), curvature


def _grown(
    binned: BinnedColumns, gradient: Floats, curvature: Floats, some: Places, depth: int
) -> tuple[Places, Places, Floats, Places]:
    """(column, code, value) [trees, nodes] of trees that are Newton steps, and the node of every row [trees, n] where
    it ends; `some` [trees, rows]: those among which each looks for splits."""
    (trees, n), columns, nodes = gradient.shape, len(binned.codes), 2 ** (depth + 1) - 1
    unit = curvature.sum(axis=1) / np.maximum((curvature > 0).sum(axis=1), 1)
    least = unit * float(np.clip(some.shape[1] // 20, 4, SMALLEST))
    looked_at = binned.codes[:, some] + binned.firsts[:, None, None]
    here = some + n * np.arange(trees)[:, None]  # places in what is flat
    sides = [np.tile(each.ravel()[here].ravel(), columns) for each in (gradient, curvature)]
    column, code = np.full((trees, nodes), -1), np.zeros((trees, nodes), dtype=np.intp)
    at, root, every = np.zeros((trees, n), dtype=np.intp), nodes * np.arange(trees)[:, None], np.arange(n)
    for level in range(depth):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        sums = _sums(looked_at, at.ravel()[here] - first, sides, 2**level, binned)
        bin_, helps = _splits(*sums, least, PENALTY * unit, binned.lasts)
        asked = binned.column_of[bin_]
        column[:, first:last], code[:, first:last] = np.where(helps, asked, -1), bin_ - binned.firsts[asked]
        node = at + root
        asked = column.ravel()[node]
        below = 2 * at + 1 + (binned.codes[asked, every] > code.ravel()[node])
        at = np.where((asked >= 0) & (at >= first), below, at)
    place = (at + root).ravel()
    slope, curve = (
        np.bincount(place, each.ravel(), trees * nodes).reshape(trees, nodes) for each in (gradient, curvature)
    )
    return column, code, -RATE * slope / (curve + PENALTY * unit[:, None] + 1e-300), at


def _sums(
    bins: Places, node: Places, sides: Sequence[Floats], nodes: int, binned: BinnedColumns
) -> tuple[Floats, Floats]:
    """Gradients and curvatures of rows up to each bin of its column [trees, nodes, bins]; rows whose node is below 0
    are in a leaf already, and are added up beside."""
    trees, count = len(node), len(binned.column_of)
    home = (nodes + 1) * np.arange(trees)[:, None] + np.where(node < 0, nodes, node)
    key = (bins + count * home).ravel()
    slope, curve = (
        np.bincount(key, each, trees * (nodes + 1) * count).reshape(trees, nodes + 1, count)[:, :nodes].cumsum(axis=2)
        for each in sides
    )
    for each in (slope, curve):  # every column has all of the node's rows, those before it too
        each -= each[..., binned.lasts[:1]] * binned.column_of
    return slope, curve


def _splits(
    slope: Floats, curve: Floats, least: Floats, penalty: Floats, lasts: Places
) -> tuple[Places, NDArray[np.bool_]]:
    """The best bin to split after, for every node [trees, nodes], and whether that helps and leaves both sides the
    least curvature; `lasts` are columns' last bins, behind which there is nothing."""
    least, penalty = (each[:, None, None] for each in (least, penalty + 1e-300))
    total, all_of_it = slope[..., lasts[:1]], curve[..., lasts[:1]]
    whole = (total**2 / (all_of_it + penalty))[..., 0]
    right, high = total - slope, all_of_it - curve
    small = np.minimum(curve, high) < least
    small[..., lasts] = True
    gain = slope**2
    gain /= curve + penalty
    right *= right
    right /= high + penalty
    gain += right
    gain[small] = -np.inf
    place = gain.argmax(axis=2)
    return place, np.take_along_axis(gain, place[..., None], axis=2)[..., 0] > whole
