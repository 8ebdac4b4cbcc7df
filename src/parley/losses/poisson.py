"""Half the Poisson deviance y ln(y/rate) - y + rate of a rate y, whose raw prediction is ln rate: zero where it is
right."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import xlogy

from parley.data import Preparation
from parley.losses.loss import PLAIN, Elementary, Loss
from parley.validate import LARGEST, SMALLEST, Floats


@dataclass(frozen=True)
class Poisson(Loss):
    """No rate is predicted above the `ceiling`: beyond it the loss rises along its tangent, so its derivative lies
    between -y and the ceiling.

    The derivative min(e^raw, ceiling) - y never falls: the loss is convex, and its curvature at most the ceiling.

    >>> Poisson().gradient(np.array([0.0]), np.array([3.0]))
    array([-2.])
    """

    ceiling: float = LARGEST

    @classmethod
    def within(cls, preparation: Preparation) -> Self:
        """The loss of rates that are predicted no higher than the bounds of counts and exposures allow."""
        return cls(max(preparation.target_interval[1], SMALLEST))

    @property
    def largest_curvature(self) -> float:  # type: ignore[override]
        return self.ceiling

    def rate(self, raw: Floats, elementary: Elementary = PLAIN) -> Floats:
        """e^raw, at most the ceiling. May overwrite `raw`."""
        found = elementary.exp(np.minimum(raw, np.log(self.ceiling), out=raw))
        return np.minimum(found, self.ceiling, out=found)

    def loss(self, raw: Floats, y: Floats) -> Floats:
        rate = self.rate(np.array(raw))
        beyond = self.ceiling * np.maximum(0.0, raw - np.log(self.ceiling))
        return np.asarray(np.maximum(0.0, rate + beyond - y * raw + xlogy(y, y) - y))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        derivative = self.rate(raw, elementary)
        derivative -= y
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.where(raw < np.log(self.ceiling), self.rate(np.array(raw)), 0.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return max(self.rate_within(reach), target_bound)

    def rate_within(self, reach: float) -> float:
        """The largest rate of raw predictions up to this size, rounded up."""
        return min(float(np.exp(min(reach, np.log(self.ceiling)))) * (1 + 1e-12), self.ceiling)
