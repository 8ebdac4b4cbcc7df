"""The Gaussian mechanism, calibrated exactly (the analytic calibration of Balle and Wang 2018)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, gammainccinv, log_ndtr, ndtr, ndtri

from parley.errors import SettingError
from parley.privacy.events import GaussianEvent, Norm
from parley.privacy.mechanisms.mechanism import Bounded, checked_scale, require_bounded
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats, positive, whole


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise of standard deviation `sigma` on every coordinate of a value bounded in L2.

    Formal guarantee: `count` releases of values of L2 sensitivity at most `sensitivity` satisfy every (eps, delta) with
    delta >= gaussian_delta(eps, sqrt(count) sensitivity/sigma), queries chosen adaptively. The normal law is rotation
    invariant, so this holds in any dimension. With `SafeNoise` it includes floating point: the release is a function of
    the exact sum of value and normal noise.
    """

    norm: ClassVar[Norm] = "l2"

    sigma: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, delta: float, sensitivity: float, count: int = 1) -> "Gaussian":
        """Return the least noise with which `count` releases together are (epsilon, delta)-DP.

        >>> round(Gaussian.calibrate(Fraction(1), 1e-5, 1.0).sigma, 4)
        3.7306
        """
        ratio = gaussian_ratio(float(epsilon), delta) * math.sqrt(whole(count, "count"))
        return cls(checked_scale(ratio * positive(sensitivity, "sensitivity")), sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise of this law; refuse (GuaranteeError) one not bounded as calibrated for."""
        return noise.gaussian(require_bounded(bounded, self.norm, self.sensitivity).value, self.sigma)

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate."""
        return self.sigma**2

    @property
    def expected_distortion(self) -> float:
        """E|Y|, the mean size of the noise in one coordinate."""
        return self.sigma * math.sqrt(2 / math.pi)

    def rounding(self, coordinates: int) -> float:
        """Return 0: the release is a function of the exact sum of value and normal noise."""
        return 0.0

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` places with at most this probability.

        Formal guarantee: P(|Y| > t) = 2 Phi(-t/sigma), at most `coordinates` times that for the worst of them.

        >>> round(Gaussian(2.0, 1.0).tail(1e-12, 1), 2)
        14.26
        """
        return -self.sigma * float(ndtri(probability / (2 * coordinates)))

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L2 norm, its square chi-squared, that noise exceeds with at most this probability."""
        return self.sigma * math.sqrt(2 * float(gammainccinv(coordinates / 2, probability)))

    @cached_property
    def event(self) -> GaussianEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GaussianEvent(self.sigma / self.sensitivity)


def probability(delta: float) -> float:
    """Return delta as a float strictly between 0 and 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise SettingError(f"delta = {delta!r}: expected a number between 0 and 1")
    return float(delta)


def gaussian_delta(epsilon: float, shift: float) -> float:
    """Return the exact delta of Gaussian noise at eps, for a shift s of this many standard deviations (Z eq. 4.1). It
    is Phi(a) - e^eps Phi(b), a = s/2 - eps/s, b = -s/2 - eps/s, computed as phi(a) (M(-a) - M(-b)) with Mills' ratio
    M(x) = Phi(-x)/phi(x), or by derivatives for small shifts: nothing overflows or cancels."""
    a, middle = shift / 2 - epsilon / shift, epsilon / shift
    if shift < 1e-3:
        mills = math.sqrt(math.pi / 2) * float(erfcx(middle / math.sqrt(2)))
        first = middle * mills - 1
        third = 2 * first + middle * (mills + middle * first)
        difference = -shift * (first + shift**2 / 24 * third)
    elif a > 0:
        return float(ndtr(a)) - math.exp(epsilon + float(log_ndtr(-shift / 2 - middle)))
    else:
        ratios = erfcx(np.array([-a, shift / 2 + middle]) / math.sqrt(2))
        difference = math.sqrt(math.pi / 2) * float(ratios[0] - ratios[1])
    return math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * max(difference, 0.0)


@lru_cache(maxsize=4096)  # owners of equal budgets pay the same, round after round
def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Return the exact eps of one Gaussian release at delta, rounded up in the ninth digit.

    >>> round(gaussian_epsilon(2**0.5, 1e-5), 3)
    2.943
    """
    shift = 1 / positive(multiplier, "multiplier")
    delta = probability(delta) * (1 - 1e-9)  # gaussian_delta is right to ten digits
    if gaussian_delta(0.0, shift) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, shift) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, shift) > delta else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return high * (1 + 1e-12)


@lru_cache(maxsize=1024)
def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return the least sigma/sensitivity that is (epsilon, delta)-DP, rounded up in the tenth digit."""
    epsilon, delta = positive(epsilon, "epsilon"), probability(delta)
    if not (1e-9 <= epsilon <= 1e6 and delta >= 1e-30):
        raise SettingError(
            f"epsilon = {epsilon:g}, delta = {delta:g}: expected an epsilon from 1e-9 to 1e6 and a delta of at least "
            "1e-30"
        )

    def excess(log_ratio: float) -> float:
        return gaussian_delta(epsilon, math.exp(-log_ratio)) - delta

    low, high = -15.0, 60.0
    ratio = math.exp(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16, maxiter=500)) * (1 + 1e-10)
    while gaussian_delta(epsilon, 1 / ratio) > delta:
        ratio *= 1 + 1e-10
    return ratio
