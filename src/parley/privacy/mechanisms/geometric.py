"""The two-sided geometric mechanism (discrete Laplace): whole numbers in, whole numbers out (T section 2.3)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from parley.errors import SettingError
from parley.privacy.events import GeometricEvent, Norm
from parley.privacy.mechanisms.bounded import Bounded, require, rounded_up
from parley.privacy.mechanisms.noise import Integers, Noise
from parley.validate import positive


@dataclass(frozen=True)
class Geometric:
    """Noise with P(k) = (1 - q)/(1 + q) q^|k|, q = exp(-1/scale), on every coordinate of whole numbers bounded in L1.

    Formal guarantee: sensitivity/scale-DP, pure.
    """

    norm: ClassVar[Norm] = "l1"

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "Geometric":
        """The least noise that makes one release cost `epsilon`; the sensitivity is a whole number.

        >>> Geometric.calibrate(Fraction(1, 2), 1).scale >= 2
        True
        """
        if not float(positive(sensitivity, "sensitivity")).is_integer():
            raise SettingError(f"sensitivity = {sensitivity!r}: expected a whole number, as the values are")
        return cls(scale=rounded_up(Fraction(sensitivity) / epsilon), sensitivity=sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Integers:
        """The whole numbers with noise."""
        value = require(bounded, self.norm, self.sensitivity).value
        if not np.abs(value).max(initial=0) <= 2**53 or not self.scale <= 2**53:
            raise SettingError("value: expected whole numbers and a noise scale up to 2^53")
        whole = np.asarray(value).astype(np.int64)
        if not np.array_equal(whole, value):
            raise SettingError("value: expected whole numbers; the Laplace mechanism takes any")
        return noise.geometric(whole, self.scale)

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate: 2q/(1 - q)^2."""
        q = math.exp(-1 / self.scale)
        return 2 * q / math.expm1(-1 / self.scale) ** 2

    @property
    def expected_distortion(self) -> float:
        """E|Y| of one coordinate: 2q/(1 - q^2)."""
        return 2 * math.exp(-1 / self.scale) / -math.expm1(-2 / self.scale)

    @property
    def event(self) -> GeometricEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GeometricEvent(self.scale / self.sensitivity)
