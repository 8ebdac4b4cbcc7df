"""The two-sided geometric mechanism for any numbers: rounded to a grid, with whole numbers of grid units as noise."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import gammainccinv

from parley.errors import SettingError
from parley.privacy.events import GeometricEvent, Norm
from parley.privacy.mechanisms.bounded import Bounded, require, rounded_up
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats, positive

FINE = 12  # binary digits of a value's sensitivity, less those of the number of coordinates, that the grid resolves
LARGEST_STEPS = 2**46  # of noise, in grid units, that samplers draw
ROOM = 2.0**62  # of values in grid units


@dataclass(frozen=True)
class GridGeometric:
    """Two-sided geometric noise, P(k) proportional to exp(-|k| g/scale), on multiples of a grid g.

    Formal guarantee: releasing a `Bounded` value of L1 sensitivity S at most `sensitivity` is sensitivity/scale-DP,
    floating point included. g is a power of two, so value/g is exact. Rounding d coordinates to whole numbers moves two
    values apart by at most d grid units more than S/g; the noise has a whole scale of at least (S/g + d) scale/S grid
    units (`steps`), and the geometric law of scale b on whole numbers that differ by at most D in L1 is D/b-DP. What
    follows is a function of the noisy whole numbers.

    >>> GridGeometric.calibrate(Fraction(1, 100), sensitivity=0.5).scale >= 50
    True
    """

    norm: ClassVar[Norm] = "l1"

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "GridGeometric":
        """The least noise that makes one release cost `epsilon`, but for the grid."""
        needed = Fraction(positive(sensitivity, "sensitivity")) / epsilon
        return cls(scale=rounded_up(needed), sensitivity=sensitivity)

    def grid(self, coordinates: int) -> tuple[float, int]:
        """(g, steps): the grid for values of so many coordinates, and the noise's scale in units of it."""
        exponent = math.frexp(self.sensitivity / coordinates)[1] - FINE - 1
        if not -1000 < exponent < 900:
            raise SettingError("noise: the sensitivity is too extreme for a grid of whole numbers")
        unit = Fraction(2) ** exponent
        steps = math.ceil(Fraction(self.scale) * (1 + coordinates * unit / Fraction(self.sensitivity)) / unit)
        if steps > LARGEST_STEPS:
            raise SettingError(
                "noise: its scale is too large for a grid of whole numbers; use fewer rounds, or laplace noise"
            )
        return math.ldexp(1.0, exponent), steps

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """The value, rounded to the grid, with noise."""
        value = require(bounded, self.norm, self.sensitivity).value
        unit, steps = self.grid(value.shape[-1])
        # clipping brings no two values further apart
        whole = np.clip(np.rint(value / unit), -ROOM, ROOM).astype(np.int64)
        return np.asarray(noise.geometric(whole, float(steps)) * unit)

    def rounding(self, coordinates: int) -> float:
        """How far apart the grid moves two values of so many
        coordinates, in L1: what the noise covers beside the sensitivity."""
        return coordinates * self.grid(coordinates)[0]

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law, but for the grid."""
        return self.scale

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate, but for the grid: it widens the scale by up to a part in 2^FINE,
        and to a whole number of units, so this by twice as much."""
        return 2 * self.scale**2

    def tail(self, probability: float, coordinates: int) -> float:
        """How far the noise goes in the worst of so many coordinates,
        but for this probability, rounding to the grid included.

        Formal guarantee: |k| is at most an exponential number of scale b, plus 1, in distribution.
        """
        unit, steps = self.grid(coordinates)
        return (steps * math.log(coordinates / probability) + 2) * unit

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """How much the noise of so many coordinates measures in L1, but for this probability, likewise."""
        unit, steps = self.grid(coordinates)
        return (steps * float(gammainccinv(coordinates, probability)) + 2 * coordinates) * unit

    @cached_property
    def event(self) -> GeometricEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return GeometricEvent(self.scale / self.sensitivity)
