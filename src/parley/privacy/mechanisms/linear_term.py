"""Noise of a perturbed minimum: a random linear term in what is minimised, and Laplace noise outside for rounding."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from parley.errors import SettingError
from parley.privacy.events import Norm, PureEvent
from parley.privacy.mechanisms.laplace import Laplace
from parley.privacy.mechanisms.mechanism import Bounded
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats, positive

ROUNDING_SHARE = Fraction(1, 100)  # of epsilon that hides rounding; the linear term has the rest


@dataclass(frozen=True)
class Perturbed:
    """Releases computed minima that are near exact ones.

    Formal guarantee: let t be the exact minimum, a random vector whose law is (1 - ROUNDING_SHARE) epsilon-DP, and v
    the computed one, at most `away` from t in L1 whatever was drawn. Laplace noise that is ROUNDING_SHARE epsilon-DP
    for an L1 sensitivity of 2 away makes v's release epsilon-DP. Its law given t is within exp(ROUNDING_SHARE
    epsilon/2) of the law of t (rounded to floats, which `away` includes) with the same noise. That one is
    post-processing of t, and on the other table it is the same way back. The sampler's grid moves two values apart by w
    = `rounding`, once on each way, but makes room for w once; so noise is calibrated for a little more than 2 away.
    """

    norm: ClassVar[Norm] = "l1"

    epsilon: Fraction
    outside: Laplace
    variance: float  # of the linear term's share in one number of the mean gradient: a model's error grows with it

    @classmethod
    def calibrate(cls, epsilon: Fraction, away: float, numbers: int, variance: float) -> "Perturbed":
        """Return the least noise for minima that are at most `away` from exact ones in L1."""
        room = 1 - numbers * 2.0**-44 / float(ROUNDING_SHARE * epsilon)  # w is at most numbers 2^-45 scales
        if not room > 0.5:
            raise SettingError(
                "epsilon: too small for objective perturbation; use a larger epsilon or fewer parameters"
            )
        return cls(
            epsilon, Laplace.calibrate(ROUNDING_SHARE * epsilon, 2 * positive(away, "distance") / room), variance
        )

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise of this law; refuse (GuaranteeError) one not bounded as calibrated for."""
        return self.outside.release(bounded, noise)

    @property
    def sensitivity(self) -> float:
        """Twice how far a computed minimum may be from the exact one."""
        return self.outside.sensitivity

    @property
    def noise_scale(self) -> float:
        return self.outside.scale

    def rounding(self, coordinates: int) -> float:
        return self.outside.rounding(coordinates)

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise outside exceeds in any of `coordinates` places with at most this probability."""
        return self.outside.tail(probability, coordinates)

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the L1 norm that the noise outside exceeds with at most this probability."""
        return self.outside.norm_tail(probability, coordinates)

    @cached_property
    def event(self) -> PureEvent:
        """The fact that the ledger stores: a pure release of all of epsilon."""
        return PureEvent(float(1 / self.epsilon))
