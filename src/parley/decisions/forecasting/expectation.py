"""The expected relative fitness of terms: by exact moments where they apply, else by running the algorithm on the
pilot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from parley.decisions.forecasting.binding import binding
from parley.decisions.forecasting.error_moments import ErrorMoments, SingleVoices, error_moments
from parley.decisions.forecasting.pilot import Pilot, pilot_models
from parley.decisions.forecasting.sources import Landscape
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Descent, Progress, State
from parley.protocol.queries import Answer
from parley.validate import Floats

Method = Literal["exact-moments", "curvature-moments", "pilot-run"]

REPLICATES = 96  # of a pilot run, at least
WORK = 5e9  # operations that a pilot run may take to have more of them
MOST_OWNERS = 32  # that moments tell apart: their covariance has a row for each
FEW_ANSWERS = 64  # noises up to which the model's error is drawn from the real noise; beyond, it is as good as normal


@dataclass(frozen=True, eq=False)
class Expectation:
    """What training by the pilot's terms gives on average, as far as the pilot tells."""

    pilot: Pilot
    here: Landscape
    moments: ErrorMoments | None  # None for an algorithm that does not descend
    method: Method
    warnings: tuple[str, ...]

    @property
    def unit(self) -> float:
        """The least cost that the owners' own records will have, as far as the pilot tells: relative fitness is
        measured in it."""
        return self.here.least_at(float(self.pilot.rows.sum()))

    @property
    def excess(self) -> Floats:
        """E f(model) - f* after each round [T] by the moments: half the sum over directions of curvature times squared
        error."""
        return self.excess_at(self.pilot.combined_variance())

    def excess_at(self, variance: float) -> Floats:
        """The same if the owners' combined answer had this variance."""
        if self.moments is None:
            raise ValueError("an algorithm that does not descend has no moments")
        total = self.here.curvature + self.pilot.objective.regularisation
        return 0.5 * (self.moments.bias**2 + variance * self.moments.gain) @ total

    def at(self, pilot: Pilot) -> "Expectation":
        """The same method on another version of the pilot."""
        here = pilot.landscape()
        moments = None if self.method == "pilot-run" else _error_moments(pilot, here)  # a run tells what they would
        return Expectation(pilot, here, moments, self.method, self.warnings)

    def fitness(self, seed: int, replicates: int | None = REPLICATES) -> float:
        """Expected relative fitness, by `method`; None: of as many replicates as `outcome` takes."""
        if self.method == "pilot-run":
            return (
                float(np.mean(self.run_excess(pilot_models(self.pilot, replicates or self.replicates, seed))))
                / self.unit
            )
        return float(self.excess[-1]) / self.unit

    @property
    def replicates(self) -> int:
        """How many runs on the pilot are worth their time; where batches are drawn, groups of runs share them, and more
        say little more."""
        width = self.pilot.source.width
        passes = self.pilot.algorithm.passes(width)
        most = 2 * REPLICATES if self.pilot.question.batched else 1000
        return int(np.clip(WORK / (4.0 * len(self.pilot.design) * width * passes), REPLICATES, most))

    def outcome(
        self, seed: int, replicates: int | None = None, progress: Progress = lambda done, total: None
    ) -> tuple[Floats, Floats]:
        """(expected relative fitness after each round [T], models as they may come out [replicates, p]), by `method`.
        Of as many replicates of a pilot run as it chose itself, some are looked at on the way, all at the end."""
        looked = replicates or REPLICATES
        if self.method != "pilot-run":
            return self.excess / self.unit, self.models(looked, seed)
        means: list[float] = []

        def look(state: State, answers: Sequence[Answer]) -> None:
            means.append(float(np.mean(self.run_excess(self.pilot.algorithm.model(state)[:looked]))))
            progress(len(means), self.pilot.algorithm.horizon)

        models = pilot_models(self.pilot, replicates or self.replicates, seed, after_round=look)
        means[-1] = float(np.mean(self.run_excess(models)))
        return np.array(means) / self.unit, models

    def bias(self) -> float:
        """The excess cost that would remain without any noise: the start's, and the clip's."""
        if self.method != "pilot-run":
            return float(self.excess_at(0.0)[-1])
        pilot = replace(self.pilot, algorithm=self.pilot.algorithm.without_noise())
        quiet = pilot_models(pilot, len(pilot.starts), 0, noiseless=True)
        return max(0.0, float(np.mean(self.run_excess(quiet))))

    def moved(self) -> float:
        """How much of the owners' own estimation error the model takes over: all of it, but for one that hardly leaves
        its public start."""
        begun = self.here.start_cost - self.here.least_cost
        if self.pilot.terms.learning.start != "public" or not begun > 0:
            return 1.0
        return float((1 - min(1.0, self.bias() / begun) ** 0.5) ** 2)

    def run_excess(self, models: Floats) -> Floats:
        """The pilot's cost of each model above its least."""
        excess = self.pilot.objective.cost(self.pilot.design, models) - self.here.least_cost
        return excess if self.here.tilt is None else excess - (models - self.here.optimum) @ self.here.tilt

    def models(self, count: int, seed: int) -> Floats:
        """Models [count, p] by the moments: the algorithm's response to noise as the owners' mechanisms draw it."""
        if self.moments is None:
            raise ValueError("an algorithm that does not descend has no moments")
        pilot, here, rounds = self.pilot, self.here, self.pilot.algorithm.horizon
        if pilot.draws > FEW_ANSWERS or self.moments.unit is None or not pilot.setup.schedule.everybody:
            deviation = np.sqrt(pilot.combined_variance() * self.moments.gain[-1])
            error = deviation * np.random.default_rng(seed).standard_normal((count, len(here.curvature)))
        else:
            drawn = pilot.drawn_together((count, rounds, len(here.curvature)), seed)
            error = np.einsum("ckj,kj->cj", here.inward(drawn), self.moments.unit)
        begin = here.starts[np.arange(count) % len(here.starts)]
        return np.asarray(here.optimum + here.outward(self.moments.kept[-1] * begin + error))


def expect(pilot: Pilot, here: Landscape | None = None) -> Expectation:
    """Choose the method: exact moments for a squared loss whose clip and box do not bind, else a pilot run, else
    curvature alone.

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
    quadratic = pilot.objective.quadratic
    method: Method = "exact-moments"
    if moments is None or (pilot.has_rows and (binds or not quadratic)):
        method = "pilot-run"
    elif binds or not quadratic:
        method = "curvature-moments"
    return Expectation(pilot, here, moments, method, warnings)


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
