"""Which terms would turn a verdict into join: larger budgets with noise of either kind, or more owners like these.

The outlook is carried over: nothing is read or resampled again. A gain counts as in its verdicts, in nearly all draws;
where no budget makes that so, in half of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from parley.data.blocks import one_thread
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.noise_kinds import NoiseComparison
from parley.decisions.outlook.outlook import SURE, Outlook
from parley.decisions.outlook.owner_values import MOST, common_demand, least_epsilon, owners_needed
from parley.decisions.planning.noise_terms import kind_of
from parley.protocol.aggregation import OneNoise
from parley.validate import Floats

Way = Literal["each_owner", "shared", "two_hosts"]

CALIBRATED = (1e-9, 1e6)  # epsilons that noise can be calibrated to
LARGEST = 10.0  # epsilon: beyond, an even chance may become certainty, and nobody should be advised to go there


@dataclass(frozen=True)
class Remedy:
    """One way to spend budgets, and from where on it is worth it; None: up to `LARGEST` it is not. Where epsilons
    differ and each owner has its own noise, these are the times by which all of them would grow (`times`)."""

    way: Way
    first: float | None  # from where on anybody gains
    names: tuple[str, ...]  # who gains there
    everybody: float | None  # from where on all gain that gain by any budget
    times: bool = False


@dataclass(frozen=True)
class Remedies:
    """What would make joining worth it."""

    surely: bool  # whether these are sure gains, or expected ones
    ways: tuple[Remedy, ...]
    owners: int | None  # how many owners like these it takes by the same terms until one gains; None: no number does
    owners_for_all: int | None  # until all gain that gain in any such crowd
    never: tuple[str, ...]  # who gains in none of these ways, whatever the budget
    already: bool  # whether all that gain at any budget do so by the terms as written

    def to_json(self) -> dict[str, Any]:
        """The object under `would_join` in `parley forecast --json`."""
        return {**vars(self), "ways": [vars(way) for way in self.ways]}


@one_thread
def remedies(result: Forecast, noise: NoiseComparison) -> Remedies:
    """What would make the verdict of this forecast join, beside its comparison of kinds of noise. No private record is
    looked at."""
    ways, names = _ways(result, noise), result.outlook.names
    for surely in (True, False):
        found = [outlook.bearable(surely) for _, outlook in ways]
        if any((each > 0).any() for each in found):
            break
    told = [_remedy(way, outlook.laws[0].pilot, each, names) for (way, outlook), each in zip(ways, found, strict=True)]
    never = [name for place, name in enumerate(names) if not any(each[place] > 0 for each in found)]
    written, can = found[0], np.any(np.array(found) > 0, axis=0)
    already = bool(can.any() and (written[can] >= 1).all())
    return Remedies(surely, tuple(told), *_owners(result, surely), tuple(never), already)


def _owners(result: Forecast, surely: bool) -> tuple[int | None, int | None]:
    """How many owners like these it takes until one gains, and until all do that gain in any such crowd."""
    outlook, noise, least = result.outlook, result.expected.pilot.noise, SURE if surely else 0.5
    in_a_crowd = outlook.at(owners=MOST).louder(0.0).chances >= least
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
    """The terms as written, and the other kind of noise."""
    agreed = kind_of(result.terms)
    ways: list[tuple[Way, Outlook]] = [(agreed, result.outlook)]
    ways += [
        (kind, found.outlook)
        for kind, found in noise.kinds.items()
        if (kind == "each_owner" or kind == "shared") and kind != agreed
    ]
    return ways


def _remedy(way: Way, pilot: Pilot, bearable: Floats, names: Sequence[str]) -> Remedy:
    """From which budgets on one way is worth it, where noise may be so many times as loud [N]."""
    budgets = np.array([float(part.epsilon) for part in pilot.terms.owners])
    bearable = bearable * pilot.combined_variance()
    common = isinstance(pilot.noise, OneNoise)
    times = not common and bool(budgets.min() < budgets.max())
    unit, largest = (1.0, LARGEST / budgets.max()) if times else (float(budgets.min()), LARGEST)
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
    """The combined answer's variance if every epsilon were so many times as large; infinite where a score takes all of
    it. Of one noise for all, the smallest epsilon counts."""
    noise, score = pilot.noise, float(pilot.terms.score_epsilon)
    training = factor * budgets - score
    if not training.min() > 0:
        return math.inf
    training = np.clip(training, *CALIBRATED)
    if isinstance(noise, OneNoise):
        demand = common_demand(pilot.setup, float(training.min()))
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
