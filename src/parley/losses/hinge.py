"""The hinge max(0, 1 - y raw) of classes y = -1 and 1 (W section IV-B)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from parley.losses.loss import PLAIN, Elementary, Loss
from parley.validate import Floats

WIDTH = 0.2  # over which the corner is smoothed to have a curvature


@dataclass(frozen=True)
class Hinge(Loss):
    """`smoothing` m > 0 rounds its corner into a parabola of width m that lies at most m/2 below it.

    >>> Hinge().gradient(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([-1., -0.])
    """

    smoothing: float = 0.0
    smooth: ClassVar[bool] = False

    def loss(self, raw: Floats, y: Floats) -> Floats:
        gap = np.maximum(0.0, 1 - y * raw)
        if not self.smoothing > 0:
            return gap
        return np.where(gap < self.smoothing, gap**2 / (2 * self.smoothing), gap - self.smoothing / 2)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        raw *= y
        if not self.smoothing > 0:
            return np.multiply(raw < 1, -y, out=raw)
        return np.clip((1 - raw) / self.smoothing, 0.0, 1.0) * -y

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        gap = 1 - y * raw
        return ((gap > 0) & (gap < self.smoothing)) / max(self.smoothing, np.finfo(np.float64).tiny)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """The sign of the likelier class."""
        return self.comparable(chance - 0.5)

    def comparable(self, raw: Floats) -> Floats:
        """The signs, -1 and 1: no linear score can be flat beyond a margin, as the best score is. So what counts is
        what is decided, and the loss is twice the share of mistakes."""
        return np.where(raw > 0, 1.0, -1.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 1.0

    def smoothed(self, width: float = WIDTH) -> Self:
        """The same with its corner rounded off over this width."""
        return replace(self, smoothing=width)
