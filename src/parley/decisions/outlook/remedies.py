"""Which terms would turn a forecast's verdict into yes: larger budgets with noise of either kind, the same budgets
spent as a plan would, or more owners like these.

The forecast is carried over, as in `what_if`: what is expected without noise, and what a unit of the combined answer's
variance adds. So nothing is read or resampled again. A gain counts as in the forecast's own verdicts: surely, whatever
owners differ by. Where no budget makes that so, or the law is invented, it is what is expected that counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from parley.decisions.expectation.expectation import Expectation, expect
from parley.decisions.knowledge.one_thread import one_thread
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.joining import Joining, joining, least_epsilon
from parley.decisions.outlook.noise_kinds import NoiseComparison
from parley.decisions.outlook.owner_forecast import coalition_cost, common_demand
from parley.decisions.outlook.owners_needed import MOST, owners_needed
from parley.decisions.outlook.worth import REPLICATES
from parley.decisions.planning.noise_terms import kind_of
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.aggregation import Members, OneNoise
from parley.validate import Floats

Way = Literal["each_owner", "shared", "two_hosts", "plan"]

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
    """What would make a forecast's verdict yes."""

    surely: bool  # whether these are sure gains, or expected ones
    ways: tuple[Remedy, ...]
    owners: int | None  # how many owners like these it takes by the same terms until one gains; None: no number does
    owners_for_all: int | None  # until all gain that gain in any such crowd
    never: tuple[str, ...]  # who gains in none of these ways, whatever the budget
    already: bool  # whether all that gain at any budget do so by the terms as written

    def to_json(self) -> dict[str, Any]:
        """The object under `would_be_yes` in `parley forecast --json`."""
        return {**vars(self), "ways": [vars(way) for way in self.ways]}


@dataclass(frozen=True, eq=False)
class _Spending:
    """One way to spend budgets, as a forecast of it tells."""

    way: Way
    expected: Expectation
    cost: CoalitionCost
    law: Joining

    def bearable(self, counting: Callable[[Joining], Members], ahead: float) -> Floats:
        """The variance up to which each owner's gain counts [N], and the joint model is better than what nobody has to
        be asked for, which costs `ahead` above the best."""
        most = (ahead - float(self.cost.at(np.array(self.expected.pilot.rows.sum()), 0.0))) / max(
            self.cost.noise_price, 1e-300
        )
        return np.minimum(self.law.bearable_where(counting), max(most, 0.0))


@one_thread
def remedies(result: Forecast, noise: NoiseComparison) -> Remedies:
    """What would make the verdict of this forecast yes, beside its comparison of kinds of noise. No private record is
    looked at."""
    ahead = _ahead(result)

    def counting(surely: bool) -> Callable[[Joining], Members]:
        return lambda law: law.counting(surely)

    ways = _ways(result, noise)
    names = [part.name for part in result.expected.pilot.terms.owners]
    for surely in (False,) if result.laws else (True, False):
        found = [way.bearable(counting(surely), ahead) for way in ways]
        if any((each > 0).any() for each in found):
            break
    told = [_remedy(way, each, names) for way, each in zip(ways, found, strict=True)]
    never = [name for place, name in enumerate(names) if not any(each[place] > 0 for each in found)]
    written, can = found[0], np.any(np.array(found) > 0, axis=0)
    already = bool(can.any() and (result.expected.pilot.combined_variance() <= written[can]).all())
    return Remedies(surely, tuple(told), *_owners(result, counting(surely), ahead), tuple(never), already)


def _owners(result: Forecast, counting: Callable[[Joining], Members], ahead: float) -> tuple[int | None, int | None]:
    """How many owners like these it takes until one gains, and until all do that gain in any such crowd."""
    law, pilot, cost = result.joining, result.expected.pilot, result.coalitions[0]
    in_a_crowd = counting(law.among(MOST / len(pilot.rows)).at(0.0))

    def gaining(law: Joining, variance: float) -> Members:
        better = float(cost.at(np.array(law.owners.together_records), variance)) < ahead
        return counting(law) & in_a_crowd & better

    if not in_a_crowd.any():
        return None, None
    first, everybody = (
        owners_needed(law, pilot.noise, pilot.combined_variance(), pays)
        for pays in (
            lambda law, variance: bool(gaining(law, variance).any()),
            lambda law, variance: bool(gaining(law, variance).sum() == in_a_crowd.sum()),
        )
    )
    return first, everybody


def _ahead(result: Forecast) -> float:
    """What the better model that asks nobody costs above the best one, in prepared units."""
    nobody, unit = result.worth.baselines, result.expected.pilot.setup.preparation.target_scale**2
    costs = [nobody.zero] if nobody.public_sample is None else [nobody.zero, nobody.public_sample]
    return min(costs) / unit - result.best_cost


def _ways(result: Forecast, noise: NoiseComparison) -> list[_Spending]:
    """As written, with noise of the other kind, and as a quick plan would have it."""
    agreed = kind_of(result.terms)
    ways = [_Spending(agreed, result.expected, result.coalitions[0], result.joining)]
    ways += [
        _Spending(kind, found.expected, found.cost, found.law)
        for kind, found in noise.kinds.items()
        if kind in ("each_owner", "shared") and kind != agreed
    ]
    if result.better_plan is not None:
        try:
            expected = expect(result.better_plan.pilot)
            fitness, models = expected.ending(result.seed, REPLICATES)
            cost, _ = coalition_cost(expected, fitness)
            variance = expected.pilot.combined_variance()
            law = joining(expected, cost, variance, models, result.differences)
            ways.append(_Spending("plan", expected, cost, law))
        except (TermsError, SettingError, DataError):
            pass
    return ways


def _remedy(way: _Spending, bearable: Floats, names: Sequence[str]) -> Remedy:
    """From which budgets on one way is worth it."""
    pilot = way.expected.pilot
    budgets = np.array([float(part.epsilon) for part in pilot.terms.owners])
    common = isinstance(pilot.noise, OneNoise)
    times = not common and bool(budgets.min() < budgets.max())
    unit, largest = (1.0, LARGEST / budgets.max()) if times else (float(budgets.min()), LARGEST)
    tried: dict[float, float] = {}

    def least(variance: float) -> float | None:
        found = least_epsilon(variance, lambda factor: _variance(pilot, factor, budgets), tried)
        return None if found is None or found * unit > largest else found * unit

    can = bearable > 0
    if not can.any():
        return Remedy(way.way, None, (), None, times)
    first, most = bearable[can].min(), bearable.max()
    gaining = tuple(name for name, each in zip(names, bearable, strict=True) if each >= most * (1 - 1e-9))
    return Remedy(way.way, least(most), gaining, least(first), times)


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
