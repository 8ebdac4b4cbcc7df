"""Answers of which no part of the budget is left once the first was given: their noise makes sense together only."""

from dataclasses import dataclass
from fractions import Fraction

from parley.privacy.accounting.series import GaussianSeries
from parley.privacy.mechanisms.gaussian import Gaussian


@dataclass(frozen=True)
class JointSeries(GaussianSeries):
    """`count` Gaussian releases that a record moves by d_1, d_2, ... at most, fixed in advance, the root of the sum of
    whose squares is at most the mechanism's sensitivity.

    Formal guarantee: adaptive Gaussian releases of shifts d_k that were fixed in advance are together what one release
    of shift sqrt(d_1^2 + d_2^2 + ...) is: the loss of each is normal with a mean and variance that follow from d_k
    alone, whatever was asked. So all of them together are (epsilon, delta)-DP, and so are the first k.
    """

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float) -> "JointSeries":
        """The least noise for a record that moves all releases together by so much."""
        return cls(Gaussian.calibrate(epsilon, float(delta), sensitivity), epsilon, delta, count)

    def partly_spent(self, answers: int) -> Fraction:
        """All of it, from the first answer on: nothing comes back."""
        return self.epsilon
