"""Boosted trees that continue other models: each tree is a Newton step of the loss from the raw predictions so far.

Replicates (such as folds) and starts (the models to continue) are axes. The first start decides splits, which are
expensive; leaves have a value for each start. Splits are found from histograms of unusual cells, with many rows among a
part of them; leaf values use all rows.

Formal guarantee: none. Everything is a function of the rows without noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from parley.data.forest import Forest
from parley.losses.class_loss import ClassLoss
from parley.losses.loss import Loss
from parley.validate import Floats

MAX_BINS = 128  # of a column, at most
LEAST_BINS, ROWS_PER_BIN = 16, 30  # where rows are few: so many bins, or one for so many rows
LEARNING_RATE = 0.2
MAX_SPLIT_ROWS = 3000  # rows among which a tree looks for splits, at most
LEAST_LEAF_CURVATURE = 5  # average rows' curvature that a leaf has at least, of large tables
LEAF_PENALTY = 5.0  # average rows' curvature by which a leaf's value is pulled to zero

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BinnedColumns:
    """Columns with cut points: their `places` in the table, `cuts`, and `codes` [columns, n], the number of cut points
    below each cell. A cell is at most cut point b if its code is."""

    places: Places
    cuts: tuple[Floats, ...]
    codes: NDArray[np.uint8]

    @cached_property
    def firsts(self) -> Places:
        """The first bin of each column, counting bins over all columns."""
        return np.cumsum([0, *(len(each) + 1 for each in self.cuts[:-1])])

    @cached_property
    def lasts(self) -> Places:
        """The last bin of each column."""
        return self.firsts + np.array([len(each) for each in self.cuts], dtype=np.intp)

    @cached_property
    def column_of(self) -> Places:
        """The column of each bin."""
        return np.repeat(np.arange(len(self.cuts)), [len(each) + 1 for each in self.cuts])

    @cached_property
    def parts(self) -> tuple["_Part", ...]:
        """All rows, divided into parts of at most `MAX_SPLIT_ROWS`, by their number alone."""
        n = self.codes.shape[1]
        count = max(1, -(-n // MAX_SPLIT_ROWS))
        part = np.random.default_rng(0).permutation(n) % count
        return tuple(_Part.from_rows(self, np.flatnonzero(part == k)) for k in range(count))

    @cached_property
    def usual(self) -> Places:
        """The most common code of each column."""
        return np.array([np.bincount(each).argmax() for each in self.codes], dtype=np.intp)

    @classmethod
    def from_columns(cls, columns: Floats) -> "BinnedColumns":
        """Bin a table's columns [n, columns]."""
        bins = int(np.clip(len(columns) // ROWS_PER_BIN, LEAST_BINS, MAX_BINS))
        cuts = [_cuts(column, bins) for column in columns.T]
        places = np.array([place for place, each in enumerate(cuts) if each.size], dtype=np.intp)
        codes = np.empty((len(places), len(columns)), dtype=np.uint8)
        for row, place in zip(codes, places, strict=True):
            row[:] = np.searchsorted(cuts[place], columns[:, place])
        return cls(places, tuple(cuts[place] for place in places), codes)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows, and the row and bin of each of their unusual cells."""

    rows: Places
    row: Places
    bin: Places

    @classmethod
    def from_rows(cls, binned: BinnedColumns, rows: Places) -> "_Part":
        codes = binned.codes[:, rows]
        column, row = np.nonzero(codes != binned.usual[:, None])
        return cls(rows, row, binned.firsts[column] + codes[column, row])


@dataclass(frozen=True, eq=False)
class Trees:
    """A tree for each replicate and outcome, nodes by level [replicates, outcomes, nodes]. Node k continues at 2 k + 1
    if the code of `column[k]` is at most `code[k]`, else at 2 k + 2. In a leaf `column[k]` is -1, and it adds
    `value[k]` to each start [starts, replicates, outcomes, nodes]."""

    column: Places
    code: Places
    value: Floats


def _cuts(column: Floats, bins: int) -> Floats:
    """Return fewer than `bins` cut points: quantiles of the values, weighted by the roots of their frequencies."""
    present, counts = np.unique(column, return_counts=True)
    up_to = np.cumsum(np.sqrt(counts))
    after = np.unique(np.searchsorted(up_to, up_to[-1:] * np.arange(1, bins) / bins))
    after = after[after < len(present) - 1]
    return np.asarray(present[after] / 2 + present[after + 1] / 2)


def boosted_from(
    loss: Loss | ClassLoss,
    binned: BinnedColumns,
    y: Floats,
    weight: Floats,
    raw: Floats,
    depth: int,
    trees: range,
) -> Iterator[tuple[Trees, Floats]]:
    """Yield each tree of this depth with the raw predictions of all rows [starts, replicates, outcomes, n] after it,
    starting from `raw`. Rows of weight 0 [replicates, n] only get predictions. A tree's rows depend on its number
    alone, so growing can stop and continue, and replicates do not affect each other."""
    starts, replicates, outcomes, n = raw.shape
    min_curvature = np.clip((weight > 0).sum(axis=1) // 20, 4, LEAST_LEAF_CURVATURE).repeat(outcomes)
    for number in trees:
        slopes = (each.reshape(raw.shape) * weight[:, None] for each in _slopes(loss, raw.reshape(-1, outcomes, n), y))
        gradient, curvature = (each.reshape(starts, -1, n) for each in slopes)
        part = binned.parts[number % len(binned.parts)]
        column, code, at = _grow_trees(binned, gradient[0], curvature[0], part, depth, min_curvature)
        value = np.array([_leaves(at, *each, column.shape[1]) for each in zip(gradient, curvature, strict=True)])
        raw = raw + np.take_along_axis(value, at[None], axis=2).reshape(raw.shape)
        shape = replicates, outcomes, -1
        yield Trees(column.reshape(shape), code.reshape(shape), value.reshape(starts, *shape)), raw


def forest_of(trees: Sequence[tuple[Trees, int, float]], binned: BinnedColumns) -> Forest:
    """Convert the trees of one replicate to a forest; each comes with its start and its share."""
    column, left, right, roots = list[int](), list[int](), list[int](), list[int]()
    threshold, values = list[float](), list[tuple[int, float]]()
    outcomes = trees[0][0].column.shape[1]
    for (made, start, share), outcome in product(trees, range(outcomes)):
        split_columns, code, value = (each[0, outcome] for each in (made.column, made.code, made.value[start]))
        used = _used(split_columns)
        number = {node: len(column) + place for place, node in enumerate(used)}
        roots.append(len(column))
        for node in used:
            which, leaf = split_columns[node], split_columns[node] < 0
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
    """Return the reachable nodes of a tree, parents first."""
    found = [0]
    for node in found:
        if column[node] >= 0:
            found += [2 * node + 1, 2 * node + 2]
    return found


def _slopes(loss: Loss | ClassLoss, raw: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return both derivatives by raw predictions [replicates, outcomes, n]; the second is 1 for a loss with corners."""
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


def _grow_trees(
    binned: BinnedColumns, gradient: Floats, curvature: Floats, part: _Part, depth: int, least: Places
) -> tuple[Places, Places, Places]:
    """Return (column, code) [trees, nodes] of new trees, and each row's final node [trees, n]. Splits are sought in
    `part` and leave both sides the `min_curvature` average rows [trees]."""
    (trees, n), nodes = gradient.shape, 2 ** (depth + 1) - 1
    unit = curvature.sum(axis=1) / np.maximum((curvature > 0).sum(axis=1), 1)
    looked_at = [each[:, part.rows] for each in (gradient, curvature)]
    cells = [each[:, part.row].ravel() for each in looked_at]
    column, code = np.full((trees, nodes), -1), np.zeros((trees, nodes), dtype=np.intp)
    node_of_row, root, every = np.zeros((trees, n), dtype=np.intp), nodes * np.arange(trees)[:, None], np.arange(n)
    for level in range(depth):
        first, last = 2**level - 1, 2 ** (level + 1) - 1
        sums = _sums(binned, part, node_of_row[:, part.rows] - first, looked_at, cells, 2**level)
        bin_, helps = _splits(*sums, unit * least, LEAF_PENALTY * unit, binned.lasts)
        split_column = binned.column_of[bin_]
        column[:, first:last], code[:, first:last] = (
            np.where(helps, split_column, -1),
            bin_ - binned.firsts[split_column],
        )
        node = node_of_row + root
        split_column = column.ravel()[node]
        below = 2 * node_of_row + 1 + (binned.codes[split_column, every] > code.ravel()[node])
        node_of_row = np.where((split_column >= 0) & (node_of_row >= first), below, node_of_row)
    return column, code, node_of_row


def _leaves(at: Places, gradient: Floats, curvature: Floats, nodes: int) -> Floats:
    """Return the nodes' Newton steps [trees, nodes] for rows that end `node_of_row` [trees, n]."""
    trees, unit = len(at), curvature.sum(axis=1) / np.maximum((curvature > 0).sum(axis=1), 1)
    place = (at + nodes * np.arange(trees)[:, None]).ravel()
    slope, curve = (
        np.bincount(place, each.ravel(), trees * nodes).reshape(trees, nodes) for each in (gradient, curvature)
    )
    return np.asarray(-LEARNING_RATE * slope / (curve + LEAF_PENALTY * unit[:, None] + 1e-300))


def _sums(
    binned: BinnedColumns,
    part: _Part,
    node: Places,
    looked_at: Sequence[Floats],
    cells: Sequence[Floats],
    nodes: int,
) -> tuple[Floats, Floats]:
    """Return cumulative gradients and curvatures of the part's rows up to each bin [trees, nodes, bins], from rows and
    unusual cells. Rows with a node below 0 are already in a leaf."""
    trees, count = len(node), len(binned.column_of)
    home = (nodes + 1) * np.arange(trees)[:, None] + np.where(node < 0, nodes, node)
    key, usual = ((count * home)[:, part.row] + part.bin).ravel(), binned.firsts + binned.usual

    def up_to(rows: Floats, each: Floats) -> Floats:
        total = np.bincount(home.ravel(), rows.ravel(), trees * (nodes + 1)).reshape(trees, nodes + 1)[:, :nodes]
        bin_sums = np.bincount(key, each, trees * (nodes + 1) * count).reshape(trees, nodes + 1, count)[:, :nodes]
        bin_sums[..., usual] = total[..., None] - np.add.reduceat(bin_sums, binned.firsts, axis=2)
        return np.asarray(bin_sums.cumsum(axis=2) - total[..., None] * binned.column_of)

    slope, curve = (up_to(rows, each) for rows, each in zip(looked_at, cells, strict=True))
    return slope, curve


def _splits(
    slope: Floats, curve: Floats, least: Floats, penalty: Floats, lasts: Places
) -> tuple[Places, NDArray[np.bool_]]:
    """Return the best bin to split after for every node [trees, nodes], and whether that split helps and leaves both
    sides enough curvature; no split is after a column's last bin (`lasts`)."""
    least, penalty = (each[:, None, None] for each in (least, penalty + 1e-300))
    total, total_curvature = slope[..., lasts[:1]], curve[..., lasts[:1]]
    whole = (total**2 / (total_curvature + penalty))[..., 0]
    right, high = total - slope, total_curvature - curve
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
