"""Searches by hill climbing, several abreast: what all their candidates can share is computed once a step."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def hill_climbs(
    values: Callable[[list[T]], Sequence[float]],
    begin: Callable[[np.random.Generator], T],
    move: Callable[[np.random.Generator, T, float], T],
    seeds: Iterable[object],
    tries: int,
) -> float:
    """The largest value that is found from any seed; `values` judges one candidate of each climb, and steps grow while
    they lead up."""
    draws = [np.random.default_rng(seed) for seed in seeds]
    here, lengths = [begin(rng) for rng in draws], [1.0] * len(draws)
    there = [float(value) for value in values(here)]
    for _ in range(tries):
        moved = [move(*each) for each in zip(draws, here, lengths, strict=True)]
        for place, found in enumerate(values(moved)):
            if found > there[place]:
                here[place], there[place], lengths[place] = moved[place], float(found), min(3.0, 1.5 * lengths[place])
            else:
                lengths[place] = max(1e-3, 0.97 * lengths[place])
    return max(there)
