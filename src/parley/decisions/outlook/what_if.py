"""A forecast carried over to other numbers of the owners: what if this one had more records, or a smaller budget?

A forecast says what the joint model costs without noise and what a unit of the combined answer's variance adds
(`CoalitionCost`). Where owners' records and budgets alone change, so does that variance, and nothing has to be run
again. Exact where the forecast is by moments; where it is by a pilot run, the cost is taken to be linear in the
variance, as it is for coalitions. Its interval stays as wide, in proportion, as it was.
"""

from dataclasses import dataclass, replace

from parley.decisions.knowledge.one_thread import one_thread
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.joining import Interval, OwnerDraws, Verdict
from parley.terms import Terms


@dataclass(frozen=True)
class OwnerGain:
    """What joining would mean for one owner: expected test costs for its own customers, in the target's own units."""

    name: str
    alone: float
    joined: float  # of its personal model, or of the joint one as it is
    gain: Interval
    verdict: Verdict
    expected: bool  # whether its mean gain counts as one, surely or not
    asked: bool  # whether it belongs to the coalition of least test cost


@dataclass(frozen=True)
class WhatIf:
    """What the joint model would be worth if the owners had these records and budgets."""

    terms: Terms
    relative_fitness: Interval
    owners: tuple[OwnerGain, ...]

    @property
    def best_coalition(self) -> tuple[str, ...]:
        """The names of the owners whom it is best to ask."""
        return tuple(owner.name for owner in self.owners if owner.asked)


@one_thread
def what_if(base: Forecast, terms: Terms, personal: bool = True) -> WhatIf:
    """The forecast `base` carried over to terms that differ from its own in owners' numbers and in whose noise it is.
    No private record is looked at. `personal`: whether members combine the joint model with their own rows."""
    cost, _ = base.coalitions
    pilot = base.expected.pilot.under(terms)
    variance, rows = pilot.combined_variance(), pilot.rows
    unit = base.expected.here.least_at(float(rows.sum()))
    fitness = _scaled(base.relative_fitness, float(cost.privacy_error(variance)) / unit)
    law = replace(base.joining, owners=replace(base.joining.owners, records=rows)).at(variance)
    asked, scale = cost.best_coalition(pilot.noise), pilot.setup.preparation.target_scale**2
    draws = OwnerDraws.of([(law, scale)])
    if not personal:
        draws = replace(draws, personal=draws.together)
    gains, expected = draws.intervals(draws.alone - draws.personal), draws.expected
    alone, joined = draws.alone.mean(axis=1), draws.personal.mean(axis=1)
    owners = [
        OwnerGain(
            name=part.name,
            alone=float(alone[place]),
            joined=float(joined[place]),
            gain=gains[place],
            verdict=verdict,
            expected=bool(expected[place]),
            asked=bool(asked[place]),
        )
        for place, (part, verdict) in enumerate(zip(terms.owners, draws.verdicts, strict=True))
    ]
    return WhatIf(terms, fitness, tuple(owners))


def _scaled(known: Interval, mean: float) -> Interval:
    """An interval around another mean, as wide in proportion."""
    times = mean / known.mean if known.mean > 0 else 1.0
    return Interval(mean, min(mean, known.low * times), max(mean, known.high * times))
