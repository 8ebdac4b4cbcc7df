"""Answers of which no part of the budget is left once the first was given: their noise makes sense together only."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from parley.privacy.accounting.series import GaussianSeries
from parley.privacy.mechanisms.gaussian import Gaussian
from parley.validate import whole


@dataclass(frozen=True)
class JointSeries(GaussianSeries):
    """`count` Gaussian releases that a record moves by d_1, d_2, ... at most, fixed in advance, the root of the sum of
    whose squares is at most the mechanism's sensitivity.

    Formal guarantee: shifts may depend on what was released before, and be smaller than d_k. The k-th release, given
    all before it, is a Gaussian mechanism of shift at most d_k, so that its two laws are both made from N(0, sigma^2)
    and N(d_k, sigma^2) by one random map: they are dominated. Domination survives adaptive composition where the d_k
    are fixed in advance (Gaussian DP: Dong, Roth and Su 2022), so that all releases
    together are dominated by one of shift sqrt(d_1^2 + d_2^2 + ...), the mechanism's sensitivity at most. So they are
    (epsilon, delta)-DP together, and so are the first k; Renyi divergences of a dominated pair are no larger, so that
    `rho` is that of the one release. Releases of kappa owners that hold a record are dominated by one of kappa times
    the squared shift, in whichever order they come, which is what kappa such series in a row are.
    """

    joint: ClassVar[bool] = True

    @classmethod
    def of(
        cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float, shared_records: int = 1
    ) -> "JointSeries":
        """The least noise for a record that moves all releases together by so much; with records shared by kappa
        owners, that of (epsilon/kappa, delta/kappa)."""
        share = Fraction(1, whole(shared_records, "shared_records"))
        noise = Gaussian.calibrate(epsilon * share, float(delta * share), sensitivity)
        return cls(noise, epsilon, delta, count, shared_records)

    def partly_spent(self, answers: int) -> Fraction:
        """All of it, from the first answer on: nothing comes back."""
        return self.epsilon
