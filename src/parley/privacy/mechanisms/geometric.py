"""The two-sided geometric mechanism (discrete Laplace): whole numbers in, whole numbers out (T section 2.3)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammainccinv

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import GeometricEvent, Norm
from parley.privacy.mechanisms.mechanism import Bounded, require_bounded, rounded_up
from parley.privacy.mechanisms.noise import Integers, Noise
from parley.validate import Floats, positive


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
        """Return the least noise that makes one release cost `epsilon`; the sensitivity is a whole number.

        >>> Geometric.calibrate(Fraction(1, 2), 1).scale >= 2
        True
        """
        if not float(positive(sensitivity, "sensitivity")).is_integer():
            raise SettingError(
                f"sensitivity = {sensitivity!r}: geometric noise needs an integer, because the values are integers"
            )
        return cls(scale=rounded_up(Fraction(sensitivity) / epsilon), sensitivity=sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Integers:
        """Return the whole numbers with noise."""
        value = require_bounded(bounded, self.norm, self.sensitivity).value
        if not np.abs(value).max(initial=0) <= 2**53 or not self.scale <= 2**53:
            raise SettingError("value: expected whole numbers and a noise scale up to 2^53")
        whole = np.asarray(value).astype(np.int64)
        if not np.array_equal(whole, value):
            raise SettingError("value: expected whole numbers; use the Laplace mechanism for other numbers")
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


GRID_BITS = (
    12  # binary digits of a value's sensitivity, less those of the number of coordinates, that the grid resolves
)
MAX_GRID_STEPS = 2**46  # of noise, in grid units, that samplers draw
MAX_GRID_UNITS = 2.0**62  # of values in grid units


@dataclass(frozen=True)
class GridGeometric:
    """Two-sided geometric noise, P(k) proportional to exp(-|k| g/scale), on multiples of a grid g.

    Formal guarantee: releasing a `Bounded` value of L1 sensitivity S at most `sensitivity` is sensitivity/scale-DP,
    floating point included. g is a power of two, so value/g is exact. Rounding d coordinates to whole numbers moves two
    values apart by at most d grid units more than S/g. The noise has a whole scale (`steps`) of at least (S/g + d)
    scale/S grid units at S = `sensitivity`, and the geometric law of scale b on whole numbers that differ by at most D
    in L1 is D/b-DP. What follows is a function of the noisy whole numbers.

    >>> GridGeometric.calibrate(Fraction(1, 100), sensitivity=0.5).scale >= 50
    True
    """

    norm: ClassVar[Norm] = "l1"

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "GridGeometric":
        """Return the least noise that makes one release cost `epsilon`, apart from the grid."""
        needed = Fraction(positive(sensitivity, "sensitivity")) / epsilon
        return cls(scale=rounded_up(needed), sensitivity=sensitivity)

    def grid(self, coordinates: int) -> tuple[float, int]:
        """Return (g, steps): the grid for this many coordinates, and the noise's scale in units of it."""
        exponent = math.frexp(self.sensitivity / coordinates)[1] - GRID_BITS - 1
        if not -1000 < exponent < 900:
            raise SettingError("noise: the sensitivity is out of range for geometric noise; use laplace noise")
        unit = Fraction(2) ** exponent
        steps = math.ceil(Fraction(self.scale) * (1 + coordinates * unit / Fraction(self.sensitivity)) / unit)
        if steps > MAX_GRID_STEPS:
            raise SettingError("noise: the scale is too large for geometric noise; use fewer rounds or laplace noise")
        return math.ldexp(1.0, exponent), steps

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value, rounded to the grid, with noise."""
        value = require_bounded(bounded, self.norm, self.sensitivity).value
        unit, steps = self.grid(value.shape[-1])
        # clipping brings no two values further apart
        whole = np.clip(np.rint(value / unit), -MAX_GRID_UNITS, MAX_GRID_UNITS).astype(np.int64)
        return np.asarray(noise.geometric(whole, float(steps)) * unit)

    def rounding(self, coordinates: int) -> float:
        """Return how far apart the grid moves two values in L1, covered beside the sensitivity."""
        return coordinates * self.grid(coordinates)[0]

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law, apart from the grid."""
        return self.scale

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate, apart from the grid, which widens the scale by up to a part in
        2^GRID_BITS and to whole units, and the variance by twice as much."""
        return 2 * self.scale**2

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise and rounding exceed in any of `coordinates` places with at most this probability.

        Formal guarantee: |k| is at most an exponential number of scale b, plus 1, in distribution.
        """
        unit, steps = self.grid(coordinates)
        return (steps * math.log(coordinates / probability) + 2) * unit

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L1 norm that noise in `coordinates` places exceeds with at most this probability."""
        unit, steps = self.grid(coordinates)
        return (steps * float(gammainccinv(coordinates, probability)) + 2 * coordinates) * unit

    @cached_property
    def event(self) -> GeometricEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GeometricEvent(self.scale / self.sensitivity)


MAX_RECORDS = 2**46  # of records and of the noise's scale: their sums are exact, and shares tell counts apart
MAX_COUNT_ERROR = 1e-3  # of a record: how far a share may lie from a count


@dataclass(frozen=True)
class WholeGeometric:
    """Noise with P(k) proportional to exp(-|k|/scale) on every count of some records.

    Formal guarantee: releasing shares c/n of counts c that one person moves by at most D records in L1 is D/scale-DP,
    floating point included. c/n is rounded once, so n (c/n) lies within 2^-5 of c for n up to 2^46 and is rounded to c
    itself. The noise has the exact law on whole numbers (`Geometric`), and dividing by n comes after it.

    >>> WholeGeometric.calibrate(Fraction(1, 2), sensitivity=0.02, moved=2, records=100).scale >= 4
    True
    """

    norm: ClassVar[Norm] = "l1"

    scale: float  # in records
    sensitivity: float  # of shares
    moved: int  # D
    records: int  # n

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float, moved: int, records: int) -> "WholeGeometric":
        """Return the least noise that makes one release cost `epsilon`."""
        scale = rounded_up(Fraction(moved) / epsilon)
        if not max(scale, records) <= MAX_RECORDS:
            raise SettingError(
                f"noise: the number of records and the noise scale may each be at most {MAX_RECORDS:,}; use a larger "
                "epsilon"
            )
        return cls(scale, sensitivity, moved, records)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the noisy counts, as shares again."""
        counts = whole_counts(require_bounded(bounded, self.norm, self.sensitivity).value, self.records)
        return np.asarray(noise.geometric(counts, self.scale) / self.records)

    def grid(self, coordinates: int) -> tuple[float, float]:
        """Return (g, steps): the unit of released shares, and the noise's scale in units of it."""
        return 1 / self.records, self.scale

    def rounding(self, coordinates: int) -> float:
        """Return 0: counts lie on the grid."""
        return 0.0

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law, of shares."""
        return self.scale / self.records

    @property
    def variance(self) -> float:
        """Variance of the noise in one share: 2q/(1 - q)^2 over n^2, q = exp(-1/scale)."""
        return 2 * math.exp(-1 / self.scale) / (math.expm1(-1 / self.scale) * self.records) ** 2

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` shares with at most this probability.

        Formal guarantee: |k| is at most an exponential number of the same scale, plus 1, in distribution.
        """
        return (self.scale * math.log(coordinates / probability) + 1) / self.records

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L1 norm that noise in `coordinates` shares exceeds with at most this probability."""
        return (self.scale * float(gammainccinv(coordinates, probability)) + coordinates) / self.records

    @property
    def event(self) -> GeometricEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GeometricEvent(self.scale / self.moved)


def whole_counts(shares: Floats, records: int) -> Integers:
    """Return the counts of `records` records that these shares stand for; refuse shares of no counts."""
    counts = np.rint(shares * records)
    if not np.all(np.abs(shares * records - counts) <= max(MAX_COUNT_ERROR, records * 2.0**-50)):
        raise GuaranteeError("value: expected integer counts divided by the number of records; nothing was released")
    return counts.astype(np.int64)
