"""Other kinds of noise, and terms that would turn a verdict into join: larger budgets, or more owners like these. N
like owners' own noise adds up to N times the variance of one noise for all, so the forecast is given for every kind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from parley.data.blocks import one_thread
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import SURE_SHARE, Outlook
from parley.decisions.outlook.owner_values import MAX_OWNERS, common_demand, least_epsilon, owners_needed
from parley.decisions.outlook.worth import joint_cost
from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.aggregation import DistributedNoise, OneNoise
from parley.terms import Terms
from parley.terms.catalogue import HOST_DELTAS, TWO_HOSTS
from parley.validate import Floats

Kind = Literal["each_owner", "shared", "two_hosts", "distributed"]


@dataclass(frozen=True)
class KindForecast:
    """The joint model's forecast with noise of one kind; test costs in the target's own units."""

    relative_fitness: float
    together: float
    delta: float
    best_coalition: tuple[str, ...] | None  # whom to ask for the least test cost; None: not looked for
    epsilon: float | None  # that they would all promise, where that is one number
    outlook: Outlook = field(repr=False, compare=False)

    @property
    def gains(self) -> Mapping[str, float]:
        """Each owner's test cost alone less its personal model's."""
        return {owner.name: owner.gain.mean for owner in self.outlook.owners}

    @property
    def gaining(self) -> float:
        """The share of owners for whom joining is worth it in at least half of the draws."""
        return float(np.mean(self.outlook.chances >= 0.5))

    def to_json(self) -> dict[str, Any]:
        """Return the object under its kind in `parley forecast --json`."""
        return {
            "relative_fitness": self.relative_fitness,
            "together": self.together,
            "delta": self.delta,
            "share_that_gains": self.gaining,
            "gains": dict(self.gains),
            "best_coalition": self.best_coalition,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True)
class NoiseComparison:
    """All kinds of noise, and why one is missing; with `distributed`, `curious` owners may collude."""

    kinds: Mapping[Kind, KindForecast]
    missing: Mapping[Kind, str]
    curious: int

    def to_json(self) -> dict[str, Any]:
        """Return the object under `noise` in `parley forecast --json`; null, with a reason, for missing kinds."""
        kinds: tuple[Kind, ...] = ("each_owner", "shared", "two_hosts", "distributed")
        content: dict[str, Any] = {kind: self.kinds[kind].to_json() if kind in self.kinds else None for kind in kinds}
        return {**content, "curious": self.curious, "missing": dict(self.missing)}


@one_thread
def compare_noise(result: Forecast, curious: int = 1) -> NoiseComparison:
    """Forecast the terms of `result` under other kinds of noise. No private record is read."""
    kinds, missing = dict[Kind, KindForecast](), dict[Kind, str]()
    agreed, known = kind_of(result.terms), result.expected.pilot
    for kind in dict.fromkeys(("each_owner", "shared", agreed)):
        try:
            pilot = known if kind == agreed else known.under(_terms_of(known, kind))
            outlook = result.outlook if kind == agreed else result.outlook.at(terms=pilot.terms)
            kinds[kind] = _forecast(result, pilot, outlook)
            of_three = known.under(shared_terms(known.terms)) if pilot.terms.noise.paired else pilot
        except (TermsError, SettingError, DataError) as error:
            missing[kind] = str(error)
            continue
        if kind == "shared" and isinstance(of_three.noise, OneNoise):
            twice = replace(of_three.noise, demands=TWO_HOSTS.draws * of_three.noise.demands)
            kinds["distributed"] = _louder(result, pilot, outlook, DistributedNoise(of_three.noise, curious))
            if agreed != "two_hosts":
                kinds["two_hosts"] = _louder(result, pilot, outlook, twice)
    if "shared" in missing:
        missing |= {kind: missing["shared"] for kind in ("two_hosts", "distributed") if kind not in kinds}
    return NoiseComparison(kinds, missing, curious)


def _terms_of(known: Pilot, kind: Kind) -> Terms:
    """Return terms with another kind of noise, with the least sufficient delta if they need one and have none."""
    if kind == "each_owner":
        return each_owner_terms(known.terms)
    *first, last = HOST_DELTAS
    for delta in first:
        try:
            terms = shared_terms(known.terms, delta)
            known.under(terms).setup.law()
        except TermsError:
            continue
        return terms
    return shared_terms(known.terms, last)


def _forecast(result: Forecast, pilot: Pilot, outlook: Outlook) -> KindForecast:
    cost, parts = result.coalitions[0], pilot.terms.owners
    chosen_parts = [part for part, chosen in zip(parts, cost.best_coalition(pilot.noise), strict=True) if chosen]
    epsilon = min(part.epsilon for part in chosen_parts) if pilot.terms.noise.common else None
    names = tuple(part.name for part in chosen_parts)
    return _kind(result, pilot, pilot.combined_variance(), names, epsilon, outlook)


def _louder(result: Forecast, there: Pilot, outlook: Outlook, noise: DistributedNoise | OneNoise) -> KindForecast:
    variance = float(there.variances_of(noise).mean())
    louder = outlook.louder(variance / there.combined_variance())
    return _kind(result, there, variance, None, float(there.terms.common_epsilon), louder)


def _kind(
    result: Forecast,
    pilot: Pilot,
    variance: float,
    names: tuple[str, ...] | None,
    epsilon: float | None,
    outlook: Outlook,
) -> KindForecast:
    """Forecast by the price that the same training puts on noise; exact if the moments are."""
    fitness = float(result.coalitions[0].privacy_error(variance)) / result.expected.unit
    together = joint_cost(result.expected, fitness)
    return KindForecast(fitness, together, pilot.terms.privacy.delta, names, epsilon, outlook)


Way = Literal["each_owner", "shared", "two_hosts"]

EPSILON_LIMITS = (1e-9, 1e6)  # epsilons that noise can be calibrated to
MAX_ADVISED_EPSILON = (
    10.0  # epsilon: beyond, an even chance may become certainty, and nobody should be advised to go there
)


@dataclass(frozen=True)
class Remedy:
    """One way to spend budgets, and from where it is worth it; None: not up to `MAX_ADVISED_EPSILON`. If epsilons "
    "differ
    and each owner has its own noise, figures are multiples of all of them (`times`)."""

    way: Way
    first: float | None  # from where on anybody gains
    names: tuple[str, ...]  # who gains there
    everybody: float | None  # from where on all gain that gain by any budget
    times: bool = False


@dataclass(frozen=True)
class Remedies:
    """The changes that would make joining worth it."""

    surely: bool  # whether these are sure gains, or expected ones
    ways: tuple[Remedy, ...]
    owners: int | None  # how many owners like these it takes by the same terms until one gains; None: no number does
    owners_for_all: int | None  # until all gain that gain in any such crowd
    never: tuple[str, ...]  # who gains in none of these ways, whatever the budget
    already: bool  # whether all that gain at any budget do so by the terms as written

    def to_json(self) -> dict[str, Any]:
        """Return the object under `would_join` in `parley forecast --json`."""
        return {**vars(self), "ways": [vars(way) for way in self.ways]}


@one_thread
def remedies(result: Forecast, noise: NoiseComparison) -> Remedies:
    """Find what would turn this forecast's verdict into join, given its noise comparison. No private record is read."""
    ways, names = _ways(result, noise), result.outlook.names
    for surely in (True, False):
        bearable = [outlook.bearable(surely) for _, outlook in ways]
        if any((each > 0).any() for each in bearable):
            break
    found_ways = [
        _remedy(way, outlook.laws[0].pilot, each, names) for (way, outlook), each in zip(ways, bearable, strict=True)
    ]
    never = [name for place, name in enumerate(names) if not any(each[place] > 0 for each in bearable)]
    written, can = bearable[0], np.any(np.array(bearable) > 0, axis=0)
    already = bool(can.any() and (written[can] >= 1).all())
    return Remedies(surely, tuple(found_ways), *_owners(result, surely), tuple(never), already)


def _owners(result: Forecast, surely: bool) -> tuple[int | None, int | None]:
    """Return how many owners like these it takes until one gains, and until all that can gain do."""
    outlook, noise, least = result.outlook, result.expected.pilot.noise, SURE_SHARE if surely else 0.5
    in_a_crowd = outlook.at(owners=MAX_OWNERS).louder(0.0).chances >= least
    if not in_a_crowd.any():
        return None, None
    first, everybody = (
        owners_needed(outlook, noise, pays)
        for pays in (
            lambda there, _: bool((in_a_crowd & (there.chances >= least)).any()),
            lambda there, _: bool((there.chances >= least)[in_a_crowd].all()),
        )
    )
    return first, everybody


def _ways(result: Forecast, noise: NoiseComparison) -> list[tuple[Way, Outlook]]:
    """List the terms as written, and the other kind of noise."""
    agreed = kind_of(result.terms)
    ways: list[tuple[Way, Outlook]] = [(agreed, result.outlook)]
    ways += [
        (kind, forecast.outlook)
        for kind, forecast in noise.kinds.items()
        if (kind == "each_owner" or kind == "shared") and kind != agreed
    ]
    return ways


def _remedy(way: Way, pilot: Pilot, bearable: Floats, names: Sequence[str]) -> Remedy:
    """Return the budgets from which one way is worth it, if noise may have `bearable` times its variance [N]."""
    budgets = np.array([float(part.epsilon) for part in pilot.terms.owners])
    bearable = bearable * pilot.combined_variance()
    common = isinstance(pilot.noise, OneNoise)
    times = not common and bool(budgets.min() < budgets.max())
    unit, largest = (1.0, MAX_ADVISED_EPSILON / budgets.max()) if times else (float(budgets.min()), MAX_ADVISED_EPSILON)
    tried: dict[float, float] = {}

    def least(variance: float) -> float | None:
        found = least_epsilon(variance, lambda factor: _variance(pilot, factor, budgets), tried)
        return None if found is None or found * unit > largest else found * unit

    can = bearable > 0
    if not can.any():
        return Remedy(way, None, (), None, times)
    first, most = bearable[can].min(), bearable.max()
    gaining = tuple(name for name, each in zip(names, bearable, strict=True) if each >= most * (1 - 1e-9))
    return Remedy(way, least(most), gaining, least(first), times)


def _variance(pilot: Pilot, factor: float, budgets: Floats) -> float:
    """Return the combined answer's variance with every epsilon multiplied by `factor`; infinite if a score takes all of
    it. With one noise for all, the smallest epsilon counts."""
    noise, score = pilot.noise, float(pilot.terms.score_epsilon)
    training = factor * budgets - score
    if not training.min() > 0:
        return math.inf
    training = np.clip(training, *EPSILON_LIMITS)
    if isinstance(noise, OneNoise):
        demand = common_demand(pilot.setup, float(training.min())) * pilot.sum_spread
        return float(pilot.variances_of(replace(noise, demands=np.full(len(budgets), demand))).mean())
    known = dict[object, float]()
    own = np.empty(len(budgets))
    for place, part in enumerate(pilot.terms.owners):
        mechanism, series = pilot.mechanisms[place], pilot.setup.part(part.name).training.series
        like = part.records, part.epsilon, series.count
        if like not in known:
            known[like] = pilot.setup.variance_at(part.name, float(training[place])) / mechanism.variance
        own[place] = noise.variances[place] * known[like]
    return float(pilot.variances_of(replace(noise, variances=own)).mean())
