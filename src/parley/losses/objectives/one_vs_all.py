"""One-vs-all: for each class a logistic regression of that class against all others; the highest margin is predicted.

The cost is the sum of the classes' costs. In a batch every record enters one class's gradient only (A): the batch is
split into as many parts as there are classes, and part c is for class c. Then one record moves one binary gradient,
whose norm is |derivative| |x|.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.losses.class_loss import EachClass
from parley.losses.loss import Logistic
from parley.losses.objective import SplitBatches, batched
from parley.losses.objectives.classes import ClassesObjective, class_margins
from parley.losses.objectives.margin import clipped_derivatives
from parley.losses.record_bound import ClipNorm, Limits, RecordBound, bound_norm, tightest
from parley.validate import Floats


@dataclass(frozen=True)
class OneVsAll(ClassesObjective, SplitBatches):
    """Each class's targets are 1 and -1.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> OneVsAll().mean_gradient(design, np.zeros(3))
    array([0. , 0.5, 0. ])
    """

    loss: EachClass = field(default=EachClass(Logistic(), own=1.0, other=-1.0), kw_only=True)

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Whether some class is told from all others without a mistake."""

        def wrong(block: Design) -> Floats:
            margins = class_margins(block, theta[None])[0]
            mistaken = ~(self.loss.targets(block.y, len(margins)) * margins > 0) & (block.weight > 0)
            return np.asarray(np.count_nonzero(mistaken, axis=1), dtype=np.float64)

        return not np.sum([design.sum(wrong) for design in designs], axis=0).all()

    def parts(self, preparation: Preparation) -> int:
        return len(preparation.classes)

    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        features = preparation.feature_bound
        implied = np.inf if features is None else limits.largest_weight * bound_norm(features, norm) * (1 + 1e-12)
        return tightest(limits.clip, implied, norm)

    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """In the part where it is largest."""
        return np.asarray(np.abs(self.residuals(design, theta[None])[0]).max(axis=0) * design.row_norms(norm))

    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """Formal guarantee: a record of part c adds at most Xi in `bound.norm`, to block c and to no other."""
        total = np.zeros_like(theta)
        for place, rows in enumerate(parts):
            own = slice(place * rows.width, (place + 1) * rows.width)

            def part(block: Design, flat: Floats, place: int = place) -> Floats:
                sign = np.where(block.y == place, 1.0, -1.0)
                return clipped_derivatives(self.loss.of, block, sign, flat, bound) @ block.X

            if len(rows):
                total[..., own] = batched(part, rows, theta[..., own])
        return total
