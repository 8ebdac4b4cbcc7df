"""The noise of one agreement and what each of its rounds costs: fixed when the terms are accepted."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from parley.accounting.budget import per_round
from parley.accounting.compose import gaussian_epsilon
from parley.mechanisms import Gaussian, Laplace, Norm
from parley.validate import whole


@dataclass(frozen=True)
class Plan:
    """`rounds` releases by one mechanism, together (epsilon, delta)-DP.

    Formal guarantee: after k answers the owner has spent at most `spent_after(k)` at `delta`, for any k, queries chosen adaptively.
    Laplace: pure costs add up, exactly. Gaussian: k releases are one Gaussian release of sqrt(k) times the sensitivity (the
    privacy-loss distribution of the sequence in closed form; the sequence is fixed in advance).
    """

    mechanism: Laplace | Gaussian
    epsilon: Fraction
    delta: Fraction
    rounds: int
    shared_records: int = 1

    def spent_after(self, answers: int) -> Fraction:
        """The epsilon spent by this many answers.

        >>> plan = make_plan("laplace", Fraction(1), Fraction(0), 10, sensitivity=1.0)
        >>> plan.spent_after(3), plan.spent_after(10)
        (Fraction(3, 10), Fraction(1, 1))
        """
        whole(answers, "answers", least=0)
        if answers == 0:
            return Fraction(0)
        if isinstance(self.mechanism, Laplace):
            return per_round(self.epsilon, self.rounds) * answers
        if answers >= self.rounds:
            return self.epsilon * answers / self.rounds  # the calibrated end; beyond it whatever the ledger will refuse
        multiplier = self.mechanism.sigma / self.mechanism.sensitivity / answers**0.5
        copies = self.shared_records  # each copy of a shared record costs as much, at its share of delta
        return min(copies * Fraction(gaussian_epsilon(multiplier, float(self.delta / copies))), self.epsilon)


def make_plan(
    mechanism: Literal["laplace", "gaussian"],
    epsilon: Fraction,
    delta: Fraction,
    rounds: int,
    sensitivity: float,
    shared_records: int = 1,
) -> Plan:
    """Calibrate the noise of all rounds; with records shared by kappa owners, to (epsilon/kappa, delta/kappa)."""
    share = Fraction(1, whole(shared_records, "shared_records"))
    noise: Laplace | Gaussian
    if mechanism == "laplace":
        noise = Laplace.calibrate(per_round(epsilon, rounds) * share, sensitivity)
    else:
        noise = Gaussian.calibrate(epsilon * share, float(delta * share), sensitivity, count=rounds)
    return Plan(noise, epsilon, delta, rounds, shared_records)


def mechanism_norm(mechanism: Literal["laplace", "gaussian"]) -> Norm:
    """The norm in which the mechanism needs a value bounded."""
    return Laplace.norm if mechanism == "laplace" else Gaussian.norm
