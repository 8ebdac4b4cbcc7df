"""Classes by least squares: loss = sum over classes of (theta_c.x - [y = c])^2, and the largest score wins (Z's
squared-loss SVM).

Each class has a loss of its own margin, so the loss of a record is a sum of losses of margins, and second moments of
[x, classes as 0 and 1] say everything about it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.class_loss import EachClass
from parley.losses.local_update import LocallyUpdated, margin_rounding
from parley.losses.loss import Squared
from parley.losses.moments import SufficientMoments
from parley.losses.objective import LARGEST_HESSIAN, batched
from parley.losses.objectives.classes import ClassesObjective
from parley.losses.record_bound import Limits, RecordBound, clip, derivative_limit
from parley.validate import Floats


@dataclass(frozen=True)
class LeastSquaresClasses(ClassesObjective, LocallyUpdated, SufficientMoments):
    """Each class's targets are 1 and 0; it always has a minimum.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> LeastSquaresClasses().mean_gradient(design, np.zeros(3))
    array([-1.,  0., -1.])
    """

    loss: EachClass = field(default=EachClass(Squared(), own=1.0, other=0.0), kw_only=True)

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        return partial(_members, classes=len(preparation.classes))

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Each class's derivative is clipped to its share Xi/(sqrt C |x|). A clipped derivative still never falls as
        its margin grows, and nowhere rises faster: the sum over classes belongs to a convex, no less smooth cost, and
        measures at most Xi in L2."""

        def part(block: Design, flat: Floats) -> Floats:
            derivative = self.residuals(block, flat)
            if bound.clips:
                classes = derivative.shape[1]
                clip(derivative, derivative_limit(block, bound) / math.sqrt(classes) * (1 - (classes + 8) * UNIT))
            return np.asarray(derivative.reshape(-1, len(block)) @ block.X).reshape(len(flat), -1)

        return batched(part, design, theta) / design.divisor

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """As for a loss of one margin: a derivative given its margin, at most 32 u Xi over all classes; the margins, at
        most 2 (p + 8) u times sum |theta_j| |x_j| each, over C classes sqrt C times as much in L2, and derivatives move
        by the largest curvature times that."""
        margins = margin_rounding(self.loss.largest_curvature, preparation, limits) * math.sqrt(
            len(preparation.classes)
        )
        return 32 * UNIT * bound.value + margins

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        if len(theta) > LARGEST_HESSIAN:
            return None
        one = 2 * design.statistics[0]
        return np.asarray(np.kron(np.eye(len(theta) // design.width), one) + self.regularisation * np.eye(len(theta)))


def _members(block: Design, classes: int) -> Floats:
    """1 where a record is of the class, else 0 [n, classes]."""
    return np.asarray(block.y[:, None] == np.arange(classes), dtype=np.float64)
