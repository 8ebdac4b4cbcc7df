"""Classes by least squares: loss = sum over classes of (theta_c.x - [y = c])^2, and the largest score wins (Z's squared-loss SVM).

Each class has a cost of its own margin, so the cost of a record is a sum of costs of margins, and second moments of [x, classes as 0 and 1]
say everything about it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.losses.objective import ClipNorm, Limits, RecordBound, batched, bound_norm, slope_limit, tightest
from parley.losses.softmax_regression import LARGEST_HESSIAN, SoftmaxRegression
from parley.validate import Floats


@dataclass(frozen=True)
class LeastSquaresClasses(SoftmaxRegression):
    """Targets are the places of their classes, 0, 1, 2, ...

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> LeastSquaresClasses().mean_gradient(design, np.zeros(3))
    array([-1.,  0., -1.])
    """

    largest_bend: ClassVar[float] = 2.0

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        return partial(_members, classes=len(preparation.classes))

    def losses(self, block: Design, flat: Floats) -> Floats:
        away = _margins(block, flat)
        return np.asarray(np.square(away - _members(block, away.shape[1]).T).sum(axis=1))

    def residuals(self, block: Design, flat: Floats) -> Floats:
        slope = _margins(block, flat)
        slope[:, block.y.astype(np.intp), np.arange(len(block))] -= 1.0
        slope *= 2 * block.weight if block.weighted else 2.0
        return slope

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """A squared loss always has a minimum."""
        return False

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Each class's slope is at most 2 (reach + 1), reach the largest margin in the box; over C classes that is sqrt C times as much in
        L2, and C times in L1."""
        implied, features = np.inf, preparation.feature_bound
        if features is not None and limits.radius is not None:
            classes = len(preparation.classes)
            over: dict[ClipNorm, float] = {"l1": float(classes), "l2": math.sqrt(classes), "linf": 1.0}
            slope = 2 * (float(features.sum()) * limits.radius + 1) * limits.largest_weight
            implied = slope * over[norm] * bound_norm(features, norm) * (1 + 1e-12 + 8 * classes * UNIT)
        return tightest(limits.clip, implied, norm)

    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Each class's slope is clipped to its share Xi/(sqrt C |x|). A clipped slope still never falls as its margin grows, and nowhere
        rises faster: the sum over classes belongs to a convex, no less smooth cost, and measures at most Xi in L2."""

        def part(block: Design, flat: Floats) -> Floats:
            slope = self.residuals(block, flat)
            if bound.clips:
                limit = slope_limit(block, bound) / math.sqrt(slope.shape[1]) * (1 - (slope.shape[1] + 8) * UNIT)
                np.clip(slope, -limit, limit, out=slope)
            return np.asarray(slope.reshape(-1, len(block)) @ block.X).reshape(len(flat), -1)

        return batched(part, design, theta) / len(design)

    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """As for a cost of one margin: a slope given its margin, at most 32 u Xi over all classes; the margins, at most 2 (p + 8) u times
        sum |theta_j| |x_j| each, over C classes sqrt C times as much in L2, and slopes move by the largest bend times that."""
        features, radius = preparation.feature_bound, limits.radius
        if features is None or radius is None:
            return np.inf
        reach = self.largest_bend * limits.largest_weight * radius * float(features.sum()) * float(np.sqrt(np.sum(features**2)))
        return 32 * UNIT * bound.value + 2 * (preparation.width + 8) * UNIT * reach * math.sqrt(len(preparation.classes))

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        if len(theta) > LARGEST_HESSIAN:
            return None
        one = 2 * design.statistics[0]
        return np.asarray(np.kron(np.eye(len(theta) // design.width), one) + self.regularisation * np.eye(len(theta)))


def _margins(block: Design, flat: Floats) -> Floats:
    """[R, classes, n]"""
    return block.margins(flat.reshape(-1, block.width)).reshape(len(flat), -1, len(block))


def _members(block: Design, classes: int) -> Floats:
    """1 where a record is of the class, else 0 [n, classes]."""
    return np.asarray(block.y[:, None] == np.arange(classes), dtype=np.float64)
