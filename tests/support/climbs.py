"""The largest value that the climbs of the audit find, for searches of other things."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from parley.audit.exact.pair_search import climbing

T = TypeVar("T")


def hill_climbs(
    values: Callable[[list[T]], Sequence[float]],
    begin: Callable[[np.random.Generator], T],
    move: Callable[[np.random.Generator, T, float], T],
    seeds: Iterable[object],
    tries: int,
    enough: float = math.inf,
) -> float:
    """The largest value that is found from any seed in so many steps, or by the first one that finds more than
    `enough`."""
    found = -math.inf
    for found, _ in islice(climbing(values, begin, move, seeds), tries + 1):
        if found > enough:
            break
    return found
