"""The logistic loss ln(1 + exp(-y raw)) of classes y = -1 and 1; the raw prediction is the log-odds of class 1."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from parley.losses.loss import PLAIN, Elementary, Loss
from parley.validate import Floats


@dataclass(frozen=True)
class Logistic(Loss):
    """Its derivative lies between -1 and 1.

    >>> Logistic().gradient(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    largest_curvature: ClassVar[float] = 0.25

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, -y * raw)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        raw *= -y
        derivative = elementary.logistic(raw)
        derivative *= -y
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        probability = expit(raw)
        return probability * (1 - probability)  # type: ignore[no-any-return]

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 1.0
