"""The noise of one agreement and what each of its answers costs: fixed when the terms are accepted.

Each mechanism that terms can name has its series here: how it is calibrated for all releases together, and what the first k cost.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from parley.accounting.budget import per_round
from parley.accounting.compose import gaussian_epsilon
from parley.mechanisms import Gaussian, Laplace, Mechanism, Norm
from parley.mechanisms.gaussian import gaussian_ratio
from parley.mechanisms.recipe import Law
from parley.validate import whole


@dataclass(frozen=True)
class Series(ABC):
    """`count` releases by one mechanism, together (epsilon, delta)-DP.

    Formal guarantee: after k answers the owner has spent at most `spent_after(k)` at `delta`, for any k, queries chosen adaptively. With
    records shared by kappa owners each release is calibrated to (epsilon/kappa, delta/kappa), and what is spent covers all copies.
    """

    mechanism: Mechanism
    epsilon: Fraction
    delta: Fraction
    count: int
    shared_records: int = 1

    norm: ClassVar[Norm]
    law: ClassVar[Law]  # of the whole numbers that three hosts draw in its place
    exact: ClassVar[bool] = False  # whether what answers cost is a fraction, the same on every machine

    @classmethod
    @abstractmethod
    def calibrated(cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float) -> Mechanism:
        """The least noise with which `count` releases of values of this sensitivity are (epsilon, delta)-DP."""

    @classmethod
    @abstractmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
        """The largest sensitivity for which noise of scale 1 makes `count` releases (epsilon, delta)-DP."""

    @abstractmethod
    def partly_spent(self, answers: int) -> Fraction:
        """The epsilon spent by this many answers, from 1 to `count` - 1."""

    def spent_after(self, answers: int) -> Fraction:
        """The epsilon spent by this many answers; beyond `count`, more than was agreed on.

        >>> series = make_series("laplace", Fraction(1), Fraction(0), 10, sensitivity=1.0)
        >>> series.spent_after(3), series.spent_after(10)
        (Fraction(3, 10), Fraction(1, 1))
        """
        whole(answers, "answers", least=0)
        if 0 < answers < self.count:
            return self.partly_spent(answers)
        return self.epsilon * answers / self.count  # nothing; the calibrated end; beyond it whatever the ledger will refuse


class PureSeries(Series):
    """Laplace noise: pure costs add up, exactly."""

    norm = Laplace.norm
    law = "laplace"
    exact = True

    @classmethod
    def calibrated(cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float) -> Laplace:
        return Laplace.calibrate(per_round(epsilon, count), sensitivity)

    @classmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
        return per_round(epsilon, count)

    def partly_spent(self, answers: int) -> Fraction:
        return per_round(self.epsilon, self.count) * answers


class GaussianSeries(Series):
    """Gaussian noise: k releases are one Gaussian release of sqrt(k) times the sensitivity.

    Formal guarantee: this is the privacy-loss distribution of the sequence in closed form; the sequence is fixed in advance.
    """

    norm = Gaussian.norm
    law = "gaussian"

    @classmethod
    def calibrated(cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float) -> Gaussian:
        return Gaussian.calibrate(epsilon, float(delta), sensitivity, count=count)

    @classmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
        return 1 / (Fraction(gaussian_ratio(float(epsilon), float(delta)) * count**0.5) * (1 + Fraction(1, 2**50)))

    def partly_spent(self, answers: int) -> Fraction:
        multiplier = self.mechanism.event.multiplier / answers**0.5
        copies = self.shared_records  # each copy of a shared record costs as much, at its share of delta
        return min(copies * Fraction(gaussian_epsilon(multiplier, float(self.delta / copies))), self.epsilon)


SERIES: dict[str, type[Series]] = {"laplace": PureSeries, "gaussian": GaussianSeries}


def make_series(
    mechanism: str, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float, shared_records: int = 1
) -> Series:
    """Calibrate the noise of all releases; with records shared by kappa owners, to (epsilon/kappa, delta/kappa)."""
    share, kind = Fraction(1, whole(shared_records, "shared_records")), SERIES[mechanism]
    return kind(kind.calibrated(epsilon * share, delta * share, count, sensitivity), epsilon, delta, count, shared_records)


def mechanism_norm(mechanism: str) -> Norm:
    """The norm in which the mechanism needs a value bounded."""
    return SERIES[mechanism].norm
