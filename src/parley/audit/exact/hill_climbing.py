"""Searches by hill climbing, several abreast: what all their candidates can share is computed once a step."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

T = TypeVar("T")

LONGEST, SHORTEST = 3.0, 1e-3  # of steps


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


def climbing(
    values: Callable[[list[T]], Sequence[float]],
    begin: Callable[[np.random.Generator], T],
    move: Callable[[np.random.Generator, T, float], T],
    seeds: Iterable[object],
) -> Iterator[tuple[float, T]]:
    """(the largest value so far, its candidate), at the start and after every step, without end.

    `values` judges one candidate of each climb. Steps grow while they lead up; those that lead nowhere are taken, too,
    so that a climb wanders over flat ground.
    """
    draws = [np.random.default_rng(seed) for seed in seeds]  # type: ignore[arg-type]
    here, lengths = [begin(rng) for rng in draws], [1.0] * len(draws)
    there = [float(value) for value in values(here)]
    best = max(range(len(there)), key=there.__getitem__)
    found = there[best], here[best]
    while True:
        yield found
        moved = [move(*each) for each in zip(draws, here, lengths, strict=True)]
        for place, value in enumerate(map(float, values(moved))):
            longer = value > there[place]
            if value >= there[place]:
                here[place], there[place] = moved[place], value
            lengths[place] = min(LONGEST, 1.5 * lengths[place]) if longer else max(SHORTEST, 0.97 * lengths[place])
            if value > found[0]:
                found = value, moved[place]
