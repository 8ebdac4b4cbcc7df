"""The expected relative fitness of terms: by exact moments where they apply, else by running the algorithm on the
pilot."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from parley.decisions.expectation.binding import binding
from parley.decisions.expectation.error_moments import ErrorMoments, SingleVoices, error_moments
from parley.decisions.expectation.pilot_runs import pilot_models
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Landscape
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Descent, Progress, State
from parley.protocol.queries import Answer
from parley.validate import Floats

Method = Literal["exact-moments", "curvature-moments", "pilot-run"]

REPLICATES = 96  # of a pilot run, at least
WORK = 5e9  # operations that a pilot run may take to have more of them
MOST_OWNERS = 32  # that moments tell apart: their covariance has a row for each
FEW_ANSWERS = 64  # noises up to which the model's error is drawn from the real noise; beyond, it is as good as normal
RESAMPLES, FEWER = 30, 20  # of the pilot, for an interval; fewer where every one is run in batches


@dataclass(frozen=True, eq=False)
class Expectation(ABC):
    """What training by the pilot's terms gives on average, as far as the pilot tells."""

    pilot: Pilot
    here: Landscape
    warnings: tuple[str, ...]

    simulated: ClassVar[bool]  # whether it is a mean over runs on the pilot

    @property
    @abstractmethod
    def method(self) -> Method:
        """How it was found, by the name that reports have for it."""

    @abstractmethod
    def at(self, pilot: Pilot) -> "Expectation":
        """The same method on another version of the pilot."""

    @abstractmethod
    def fitness(self, seed: int, replicates: int | None = REPLICATES) -> float:
        """Expected relative fitness; None: of as many replicates as `outcome` takes."""

    @abstractmethod
    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        """(expected relative fitness after each round [T], models as they may come out [replicates, p])."""

    def ending(self, seed: int, replicates: int) -> tuple[float, Floats]:
        """The last of the same: expected relative fitness, and models."""
        path, models = self.outcome(seed, replicates)
        return float(path[-1]), models

    @abstractmethod
    def bias(self) -> float:
        """The excess cost that would remain without any noise: the start's, and the clip's."""

    @abstractmethod
    def squared_errors(self, models: Floats) -> tuple[Floats, Floats]:
        """The shapes [P] of the model's squared error in each direction: without noise, and of what noise adds."""

    def excess_of(self, models: Floats) -> Floats:
        """The excess costs of models as they may come out, where the expectation is a mean of them; else none."""
        return np.zeros(0)

    def by_method(self, mean: float) -> dict[str, float]:
        """Relative fitness by every method that applies; `mean` by this one."""
        return {self.method: mean}

    @property
    def curvature_price(self) -> float | None:
        """What a unit of noise costs by the curvature, where another method is taken and that can be said."""
        return None

    def run_quartiles(self, seed: int) -> tuple[float, float, float] | None:
        """Quartiles of one run's relative fitness, where the moments are exact."""
        return None

    @property
    def resamples(self) -> int:
        """How many other versions of the pilot its interval takes."""
        return RESAMPLES

    @property
    def unit(self) -> float:
        """The least cost that the owners' own records will have, as far as the pilot tells: relative fitness is
        measured in it."""
        return self.here.least_at(float(self.pilot.rows.sum()))

    def moved(self) -> float:
        """How much of the owners' own estimation error the model takes over: all of it, but for one that hardly leaves
        its public start."""
        begun = self.here.start_cost - self.here.least_cost
        if not self.pilot.starts_publicly or not begun > 0:
            return 1.0
        left = min(1.0, self.bias() / begun)
        # Leaf values err alike in all directions, of which some are learned; a fit's error shrinks in all together.
        return float(1 - left if self.pilot.grown is not None else (1 - left**0.5) ** 2)


@dataclass(frozen=True, eq=False)
class ByMoments(Expectation):
    """By the moments of the algorithm's error: `exact` for a squared loss whose clip and box do not bind, else as the
    cost's curvature has them."""

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
        """The same if the owners' combined answer had this variance."""
        total = self.here.curvature + self.pilot.objective.regularisation
        return 0.5 * (self.moments.bias**2 + variance * self.moments.gain) @ total

    def at(self, pilot: Pilot) -> "ByMoments":
        here = pilot.landscape()
        moments = _error_moments(pilot, here)
        if moments is None:
            raise ValueError("an algorithm that does not descend has no moments")
        return replace(self, pilot=pilot, here=here, moments=moments)

    def fitness(self, seed: int, replicates: int | None = REPLICATES) -> float:
        return float(self.excess[-1]) / self.unit

    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        return self.excess / self.unit, self.models(replicates or REPLICATES, seed)

    def bias(self) -> float:
        return float(self.excess_at(0.0)[-1])

    def squared_errors(self, models: Floats) -> tuple[Floats, Floats]:
        return self.moments.bias[-1] ** 2, self.moments.gain[-1]

    def run_quartiles(self, seed: int) -> tuple[float, float, float] | None:
        if not self.exact:
            return None
        away = self.here.inward(self.models(20_000, seed) - self.here.optimum)
        excess = 0.5 * away**2 @ (self.here.curvature + self.pilot.objective.regularisation)
        q25, median, q75 = np.quantile(excess / self.unit, [0.25, 0.5, 0.75])
        return float(q25), float(median), float(q75)

    def models(self, count: int, seed: int) -> Floats:
        """Models [count, p] by the algorithm's response to noise as the owners' mechanisms draw it."""
        pilot, here, rounds = self.pilot, self.here, self.pilot.algorithm.horizon
        if pilot.draws > FEW_ANSWERS or self.moments.unit is None or not pilot.setup.schedule.everybody:
            deviation = np.sqrt(pilot.combined_variance() * self.moments.gain[-1])
            error = deviation * np.random.default_rng(seed).standard_normal((count, len(here.curvature)))
        else:
            drawn = pilot.drawn_together((count, rounds, len(here.curvature)), seed)
            error = np.einsum("ckj,kj->cj", here.inward(drawn), self.moments.unit)
        begin = here.starts[np.arange(count) % len(here.starts)]
        return np.asarray(here.optimum + here.outward(self.moments.kept[-1] * begin + error))


@dataclass(frozen=True, eq=False)
class ByRuns(Expectation):
    """By running the algorithm on the pilot's rows; `beside` is what the curvature alone would say, where it does."""

    beside: ByMoments | None = None

    simulated: ClassVar[bool] = True

    @property
    def method(self) -> Method:
        return "pilot-run"

    @property
    def resamples(self) -> int:
        return FEWER if self.pilot.question.batched else RESAMPLES

    def at(self, pilot: Pilot) -> "ByRuns":
        return ByRuns(pilot, pilot.landscape(), self.warnings)

    def fitness(self, seed: int, replicates: int | None = REPLICATES) -> float:
        return self.ending(seed, replicates or self.replicates)[0]

    def ending(self, seed: int, replicates: int) -> tuple[float, Floats]:
        models = pilot_models(self.pilot, replicates, seed)
        return float(np.mean(self.excess_of(models))) / self.unit, models

    @property
    def replicates(self) -> int:
        """How many runs on the pilot are worth their time; where batches are drawn, groups of runs share them, and more
        say little more."""
        passes = self.pilot.algorithm.passes(self.pilot.source.width)
        most = 2 * REPLICATES if self.pilot.question.batched else 1000
        return int(np.clip(WORK / (4.0 * len(self.pilot.design) * self.pilot.source.width * passes), REPLICATES, most))

    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        """Of as many replicates as it chose itself, some are looked at on the way, all at the end."""
        looked = replicates or REPLICATES
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
        """Those of models as they came out [R, P], for both."""
        both = np.mean(self.here.inward(models - self.here.optimum) ** 2, axis=0)
        return both, both

    def excess_of(self, models: Floats) -> Floats:
        """The pilot's cost of each model above its least."""
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
    pilot run, else curvature alone, as for public trees.

    `here` is the pilot's landscape where the caller has it already.
    """
    here = pilot.landscape() if here is None else here
    if not here.least_cost > 1e-12 * here.start_cost:
        raise DataError(
            "the pilot is fitted without error, so there is no relative fitness to forecast; expected a larger pilot "
            "sample"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        moments = _error_moments(pilot, here)
    if moments is not None and not np.isfinite(moments.gain).all():
        raise SettingError("learning.step: by the pilot's curvature the run diverges; choose a smaller step")
    binds, warnings = binding(pilot, here, moments)
    exact = pilot.objective.quadratic and not binds and pilot.setup.aggregation.averages
    told = None if moments is None else ByMoments(pilot, here, warnings, moments, exact)
    # rows that trees were grown on cannot run in the place of others
    if told is not None and (told.exact or not pilot.has_rows or pilot.grown is not None):
        return told
    return ByRuns(pilot, here, warnings, told)


def _error_moments(pilot: Pilot, here: Landscape) -> ErrorMoments | None:
    if not isinstance(pilot.algorithm, Descent) or here.directions is None:
        return None
    if pilot.algorithm.each:
        voices = _single_voices(pilot)
        return None if voices is None else error_moments(pilot.algorithm, here.curvature, here.start, voices=voices)
    return error_moments(pilot.algorithm, here.curvature, here.start, pilot.variances / pilot.combined_variance())


def _single_voices(pilot: Pilot) -> SingleVoices | None:
    """The owners one by one, their noise in units of the combined answer's; None: too many of them."""
    schedule, unit = pilot.setup.schedule, pilot.combined_variance()
    if len(schedule.names) > MOST_OWNERS:
        return None
    deviations = np.sqrt(pilot.noise.variances / unit)
    return SingleVoices(
        [schedule.at(k) for k in range(1, pilot.algorithm.horizon + 1)],
        dict(zip(schedule.names, map(int, pilot.rows), strict=True)),
        dict(zip(schedule.names, map(float, deviations), strict=True)),
    )
