"""Costs of the margin: mean over records of w g2(theta.x, y).

A record's gradient is a number, its slope, times x. So its norm is |slope| times the norm of x, and clipping it means clipping the slope:
no per-record gradient is ever materialised, and a batch of parameters [..., p] costs two matrix products.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.newton import projected_newton
from parley.losses.objective import ClipNorm, Limits, Objective, RecordBound, batched, bound_norm, slope_limit, tightest
from parley.validate import Floats


@dataclass(frozen=True)
class MarginObjective(Objective):
    """A convex cost of the margin theta.x; the kinds differ only in their loss."""

    @abstractmethod
    def loss(self, margin: Floats, y: Floats) -> Floats:
        """g2 for margins [..., n] and targets [n]."""

    @abstractmethod
    def slope(self, margin: Floats, y: Floats) -> Floats:
        """d g2/d margin (an element of the subdifferential), same shape. May overwrite `margin`: this is the innermost loop."""

    def slopes(self, block: Design, flat: Floats) -> Floats:
        """The slope of every row of a block at parameters [R, p] -> [R, n].

        Formal guarantee: of rows that were drawn in secret, a function of each row alone, as far as `slope` is one of each margin and
        target; what is no series of additions, multiplications and comparisons is the block's to compute (`Design.logistic`).
        """
        return self.slope(block.margins(flat), block.y)

    @abstractmethod
    def bend(self, margin: Floats, y: Floats) -> Floats:
        """d^2 g2/d margin^2, zero where it does not exist."""

    @abstractmethod
    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        """sup |slope| over all margins and targets up to these sizes; infinite if they are."""

    def parameters(self, preparation: Preparation) -> int:
        return preparation.width

    def scores(self, X: Floats, theta: Floats) -> Floats:
        return X @ theta if theta.ndim == 1 else theta @ X.T

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss(block.margins(flat), block.y) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / len(design) + 0.5 * self.regularisation * np.sum(theta**2, axis=-1))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(self.loss(self.scores(design.X, theta), design.y) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            slope = self.slopes(block, flat)
            if block.weighted:
                slope *= block.weight
            if bound is not None and bound.clips:
                limit = slope_limit(block, bound)
                np.clip(slope, -limit, limit, out=slope)
            return slope @ block.X

        return batched(part, design, theta) / len(design)

    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """A clipped slope still never falls as the margin grows, and nowhere rises faster: it belongs to a convex, no less smooth cost."""
        return self.mean_gradient(design, theta, bound)

    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """A slope given its margin: a few roundings and scipy's expit, together within 16 u of it; where that lifts it over the clip both
        are clipped, so at most 32 u Xi. A margin: p products, at most 2 (p + 8) u times sum |theta_j| |x_j|, and a slope moves by
        the largest bend times that."""
        features, radius = preparation.feature_bound, limits.radius
        if features is None or radius is None:
            return np.inf
        reach = self.largest_bend * limits.largest_weight * radius * float(features.sum()) * float(np.sqrt(np.sum(features**2)))
        return 32 * UNIT * bound.value + 2 * (preparation.width + 8) * UNIT * reach

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        slope = self.slope(design.X @ theta, design.y) * design.weight
        return np.asarray(design.X * slope[:, None])

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        slope = self.slope(design.X @ theta, design.y) * design.weight
        return np.asarray(np.abs(slope) * design.row_norms(norm))

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        implied, features = np.inf, preparation.feature_bound
        if features is not None:
            total = float(features.sum())
            reach = total * limits.radius if limits.radius is not None else (np.inf if total > 0 else 0.0)
            size = bound_norm(features, norm)
            steepest = self.largest_slope(reach, preparation.target_bound)
            implied = steepest * limits.largest_weight * size * (1 + 1e-12) if size > 0 else 0.0
        return tightest(limits.clip, implied, norm)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design) -> Floats:
            bend = self.bend(block.X @ theta, block.y) * block.weight
            active = bend != 0
            X = block.X[active]
            return np.asarray((X * bend[active, None]).T @ X)

        return design.sum(part) / len(design) + self.regularisation * np.eye(design.width)

    def optimum(
        self, designs: Sequence[Summable], radius: float | None = None, precision: float = 1e-10, start: Floats | None = None
    ) -> Floats:
        return self._newton(designs, radius, np.zeros(designs[0].width) if start is None else start)

    def _newton(self, designs: Sequence[Summable], radius: float | None, start: Floats) -> Floats:
        total = sum(len(d) for d in designs)
        shares = [(len(d) / total, d) for d in designs]
        return projected_newton(
            lambda t: float(sum(s * float(self.cost(d, t)) for s, d in shares)),
            lambda t: self.penalty_gradient(t) + sum(s * self.mean_gradient(d, t) for s, d in shares),
            lambda t: sum((s * self.hessian(d, t) for s, d in shares), start=np.array(0.0)),
            start,
            np.inf if radius is None else radius,
        )
