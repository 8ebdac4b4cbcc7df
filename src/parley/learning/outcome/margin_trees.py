"""Boosted trees that go on from another model: raw predictions of rows are given, and each tree is a Newton step of the
loss from where those before it arrived.

Columns are cut at quantiles, so that a split is found by adding up (histograms). A tree looks for splits among half as
many rows, drawn with a fixed seed, and its leaves take their values from all rows. What comes out is numbers
(`data.forest`).

Formal guarantee: none. Everything is a function of the rows without noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.data.cut_points import quantile_cuts
from parley.data.forest import Forest
from parley.losses.loss import Loss
from parley.validate import Floats

BINS = 64  # of a column
RATE = 0.2
SHARE = 0.5  # as many draws of rows as this, among which a tree looks for splits
CELLS = 150_000  # among which it looks at most
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
class Tree:
    """A tree of binned columns, its nodes by levels: node k goes on at 2 k + 1 where the code of `column[k]` is at most
    `code[k]`, else at 2 k + 2; `column[k]` is -1 in a leaf, which adds `value[k]`."""

    column: Places
    code: Places
    value: Floats


def _cuts(column: Floats) -> Floats:
    """Its cut points, fewer than BINS: common values have bins of their own, so that there may be more than asked
    for."""
    found = (np.array(quantile_cuts(column, count)) for count in range(BINS, 0, -1))
    return next(cuts for cuts in found if len(cuts) < BINS)


def boosted_from(
    loss: Loss, binned: BinnedColumns, y: Floats, weight: Floats, raw: Floats, depth: int, count: int
) -> Iterator[tuple[Tree, Floats]]:
    """So many trees of this depth, and after each the raw predictions of all rows [n], which began at `raw`. Rows of
    weight 0 teach nothing and are told what the others say."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        gradient = loss.gradient(raw.copy(), y) * weight
        tree, at = _grown(binned, gradient, loss.hessian(raw, y) * weight, depth, rng)
        raw = raw + tree.value[at]
        yield tree, raw


def forest_of(trees: Sequence[tuple[Tree, float]], binned: BinnedColumns) -> Forest:
    """The trees as numbers that compare cells, each with its share of what its leaves add."""
    column, left, right, roots = list[int](), list[int](), list[int](), list[int]()
    threshold, values = list[float](), list[float]()
    for tree, share in trees:
        used = _used(tree)
        number = {node: len(column) + place for place, node in enumerate(used)}
        roots.append(len(column))
        for node in used:
            which, leaf = tree.column[node], tree.column[node] < 0
            column.append(-1 if leaf else int(binned.places[which]))
            threshold.append(0.0 if leaf else float(binned.cuts[which][tree.code[node]]))
            left.append(len(values) if leaf else number[2 * node + 1])
            right.append(0 if leaf else number[2 * node + 2])
            if leaf:
                values.append(share * float(tree.value[node]))
    columns, lefts, rights, firsts = (np.array(each, dtype=np.intp) for each in (column, left, right, roots))
    return Forest(columns, np.array(threshold), lefts, rights, firsts, np.array([values]))


def _used(tree: Tree) -> list[int]:
    """The nodes that rows can reach, parents first."""
    found = [0]
    for node in found:
        if tree.column[node] >= 0:
            found += [2 * node + 1, 2 * node + 2]
    return found


def _grown(
    binned: BinnedColumns, gradient: Floats, curvature: Floats, depth: int, rng: np.random.Generator
) -> tuple[Tree, Places]:
    """A tree that is a Newton step, and the leaf of every row [n]."""
    active, columns = np.flatnonzero(curvature > 0), len(binned.codes)
    many = int(min(np.ceil(SHARE * len(active)), max(CELLS // columns, 2 * BINS)))
    some = active[rng.integers(len(active), size=many)] if many else active
    unit = float(curvature.sum()) / max(len(active), 1)
    least = unit * float(np.clip(many // 20, 4, SMALLEST))
    looked_at = np.take(binned.codes, some, axis=1) + BINS * np.arange(columns)[:, None]
    sides = np.array([gradient[some], curvature[some]])
    column, code = np.full(2 ** (depth + 1) - 1, -1), np.zeros(2 ** (depth + 1) - 1, dtype=np.intp)
    at, every = np.zeros(len(gradient), dtype=np.intp), np.arange(len(gradient))
    for level in range(depth):
        first = 2**level - 1
        sums = _sums(looked_at, at[some] - first, sides, 2**level)
        for node, split in enumerate(_splits(*sums, least, PENALTY * unit), start=first):
            if split is not None:
                column[node], code[node] = split
        asked = column[at]
        below = 2 * at + 1 + (binned.codes[asked, every] > code[at])
        at = np.where((asked >= 0) & (at >= first), below, at)
    slope, curve = (np.bincount(at, each, len(column)) for each in (gradient, curvature))
    return Tree(column, code, -RATE * slope / (curve + PENALTY * unit + 1e-300)), at


def _sums(codes: Places, node: Places, sides: Floats, nodes: int) -> tuple[Floats, Floats]:
    """Gradients and curvatures [2, n] of rows up to each code [nodes, columns, codes]; rows whose node is below 0 are
    in a leaf already."""
    columns, count = len(codes), nodes * len(codes) * BINS
    key = (codes + BINS * columns * np.maximum(node, 0)).ravel()
    slope, curve = (
        np.bincount(key, np.tile(each, columns), count).reshape(nodes, columns, BINS).cumsum(axis=2)
        for each in np.where(node >= 0, sides, 0.0)
    )
    return slope, curve


def _splits(slope: Floats, curve: Floats, least: float, penalty: float) -> Iterator[tuple[int, int] | None]:
    """The best (column, code) of every node; None where no split helps whose sides have the least curvature."""
    left, low = slope[..., :-1], curve[..., :-1]
    right, high = slope[..., -1:] - left, curve[..., -1:] - low
    whole = slope[..., -1:] ** 2 / (curve[..., -1:] + penalty + 1e-300)
    gain = left**2 / (low + penalty + 1e-300) + right**2 / (high + penalty + 1e-300) - whole
    gain = np.where((low >= least) & (high >= least), gain, -np.inf).reshape(len(slope), -1)
    for best, place in zip(gain.max(axis=1), gain.argmax(axis=1), strict=True):
        column, code = divmod(int(place), BINS - 1)
        yield (column, code) if best > 0 else None
