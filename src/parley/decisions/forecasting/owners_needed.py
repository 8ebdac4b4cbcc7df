"""How many owners it takes until learning together beats learning alone, where each is hidden as a whole."""

import numpy as np

from parley.decisions.forecasting.coalition import CoalitionCost
from parley.numerals import number
from parley.protocol.aggregation import CoalitionNoise, OneNoise

MOST = 10**9  # owners


def owners_needed(cost: CoalitionCost, noise: CoalitionNoise) -> int | None:
    """The least number of owners, each like these on average, whose joint model is expected to cost less than an
    owner's own; None: no number of them.

    Of N owners instead of the N' at hand v is N'/N times as large where each adds its own noise, and (N'/N)^2 times
    where there is one for all.

    >>> from parley.protocol.aggregation import EachOwnerNoise
    >>> own = EachOwnerNoise(np.array([100.0, 100.0]), np.array([4.0, 4.0]))
    >>> cost = CoalitionCost(estimation=100.0, bias=0.0, noise_price=1.0, nobody=9.0)
    >>> owners_needed(cost, own)  # 1/N + 4/N < 1
    6
    """
    here, power = len(noise.records), 2 if isinstance(noise, OneNoise) else 1
    records = np.array([noise.records.mean()])
    alone = float(cost.alone(records)[0])

    def pays(owners: int) -> bool:
        variance = noise.all_together * (here / owners) ** power
        return bool(cost.at(records * owners, variance)[0] < alone)

    low, high = 1, 2  # the joint cost falls with every owner: look between a number too small and one that does
    while not pays(high):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def needed_words(needed: int | None, here: int) -> str:
    """The same in a sentence."""
    if needed is None:
        return (
            "the unit is an owner, and no number of owners like these would make the joint model better than an "
            "owner's own: clip, rounds and step alone cost more"
        )
    return (
        f"the unit is an owner: it takes about {number(needed)} owners like these until the joint model is expected to "
        f"be better than an owner's own; here are {number(here)}"
    )
