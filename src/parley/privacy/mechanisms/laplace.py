"""The Laplace mechanism (W Theorem 1; T section 2.3)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from scipy.special import gammainccinv

from parley.privacy.events import LaplaceEvent, Norm
from parley.privacy.mechanisms.exact_samplers import widened_scale
from parley.privacy.mechanisms.mechanism import Bounded, require_bounded, rounded_up
from parley.privacy.mechanisms.noise import VECTOR_SAMPLER_FROM, Noise
from parley.validate import Floats, positive


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise of `scale` on every coordinate of a value bounded in L1.

    Formal guarantee: releasing a `Bounded` value of L1 sensitivity at most `sensitivity` is sensitivity/scale-DP for
    that value's adjacency. `calibrate` rounds the scale up, so that this never exceeds the epsilon asked for. With
    `SafeNoise` the statement includes floating point.

    >>> Laplace.calibrate(Fraction(1, 100), sensitivity=0.5).scale >= 50
    True
    """

    norm: ClassVar[Norm] = "l1"

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "Laplace":
        """Return the least noise that makes one release cost `epsilon`."""
        needed = Fraction(positive(sensitivity, "sensitivity")) / epsilon
        return cls(scale=rounded_up(needed), sensitivity=sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise of this law; refuse (GuaranteeError) one not bounded as calibrated for."""
        return noise.laplace(require_bounded(bounded, self.norm, self.sensitivity).value, self.scale, self.sensitivity)

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law."""
        return self.scale

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate."""
        return 2 * self.scale**2

    @property
    def expected_distortion(self) -> float:
        """E|Y|, the mean size of the noise in one coordinate."""
        return self.scale

    def rounding(self, coordinates: int) -> float:
        """Return how far apart the sampler's grid moves two values in L1, covered beside the sensitivity."""
        return (
            0.0
            if coordinates < VECTOR_SAMPLER_FROM
            else coordinates * math.ldexp(1.0, widened_scale(self.scale, self.sensitivity, coordinates)[1])
        )

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` places with at most this probability.

        Formal guarantee: P(|Y| > t) = exp(-t/scale), at most `coordinates` times that for the worst of them.

        >>> round(Laplace(2.0, 1.0).tail(1e-12, 1), 2)
        55.26
        """
        return self._drawn(coordinates) * math.log(coordinates / probability)

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L1 norm, gamma distributed, that noise exceeds with at most this probability."""
        return self._drawn(coordinates) * float(gammainccinv(coordinates, probability))

    def _drawn(self, coordinates: int) -> float:
        """Return the scale drawn with on this many coordinates: for long vectors a little more than `scale`."""
        if coordinates < VECTOR_SAMPLER_FROM:
            return self.scale
        steps, exponent = widened_scale(self.scale, self.sensitivity, coordinates)
        return math.ldexp(steps, exponent)

    @cached_property
    def event(self) -> LaplaceEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return LaplaceEvent(self.scale / self.sensitivity)
