"""Least squares, optionally ridge: g2 = (y - theta.x)^2 (W section IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.data import Design
from parley.objectives.margin import MarginObjective
from parley.objectives.objective import RecordBound, slope_limit
from parley.objectives.sure_records import SureRecords
from parley.validate import Floats

SORTED_FROM = 8192  # rows from which sorting a table pays


@dataclass(frozen=True)
class LinearRegression(MarginObjective):
    """A quadratic cost: three statistics of the table say everything, so a round costs O(p^2) whatever n is.

    >>> design = Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2))
    >>> LinearRegression().mean_gradient(design, np.zeros(2))
    array([-1., -2.])
    """

    largest_bend: ClassVar[float] = 2.0
    quadratic: ClassVar[bool] = True

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

    def cost(self, design: Design, theta: Floats) -> Floats:
        # Around the best fit nothing cancels, however large the targets are.
        best, residual, slope = design.best_fit
        away = theta - best
        fit = residual + np.sum((away @ design.statistics[0] + slope) * away, axis=-1)
        return np.asarray(fit + 0.5 * self.regularisation * np.sum(theta**2, axis=-1))

    def mean_gradient(self, design: Design, theta: Floats, bound: RecordBound | None = None) -> Floats:
        if bound is not None and bound.clips:
            if not design.study or len(design) < SORTED_FROM:
                return super().mean_gradient(design, theta, bound)
            sure = design.derived(("sure records", bound), lambda: SureRecords(design, slope_limit(design, bound)))
            return sure.mean_gradient(theta.reshape(-1, design.width)).reshape(theta.shape)
        A, b, _ = design.statistics
        return 2 * (theta @ A - b)

    def hessian(self, design: Design, theta: Floats) -> Floats:
        return 2 * design.statistics[0] + self.regularisation * np.eye(design.width)
