"""The Laplace mechanism (W Theorem 1; T section 2.3)."""

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from parley.errors import GuaranteeError
from parley.mechanisms.bounded import Bounded, Norm
from parley.mechanisms.noise import Noise
from parley.validate import Floats, positive


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise of `scale` on every coordinate of a value bounded in L1.

    Formal guarantee: releasing a `Bounded` value of L1 sensitivity at most `sensitivity` is sensitivity/scale-DP for that value's
    adjacency. `calibrate` rounds the scale up, so that this never exceeds the epsilon asked for. With `SafeNoise` the statement
    includes floating point.

    >>> Laplace.calibrate(Fraction(1, 100), sensitivity=0.5).scale >= 50
    True
    """

    name: ClassVar[str] = "laplace"
    norm: ClassVar[Norm] = "l1"

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "Laplace":
        """The least noise that makes one release cost `epsilon`."""
        needed = Fraction(positive(sensitivity, "sensitivity")) / epsilon
        # Up by 2^-50: the float lies above the exact quotient, and OpenDP's own rounded-up map still stays below epsilon.
        return cls(scale=positive(float(needed * (1 + Fraction(1, 2**50))), "scale"), sensitivity=sensitivity)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """The value with noise."""
        if bounded.norm != self.norm:
            raise GuaranteeError(f"the Laplace mechanism needs a value bounded in L1, this one is bounded in {bounded.norm}")
        if not bounded.sensitivity <= self.sensitivity:
            raise GuaranteeError("the value's sensitivity exceeds the one this mechanism was calibrated for; calibrate it anew")
        return noise.laplace(bounded.value, self.scale)

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate."""
        return 2 * self.scale**2

    @property
    def expected_distortion(self) -> float:
        """E|Y| of one coordinate."""
        return self.scale

    @property
    def epsilon(self) -> float:
        """What one release costs, rounded up."""
        return math.nextafter(self.sensitivity / self.scale, math.inf)

    @property
    def event(self) -> dict[str, Any]:
        """The fact that the ledger stores; accountants interpret it."""
        return {"mechanism": self.name, "norm": self.norm, **asdict(self)}
