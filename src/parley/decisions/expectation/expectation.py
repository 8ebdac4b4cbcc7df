"""The expected relative fitness of terms: by exact moments if they apply, else by runs on the pilot."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from parley.data.sources import Table
from parley.decisions.expectation.binding import binding
from parley.decisions.expectation.error_moments import ErrorMoments, SeparateAnswers, error_moments
from parley.decisions.expectation.pilot_runs import pilot_models
from parley.decisions.knowledge.pilot import Pilot, open_pilot
from parley.decisions.knowledge.sources import Landscape, Source
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Descent, Progress, State
from parley.protocol.queries import Answer
from parley.terms import Terms
from parley.validate import Floats

Method = Literal["exact-moments", "curvature-moments", "pilot-run"]

MIN_REPLICATES = 96  # of a pilot run, at least
MAX_OPERATIONS = 5e9  # operations that a pilot run may take to have more of them
MAX_SEPARATE_OWNERS = 32  # that moments tell apart: their covariance has a row for each
# noises up to which the model's error is drawn from the real noise; beyond, it is as good as normal
MAX_DRAWN_NOISES = 64
RESAMPLES, BATCHED_RESAMPLES = 30, 20  # of the pilot, for an interval; fewer where every one is run in batches


@dataclass(frozen=True, eq=False)
class Expectation(ABC):
    """The average outcome of training by the pilot's terms."""

    pilot: Pilot
    here: Landscape
    warnings: tuple[str, ...]

    simulated: ClassVar[bool]  # whether it is a mean over runs on the pilot

    @property
    @abstractmethod
    def method(self) -> Method:
        """The method's name in reports."""

    @abstractmethod
    def at(self, pilot: Pilot) -> "Expectation":
        """Apply the same method to another version of the pilot."""

    @abstractmethod
    def fitness(self, seed: int, replicates: int | None = MIN_REPLICATES) -> float:
        """Return the expected relative fitness; `replicates` None: as many as `outcome` takes."""

    @abstractmethod
    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        """Return (expected relative fitness after each round [T], possible final models [replicates, p])."""

    def ending(self, seed: int, replicates: int) -> tuple[float, Floats]:
        """Return `outcome` after the last round: expected relative fitness, and models."""
        path, models = self.outcome(seed, replicates)
        return float(path[-1]), models

    @abstractmethod
    def bias(self) -> float:
        """Return the excess cost without any noise: from the start and from the clip."""

    @abstractmethod
    def squared_errors(self, models: Floats) -> tuple[Floats, Floats]:
        """Return the shapes [P] of the model's squared error by direction: without noise, and of what noise adds."""

    def excess_of(self, models: Floats) -> Floats:
        """Return the excess costs of these models, if the expectation is their mean; else none."""
        return np.zeros(0)

    def by_method(self, mean: float) -> dict[str, float]:
        """Return relative fitness by every method that applies; `mean` is this method's."""
        return {self.method: mean}

    @property
    def curvature_price(self) -> float | None:
        """The cost of a unit of noise by the curvature, if another method is used and this is known."""
        return None

    def run_quartiles(self, seed: int) -> tuple[float, float, float] | None:
        """Return quartiles of a single run's relative fitness, if the moments are exact."""
        return None

    @property
    def resamples(self) -> int:
        """The number of other versions of the pilot for the interval."""
        return RESAMPLES

    @property
    def unit(self) -> float:
        """The expected least cost on the owners' own records: the unit of relative fitness."""
        return self.here.least_at(float(self.pilot.rows.sum()))

    def moved(self) -> float:
        """Return the model's share of the owners' estimation error; below 1 near a public start."""
        begun = self.here.start_cost - self.here.least_cost
        if not self.pilot.starts_publicly or not begun > 0:
            return 1.0
        left = min(1.0, self.bias() / begun)
        # Leaf values err alike in all directions, of which some are learned; a fit's error shrinks in all together.
        return float(1 - left if self.pilot.grown is not None else (1 - left**0.5) ** 2)


@dataclass(frozen=True, eq=False)
class ByMoments(Expectation):
    """By moments: `exact` for a squared loss whose clip and box do not bind, else by the cost's curvature."""

    moments: ErrorMoments
    exact: bool

    simulated: ClassVar[bool] = False

    @property
    def method(self) -> Method:
        return "exact-moments" if self.exact else "curvature-moments"

    @property
    def excess(self) -> Floats:
        """E f(model) - f* after each round [T]: half the sum over directions of curvature times squared error."""
        return self.excess_at(self.pilot.combined_variance())

    def excess_at(self, variance: float) -> Floats:
        """Return the same with this variance of the combined answer."""
        total = self.here.curvature + self.pilot.objective.regularisation
        return 0.5 * (self.moments.bias**2 + variance * self.moments.gain + self.chance) @ total

    @property
    def chance(self) -> Floats:
        """The squared error [T, p] of rounds that hear some owners only: their rows differ by chance from all."""
        rounds, shift = self.pilot.lossy_rounds, self.moments.shift
        if rounds is None or shift is None:
            return np.zeros_like(self.moments.gain)
        afresh, alike = rounds.moments.chance
        return self.here.record_scatter * (afresh * self.moments.gain + alike * shift**2)

    def at(self, pilot: Pilot) -> "ByMoments":
        here = pilot.landscape()
        moments = _error_moments(pilot, here)
        if moments is None:
            raise ValueError("error moments can be computed only for algorithms that descend step by step")
        return replace(self, pilot=pilot, here=here, moments=moments)

    def fitness(self, seed: int, replicates: int | None = MIN_REPLICATES) -> float:
        return float(self.excess[-1]) / self.unit

    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        return self.excess / self.unit, self.models(replicates or MIN_REPLICATES, seed)

    def bias(self) -> float:
        return float(self.excess_at(0.0)[-1])

    def squared_errors(self, models: Floats) -> tuple[Floats, Floats]:
        return self.moments.bias[-1] ** 2 + self.chance[-1], self.moments.gain[-1]

    def run_quartiles(self, seed: int) -> tuple[float, float, float] | None:
        if not self.exact:
            return None
        away = self.here.inward(self.models(20_000, seed) - self.here.optimum)
        excess = 0.5 * away**2 @ (self.here.curvature + self.pilot.objective.regularisation)
        q25, median, q75 = np.quantile(excess / self.unit, [0.25, 0.5, 0.75])
        return float(q25), float(median), float(q75)

    def models(self, count: int, seed: int) -> Floats:
        """Draw models [count, p] by the algorithm's response to the owners' noise."""
        pilot, here, rounds = self.pilot, self.here, self.pilot.algorithm.horizon
        some = not pilot.setup.schedule.everybody or pilot.lossy_rounds is not None
        if pilot.draws > MAX_DRAWN_NOISES or self.moments.unit is None or some:
            deviation = np.sqrt(pilot.combined_variance() * self.moments.gain[-1] + self.chance[-1])
            error = deviation * np.random.default_rng(seed).standard_normal((count, len(here.curvature)))
        else:
            drawn = pilot.drawn_together((count, rounds, len(here.curvature)), seed)
            error = np.einsum("ckj,kj->cj", here.inward(drawn), self.moments.unit)
        begin = here.starts[np.arange(count) % len(here.starts)]
        return np.asarray(here.optimum + here.outward(self.moments.kept[-1] * begin + error))


@dataclass(frozen=True, eq=False)
class ByRuns(Expectation):
    """By runs of the algorithm on the pilot's rows; `beside` is the forecast by curvature alone, if there is one."""

    beside: ByMoments | None = None

    simulated: ClassVar[bool] = True

    @property
    def method(self) -> Method:
        return "pilot-run"

    @property
    def resamples(self) -> int:
        return BATCHED_RESAMPLES if self.pilot.question.batched else RESAMPLES

    def at(self, pilot: Pilot) -> "ByRuns":
        return ByRuns(pilot, pilot.landscape(), self.warnings)

    def fitness(self, seed: int, replicates: int | None = MIN_REPLICATES) -> float:
        return self.ending(seed, replicates or self.replicates)[0]

    def ending(self, seed: int, replicates: int) -> tuple[float, Floats]:
        models = pilot_models(self.pilot, replicates, seed)
        return float(np.mean(self.excess_of(models))) / self.unit, models

    @property
    def replicates(self) -> int:
        """The number of runs worth their time; groups of runs share batches, so more add little."""
        passes = self.pilot.algorithm.passes(self.pilot.source.width)
        most = 2 * MIN_REPLICATES if self.pilot.question.batched else 1000
        return int(
            np.clip(
                MAX_OPERATIONS / (4.0 * len(self.pilot.design) * self.pilot.source.width * passes), MIN_REPLICATES, most
            )
        )

    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        """Look at some replicates on the way and at all of them at the end."""
        looked = replicates or MIN_REPLICATES
        means: list[float] = []

        def look(state: State, answers: Sequence[Answer]) -> None:
            means.append(float(np.mean(self.excess_of(self.pilot.algorithm.model(state)[:looked]))))
            progress(len(means), self.pilot.algorithm.horizon)

        models = pilot_models(self.pilot, replicates or self.replicates, seed, after_round=look)
        means[-1] = float(np.mean(self.excess_of(models)))
        return np.array(means) / self.unit, models

    def bias(self) -> float:
        pilot = replace(self.pilot, algorithm=self.pilot.algorithm.without_noise())
        quiet = pilot_models(pilot, len(pilot.starts), 0, noiseless=True)
        return max(0.0, float(np.mean(self.excess_of(quiet))))

    def squared_errors(self, models: Floats) -> tuple[Floats, Floats]:
        """Return the squared errors of these models [R, P], for both."""
        both = np.mean(self.here.inward(models - self.here.optimum) ** 2, axis=0)
        return both, both

    def excess_of(self, models: Floats) -> Floats:
        """Return the pilot's cost of each model above its least cost."""
        excess = self.pilot.objective.cost(self.pilot.design, models) - self.here.least_cost
        return excess if self.here.tilt is None else excess - (models - self.here.optimum) @ self.here.tilt

    def by_method(self, mean: float) -> dict[str, float]:
        if self.beside is None:
            return {self.method: mean}
        return {self.method: mean, self.beside.method: float(self.beside.excess[-1]) / self.unit}

    @property
    def curvature_price(self) -> float | None:
        if self.beside is None:
            return None
        return float(self.beside.excess_at(1.0)[-1] - self.beside.excess_at(0.0)[-1])


def expect(pilot: Pilot, here: Landscape | None = None) -> Expectation:
    """Choose the method: exact moments for the mean of a squared loss's answers whose clip and box do not bind, else a
    pilot run, else curvature alone, as for public trees. `here`: the pilot's landscape, if known."""
    here = pilot.landscape() if here is None else here
    if not here.least_cost > 1e-12 * here.start_cost:
        raise DataError(
            "the model fits the public sample without error, so there is no relative fitness to forecast; give a "
            "larger sample"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        moments = _error_moments(pilot, here)
    if moments is not None and not np.isfinite(moments.gain).all():
        raise SettingError("learning.step: the run diverges on the public sample; choose a smaller step")
    binds, warnings = binding(pilot, here, moments)
    exact = pilot.objective.quadratic and not binds and pilot.setup.aggregation.averages
    by_moments = None if moments is None else ByMoments(pilot, here, warnings, moments, exact)
    # rows that trees were grown on cannot run in the place of others
    if by_moments is not None and (by_moments.exact or not pilot.has_rows or pilot.grown is not None):
        return by_moments
    return ByRuns(pilot, here, warnings, by_moments)


def _error_moments(pilot: Pilot, here: Landscape) -> ErrorMoments | None:
    if not isinstance(pilot.algorithm, Descent) or here.directions is None:
        return None
    if pilot.algorithm.each:
        separate = _separate_answers(pilot)
        return (
            None if separate is None else error_moments(pilot.algorithm, here.curvature, here.start, separate=separate)
        )
    return error_moments(pilot.algorithm, here.curvature, here.start, pilot.variances / pilot.combined_variance())


def _separate_answers(pilot: Pilot) -> SeparateAnswers | None:
    """List the owners one by one, with noise in units of the combined answer's; None if there are too many."""
    schedule, unit = pilot.setup.schedule, pilot.combined_variance()
    if len(schedule.names) > MAX_SEPARATE_OWNERS:
        return None
    deviations = np.sqrt(pilot.noise.variances / unit)
    return SeparateAnswers(
        [schedule.at(k) for k in range(1, pilot.algorithm.horizon + 1)],
        dict(zip(schedule.names, map(int, pilot.rows), strict=True)),
        dict(zip(schedule.names, map(float, deviations), strict=True)),
    )


NO_OPTIMUM_REASON = (
    "most versions of the pilot have no finite optimum (separable classes?): set model.regularisation or model.radius"
)

USELESS_FITNESS = 1.0  # relative fitness of a model that adds as much as the best one costs; beyond it no worse
INVENTED_LAWS = 20  # every strength of the relation, with columns at each end of what they may be
RUNS_PER_LAW = 12  # of each law


@dataclass(frozen=True, eq=False)
class Law:
    """An invented law, if there is no public sample, and possible models [R, P]. Intervals are the hull over all laws.
    The forecast is that of the law whose relative fitness is nearest to their mean, counted up to 1."""

    expected: Expectation
    fitness: float
    models: Floats


@dataclass(frozen=True, eq=False)
class Prospect:
    """Relative fitness after each round [T], possible models [R, P], and what they rest on."""

    expected: Expectation
    path: Floats
    models: Floats
    laws: tuple[Law, ...] = ()  # that were invented, where there is no public sample
    failed: int = 0  # of them, those that allow no forecast

    @property
    def fitness(self) -> float:
        """The finished model's expected relative fitness."""
        return float(self.path[-1])


def prospect(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    speeds: Mapping[str, float] | None = None,
    laws: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Prospect:
    """Forecast these terms from public knowledge; equal seeds give equal figures. No private record is read. `laws`:
    about how many laws to invent without a public sample."""
    expected = expect(open_pilot(terms, pilot, speeds))
    if not expected.pilot.source.invented:
        return Prospect(expected, *expected.outcome(seed, progress=progress))
    laws_found, failed = _invented_laws(expected, seed, INVENTED_LAWS if laws is None else laws, progress)
    if not laws_found or failed > len(laws_found):
        raise DataError(NO_OPTIMUM_REASON)
    middle = _middle_law(laws_found)
    return Prospect(middle, *middle.outcome(seed, MIN_REPLICATES), tuple(laws_found), failed)


def _invented_laws(expected: Expectation, seed: int, count: int, progress: Progress) -> tuple[list[Law], int]:
    """Return (the laws that allow a forecast, how many do not)."""
    others = expected.pilot.others(np.random.default_rng(seed), count, run=expected.simulated)
    laws = []
    for place, other in enumerate(others):
        progress(place, len(others))
        try:
            invented = expected.at(other)
            fitness, models = invented.ending(seed + place + 1, RUNS_PER_LAW)
        except SettingError:
            continue  # its rows have no optimum
        if np.isfinite(fitness):
            laws.append(Law(invented, fitness, models))
    return laws, len(others) - len(laws)


def _middle_law(laws: Sequence[Law]) -> Expectation:
    """Return the expectation under the law nearest to the mean of all; no law counts more than a useless model."""
    mean = float(np.mean([min(law.fitness, USELESS_FITNESS) for law in laws]))
    nearest = min(laws, key=lambda law: abs(law.fitness - mean))
    return expect(nearest.expected.pilot)
