"""The same budgets with noise drawn elsewhere: by each owner for itself, once for all by three hosts, once by each of
two, or by the owners in shares.

Where each owner draws its own, noise adds up: N owners of the same size have N times the variance of one noise for all.
That often decides whether joining pays, so the forecast says it for every kind, whatever the terms name. Figures are
the outlook's, carried over to the other variance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from parley.data.blocks import one_thread
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import Outlook
from parley.decisions.outlook.worth import joint_cost
from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.aggregation import DistributedNoise, OneNoise
from parley.terms import Terms
from parley.terms.catalogue import HOST_DELTAS, TWO_HOSTS

Kind = Literal["each_owner", "shared", "two_hosts", "distributed"]


@dataclass(frozen=True)
class KindForecast:
    """What the joint model would be worth with noise of one kind; test costs in the target's own units."""

    relative_fitness: float
    together: float
    delta: float
    best_coalition: tuple[str, ...] | None  # whom to ask for the least test cost; None: not looked for
    epsilon: float | None  # that they would all promise, where that is one number
    outlook: Outlook = field(repr=False, compare=False)

    @property
    def gains(self) -> Mapping[str, float]:
        """Of every owner: test cost alone less that of its personal model."""
        return {owner.name: owner.gain.mean for owner in self.outlook.owners}

    @property
    def gaining(self) -> float:
        """The share of owners for whom joining is worth it in half of the draws or more."""
        return float(np.mean(self.outlook.chances >= 0.5))

    def to_json(self) -> dict[str, Any]:
        """The object under its kind in `parley forecast --json`."""
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
def compare_noise(result: Forecast, curious: int = 1) -> NoiseComparison:
    """The forecast `result` beside what the same terms would give with noise of the other kinds. No private record is
    looked at."""
    kinds, missing = dict[Kind, KindForecast](), dict[Kind, str]()
    agreed, known = kind_of(result.terms), result.expected.pilot
    for kind in dict.fromkeys(("each_owner", "shared", agreed)):
        try:
            there = known if kind == agreed else known.under(_terms_of(known, kind))
            outlook = result.outlook if kind == agreed else result.outlook.at(terms=there.terms)
            kinds[kind] = _forecast(result, there, outlook)
        except (TermsError, SettingError, DataError) as error:
            missing[kind] = str(error)
            continue
        if kind == "shared" and isinstance(there.noise, OneNoise):
            twice = replace(there.noise, demands=TWO_HOSTS.draws * there.noise.demands)
            kinds["distributed"] = _louder(result, there, outlook, DistributedNoise(there.noise, curious))
            if agreed != "two_hosts":
                kinds["two_hosts"] = _louder(result, there, outlook, twice)
    if "shared" in missing:
        missing |= {kind: missing["shared"] for kind in ("two_hosts", "distributed") if kind not in kinds}
    return NoiseComparison(kinds, missing, curious)


def _terms_of(known: Pilot, kind: Kind) -> Terms:
    """Terms of the other kind: with the least delta that suffices, where it needs one and there is none."""
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


def _forecast(result: Forecast, there: Pilot, outlook: Outlook) -> KindForecast:
    cost, parts = result.coalitions[0], there.terms.owners
    asked = [part for part, chosen in zip(parts, cost.best_coalition(there.noise), strict=True) if chosen]
    epsilon = min(part.epsilon for part in asked) if there.terms.noise.common else None
    names = tuple(part.name for part in asked)
    return _kind(result, there, there.combined_variance(), names, epsilon, outlook)


def _louder(result: Forecast, there: Pilot, outlook: Outlook, noise: DistributedNoise | OneNoise) -> KindForecast:
    variance = float(there.variances_of(noise).mean())
    louder = outlook.louder(variance / there.combined_variance())
    return _kind(result, there, variance, None, float(there.terms.common_epsilon), louder)


def _kind(
    result: Forecast,
    there: Pilot,
    variance: float,
    asked: tuple[str, ...] | None,
    epsilon: float | None,
    outlook: Outlook,
) -> KindForecast:
    """By the price that the same way of training puts on noise, which is exact where the moments are."""
    fitness = float(result.coalitions[0].privacy_error(variance)) / result.expected.unit
    together = joint_cost(result.expected, fitness)
    return KindForecast(fitness, together, there.terms.privacy.delta, asked, epsilon, outlook)
