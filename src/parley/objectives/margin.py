"""Costs of the form f(theta) = g1(theta) + mean over records of w g2(theta.x, y), g1 = r/2 |theta|^2 (W section II).

A record's gradient is a number times x. So its norm is |number| times the norm of x, and clipping it means clipping the number:
no per-record gradient is ever materialised, and a batch of parameters [..., p] costs two matrix products.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation
from parley.data.design import UNIT
from parley.mechanisms import Bounded, Extent, Norm
from parley.terms import Terms
from parley.validate import SMALLEST, Floats


@dataclass(frozen=True)
class RecordBound:
    """The most that one record's gradient can measure in `norm` (Xi), and whether clipping enforces it or the bounds do."""

    value: float
    norm: Norm
    clips: bool

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """How far one person can move the computed mean gradient of `records` rows.

        Formal guarantee: replacing up to k rows changes the exact mean by at most 2 k Xi/n. Each of the two computed means is
        off by at most `slack` Xi (`Design.summation_slack`), which adds 2 slack Xi.
        """
        return 2 * self.value * (records_per_person / records + slack)

    def extent(self, slack: float) -> Extent:
        """Where the computed mean over any table lies: a mean of what measures at most Xi does too, but for its rounding, `slack` Xi."""
        largest = self.value * (1 + slack)
        return Extent(-largest, largest, largest, self.norm)


@dataclass(frozen=True)
class MarginObjective(ABC):
    """A convex cost of the margin theta.x; the three kinds differ only in their loss."""

    regularisation: float = 0.0

    @abstractmethod
    def loss(self, margin: Floats, y: Floats) -> Floats:
        """g2 for margins [..., n] and targets [n]."""

    @abstractmethod
    def slope(self, margin: Floats, y: Floats) -> Floats:
        """d g2/d margin (an element of the subdifferential), same shape. May overwrite `margin`: this is the innermost loop."""

    @abstractmethod
    def bend(self, margin: Floats, y: Floats) -> Floats:
        """d^2 g2/d margin^2, zero where it does not exist."""

    @abstractmethod
    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        """sup |slope| over all margins and targets up to these sizes; infinite if they are."""

    largest_bend: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True  # whether the slope nowhere rises faster than `largest_bend`; not so for the hinge

    def cost(self, design: Design, theta: Floats) -> Floats:
        """f at every parameter of a batch [..., p] -> [...]. Private: a study may look at it, an owner never sends it."""

        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss(flat @ block.X.T, block.y) @ block.weight)

        total = _batched(part, design, theta)
        return np.asarray(total / len(design) + 0.5 * self.regularisation * np.sum(theta**2, axis=-1))

    def gradient(self, design: Design, theta: Floats, bound: RecordBound, records_per_person: int = 1) -> Bounded:
        """The mean record gradient of g2 at every parameter [..., p], with its sensitivity.

        Formal guarantee: see `Bounded`. A record whose gradient exceeds the bound is scaled down to it; where the bound follows
        from the bounds of features, targets and parameters instead, no record can exceed it.
        """
        sensitivity = bound.sensitivity(len(design), design.summation_slack, records_per_person)
        return Bounded(self.mean_gradient(design, theta, bound), sensitivity, bound.norm)

    def mean_gradient(self, design: Design, theta: Floats, bound: RecordBound | None = None) -> Floats:
        """The same without its sensitivity; without `bound`, unclipped."""

        def part(block: Design, flat: Floats) -> Floats:
            slope = self.slope(flat @ block.X.T, block.y)
            if block.weighted:
                slope *= block.weight
            if bound is not None and bound.clips:
                limit = slope_limit(block, bound)
                np.clip(slope, -limit, limit, out=slope)
            return slope @ block.X

        return _batched(part, design, theta) / len(design)

    def penalty_gradient(self, theta: Floats) -> Floats:
        """The gradient of g1, which the learner adds itself."""
        return self.regularisation * theta

    def record_norms(self, design: Design, theta: Floats, norm: Norm) -> Floats:
        """The norm of every record's unclipped gradient at one parameter [p] -> [n]."""
        slope = self.slope(design.X @ theta, design.y) * design.weight
        return np.asarray(np.abs(slope) * design.row_norms(norm))

    def hessian(self, design: Design, theta: Floats) -> Floats:
        """The second derivative of f at one parameter [p, p]."""

        def part(block: Design) -> Floats:
            bend = self.bend(block.X @ theta, block.y) * block.weight
            active = bend != 0
            X = block.X[active]
            return np.asarray((X * bend[active, None]).T @ X)

        return design.sum(part) / len(design) + self.regularisation * np.eye(design.width)

    def curvature(self, design: Design) -> float:
        """A bound on the largest eigenvalue of f's Hessian at any parameter (for the hinge: of its natural smoothing)."""
        moments = design.statistics[0]
        return self.largest_bend * float(np.linalg.eigvalsh(moments)[-1]) + self.regularisation

    def largest_curvature(self, preparation: Preparation) -> float | None:
        """L: the most that the cost of any table within the bounds can bend, in any direction; None if some feature is unbounded.

        Formal guarantee: a record bends its own cost by at most largest_bend times its weight times |x|^2, and a mean by no more.
        """
        features = preparation.feature_bound
        if features is None:
            return None
        return self.largest_bend * preparation.model.largest_weight * float(np.sum(features**2)) + self.regularisation

    def record_bound(self, preparation: Preparation, terms: Terms, norm: Norm) -> RecordBound | None:
        """Xi: the smaller of the terms' clip and what the bounds of features, targets and parameters imply."""
        clip = terms.privacy.clip
        implied = np.inf
        features = preparation.feature_bound
        if features is not None:
            total = float(features.sum())
            reach = total * terms.model.radius if terms.model.radius is not None else (np.inf if total > 0 else 0.0)
            size = total if norm == "l1" else float(np.sqrt(np.sum(features**2)))
            steepest = self.largest_slope(reach, preparation.target_bound)
            implied = steepest * terms.model.largest_weight * size * (1 + 1e-12) if size > 0 else 0.0
        if clip is not None and clip < implied:
            return RecordBound(clip, norm, clips=True)
        return RecordBound(implied, norm, clips=False) if np.isfinite(implied) else None


def slope_limit(design: Design, bound: RecordBound) -> Floats:
    """How large each record's slope may be, a hair below Xi/|x| so that rounding cannot lift the product above Xi.

    A row that measures less than SMALLEST is taken to measure that: its limit is below Xi/|x|, and finite.
    """
    limit = bound.value / np.maximum(design.row_norms(bound.norm), SMALLEST)
    return limit * (1 - (design.width + 8) * UNIT)


def _batched(part: Callable[[Design, Floats], Floats], design: Design, theta: Floats) -> Floats:
    """Sum `part` over the blocks, the batch [..., p] of parameters flattened to [R, p] and back."""
    flat = np.ascontiguousarray(theta).reshape(-1, design.width)
    total = design.sum(lambda block: part(block, flat))
    return total.reshape(theta.shape[:-1] + total.shape[1:])
