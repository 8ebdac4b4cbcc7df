"""One-vs-all: for each class a logistic regression of that class against all others; the highest margin is predicted.

The cost is the sum of the classes' costs. In a batch every record enters one class's gradient only (A): the batch is split into as many
parts as there are classes, and part c is for class c. Then one record moves one binary gradient, whose norm is |slope| |x|.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from parley.data import Design, Preparation, Summable
from parley.losses.objective import ClipNorm, Limits, RecordBound, batched, bound_norm, slope_limit, tightest
from parley.losses.softmax_regression import LARGEST_HESSIAN, SoftmaxRegression
from parley.validate import Floats


@dataclass(frozen=True)
class OneVsAll(SoftmaxRegression):
    """Targets are the places of their classes, 0, 1, 2, ...

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> OneVsAll().mean_gradient(design, np.zeros(3))
    array([0. , 0.5, 0. ])
    """

    largest_bend: ClassVar[float] = 0.25

    def losses(self, block: Design, flat: Floats) -> Floats:
        margins = _margins(block, flat)
        return np.asarray(np.logaddexp(0.0, -_signs(block, margins.shape[1]) * margins).sum(axis=1))

    def residuals(self, block: Design, flat: Floats) -> Floats:
        margins = _margins(block, flat)
        signs = _signs(block, margins.shape[1])
        return np.asarray(-signs * block.logistic(-signs * margins) * block.weight)

    def farthest(self, norm: ClipNorm, classes: int) -> float:
        most: dict[ClipNorm, float] = {"l1": float(classes), "l2": math.sqrt(classes) * (1 + 1e-12), "linf": 1.0}
        return most[norm]

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Whether some class is told from all others without a mistake."""

        def wrong(block: Design) -> Floats:
            margins = _margins(block, theta[None])[0]
            mistaken = ~(_signs(block, len(margins)) * margins > 0) & (block.weight > 0)
            return np.asarray(np.count_nonzero(mistaken, axis=1), dtype=np.float64)

        return not np.sum([design.sum(wrong) for design in designs], axis=0).all()

    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        features = preparation.feature_bound
        implied = np.inf if features is None else limits.largest_weight * bound_norm(features, norm) * (1 + 1e-12)
        return tightest(limits.clip, implied, norm)

    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """In the part where it is largest."""
        return np.asarray(np.abs(self.residuals(design, theta[None])[0]).max(axis=0) * design.row_norms(norm))

    def parts(self, preparation: Preparation) -> int:
        return len(preparation.classes)

    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """Formal guarantee: a record of part c adds at most Xi in `bound.norm`, to block c and to no other."""
        total = np.zeros_like(theta)
        for place, rows in enumerate(parts):
            own = slice(place * rows.width, (place + 1) * rows.width)

            def part(block: Design, flat: Floats, place: int = place) -> Floats:
                sign = np.where(block.y == place, 1.0, -1.0)
                slope = -sign * block.logistic(-sign * block.margins(flat)) * block.weight
                if bound.clips:
                    limit = slope_limit(block, bound)
                    np.clip(slope, -limit, limit, out=slope)
                return np.asarray(slope @ block.X)

            if len(rows):
                total[..., own] = batched(part, rows, theta[..., own])
        return total

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        width, count = design.width, len(theta)
        if count > LARGEST_HESSIAN:
            return None

        def part(block: Design) -> Floats:
            p = expit(_margins(block, theta[None])[0])
            total = np.zeros((len(p), width, len(p), width))
            for c, bend in enumerate(block.weight * p * (1 - p)):
                total[c, :, c] = (block.X * bend[:, None]).T @ block.X
            return total.reshape(count, count)

        return design.sum(part) / len(design) + self.regularisation * np.eye(count)


def _margins(block: Design, flat: Floats) -> Floats:
    """[R, classes, n]"""
    return block.margins(flat.reshape(-1, block.width)).reshape(len(flat), -1, len(block))


def _signs(block: Design, classes: int) -> Floats:
    """1 where a record is of the class, -1 where not [classes, n]."""
    return np.where(np.arange(classes)[:, None] == block.y, 1.0, -1.0)
