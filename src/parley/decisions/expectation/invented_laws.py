"""The laws that a forecast without a public sample invents, each with what training would give if it were the truth.

None of them is known to be the true one. So a figure's interval is the hull over all of them, and the forecast is of
the law whose relative fitness comes nearest to their mean, counted up to 1: one law, so that its figures go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.decisions.expectation.expectation import Expectation, expect
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.validate import Floats

USELESS = 1.0  # relative fitness of a model that adds as much as the best one costs; beyond it no worse
LAWS = 20  # every strength of the relation, with columns at each end of what they may be
RUNS = 12  # of each law


@dataclass(frozen=True, eq=False)
class Law:
    """One of them: what is expected if it is the truth, and models as they may come out [R, P]."""

    expected: Expectation
    fitness: float
    models: Floats


def invented_laws(expected: Expectation, seed: int, count: int, progress: Progress) -> tuple[list[Law], int]:
    """(the laws that allow a forecast, how many do not)."""
    others = expected.pilot.others(np.random.default_rng(seed), count, run=expected.simulated)
    found = []
    for place, other in enumerate(others):
        progress(place, len(others))
        try:
            there = expected.at(other)
            fitness, models = there.ending(seed + place + 1, RUNS)
        except SettingError:
            continue  # its rows have no optimum
        if np.isfinite(fitness):
            found.append(Law(there, fitness, models))
    return found, len(others) - len(found)


def middle_law(laws: Sequence[Law]) -> Expectation:
    """What is expected by the law nearest to the mean of all, in which a law counts no more than a useless model."""
    mean = float(np.mean([min(law.fitness, USELESS) for law in laws]))
    nearest = min(laws, key=lambda law: abs(law.fitness - mean))
    return expect(nearest.expected.pilot)
