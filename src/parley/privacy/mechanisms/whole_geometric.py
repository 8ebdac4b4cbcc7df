"""The two-sided geometric mechanism for counts that travel as shares of the records: whole numbers of records as noise
(T section 2.3)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import gammainccinv

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import GeometricEvent, Norm
from parley.privacy.mechanisms.bounded import Bounded, require, rounded_up
from parley.privacy.mechanisms.noise import Integers, Noise
from parley.validate import Floats

LARGEST = 2**46  # of records and of the noise's scale: their sums are exact, and shares tell counts apart
APART = 1e-3  # of a record: how far a share may lie from a count


@dataclass(frozen=True)
class WholeGeometric:
    """Noise with P(k) proportional to exp(-|k|/scale) on every count of some records.

    Formal guarantee: releasing shares c/n of counts c that one person moves by at most D records in L1 is D/scale-DP,
    floating point included. c/n is rounded once, so that n (c/n) lies within 2^-5 of c for n up to 2^46 and is rounded
    to c itself; the noise has the exact law on whole numbers (`Geometric`), and dividing by n comes after it.

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
        """The least noise that makes one release cost `epsilon`."""
        scale = rounded_up(Fraction(moved) / epsilon)
        if not max(scale, records) <= LARGEST:
            raise SettingError(f"noise: expected at most {LARGEST:,} records, and as much noise on a count")
        return cls(scale, sensitivity, moved, records)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """The noisy counts, as shares again."""
        counts = whole_counts(require(bounded, self.norm, self.sensitivity).value, self.records)
        return np.asarray(noise.geometric(counts, self.scale) / self.records)

    def grid(self, coordinates: int) -> tuple[float, float]:
        """(g, steps): the unit of released shares, and the noise's scale in units of it."""
        return 1 / self.records, self.scale

    def rounding(self, coordinates: int) -> float:
        """Nothing: counts lie on the grid."""
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
        """How far the noise goes in the worst of so many shares, but for this probability.

        Formal guarantee: |k| is at most an exponential number of the same scale, plus 1, in distribution.
        """
        return (self.scale * math.log(coordinates / probability) + 1) / self.records

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """How much the noise of so many shares measures in L1, but for this probability, likewise."""
        return (self.scale * float(gammainccinv(coordinates, probability)) + coordinates) / self.records

    @property
    def event(self) -> GeometricEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GeometricEvent(self.scale / self.moved)


def whole_counts(shares: Floats, records: int) -> Integers:
    """The counts of so many records that these shares are of; refused where they are of none."""
    counts = np.rint(shares * records)
    if not np.all(np.abs(shares * records - counts) <= max(APART, records * 2.0**-50)):
        raise GuaranteeError("value: expected shares of whole numbers of records; nothing was released")
    return counts.astype(np.int64)
