"""Costs of the margin: mean over records of w loss(theta.x, y).

A record's gradient is a number, the derivative of its loss, times x. So its norm is |derivative| times the norm of x,
and clipping it means clipping the derivative: no per-record gradient is ever materialised, and a batch of parameters
[..., p] costs two matrix products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.local_update import LocallyUpdated, margin_rounding
from parley.losses.loss import Loss
from parley.losses.objective import EmpiricalRisk, batched
from parley.losses.objectives.newton import optimum_by_newton
from parley.losses.record_bound import ClipNorm, Limits, RecordBound, bound_norm, clip, derivative_limit, tightest
from parley.validate import Floats


@dataclass(frozen=True)
class MarginObjective(EmpiricalRisk, LocallyUpdated):
    """A convex loss of the margin theta.x, and r/2 |theta|^2.

    >>> from parley.losses.loss import Squared
    >>> MarginObjective(loss=Squared()).mean_gradient(Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2)), np.zeros(2))
    array([-1., -2.])
    """

    loss: Loss = field(kw_only=True)

    def parameters(self, preparation: Preparation) -> int:
        return preparation.width

    def scores(self, X: Floats, theta: Floats) -> Floats:
        return X @ theta if theta.ndim == 1 else theta @ X.T

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss.loss(block.margins(flat), block.y) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / design.divisor + self.penalty(theta))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(self.loss.loss(self.scores(design.X, theta), design.y) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return clipped_derivatives(self.loss, block, block.y, flat, bound) @ block.X

        return batched(part, design, theta) / design.divisor

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """A clipped derivative still never falls as the margin grows, and nowhere rises faster: it belongs to a convex,
        no less smooth cost."""
        return self.mean_gradient(design, theta, bound)

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """A derivative given its margin: a few roundings and scipy's expit, together within 16 u of it; where that
        lifts it over the clip both are clipped, so at most 32 u Xi. A margin: p products, at most 2 (p + 8) u times sum
        |theta_j| |x_j|, and a derivative moves by the largest curvature times that."""
        return 32 * UNIT * bound.value + margin_rounding(self.loss.largest_curvature, preparation, limits)

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        derivative = self.loss.gradient(design.X @ theta, design.y) * design.weight
        return np.asarray(design.X * derivative[:, None])

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        derivative = self.loss.gradient(design.X @ theta, design.y) * design.weight
        return np.asarray(np.abs(derivative) * design.row_norms(norm))

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        implied, features = np.inf, preparation.feature_bound
        if features is not None:
            total = float(features.sum())
            reach = total * limits.radius if limits.radius is not None else (np.inf if total > 0 else 0.0)
            size = bound_norm(features, norm)
            largest = self.largest_derivative(preparation, limits, reach)
            implied = largest * size * (1 + 1e-12) if size > 0 else 0.0
        return tightest(limits.clip, implied, norm)

    def largest_derivative(self, preparation: Preparation, limits: Limits, reach: float) -> float:
        """What a record's weighted derivative measures at most, at margins up to this size."""
        return self.loss.largest_derivative(reach, preparation.target_bound) * limits.largest_weight

    def record_curvatures(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(self.loss.hessian(design.X @ theta, design.y) * design.weight)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design) -> Floats:
            curvature = self.record_curvatures(block, theta)
            active = curvature != 0
            return block.curved(curvature) if active.all() else block.where(active).curved(curvature[active])

        return design.sum(part) / design.divisor + self.regularisation * np.eye(design.width)

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        return self._newton(designs, radius, np.zeros(designs[0].width) if start is None else start)

    def _newton(self, designs: Sequence[Summable], radius: float | None, start: Floats) -> Floats:
        return optimum_by_newton(self, designs, radius, start)


def clipped_derivatives(loss: Loss, block: Design, y: Floats, flat: Floats, bound: RecordBound | None) -> Floats:
    """Every row's weighted derivative at parameters [R, p] and targets y [n] -> [R, n], clipped where the bound says
    so.

    Formal guarantee: of rows that were drawn in secret, a function of each row alone (`Design.margins`,
    `Loss.gradient`); clipped, times x it measures at most Xi in the bound's norm.
    """
    derivative = loss.gradient(block.margins(flat), y, block)
    if block.weighted:
        derivative *= block.weight
    if bound is not None and bound.clips:
        clip(derivative, derivative_limit(block, bound))
    return derivative
