"""Least squares, optionally ridge: g2 = (y - theta.x)^2 (W section IV-A)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.losses.margin import MarginObjective
from parley.losses.moments import targets
from parley.losses.objective import RecordBound, slope_limit
from parley.losses.sure_records import SureRecords
from parley.validate import Floats

SORTED_FROM = 1024  # rows from which sorting a table pays


@dataclass(frozen=True)
class LinearRegression(MarginObjective):
    """A quadratic cost: three statistics of the table say everything, so a round costs O(p^2) whatever n is.

    >>> design = Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2))
    >>> LinearRegression().mean_gradient(design, np.zeros(2))
    array([-1., -2.])
    """

    largest_bend: ClassVar[float] = 2.0
    quadratic: ClassVar[bool] = True

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        return targets

    def loss(self, margin: Floats, y: Floats) -> Floats:
        return np.square(margin - y)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        margin -= y
        margin *= 2
        return margin

    def bend(self, margin: Floats, y: Floats) -> Floats:
        return np.full_like(margin, 2.0)

    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        return 2 * (largest_margin + target_bound)

    def cost(self, design: Summable, theta: Floats) -> Floats:
        # Around the best fit nothing cancels, however large the targets are.
        best, residual, slope = best_fit(design)
        away = theta - best
        fit = residual + np.sum((away @ design.statistics[0] + slope) * away, axis=-1)
        return np.asarray(fit + 0.5 * self.regularisation * np.sum(theta**2, axis=-1))

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        if bound is not None and bound.clips:
            rows = design.studied
            if rows is None or len(rows) < SORTED_FROM:
                return super().mean_gradient(design, theta, bound)
            make = partial(_sure_records, rows, bound)
            return design.derived(("sure records", bound), make).mean_gradient(theta.reshape(-1, design.width)).reshape(theta.shape)
        A, b, _ = design.statistics
        return 2 * (theta @ A - b)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        return 2 * design.statistics[0] + self.regularisation * np.eye(design.width)


def best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    """(theta, mean weighted squared residual, its gradient there) of least squares: where a squared loss is measured from.

    >>> best_fit(Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2)))[0]
    array([1., 2.])
    """
    return design.derived("best fit", partial(_best_fit, design))


def _best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    A, b, _ = design.statistics
    theta: Floats = np.asarray(np.linalg.lstsq(A, b, rcond=None)[0], dtype=np.float64)

    def part(block: Design) -> Floats:
        error = block.X @ theta - block.y
        weighted = error * block.weight
        return np.append(2 * weighted @ block.X, weighted @ error)

    *slope, residual = design.sum(part) / len(design)
    return theta, float(residual), np.array(slope)


def _sure_records(rows: Design, bound: RecordBound) -> SureRecords:
    return SureRecords(rows, slope_limit(rows, bound), best_fit(rows)[0])
