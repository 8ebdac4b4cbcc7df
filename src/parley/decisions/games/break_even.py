"""From which value on joining pays, at the terms' own budgets: a help for people who have to state a value.

An owner that joins gets value x gain - privacy cost, so its value must be at least privacy cost / gain: only the ratio
of the two matters, and it is stated here for a privacy cost of 1.
"""

from dataclasses import dataclass

import numpy as np

from parley.data.sources import Table
from parley.decisions.games.stakes import known_cost
from parley.decisions.knowledge.pilot import open_pilot
from parley.terms import Terms


@dataclass(frozen=True)
class BreakEven:
    """What joining saves one owner at the terms' budgets, in test cost, with noise and without any."""

    name: str
    epsilon: float
    gain: float  # 0 where the joint model would be no better than its own
    most: float  # without any noise

    @property
    def value(self) -> float | None:
        """The least value of one unit of test cost that pays for a privacy cost of 1; None: no value does."""
        return 1 / self.gain if self.gain > 0 else None


def break_even(terms: Terms, pilot: Table | None = None, seed: int = 0) -> tuple[BreakEven, ...]:
    """One for every owner of the terms, if all of them join. No private record is looked at."""
    known = open_pilot(terms, pilot)
    cost, _, _ = known_cost(known, seed)
    noise = known.setup.aggregation.noise(known.setup)
    alone, everyone = cost.alone(noise.records), np.ones(len(noise.records), dtype=bool)
    gain = np.maximum(alone - cost.together(noise, everyone), 0.0)
    most = np.maximum(alone - cost.at(noise.records.sum(), 0.0), 0.0)
    epsilon = [float(terms.common_epsilon) if terms.noise.common else part.epsilon for part in terms.owners]
    columns = ([part.name for part in terms.owners], epsilon, gain.tolist(), most.tolist())
    return tuple(BreakEven(*row) for row in zip(*columns, strict=True))
