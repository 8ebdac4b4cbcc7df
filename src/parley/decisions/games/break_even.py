"""From which value on joining pays, at the terms' own budgets: a help for people who have to state a value.

An owner that joins gets value x gain - privacy cost, so its value must be at least privacy cost / gain: only the ratio
of the two matters, and it is stated here for a privacy cost of 1.
"""

from dataclasses import dataclass

import numpy as np

from parley.data.sources import Table
from parley.decisions.games.negotiate import budgets
from parley.decisions.games.stakes import common_stakes, stakes
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
    epsilon = np.clip([part.epsilon for part in terms.owners], *budgets(terms))
    if terms.noise.common:
        known = common_stakes(terms, pilot, seed=seed)
        epsilon = np.full(len(epsilon), np.clip(epsilon.min(), *known.budget_range))
        size = known.records.sum()
        cost, records = known.cost, known.records
        together = cost.at(size, known.demand(epsilon) / size**2)
    else:
        own = stakes(terms, pilot, budgets(terms), seed)
        cost, records = own.cost, own.records
        together = cost.together(own.noise(epsilon), np.ones(len(epsilon), dtype=bool))
    alone = cost.alone(records)
    gain = np.maximum(alone - together, 0.0) + np.zeros(len(epsilon))
    most = np.maximum(alone - cost.at(records.sum(), 0.0), 0.0)
    columns = ([part.name for part in terms.owners], epsilon.tolist(), gain.tolist(), most.tolist())
    return tuple(BreakEven(*row) for row in zip(*columns, strict=True))
