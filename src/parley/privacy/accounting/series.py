"""The noise of one agreement and what each of its answers costs, fixed when the terms are accepted: a series for each
mechanism. A budget written 0.1 means exactly one tenth. So T debits of eps/T add up to eps exactly, and the ledger
needs no tolerance."""

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from parley.errors import SettingError
from parley.privacy.accounting.compose import renyi_epsilon
from parley.privacy.accounting.releases import EPSILON_ROUNDING
from parley.privacy.accounting.sampled import base_epsilon, sampled_epsilon, sampled_ratio
from parley.privacy.accounting.stable_bounds import stable_ratio
from parley.privacy.events import Event, Norm
from parley.privacy.mechanisms import Gaussian, GridGeometric, Laplace, Mechanism
from parley.privacy.mechanisms.gaussian import gaussian_epsilon, gaussian_ratio
from parley.privacy.mechanisms.mechanism import checked_scale
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.mechanisms.stable import StableOnSums
from parley.validate import exact, upper, whole

__all__ = ["exact", "per_round", "shared_record_epsilon"]


def per_round(epsilon: Fraction, rounds: int) -> Fraction:
    """Return what each of `rounds` answers may cost so that together they cost `epsilon`.

    Formal guarantee: pure differential privacy composes by addition, also when later queries depend on earlier answers,
    so `rounds` answers of this cost are `epsilon`-DP together.

    >>> 100 * per_round(exact(1.0), 100)
    Fraction(1, 1)
    """
    return epsilon / whole(rounds, "rounds")


def shared_record_epsilon(epsilons: Sequence[float], shared: int) -> float:
    """Return what all owners' answers together reveal about a record that up to `shared` of them hold (W section II).
    Every owner adds the noise of eps_l/shared, so the mean of its owners' budgets covers a record: at worst the mean
    over the `shared` largest. W names eps_l, which is right when the budgets are equal.

    >>> shared_record_epsilon([1.0, 0.1, 3.0], shared=2)
    2.0
    """
    largest = sorted(epsilons, reverse=True)[: whole(shared, "shared_records")]
    return upper(sum((exact(epsilon) for epsilon in largest), Fraction(0)) / shared)


@dataclass(frozen=True)
class Target:
    """What noise is calibrated for: `count` releases of values of this sensitivity, together (epsilon, delta)-DP.
    Records are drawn at `rate`; then the `coordinates` of a value fix the grid (None: nothing is assumed of it).
    `alpha` is for stable noise."""

    epsilon: Fraction
    delta: Fraction
    count: int
    sensitivity: float
    rate: float = 1.0
    coordinates: int | None = None
    alpha: float | None = None


@dataclass(frozen=True)
class Series(ABC):
    """`count` releases by one mechanism, together (epsilon, delta)-DP.

    Formal guarantee: after k answers the owner has spent at most `spent_after(k)` at `delta`, for any k, queries chosen
    adaptively. With records shared by kappa owners each release is calibrated to (epsilon/kappa, delta/kappa), and the
    amount spent covers all copies. With a `rate` below 1 each release is about records that the owner drew at that rate
    in secret, independently (Poisson). Then the mechanism's sensitivity is at least twice what one record, drawn or
    not, moves the value before it is rounded to a mechanism's grid. The grid moves two values apart by its `rounding`
    w, for a whole move or half of one: noise calibrated for S makes half a move cost (S/2 + w)/(S + w) of b.
    """

    mechanism: Mechanism
    epsilon: Fraction
    delta: Fraction
    count: int
    shared_records: int = 1
    rate: float = 1.0

    norm: ClassVar[Norm]
    law: ClassVar[Law]  # of the whole numbers that hosts draw in its place
    exact: ClassVar[bool] = False  # whether what answers cost is a fraction, the same on every machine
    joint: ClassVar[bool] = False  # whether the first answer spends the budget of all
    # what to use where a person's rows pay too often for its grid
    instead: ClassVar[str] = "fewer epochs or coordinates"

    @classmethod
    @abstractmethod
    def calibrated(cls, target: Target) -> Mechanism:
        """Return the least noise that meets the target."""

    @classmethod
    @abstractmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int, rate: float = 1.0) -> Fraction:
        """Return the largest sensitivity for which noise of scale 1 makes `count` releases (epsilon, delta)-DP. A
        record that is drawn or not moves half of it, roundings included."""

    @classmethod
    def rho(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction | None:
        """Return a bound on the zCDP cost of the `count` releases that `calibrated` makes noise for; None if unknown. A
        mechanism whose delta is the probability that it fails has none."""
        return None

    @property
    def event(self) -> Event:
        """One release as the ledger stores it."""
        return self.mechanism.event if self.rate == 1 else replace(self.mechanism.event, sampling=self.rate)

    @abstractmethod
    def partly_spent(self, answers: int) -> Fraction:
        """Return the epsilon spent by this many answers, from 1 to `count` - 1."""

    def spent_after(self, answers: int) -> Fraction:
        """Return the epsilon spent by this many answers; beyond `count`, more than was agreed on.

        >>> series = make_series("laplace", Fraction(1), Fraction(0), 10, sensitivity=1.0)
        >>> series.spent_after(3), series.spent_after(10)
        (Fraction(3, 10), Fraction(1, 1))
        """
        whole(answers, "answers", least=0)
        if 0 < answers < self.count:
            return self.partly_spent(answers)
        # nothing; the calibrated end; beyond it whatever the ledger will refuse
        return self.epsilon * answers / self.count


class PureSeries(Series):
    """Laplace noise: pure costs add up exactly."""

    norm = Laplace.norm
    law = Law.LAPLACE
    exact = True
    kind: ClassVar[type[Laplace] | type[GridGeometric]] = Laplace

    @classmethod
    def calibrated(cls, target: Target) -> Mechanism:
        """Return the least noise. With a rate, half a move's share of the cost depends on the grid, and the grid on the
        noise: shares from 1/2 on are tried in turn. The share 1 always holds."""
        once, share, sensitivity = per_round(target.epsilon, target.count), Fraction(1, 2), target.sensitivity
        for _ in range(8 if target.rate < 1 and target.coordinates is not None else 0):
            mechanism = cls.kind.calibrate(base_epsilon(once, target.rate, share), sensitivity)
            grid = Fraction(mechanism.rounding(target.coordinates or 1)) * (1 + Fraction(1, 2**50))
            needed = (Fraction(sensitivity) / 2 + grid) / (Fraction(sensitivity) + grid)
            if needed <= share:
                return mechanism
            share = needed
        return cls.kind.calibrate(base_epsilon(once, target.rate, Fraction(1)), sensitivity)

    @classmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int, rate: float = 1.0) -> Fraction:
        return base_epsilon(per_round(epsilon, count), rate)

    @classmethod
    def rho(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
        """Return eps^2/2 for each eps-DP release (Bun and Steinke 2016, Proposition 3.3)."""
        return count * per_round(epsilon, count) ** 2 / 2

    def partly_spent(self, answers: int) -> Fraction:
        return per_round(self.epsilon, self.count) * answers


class GeometricSeries(PureSeries):
    """Two-sided geometric noise on a grid, also pure. The noise that hosts draw for the sum of all has this law."""

    kind = GridGeometric
    instead = "laplace noise"


class GaussianSeries(Series):
    """Gaussian noise: k releases are one Gaussian release of sqrt(k) times the sensitivity.

    Formal guarantee: this is the privacy-loss distribution of the sequence in closed form; the sequence is fixed in
    advance.
    """

    norm = Gaussian.norm
    law = Law.GAUSSIAN

    @classmethod
    def calibrated(cls, target: Target) -> Gaussian:
        epsilon, delta, count, sensitivity = target.epsilon, float(target.delta), target.count, target.sensitivity
        if target.rate == 1:
            return Gaussian.calibrate(epsilon, delta, sensitivity, count=count)
        ratio = sampled_ratio(float(epsilon), delta, count, target.rate)
        return Gaussian(checked_scale(ratio * sensitivity), sensitivity)

    @classmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int, rate: float = 1.0) -> Fraction:
        if rate < 1:
            return 1 / (Fraction(sampled_ratio(float(epsilon), float(delta), count, rate)) * (1 + Fraction(1, 2**50)))
        return 1 / (Fraction(gaussian_ratio(float(epsilon), float(delta)) * count**0.5) * (1 + Fraction(1, 2**50)))

    @classmethod
    def rho(cls, epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
        """Return the sum over releases of sensitivity^2/(2 sigma^2), rounded up, with sigma = ratio sqrt(count)
        sensitivity. The noise is exact and all of delta is slack of the conversion, so adding up rho loses nothing."""
        return Fraction((1 + 1e-9) / (2 * gaussian_ratio(float(epsilon), float(delta)) ** 2))

    def partly_spent(self, answers: int) -> Fraction:
        copies = self.shared_records  # each copy of a shared record costs as much, at its share of delta
        if self.rate < 1:
            once = sampled_epsilon(self.event.multiplier, self.rate, float(self.delta / copies), answers)
        else:
            once = gaussian_epsilon(self.event.multiplier / answers**0.5, float(self.delta / copies))
        return min(copies * Fraction(once), self.epsilon)


class StableSeries(Series):
    """Stable noise on values bounded in L2, for studies: nothing is released with it.

    Formal guarantee: for exactly sampled noise, the amount spent is an upper bound in every direction and any
    dimension, replace-one adjacency: Renyi divergences of all releases, converted (`compose.renyi_epsilon`,
    `releases.stable_divergence`). Parts that a person moves by S_1, S_2, ..., all of them by S in L2, cost no more:
    divergences of a shift are at most its square times a common number. Drawing records in secret gains nothing, as the
    documents that the noise comes from prove no amplification for a sum with it. For every draw, the same in both
    tables, a replacement moves the value by at most the sensitivity, and a mixture of (epsilon, delta)-DP releases is
    one.
    """

    norm = StableOnSums.norm

    @classmethod
    def calibrated(cls, target: Target) -> StableOnSums:
        alpha, sensitivity = target.alpha, target.sensitivity
        if alpha is None:
            raise SettingError("alpha: stable noise needs a number from 1 to 1.9999")
        ratio = stable_ratio(alpha, float(target.epsilon), float(target.delta), target.count)
        return StableOnSums(alpha, checked_scale(ratio * sensitivity * (1 + 1e-12)), sensitivity)

    @classmethod
    def covered(cls, epsilon: Fraction, delta: Fraction, count: int, rate: float = 1.0) -> Fraction:
        raise SettingError(
            "hosts do not draw stable noise; use stable noise only in studies with each owner's own noise"
        )

    def partly_spent(self, answers: int) -> Fraction:
        copies = self.shared_records
        once = renyi_epsilon([self.mechanism.event.times(answers)], float(self.delta / copies)) * (1 + EPSILON_ROUNDING)
        return min(copies * Fraction(once), self.epsilon)


SERIES: dict[str, type[Series]] = {
    "laplace": PureSeries,
    "gaussian": GaussianSeries,
    "geometric": GeometricSeries,
    "randomised-response": PureSeries,  # its question calibrates it: it takes how many answers there are
}
STUDY_SERIES: dict[str, type[Series]] = {
    "stable": StableSeries
}  # that have no exact sampler: nothing is released with them
ALL_SERIES = ChainMap(SERIES, STUDY_SERIES)


def make_series(
    mechanism: str,
    epsilon: Fraction,
    delta: Fraction,
    count: int,
    sensitivity: float,
    shared_records: int = 1,
    rate: float = 1.0,
    coordinates: int | None = None,
    alpha: float | None = None,
) -> Series:
    """Calibrate all releases, with kappa `shared_records` to (epsilon/kappa, delta/kappa); only stable noise has an
    `alpha`."""
    share, kind = Fraction(1, whole(shared_records, "shared_records")), ALL_SERIES[mechanism]
    if (alpha is not None) is not (kind is StableSeries):
        raise SettingError(
            f"alpha: required for stable noise and not allowed for other noise; the mechanism is {mechanism!r}"
        )
    noise = kind.calibrated(Target(epsilon * share, delta * share, count, sensitivity, rate, coordinates, alpha))
    return kind(noise, epsilon, delta, count, shared_records, rate)


def in_pieces(
    mechanism: str,
    epsilon: Fraction,
    delta: Fraction,
    count: int,
    sensitivity: float,
    shared_records: int,
    coordinates: int,
    pieces: int,
    alpha: float | None = None,
) -> Series:
    """Calibrate where each release is made in parts, of which a person moves up to `pieces`, by `sensitivity` in all.

    Formal guarantee: let a person move parts by S_1, S_2, ... with sum at most S. For pure noise they cost it (S_i +
    w)/(b (1 + w/S')) each, with w the distance by which the sampler's grid moves two values (`rounding`) and S' the
    sensitivity for which noise of scale b is calibrated. Together that is at most S'/b, the cost of one release, if S'
    >= S + (pieces - 1) w. For Gaussian and stable noise w = 0, and the squares of the S_i add up to at most S^2.
    """
    calibrated_sensitivity = sensitivity
    for _ in range(8):
        series = make_series(mechanism, epsilon, delta, count, calibrated_sensitivity, shared_records, alpha=alpha)
        needed = sensitivity + (pieces - 1) * series.mechanism.rounding(coordinates) * (1 + 1e-12)
        if pieces == 1 or needed <= calibrated_sensitivity:
            return series
        calibrated_sensitivity = sensitivity + 2 * (needed - sensitivity)
    raise SettingError(
        f"noise: the rounding of {pieces:,} batches of a person's rows raises the sensitivity too much; use a smaller "
        "records_per_person, or " + series.instead
    )


def series_rho(
    mechanism: str, epsilon: Fraction, delta: Fraction, count: int, shared_records: int = 1
) -> Fraction | None:
    """Return what the series of `make_series` costs as zCDP, by the terms alone; None if unknown.

    Formal guarantee: all its releases together, queries chosen adaptively, are rho-zCDP for replace-one adjacency at
    the level of persons (whose rows count in the sensitivity). With records shared by kappa owners this covers all
    copies, whose rho add up. Rounds that ask a random sample count like all others.

    >>> series_rho("laplace", Fraction(1), Fraction(0), 10)
    Fraction(1, 20)
    """
    share, kind = Fraction(1, whole(shared_records, "shared_records")), ALL_SERIES[mechanism]
    rho = kind.rho(epsilon * share, delta * share, count)
    return None if rho is None else rho / share


def mechanism_norm(mechanism: str) -> Norm:
    """Return the norm in which the mechanism needs a value bounded."""
    return ALL_SERIES[mechanism].norm


@dataclass(frozen=True)
class JointSeries(GaussianSeries):
    """`count` Gaussian releases that a record moves by at most d_1, d_2, ..., fixed in advance; the root of the sum of
    their squares is at most the mechanism's sensitivity.

    Formal guarantee: all releases together are (epsilon, delta)-DP, and so are the first k; `rho` is that of one
    release. Shifts may depend on what was released before, and be smaller than d_k. Proof: given all before it, the
    k-th release is a Gaussian mechanism of shift at most d_k, so one random map makes both its laws from N(0, sigma^2)
    and N(d_k, sigma^2): they are dominated. Domination survives adaptive composition where the d_k are fixed in advance
    (Gaussian DP: Dong, Roth and Su 2022). So one release of shift sqrt(d_1^2 + d_2^2 + ...), at most the mechanism's
    sensitivity, dominates all. Renyi divergences of a dominated pair are no larger. One release of kappa times the
    squared shift dominates those of kappa owners that hold a record, in whichever order they come, and this is what
    kappa such series in a row are.
    """

    joint: ClassVar[bool] = True

    @classmethod
    def from_budget(
        cls, epsilon: Fraction, delta: Fraction, count: int, sensitivity: float, shared_records: int = 1
    ) -> "JointSeries":
        """Calibrate the least noise for a record that moves all releases together by `sensitivity`; with records shared
        by kappa owners, to (epsilon/kappa, delta/kappa)."""
        share = Fraction(1, whole(shared_records, "shared_records"))
        noise = Gaussian.calibrate(epsilon * share, float(delta * share), sensitivity)
        return cls(noise, epsilon, delta, count, shared_records)

    def partly_spent(self, answers: int) -> Fraction:
        """Return all of epsilon, from the first answer on: nothing comes back."""
        return self.epsilon
