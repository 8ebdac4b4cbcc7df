"""The stable mechanism: symmetric alpha-stable noise on values bounded in L1, which needs no delta (Z chapter 3), or in
L2, which does. Its law is private in any dimension when sampled exactly; no sampler does that, so it is for studies."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from parley.errors import SettingError
from parley.privacy.events import Norm, StableEvent
from parley.privacy.mechanisms.mechanism import Bounded, require_bounded
from parley.privacy.mechanisms.noise import Noise
from parley.privacy.mechanisms.stable_law import check_alpha, distortion, score_bound, survival
from parley.validate import Floats, non_negative, positive


def pure_epsilon(alpha: float, scale: float, l1_sensitivity: float) -> float:
    """Return eps of one release of any dimension with i.i.d. SaS noise on values of this L1 sensitivity.

    Formal guarantee: kappa Delta_1/scale, pure DP (erratum e of Z, which accounts for one dimension only): a coordinate
    that moves by d changes ln p by at most kappa d/scale, and the coordinates' moves add up to the L1 sensitivity. For
    the Cauchy law a single coordinate has the smaller exact value `cauchy_epsilon`.

    >>> pure_epsilon(1.0, 2.0, 1.0)
    0.5
    """
    return score_bound(check_alpha(alpha)) * non_negative(l1_sensitivity, "l1_sensitivity") / positive(scale, "scale")


def cauchy_epsilon(scale: float, sensitivity: float) -> float:
    """Return the exact pure eps of Cauchy noise on one coordinate (Z chapter 3): about sensitivity/scale for large
    scales.

    >>> round(cauchy_epsilon(1.0, 1.0), 6)
    0.962424
    """
    g = positive(scale, "scale") / positive(sensitivity, "sensitivity")
    return 2 * math.asinh(1 / (2 * g))  # = ln((r + 1)/(r - 1)), r = sqrt(4 g^2 + 1), without cancellation


@dataclass(frozen=True)
class Stable:
    """Independent SaS noise on every coordinate of a value bounded in L1.

    Formal guarantee: `pure_epsilon(alpha, scale, sensitivity)`-DP in any dimension, for exactly sampled noise. Sampling
    here is floating-point, so this mechanism is for studies (`stable_law`).
    """

    norm: ClassVar[Norm] = "l1"

    alpha: float
    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float, alpha: float) -> "Stable":
        """Return the least noise that makes one release cost `epsilon`, pure, in any dimension."""
        if check_alpha(alpha) == 2:
            raise SettingError(
                "alpha = 2: Gaussian noise needs a delta; use an alpha below 2, or the Gaussian mechanism with a delta"
            )
        scale = score_bound(alpha) * positive(sensitivity, "sensitivity") / float(epsilon)
        return cls(alpha, scale * (1 + 1e-12), sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise of this law; refuse (GuaranteeError) one not bounded as calibrated for."""
        return noise.stable(require_bounded(bounded, self.norm, self.sensitivity).value, self.alpha, self.scale)

    @property
    def variance(self) -> float:
        """Infinite below alpha = 2: averages of such noise settle slowly."""
        return math.inf if self.alpha < 2 else 2 * self.scale**2

    @property
    def expected_distortion(self) -> float:
        """E|Y|, the mean size of the noise in one coordinate."""
        return distortion(self.alpha, self.scale)

    @property
    def event(self) -> StableEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return StableEvent(self.scale / self.sensitivity, alpha=self.alpha, norm=self.norm)


@dataclass(frozen=True)
class StableOnSums:
    """Independent SaS noise on every number of a value bounded in L2; a source of safe noise refuses it.

    Formal guarantee: none by itself. `accounting.compose` bounds what releases cost at a delta, in every direction and
    for exactly sampled noise.
    """

    norm: ClassVar[Norm] = "l2"

    alpha: float
    scale: float
    sensitivity: float

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise of this law; refuse (GuaranteeError) one not bounded as assumed."""
        return noise.stable(require_bounded(bounded, self.norm, self.sensitivity).value, self.alpha, self.scale)

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law."""
        return self.scale

    @property
    def variance(self) -> float:
        """Infinite: averages of such noise settle slowly."""
        return math.inf

    def rounding(self, coordinates: int) -> float:
        """Return 0: a study's noise is on no grid."""
        return 0.0

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` places with at most this probability (union
        bound).

        >>> round(StableOnSums(1.0, 2.0, 1.0).tail(0.1, 1), 3)
        12.628
        """
        log_probability = math.log(probability / (2 * coordinates))

        def excess(log: float) -> float:
            return math.log(max(float(survival(np.array([math.exp(log)]), self.alpha)[0]), 1e-300)) - log_probability

        return self.scale * math.exp(brentq(excess, -30.0, 600.0, xtol=1e-9)) * (1 + 1e-6)

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L2 norm that noise exceeds with at most this probability: every coordinate is within the worst."""
        return math.sqrt(coordinates) * self.tail(probability, coordinates)

    @cached_property
    def event(self) -> StableEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return StableEvent(self.scale / self.sensitivity, alpha=self.alpha, norm=self.norm)
