"""Poisson regression: counts, by the logarithm of their rate."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.data.rowwise import GRID
from parley.losses.loss import Poisson
from parley.losses.objectives.margin import MarginObjective
from parley.losses.record_bound import Limits, RecordBound
from parley.validate import Floats


@dataclass(frozen=True)
class PoissonRegression(MarginObjective):
    """A record's target is its rate y = count/w and its weight w its exposure, in units of the typical rate
    (`data.targets`): w loss(theta.x, y) is then half the deviance of the count from w e^(theta.x)."""

    loss: Poisson = field(default=Poisson(), kw_only=True)

    def bounded_by(self, preparation: Preparation) -> Self:
        return replace(self, loss=Poisson.within(preparation))

    def largest_derivative(self, preparation: Preparation, limits: Limits, reach: float) -> float:
        """Formal guarantee: a weighted derivative is w rate - w y; the first is at most the largest weight times the
        largest rate, the second at most the largest count. Neither is below 0, so neither exceeds the larger."""
        above = self.loss.rate_within(reach) * limits.largest_weight
        return max(above, _largest_count(preparation, limits))

    def curvature(self, design: Summable) -> float:
        """The largest eigenvalue of f's Hessian where every record has the larger of the typical rate, at which a
        search begins, and its own; at rates up to the ceiling it may be larger."""

        def part(block: Design) -> Floats:
            return block.curved(block.weight * np.maximum(1.0, block.y))

        return float(np.linalg.eigvalsh(design.sum(part) / design.divisor)[-1]) + self.regularisation

    def walked_curvature(self, preparation: Preparation, limits: Limits) -> float | None:
        """Formal guarantee: a record's clipped derivative is d = w rate - w y with |d| <= Xi/|x|, and where it is not
        clipped it rises by w rate = d + w y <= Xi/|x| + C a unit of the margin, C the largest count. So along theta
        the cost of a record bends by at most (Xi/|x| + C) |x|^2 <= Xi |f| + C |f|^2, f the bounds of x."""
        most, bound = self.largest_curvature(preparation), self.record_bound(preparation, limits, "l2")
        features = preparation.feature_bound
        if most is None or bound is None or features is None:
            return most
        size = float(np.sqrt(np.sum(features**2)))
        walked = (bound.value + _largest_count(preparation, limits) * size) * size * (1 + 1e-12)
        return min(most, walked + self.regularisation)

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """A derivative given its margin: the exponential and three operations on w rate and w y, together within 16 u
        of their sum; that is at most Xi/|x| + 2 C where the derivative is not clipped (`walked_curvature`), and where
        rounding lifts it over the clip both are clipped. A margin: off by at most 2 (p + 8) u sum |theta_j| |x_j|, by
        which a derivative moves Xi/|x| + C times as much."""
        features, radius = preparation.feature_bound, limits.radius
        if features is None or radius is None:
            return np.inf
        count = _largest_count(preparation, limits) * float(np.sqrt(np.sum(features**2)))
        margin = 2 * (preparation.width + 8) * UNIT * radius * float(features.sum())
        return 32 * UNIT * (bound.value + 2 * count) + margin * (bound.value + count)


def _largest_count(preparation: Preparation, limits: Limits) -> float:
    """What w y is at most: y was rounded to a grid after the count was divided by w."""
    return preparation.target_bounds[1] * (1 + 1e-12) + limits.largest_weight * GRID
