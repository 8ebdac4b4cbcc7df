"""The squared loss (raw - y)^2 of a number (W section IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.losses.loss import PLAIN, Elementary, Loss
from parley.validate import Floats


@dataclass(frozen=True)
class Squared(Loss):
    """Its derivative has no bound but what raw predictions and targets have.

    >>> Squared().gradient(np.array([3.0]), np.array([1.0]))
    array([4.])
    """

    largest_curvature: ClassVar[float] = 2.0

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.square(raw - y)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        raw -= y
        raw += raw
        return raw

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.full_like(raw, 2.0)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """The mean target."""
        return np.asarray(other + (own - other) * chance)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 2 * (reach + target_bound)
