"""The exponential mechanism: a private choice among candidates by a score (McSherry and Talwar 2007)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.privacy.events import PureEvent
from parley.privacy.mechanisms.mechanism import rounded_up
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats, finite, positive


@dataclass(frozen=True)
class Exponential:
    """Candidate i is chosen with probability proportional to exp(score_i/scale).

    Formal guarantee: 2 sensitivity/scale-DP, pure, if one person changes no score by more than `sensitivity`.
    """

    scale: float
    sensitivity: float

    @classmethod
    def calibrate(cls, epsilon: Fraction, sensitivity: float) -> "Exponential":
        """Return the sharpest choice that costs `epsilon`."""
        return cls(
            scale=rounded_up(2 * Fraction(positive(sensitivity, "sensitivity")) / epsilon), sensitivity=sensitivity
        )

    def choose(self, scores: ArrayLike, noise: Noise) -> int:
        """Return the place of the chosen candidate."""
        values = finite(scores, "scores")
        if values.ndim != 1 or not len(values):
            raise SettingError("scores: give one number for each candidate, and at least one candidate")
        return noise.choose(values, self.scale)

    def probabilities(self, scores: ArrayLike) -> Floats:
        """Return the law of `choose`.

        >>> Exponential(scale=1.0, sensitivity=0.5).probabilities([0.0, 0.0])
        array([0.5, 0.5])
        """
        weight = np.exp((finite(scores, "scores") - np.max(scores)) / self.scale)
        return np.asarray(weight / weight.sum())

    @property
    def event(self) -> PureEvent:
        """The fact that the ledger stores; accountants interpret it."""
        return PureEvent(self.scale / (2 * self.sensitivity))
