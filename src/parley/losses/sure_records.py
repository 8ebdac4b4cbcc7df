"""Clipped least squares for many parameters at once: records that cannot reach the clip are taken by their statistics, exactly.

At theta a record's slope is 2 w (x.theta - y), at most 2 w (|e| + |x| |theta - theta0|) with e its residual at theta0. So each record has a
radius around theta0 within which it is surely not clipped. Sorted by that radius, the sure ones are a prefix, whose sums are kept for every
block; only the records after it are looked at one by one. For studies alone: how long it takes tells how many records may clip, and an
owner that serves must not tell; and sums of unclipped records round more coarsely than clipped ones, which no sensitivity allows for.
"""

import numpy as np
from numpy.typing import NDArray

from parley.data import Design
from parley.data.blocks import sum_blocks
from parley.data.design import BLOCK
from parley.validate import SMALLEST, Floats

FINE = 128  # rows after which another sum is kept
LEVELS = 8  # how many different prefixes one call distinguishes


class SureRecords:
    """The table sorted by how far theta may move from `centre`, the best fit, before a record can clip. `limit` [n]: of each slope."""

    def __init__(self, design: Design, limit: Floats, centre: Floats) -> None:
        self.centre = centre
        residual = np.abs(design.X @ self.centre - design.y)
        room = limit / np.maximum(2 * design.weight, SMALLEST) - residual
        radius = room / np.maximum(design.row_norms("l2"), SMALLEST) * (1 - 1e-9)
        radius = np.where(room > 0, radius, -1.0)  # -1: clips at theta0 itself
        order = np.argsort(-radius, kind="stable")
        self._X, self._y, self._limit = design.X[order], design.y[order], limit[order]
        self._weight = 2 * design.weight[order]
        self._blocks = [slice(start, min(start + FINE, len(order))) for start in range(0, len(order), FINE)]
        self._least = np.array([radius[order[rows.stop - 1]] for rows in self._blocks])
        p = design.width
        A, b = np.zeros((len(self._blocks) + 1, p, p)), np.zeros((len(self._blocks) + 1, p))
        for place, rows in enumerate(self._blocks):
            weighted = self._X[rows] * self._weight[rows, None]
            A[place + 1] = A[place] + weighted.T @ self._X[rows]
            b[place + 1] = b[place] + weighted.T @ self._y[rows]
        self._A, self._b = A, b

    def mean_gradient(self, theta: Floats) -> Floats:
        """The mean clipped gradient at every parameter [R, p]: blocks that are sure there by their sums, the others row by row."""
        away = np.sqrt(np.sum((theta - self.centre) ** 2, axis=1))
        sure = np.searchsorted(-self._least, -away, side="right")  # how many whole blocks are sure for each parameter
        order = np.argsort(sure, kind="stable")
        levels = np.unique(sure[order][:: max(1, len(order) // LEVELS)])
        sorted_sure, flat = (
            levels[np.searchsorted(levels, sure[order], side="right") - 1],
            theta[order],
        )  # rounded down: fewer pieces
        total = np.empty_like(flat)
        for level in levels:
            some = slice(*np.searchsorted(sorted_sure, [level, level + 1]))
            total[some] = flat[some] @ self._A[level] - self._b[level]
        pieces = self._unsure(levels, sorted_sure)
        if pieces:

            def part(piece: tuple[slice, int]) -> Floats:
                rows, count = piece
                X = self._X[rows]
                slope = flat[:count] @ X.T - self._y[rows]
                slope *= self._weight[rows]
                np.clip(slope, -self._limit[rows], self._limit[rows], out=slope)
                result = np.zeros_like(flat)
                result[:count] = slope @ X
                return result

            total += sum_blocks(part, pieces)
        result: Floats = np.empty_like(total)
        result[order] = total / len(self._y)
        return result

    def _unsure(self, levels: NDArray[np.intp], sorted_sure: NDArray[np.intp]) -> list[tuple[slice, int]]:
        """(rows, how many of the sorted parameters they are unsure for), in pieces of at most `BLOCK` rows."""
        pieces = []
        for level, end in zip(levels, [*levels[1:], len(self._blocks)], strict=True):
            count = int(np.searchsorted(sorted_sure, level, side="right"))
            first, last = int(level) * FINE, min(int(end) * FINE, len(self._y))
            pieces += [(slice(start, min(start + BLOCK, last)), count) for start in range(first, last, BLOCK)]
        return pieces
