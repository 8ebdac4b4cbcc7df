"""Each owner's addition to the joint model, the epsilon from which joining pays it, and how many owners that takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.optimize import brentq

from parley.decisions.expectation.expectation import Expectation
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.outlook import Outlook
from parley.errors import TermsError
from parley.numerals import number
from parley.protocol.aggregation import CoalitionNoise, OneNoise
from parley.protocol.setup import Setup

MAX_OWNERS = 10**9  # owners
OWNERS_PRECISION = 50  # the number is found to one part in so many
BREAK_EVEN_TOLERANCE = 1e-6  # relative: an epsilon from which joining pays is not more than this above the least


@dataclass(frozen=True)
class OwnerValue:
    """One owner's values: test costs in the target's own units."""

    name: str
    # own, or common where there is one noise; the score's part included; None: none pays; 0: all do
    break_even_epsilon: float | None
    marginal_value: float  # what the coalition loses without this owner
    shapley_value: float
    shapley_error: float


def owner_values(
    outlook: Outlook, expected: Expectation, cost: CoalitionCost, noise: CoalitionNoise
) -> tuple[OwnerValue, ...]:
    """Value every owner. An epsilon pays if joining is worth it in at least half of the outlook's draws."""
    pilot = expected.pilot
    unit, variance = pilot.setup.preparation.target_scale**2, pilot.combined_variance()
    marginal, (shapley, error) = cost.leave_one_out(noise), cost.shapley(noise)
    known: dict[object, float | None] = {}
    tried: dict[float, float] | None = {} if isinstance(noise, OneNoise) else None  # one law for all owners
    score, variance_at, bearable = float(pilot.terms.score_epsilon), _variances(pilot, noise), outlook.bearable()
    valued = []
    for place, part in enumerate(pilot.terms.owners):
        most = float(bearable[place]) * variance
        like = part.records, part.epsilon, pilot.setup.part(part.name).training.series.count, most
        if like not in known:
            known[like] = least_epsilon(most, partial(variance_at, place), tried)
        even = known[like]
        values = (float(each[place]) * unit for each in (marginal, shapley, error))
        valued.append(OwnerValue(part.name, even if even is None or even == 0 else even + score, *values))
    return tuple(valued)


def least_epsilon(
    bearable: float, variance_at: Callable[[float], float], tried: dict[float, float] | None = None
) -> float | None:
    """Return the least epsilon at which the combined answer's variance is bearable; None if none is, 0 if all are.
    `tried` keeps known variances by the logarithm of epsilon; the search goes on between them."""
    known = {} if tried is None else tried

    def squeezed(log_epsilon: float) -> float:
        """Return the spare variance, squeezed to be nearly linear where noise is loud, to save steps."""
        if log_epsilon not in known:
            known[log_epsilon] = variance_at(math.exp(log_epsilon))
        spare = bearable - known[log_epsilon]
        return math.copysign(min(math.log1p(abs(spare) / bearable), 1e3), spare)

    low, high = math.log(1e-6), math.log(1e6)
    if not bearable > 0 or not squeezed(high) > 0:
        return None
    if squeezed(low) > 0:
        return 0.0
    low = max(x for x, variance in known.items() if not variance < bearable)
    high = min(x for x in known if x > low)
    return math.exp(brentq(squeezed, low, high, xtol=BREAK_EVEN_TOLERANCE / 2) + BREAK_EVEN_TOLERANCE / 2)


def _variances(pilot: Pilot, noise: CoalitionNoise) -> Callable[[int, float], float]:
    """Return a function: the combined answer's variance if one owner (one noise: all) trained with an epsilon."""
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
    """Return the variance of the one noise of a sum at this common epsilon; infinite if no law is loud enough."""
    try:
        return setup.law(0, Fraction(epsilon) + setup.terms.score_epsilon).sum_variance
    except TermsError:
        return math.inf


def owners_needed(outlook: Outlook, noise: CoalitionNoise, pays: Callable[[Outlook, float], bool]) -> int | None:
    """Return the least number of owners, alike these, for whose outlook and times of the combined variance `pays`
    holds; None if no number is enough. With N owners instead of N' the variance is N'/N times as large if each adds its
    own noise, and (N'/N)^2 times with one noise for all."""
    present, power = len(noise.records), 2 if isinstance(noise, OneNoise) else 1

    def enough(owners: int) -> bool:
        times = (present / owners) ** power
        return pays(outlook.at(owners=owners).louder(times), times)

    if not enough(MAX_OWNERS):
        return None
    low, high = (
        1,
        MAX_OWNERS,
    )  # joining pays more with every owner: look between a number too small and one that is enough
    while high - low > low // OWNERS_PRECISION:
        middle = max(low + 1, min(high - 1, round((low * high) ** 0.5)))
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= 1:
            break
    return high


def needed_words(needed: int | None, here: int) -> str:
    """Say how many owners are needed, where a whole owner is protected."""
    if needed is None:
        return (
            "the unit is an owner: no number of owners like these would gain by joining, because clip, rounds and step "
            "alone cost more"
        )
    return (
        f"the unit is an owner: about {number(needed)} owners like these are needed before one is expected to gain; "
        f"there are {number(here)}"
    )
