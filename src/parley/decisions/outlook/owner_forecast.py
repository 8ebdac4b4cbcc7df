"""What joining means for each owner by a forecast: costs alone, together and personal, values, break-even budgets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from parley.decisions.expectation.expectation import Expectation
from parley.decisions.knowledge.baselines import AloneModel, trees_alone
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.joining import Interval, Joining, OwnerDraws, Verdict, least_epsilon
from parley.errors import TermsError
from parley.protocol.aggregation import CoalitionNoise, OneNoise
from parley.protocol.setup import Setup


@dataclass(frozen=True)
class OwnerForecast:
    """What joining means for one owner: expected test costs for its own customers, in the target's own units."""

    name: str
    alone: float  # a ridge of its own rows, or boosted trees where public rows say that they would be better
    together: float  # the joint model as it is
    personal: float  # the joint model, combined with its own rows
    gain: Interval  # alone less personal, 90 %
    verdict: Verdict
    together_interval: Interval  # 90 %
    # own, or common where there is one noise; the score's part included; None: none pays; 0: all do
    break_even_epsilon: float | None
    marginal_value: float  # what the coalition loses without this owner
    shapley_value: float
    shapley_error: float
    alone_model: AloneModel = "linear"  # whose cost `alone` is

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "gain": vars(self.gain), "together_interval": vars(self.together_interval)}


def coalition_cost(expected: Expectation, fitness: float) -> tuple[CoalitionCost, CoalitionNoise]:
    """Estimation, bias and the price of noise, beside the noise of the terms' own budgets. By moments the error is
    linear in the noise's variance; by a pilot run it is taken to be so between none and the terms' own."""
    pilot, here = expected.pilot, expected.here
    noise = pilot.noise
    excess = fitness * expected.unit
    bias = min(expected.bias(), excess)
    price = (excess - bias) / pilot.combined_variance()
    nobody = here.start_cost - here.least_cost
    return CoalitionCost(here.estimation, bias, price, nobody, trees_alone(pilot)), noise


def owner_forecasts(
    expected: Expectation,
    cost: CoalitionCost,
    noise: CoalitionNoise,
    gains: Joining,
    draws: OwnerDraws,
) -> tuple[OwnerForecast, ...]:
    """What joining means for every owner, in draws of what the pilot leaves open."""
    pilot = expected.pilot
    unit = pilot.setup.preparation.target_scale**2
    marginal, (shapley, error) = cost.leave_one_out(noise), cost.shapley(noise)
    alone, personal = draws.alone.mean(axis=1), draws.personal.mean(axis=1)
    costs, found = draws.intervals(draws.together), draws.intervals(draws.alone - draws.personal)
    by_trees, verdicts = gains.by_trees, draws.verdicts
    result, known = [], dict[object, float | None]()
    tried = dict[float, float]() if isinstance(noise, OneNoise) else None  # one law for all owners
    score, variance_at = float(pilot.terms.score_epsilon), _variances(pilot, noise)
    for place, part in enumerate(pilot.terms.owners):
        bearable = float(gains.bearable[place])
        like = part.records, part.epsilon, pilot.setup.part(part.name).training.series.count, bearable
        if like not in known:
            known[like] = least_epsilon(bearable, partial(variance_at, place), tried)
        even = known[like]
        result.append(
            OwnerForecast(
                name=part.name,
                alone=float(alone[place]),
                together=costs[place].mean,
                personal=float(personal[place]),
                gain=found[place],
                verdict=verdicts[place],
                together_interval=costs[place],
                break_even_epsilon=even if even is None or even == 0 else even + score,
                marginal_value=float(marginal[place]) * unit,
                shapley_value=float(shapley[place]) * unit,
                shapley_error=float(error[place]) * unit,
                alone_model="boosted trees" if by_trees[place] else "linear",
            )
        )
    return tuple(result)


def _variances(pilot: Pilot, noise: CoalitionNoise) -> Callable[[int, float], float]:
    """The combined answer's variance if the owner at a place chose to train with an epsilon; where there is one noise,
    all with it."""
    records, size = noise.records, float(noise.records.sum())
    if isinstance(noise, OneNoise):
        return lambda place, epsilon: common_demand(pilot.setup, epsilon) / size**2
    others, variance = noise.without_each(np.ones(len(records), dtype=bool))
    rest, names = variance * (others / size) ** 2, pilot.setup.schedule.names

    def variance_at(place: int, epsilon: float) -> float:
        counts = float(noise.variances[place] / pilot.mechanisms[place].variance)  # beside that of others, by the rule
        own = pilot.setup.variance_at(names[place], epsilon) * counts
        return float(rest[place] + own * (records[place] / size) ** 2)

    return variance_at


def common_demand(setup: Setup, epsilon: float) -> float:
    """The variance of the one noise of a sum if training had this common epsilon; infinite where no law is loud
    enough."""
    try:
        return setup.law(0, Fraction(epsilon) + setup.terms.score_epsilon).sum_variance
    except TermsError:
        return math.inf
