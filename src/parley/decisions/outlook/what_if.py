"""A forecast carried over to other numbers of the owners: what if this one had more records, or a smaller budget?

A forecast says what the joint model costs without noise and what a unit of the combined answer's variance adds
(`CoalitionCost`). Where owners' records and budgets alone change, so does that variance, and nothing has to be run
again. Exact where the forecast is by moments; where it is by a pilot run, the cost is taken to be linear in the
variance, as it is for coalitions. Its interval stays as wide, in proportion, as it was.
"""

from dataclasses import dataclass, replace

import numpy as np

from parley.decisions.knowledge.one_thread import one_thread
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import Interval, Outlook
from parley.terms import Terms


@dataclass(frozen=True)
class WhatIf:
    """What the joint model would be worth if the owners had these records and budgets."""

    terms: Terms
    relative_fitness: Interval
    outlook: Outlook
    best_coalition: tuple[str, ...]  # whom to ask for the least test cost of the joint model


@one_thread
def what_if(base: Forecast, terms: Terms, personal: bool = True) -> WhatIf:
    """The forecast `base` carried over to terms that differ from its own in owners' numbers and in whose noise it is.
    No private record is looked at. `personal`: whether members correct the joint model by their own rows."""
    cost, _ = base.coalitions
    outlook = replace(base.outlook.at(terms=terms), corrected=personal)
    pilot = base.expected.pilot.under(terms)
    unit = base.expected.here.least_at(float(pilot.rows.sum()))
    fitness = _scaled(base.relative_fitness, float(cost.privacy_error(pilot.combined_variance())) / unit)
    asked = cost.best_coalition(pilot.noise)
    names = tuple(terms.owners[place].name for place in np.flatnonzero(asked))
    return WhatIf(terms, fitness, outlook, names)


def _scaled(known: Interval, mean: float) -> Interval:
    """An interval around another mean, as wide in proportion."""
    times = mean / known.mean if known.mean > 0 else 1.0
    return Interval(mean, min(mean, known.low * times), max(mean, known.high * times))
