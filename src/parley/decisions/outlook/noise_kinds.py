"""The same budgets with noise drawn elsewhere: by each owner for itself, once for all by three hosts, once by each of
two, or by the owners in shares.

Where each owner draws its own, noise adds up: N owners of the same size have N times the variance of one noise for all.
That often decides whether joining pays, so the forecast says it for every kind, whatever the terms name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from parley.data.sources import Table
from parley.decisions.expectation.expectation import Expectation, expect
from parley.decisions.knowledge.one_thread import one_thread
from parley.decisions.knowledge.pilot import Pilot, open_pilot
from parley.decisions.knowledge.sources import Source
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.joining import Joining, joining
from parley.decisions.outlook.owner_forecast import coalition_cost
from parley.decisions.outlook.worth import joint_cost
from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.aggregation import CoalitionNoise, DistributedNoise, OneNoise
from parley.terms.catalogue import HOST_DELTAS, TWO_HOSTS

Kind = Literal["each_owner", "shared", "two_hosts", "distributed"]


@dataclass(frozen=True)
class KindForecast:
    """What the joint model would be worth with noise of one kind; test costs in the target's own units."""

    relative_fitness: float
    together: float
    gains: Mapping[str, float]  # of every owner: test cost alone less that of its personal model
    counting: Mapping[str, bool]  # whether that is enough to count as a gain
    delta: float
    best_coalition: tuple[str, ...] | None  # whom to ask for the least test cost; None: not looked for
    epsilon: float | None  # that they would all promise, where that is one number
    law: Joining = field(repr=False, compare=False)  # what the gains follow from
    cost: CoalitionCost = field(repr=False, compare=False)
    expected: Expectation = field(repr=False, compare=False)

    @property
    def gaining(self) -> float:
        """The share of owners that gain by joining."""
        return float(np.mean([*self.counting.values()]))

    def to_json(self) -> dict[str, Any]:
        """The object under its kind in `parley forecast --json`."""
        rest = {"share_that_gains": self.gaining, "gains": dict(self.gains), "best_coalition": self.best_coalition}
        return {
            "relative_fitness": self.relative_fitness,
            "together": self.together,
            "delta": self.delta,
            **rest,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True)
class NoiseComparison:
    """All kinds, and why one is missing. `distributed`: `curious` owners may pool what they drew; terms cannot name
    it."""

    kinds: Mapping[Kind, KindForecast]
    missing: Mapping[Kind, str]
    curious: int

    def to_json(self) -> dict[str, Any]:
        """The object under `noise` in `parley forecast --json`; null for a kind that these terms do not allow, and
        why."""
        kinds: tuple[Kind, ...] = ("each_owner", "shared", "two_hosts", "distributed")
        content: dict[str, Any] = {kind: self.kinds[kind].to_json() if kind in self.kinds else None for kind in kinds}
        return {**content, "curious": self.curious, "missing": dict(self.missing)}


@one_thread
def compare_noise(
    result: Forecast, pilot: Table | Source | None = None, seed: int = 0, curious: int = 1
) -> NoiseComparison:
    """The forecast `result` beside what the same terms would give with noise of the other kinds. No private record is
    looked at."""
    here = result.expected
    known = open_pilot(result.terms, pilot) if here is None else here.pilot
    kinds, missing = dict[Kind, KindForecast](), dict[Kind, str]()
    agreed = kind_of(result.terms)
    for kind in dict.fromkeys(("each_owner", "shared", agreed)):
        own = kind == agreed
        try:
            there = known if own else _under(known, kind)
            expected = here if own and here is not None else expect(there)
            few = None if expected.simulated else 1  # moments say all, and models as they may come out nothing more
            path, models = (result.path, result.models) if own else expected.outcome(seed, few)
            mean = result.relative_fitness.mean if own else float(path[-1])
        except (TermsError, SettingError, DataError) as error:
            missing[kind] = str(error)
            continue
        cost, noise = coalition_cost(expected, mean)
        gains = joining(expected, cost, there.combined_variance(), models, result.joining.differences)
        kinds[kind] = _forecast(expected, mean, cost, noise, gains)
        if kind == "shared" and isinstance(there.noise, OneNoise):
            kinds["distributed"] = _louder(expected, cost, gains, DistributedNoise(there.noise, curious))
            twice = replace(there.noise, demands=TWO_HOSTS.draws * there.noise.demands)
            kinds["two_hosts"] = _louder(expected, cost, gains, twice)
    if "shared" in missing:
        missing |= {kind: missing["shared"] for kind in ("two_hosts", "distributed") if kind not in kinds}
    return NoiseComparison(kinds, missing, curious)


def _under(known: Pilot, kind: Kind) -> Pilot:
    """The pilot under terms of the other kind: with the least delta that suffices, where it needs one and there is
    none."""
    if kind == "each_owner":
        return known.under(each_owner_terms(known.terms))
    *first, last = HOST_DELTAS
    for delta in first:
        try:
            there = known.under(shared_terms(known.terms, delta))
            there.setup.law()
        except TermsError:
            continue
        return there
    return known.under(shared_terms(known.terms, last))


def _forecast(
    expected: Expectation, mean: float, cost: CoalitionCost, noise: CoalitionNoise, gains: Joining
) -> KindForecast:
    best, parts = cost.best_coalition(noise), expected.pilot.terms.owners
    asked = [part for part, chosen in zip(parts, best, strict=True) if chosen]
    epsilon = min(part.epsilon for part in asked) if expected.pilot.terms.noise.common else None
    return _kind(expected, mean, cost, gains, tuple(part.name for part in asked), epsilon)


def _louder(
    expected: Expectation, cost: CoalitionCost, gains: Joining, noise: DistributedNoise | OneNoise
) -> KindForecast:
    """By the price that the same way of training puts on noise, which is exact where the moments are."""
    variance = float(expected.pilot.variances_of(noise).mean())
    fitness = float(cost.privacy_error(variance)) / expected.unit
    return _kind(expected, fitness, cost, gains.at(variance), None, float(expected.pilot.terms.common_epsilon))


def _kind(
    expected: Expectation,
    fitness: float,
    cost: CoalitionCost,
    gains: Joining,
    asked: tuple[str, ...] | None,
    epsilon: float | None,
) -> KindForecast:
    terms, unit = expected.pilot.terms, expected.pilot.setup.preparation.target_scale**2
    names, mean = [part.name for part in terms.owners], gains.gains.mean(axis=1)
    found = {name: float(gain) * unit for name, gain in zip(names, mean, strict=True)}
    counting = dict(zip(names, gains.counting().tolist(), strict=True))
    told = fitness, joint_cost(expected, fitness), found, counting, terms.privacy.delta, asked, epsilon
    return KindForecast(*told, gains, cost, expected)
