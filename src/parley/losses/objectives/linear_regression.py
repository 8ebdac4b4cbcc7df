"""Least squares, optionally ridge (W section IV-A)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, Summable
from parley.data.blocks import sum_blocks
from parley.data.design import BLOCK_ROWS, UNIT_ROUNDOFF
from parley.losses.loss import RecordBound, Squared, clip, derivative_limit
from parley.losses.moments import SufficientMoments, targets
from parley.losses.objectives.margin import MarginObjective
from parley.validate import SMALLEST, Floats

MIN_PREFIX_ROWS = 128  # rows between the ends of two prefixes, at least
MAX_PREFIXES_PER_CALL = 8  # how many different prefixes one call distinguishes
MIN_SORTED_ROWS = 1024  # rows from which sorting a table pays
MAX_SORTED_COLUMNS = (
    100  # columns up to which it pays, for each parameter of a question: sums over many take as long as many rounds
)


class ClippedLeastSquares:
    """Clipped least squares at many parameters; records that cannot reach the clip are summed exactly by their
    statistics.

    At theta a derivative 2 w (x.theta - y) is at most 2 w (|e| + |x| |theta - theta0|) in size, e the residual at the
    best fit theta0, `centre`. So each record has a radius around theta0 in which it is surely not clipped. Sorted by
    radius, the sure records are a prefix. Sums of some prefixes are kept, computed when first needed, and later records
    are handled row by row. `limit` [n] is that of each derivative; prefixes end `apart` rows apart, by default
    max(`MIN_PREFIX_ROWS`, 2 p), so that all sums take half the table's memory.

    Only for studies: its duration tells how many records may clip, and sums of unclipped records round more coarsely
    than any sensitivity allows for.
    """

    def __init__(self, design: Design, limit: Floats, centre: Floats, apart: int | None = None) -> None:
        self.centre, self._divisor = centre, design.divisor
        residual = np.abs(design.X @ self.centre - design.y)
        room = limit / np.maximum(2 * design.weight, SMALLEST) - residual
        radius = room / np.maximum(design.row_norms("l2"), SMALLEST) * (1 - 1e-9)
        radius = np.where(room > 0, radius, -1.0)  # -1: clips at theta0 itself
        order = np.argsort(-radius, kind="stable")
        self._X, self._y, self._limit = design.X[order], design.y[order], limit[order]
        self._weight = 2 * design.weight[order]
        self.apart = max(MIN_PREFIX_ROWS, 2 * design.width) if apart is None else apart
        self._blocks = [slice(start, min(start + self.apart, len(order))) for start in range(0, len(order), self.apart)]
        self._least = np.array([radius[order[rows.stop - 1]] for rows in self._blocks])
        self._sums: list[tuple[Floats, Floats]] = [(np.zeros((design.width, design.width)), np.zeros(design.width))]

    def prefix(self, blocks: int) -> tuple[Floats, Floats]:
        """Return (sum of 2 w x x', sum of 2 w x y) over the first blocks."""
        if blocks < len(self._sums):
            return self._sums[blocks]
        sums = [*self._sums]  # replaced as a whole: two threads may both compute it
        for rows in self._blocks[len(sums) - 1 : blocks]:
            root = np.sqrt(self._weight[rows])
            scaled = self._X[rows] * root[:, None]
            A, b = sums[-1]
            sums.append((A + scaled.T @ scaled, b + scaled.T @ (root * self._y[rows])))
        self._sums = sums
        return sums[blocks]

    def mean_gradient(self, theta: Floats) -> Floats:
        """Return the mean clipped gradient at every parameter [R, p]: sure blocks by their sums, others row by row."""
        away = np.sqrt(np.sum((theta - self.centre) ** 2, axis=1))
        sure_blocks = np.searchsorted(
            -self._least, -away, side="right"
        )  # how many whole blocks are sure for each parameter
        order = np.argsort(sure_blocks, kind="stable")
        levels = np.unique(sure_blocks[order][:: max(1, len(order) // MAX_PREFIXES_PER_CALL)])
        sorted_sure, flat = (
            levels[np.searchsorted(levels, sure_blocks[order], side="right") - 1],
            theta[order],
        )  # rounded down: fewer pieces
        total = np.empty_like(flat)
        for level in levels:
            some = slice(*np.searchsorted(sorted_sure, [level, level + 1]))
            A, b = self.prefix(int(level))
            total[some] = flat[some] @ A - b
        pieces = self._unsure_rows(levels, sorted_sure)
        if pieces:

            def part(piece: tuple[slice, int]) -> Floats:
                rows, count = piece
                X = self._X[rows]
                derivative = flat[:count] @ X.T - self._y[rows]
                derivative *= self._weight[rows]
                clip(derivative, self._limit[rows])
                result = np.zeros_like(flat)
                result[:count] = derivative @ X
                return result

            total += sum_blocks(part, pieces)
        result: Floats = np.empty_like(total)
        result[order] = total / self._divisor
        return result

    def _unsure_rows(self, levels: NDArray[np.intp], sorted_sure: NDArray[np.intp]) -> list[tuple[slice, int]]:
        """Return (rows, number of sorted parameters they are unsure for), in pieces of at most `BLOCK_ROWS` rows."""
        pieces = []
        for level, end in zip(levels, [*levels[1:], len(self._blocks)], strict=True):
            count = int(np.searchsorted(sorted_sure, level, side="right"))
            first, last = int(level) * self.apart, min(int(end) * self.apart, len(self._y))
            pieces += [(slice(start, min(start + BLOCK_ROWS, last)), count) for start in range(first, last, BLOCK_ROWS)]
        return pieces


@dataclass(frozen=True)
class LinearRegression(MarginObjective, SufficientMoments):
    """A quadratic cost that three statistics of the table determine, so a round costs O(p^2) for any n.

    >>> design = Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2))
    >>> LinearRegression().mean_gradient(design, np.zeros(2))
    array([-1., -2.])
    """

    loss: Squared = field(default=Squared(), kw_only=True)
    quadratic: ClassVar[bool] = True

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        return targets

    def cost(self, design: Summable, theta: Floats) -> Floats:
        # Around the best fit nothing cancels, however large the targets are.
        best, residual, gradient = best_fit(design)
        away = theta - best
        fit = residual + np.sum((away @ design.statistics[0] + gradient) * away, axis=-1)
        return np.asarray(fit + self.penalty(theta))

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        if bound is not None and bound.clips:
            rows = design.studied
            if (
                rows is None
                or len(rows) < MIN_SORTED_ROWS
                or design.width > MAX_SORTED_COLUMNS * (theta.size // design.width)
            ):
                return super().mean_gradient(design, theta, bound)
            make = partial(_clipped, rows, bound)
            return (
                design.derived(("clipped least squares", bound), make)
                .mean_gradient(theta.reshape(-1, design.width))
                .reshape(theta.shape)
            )
        A, b, _ = design.statistics
        return 2 * (theta @ A - b)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        return 2 * design.statistics[0] + self.regularisation * np.eye(design.width)

    def principal_curvatures(self, design: Summable, theta: Floats) -> tuple[Floats, Floats]:
        values, directions = principal_moments(design)
        return 2 * values, directions


def principal_moments(design: Summable) -> tuple[Floats, Floats]:
    """Return (rising eigenvalues [p] of X'WX / n, their eigenvectors as columns [p, p]), computed once for a table."""

    def found() -> tuple[Floats, Floats]:
        values, directions = np.linalg.eigh(design.statistics[0])
        return values, directions

    return design.derived("principal moments", found)


def best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    """Return (theta, mean weighted squared residual, its gradient there) of least squares.

    >>> best_fit(Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2)))[0]
    array([1., 2.])
    """
    return design.derived("best fit", partial(_best_fit, design))


def _best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    values, directions = principal_moments(design)
    determined = (
        np.abs(values) > UNIT_ROUNDOFF * 2 * len(values) * np.abs(values).max()
    )  # in other directions all fits are alike
    theta = directions[:, determined] @ (design.statistics[1] @ directions[:, determined] / values[determined])

    def part(block: Design) -> Floats:
        error = block.X @ theta - block.y
        weighted = error * block.weight
        return np.append(2 * weighted @ block.X, weighted @ error)

    *gradient, residual = design.sum(part) / design.divisor
    return theta, float(residual), np.array(gradient)


def _clipped(rows: Design, bound: RecordBound) -> ClippedLeastSquares:
    return ClippedLeastSquares(rows, derivative_limit(rows, bound), best_fit(rows)[0])
