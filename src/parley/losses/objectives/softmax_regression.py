"""Softmax (multinomial logistic) regression: the smooth classifier of any number of classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.class_loss import FARTHEST, Multinomial
from parley.losses.local_update import LocallyUpdated, margin_rounding
from parley.losses.objective import batched
from parley.losses.objective_perturbation import LinearTermLaw, Perturbable, zero_sum_basis
from parley.losses.objectives.classes import ClassesObjective, class_margins
from parley.losses.record_bound import Limits, RecordBound, derivative_limit
from parley.validate import SMALLEST, Floats


@dataclass(frozen=True)
class SoftmaxRegression(ClassesObjective, LocallyUpdated, Perturbable):
    """What is added to all scores alike changes nothing.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> SoftmaxRegression().mean_gradient(design, np.zeros(3)).round(3)
    array([-0.167,  0.333, -0.167])
    """

    loss: Multinomial = field(default=Multinomial(), kw_only=True)

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Whether every record's class has the highest score alone: then a longer theta is better, for ever."""

        def wrong(block: Design) -> Floats:
            scores, rows, own = class_margins(block, theta[None])[0], np.arange(len(block)), block.y.astype(np.intp)
            right = scores[own, rows].copy()
            scores[own, rows] = -np.inf
            return np.array([np.count_nonzero(~(right > scores.max(axis=0)) & (block.weight > 0))], dtype=np.float64)

        return not any(design.sum(wrong).any() for design in designs)

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Rows are shortened until sqrt 2 w |x| <= Xi, and no gradient is clipped: the gradient of the plain convex
        cost of shorter rows.

        A softmax gradient that is scaled down as a whole belongs to no convex cost: steps along it can drive points
        apart (by 9 % in an example), and then one record may move a local update further than it moves a gradient.
        """

        def part(block: Design, flat: Floats) -> Floats:
            X = block.X
            if bound.clips:
                room = derivative_limit(block, bound) / (FARTHEST["l2"] * np.maximum(block.weight, SMALLEST))
                X = X * np.minimum(1.0, room * (1 - 16 * UNIT))[:, None]
            return (self.residuals(replace(block, X=X), flat) @ X).reshape(len(flat), -1)

        return batched(part, design, theta) / design.divisor

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """p given the scores: exponentials within a few units of rounding, their sum over the C classes and a division,
        (C + 32) u in each, together at most that times Xi. The scores: p products each, at most 2 (p + 8) u times sum
        |theta_j| |x_j|, over C classes sqrt C times as much in L2, and p moves by half of it."""
        classes = len(preparation.classes)
        margins = margin_rounding(self.loss.largest_curvature, preparation, limits) * math.sqrt(classes)
        return (classes + 32) * UNIT * bound.value + margins

    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        classes = len(preparation.classes)
        return LinearTermLaw(classes, several=True), zero_sum_basis(classes)
