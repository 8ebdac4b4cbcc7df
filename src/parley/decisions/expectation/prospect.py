"""What training by terms gives on average: the part of a forecast that everything else follows from, and that a release
looks at before it spends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parley.data.sources import Table
from parley.decisions.expectation.expectation import REPLICATES, Expectation, expect
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.knowledge.sources import Source
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.terms import Terms
from parley.validate import Floats

NO_OPTIMUM = (
    "most versions of the pilot have no finite optimum (separable classes?): set model.regularisation or model.radius"
)

USELESS = 1.0  # relative fitness of a model that adds as much as the best one costs; beyond it no worse
LAWS = 20  # every strength of the relation, with columns at each end of what they may be
RUNS = 12  # of each law


@dataclass(frozen=True, eq=False)
class Law:
    """One that is invented where there is no public sample: what is expected if it is the truth, and models as they may
    come out [R, P].

    None is known to be the true one. So a figure's interval is the hull over all of them, and the forecast is of the
    law whose relative fitness comes nearest to their mean, counted up to 1: one law, so that its figures go together.
    """

    expected: Expectation
    fitness: float
    models: Floats


@dataclass(frozen=True, eq=False)
class Prospect:
    """Relative fitness after each round [T], models as they may come out [R, P], and what they rest on."""

    expected: Expectation
    path: Floats
    models: Floats
    laws: tuple[Law, ...] = ()  # that were invented, where there is no public sample
    failed: int = 0  # of them, those that allow no forecast

    @property
    def fitness(self) -> float:
        """Expected relative fitness of the finished model."""
        return float(self.path[-1])


def prospect(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    speeds: Mapping[str, float] | None = None,
    laws: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Prospect:
    """What is expected of these terms from public knowledge: the same figure for the same seed, whoever asks. No
    private record is looked at. `laws`: about how many are invented, where there is no public sample."""
    expected = expect(open_pilot(terms, pilot, speeds))
    if not expected.pilot.source.invented:
        return Prospect(expected, *expected.outcome(seed, progress=progress))
    found, failed = _invented_laws(expected, seed, LAWS if laws is None else laws, progress)
    if not found or failed > len(found):
        raise DataError(NO_OPTIMUM)
    middle = _middle_law(found)
    return Prospect(middle, *middle.outcome(seed, REPLICATES), tuple(found), failed)


def _invented_laws(expected: Expectation, seed: int, count: int, progress: Progress) -> tuple[list[Law], int]:
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


def _middle_law(laws: Sequence[Law]) -> Expectation:
    """What is expected by the law nearest to the mean of all, in which a law counts no more than a useless model."""
    mean = float(np.mean([min(law.fitness, USELESS) for law in laws]))
    nearest = min(laws, key=lambda law: abs(law.fitness - mean))
    return expect(nearest.expected.pilot)
