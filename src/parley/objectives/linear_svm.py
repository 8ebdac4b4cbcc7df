"""Linear support vector machine: g2 = max(0, 1 - y theta.[x, 1]), g1 = r/2 |theta|^2 (W section IV-B)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.objectives.margin import MarginObjective
from parley.validate import Floats


@dataclass(frozen=True)
class LinearSVM(MarginObjective):
    """The hinge; `smoothing` m > 0 rounds its corner into a parabola of width m that lies at most m/2 below it.

    >>> LinearSVM().slope(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([-1., -0.])
    """

    smoothing: float = 0.0
    smooth: ClassVar[bool] = False

    def loss(self, margin: Floats, y: Floats) -> Floats:
        gap = np.maximum(0.0, 1 - y * margin)
        if not self.smoothing > 0:
            return gap
        return np.where(gap < self.smoothing, gap**2 / (2 * self.smoothing), gap - self.smoothing / 2)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        margin *= y
        if not self.smoothing > 0:
            return np.multiply(margin < 1, -y, out=margin)
        return np.clip((1 - margin) / self.smoothing, 0.0, 1.0) * -y

    def bend(self, margin: Floats, y: Floats) -> Floats:
        gap = 1 - y * margin
        return ((gap > 0) & (gap < self.smoothing)) / max(self.smoothing, np.finfo(np.float64).tiny)

    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        return 1.0
