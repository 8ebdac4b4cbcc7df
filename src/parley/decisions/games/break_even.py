"""From which value on joining pays, at the terms' own budgets: a help for people who have to state a value.

An owner that joins gets value x gain - privacy cost, so its value must be at least privacy cost / gain: only the ratio
of the two matters, and it is stated here for a privacy cost of 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.data.sources import Table
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.outlook import Outlook
from parley.terms import Terms


@dataclass(frozen=True)
class BreakEven:
    """What joining saves one owner at the terms' budgets, in test cost, with noise and without any."""

    name: str
    epsilon: float
    gain: float  # the outlook's; 0 where that is negative
    most: float  # without any noise

    @property
    def value(self) -> float | None:
        """The least value of one unit of test cost that pays for a privacy cost of 1; None: no value does."""
        return 1 / self.gain if self.gain > 0 else None


@dataclass(frozen=True)
class BreakEvens:
    """One for every owner of the terms, if all of them join, beside the outlook that they follow from."""

    outlook: Outlook
    owners: tuple[BreakEven, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints where nobody stated anything."""
        told = self.outlook.to_json()
        values = [{"most": each.most, "break_even_value": each.value} for each in self.owners]
        owners = [said | value for said, value in zip(told["owners"], values, strict=True)]
        return told | {"owners": owners, "terms_hash": self.outlook.terms.hash}


def break_even(
    terms: Terms, pilot: Table | None = None, seed: int = 0, differences: Heterogeneity | None = None
) -> BreakEvens:
    """From which value on joining pays each owner. No private record is looked at."""
    outlook = forecast(terms, pilot, seed, differences=differences).outlook
    gain, most = (np.maximum(each.expected_gain, 0.0) for each in (outlook, outlook.louder(0.0)))
    epsilon = [float(terms.common_epsilon) if terms.noise.common else part.epsilon for part in terms.owners]
    rows = zip(outlook.names, epsilon, gain.tolist(), most.tolist(), strict=True)
    return BreakEvens(outlook, tuple(BreakEven(*row) for row in rows))
