"""Least squares, optionally ridge (W section IV-A)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.loss import Squared
from parley.losses.moments import SufficientMoments, targets
from parley.losses.objectives.clipped_least_squares import ClippedLeastSquares
from parley.losses.objectives.margin import MarginObjective
from parley.losses.record_bound import RecordBound, derivative_limit
from parley.validate import Floats

SORTED_FROM = 1024  # rows from which sorting a table pays
WIDEST = (
    100  # columns up to which it pays, for each parameter of a question: sums over many take as long as many rounds
)


@dataclass(frozen=True)
class LinearRegression(MarginObjective, SufficientMoments):
    """A quadratic cost: three statistics of the table say everything, so a round costs O(p^2) whatever n is.

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
            if rows is None or len(rows) < SORTED_FROM or design.width > WIDEST * (theta.size // design.width):
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
    """(eigenvalues [p] of X'WX / n, rising, and their eigenvectors as columns [p, p]), found once for a table."""

    def found() -> tuple[Floats, Floats]:
        values, directions = np.linalg.eigh(design.statistics[0])
        return values, directions

    return design.derived("principal moments", found)


def best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    """(theta, mean weighted squared residual, its gradient there) of least squares: where a squared loss is measured
    from.

    >>> best_fit(Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2)))[0]
    array([1., 2.])
    """
    return design.derived("best fit", partial(_best_fit, design))


def _best_fit(design: Summable) -> tuple[Floats, float, Floats]:
    values, directions = principal_moments(design)
    told = np.abs(values) > UNIT * 2 * len(values) * np.abs(values).max()  # in other directions all fits are alike
    theta = directions[:, told] @ (design.statistics[1] @ directions[:, told] / values[told])

    def part(block: Design) -> Floats:
        error = block.X @ theta - block.y
        weighted = error * block.weight
        return np.append(2 * weighted @ block.X, weighted @ error)

    *gradient, residual = design.sum(part) / design.divisor
    return theta, float(residual), np.array(gradient)


def _clipped(rows: Design, bound: RecordBound) -> ClippedLeastSquares:
    return ClippedLeastSquares(rows, derivative_limit(rows, bound), best_fit(rows)[0])
