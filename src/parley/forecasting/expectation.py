"""The expected relative fitness of terms: by exact moments where they apply, else by running the algorithm on the pilot."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.forecasting.pilot import Pilot, clipped_share, pilot_models
from parley.forecasting.response import Response, linear_response
from parley.forecasting.sources import Landscape, Sample
from parley.learning.algorithm import Descent
from parley.objectives import LinearRegression
from parley.validate import Floats

Method = Literal["exact-moments", "curvature-moments", "pilot-run"]

REPLICATES = 96  # of a pilot run
RARELY = 1e-3  # a clip that binds for a larger share of records biases the moments


@dataclass(frozen=True, eq=False)
class Expectation:
    """What training by the pilot's terms gives on average, as far as the pilot tells."""

    pilot: Pilot
    here: Landscape
    response: Response | None  # None for an algorithm that does not descend
    method: Method
    warnings: tuple[str, ...]

    @property
    def excess(self) -> Floats:
        """E f(model) - f* after each round [T] by the moments: half the sum over directions of curvature times squared error."""
        return self.excess_at(self.pilot.combined_variance())

    def excess_at(self, variance: float) -> Floats:
        """The same if the owners' combined answer had this variance."""
        if self.response is None:
            raise ValueError("no moments without a response")
        total = self.here.curvature + self.pilot.objective.regularisation
        return 0.5 * (self.response.bias**2 + variance * self.response.gain) @ total

    def at(self, pilot: Pilot) -> "Expectation":
        """The same method on another version of the pilot."""
        here = pilot.landscape()
        return Expectation(pilot, here, _response(pilot, here), self.method, self.warnings)

    def fitness(self, seed: int, replicates: int = REPLICATES) -> float:
        """Expected relative fitness, by `method`."""
        if self.method == "pilot-run":
            return float(np.mean(self.run_costs(pilot_models(self.pilot, replicates, seed)))) / self.here.least_cost - 1
        return float(self.excess[-1]) / self.here.least_cost

    def bias(self) -> float:
        """The excess cost that would remain without any noise: the start's, and the clip's."""
        if self.method != "pilot-run":
            return float(self.excess_at(0.0)[-1])
        return max(0.0, float(self.run_costs(pilot_models(self.pilot, 1, 0, noiseless=True))[0]) - self.here.least_cost)

    def path(self, seed: int, replicates: int = REPLICATES) -> Floats:
        """Expected relative fitness after each round [T], by `method`."""
        if self.method != "pilot-run":
            return self.excess / self.here.least_cost
        means: list[float] = []
        pilot_models(
            self.pilot,
            replicates,
            seed,
            after_round=lambda state: means.append(float(np.mean(self.run_costs(self.pilot.algorithm.model(state))))),
        )
        return np.array(means) / self.here.least_cost - 1

    def run_costs(self, models: Floats) -> Floats:
        """The pilot's cost of each model."""
        return self.pilot.objective.cost(self.pilot.design, models)

    def models(self, count: int, seed: int) -> Floats:
        """Models [count, p] as they may come out."""
        if self.method == "pilot-run" or self.response is None:
            return pilot_models(self.pilot, count, seed)
        rng = np.random.default_rng(seed)
        deviation = np.sqrt(self.pilot.combined_variance() * self.response.gain[-1])
        error = self.response.bias[-1] + deviation * rng.standard_normal((count, len(self.here.curvature)))
        return np.asarray(self.here.optimum + error @ self.here.directions.T)


def expect(pilot: Pilot, here: Landscape | None = None) -> Expectation:
    """Choose the method: exact moments for a squared loss whose clip and box do not bind, else a pilot run, else curvature alone.

    `here` is the pilot's landscape where the caller has it already.
    """
    here = pilot.landscape() if here is None else here
    response = _response(pilot, here)
    sample = isinstance(pilot.source, Sample)
    binds, warnings = _binds(pilot, here, response)
    quadratic = isinstance(pilot.objective, LinearRegression)
    method: Method = "exact-moments"
    if response is None or (sample and (binds or not quadratic)):
        method = "pilot-run"
    elif binds or not quadratic:
        method = "curvature-moments"
    return Expectation(pilot, here, response, method, warnings)


def _response(pilot: Pilot, here: Landscape) -> Response | None:
    return linear_response(pilot.algorithm, here.curvature, here.start) if isinstance(pilot.algorithm, Descent) else None


def on_the_way(here: Landscape) -> Floats:
    """The start, half-way and the optimum [3, p]."""
    return np.array([0.0, 0.5, 1.0])[:, None] * here.optimum


def _wandering(pilot: Pilot, here: Landscape, response: Response) -> Floats:
    """Parameters [8, p] at which the noisiest round may ask."""
    variance = pilot.combined_variance()
    round_ = int(np.argmax(response.point_gain @ (here.curvature + pilot.objective.regularisation)))
    z = np.random.default_rng(0).standard_normal((8, len(here.curvature)))
    error = response.point_bias[round_] + np.sqrt(variance * response.point_gain[round_]) * z
    return np.asarray(here.optimum + error @ here.directions.T)


def _binds(pilot: Pilot, here: Landscape, response: Response | None) -> tuple[bool, tuple[str, ...]]:
    """Whether the clip or the box bends the algorithm's path, and what a reader should know."""
    warnings = []
    share = pushed = 0.0
    asked = on_the_way(here) if response is None else np.concatenate([on_the_way(here), _wandering(pilot, here, response)])
    if isinstance(pilot.source, Sample):
        if response is not None:
            share, pushed = clipped_share(pilot, on_the_way(here)), clipped_share(pilot, asked)
        if share > RARELY:
            warnings.append(f"the clip binds for {share:.1%} of the pilot's records on the way: a larger one may serve better")
        elif pushed > RARELY:
            warnings.append("the noise drives the model to where the clip binds: fewer rounds or smaller steps may serve better")
        if pilot.terms.model.classifies:
            positives = int(np.sum(pilot.design.y > 0))
            if min(positives, len(pilot.design) - positives) < 30:
                warnings.append(f"one class has only {min(positives, len(pilot.design) - positives)} records in the pilot: "
                                "the forecast rests on little")  # fmt: skip
    elif pilot.bound.clips:
        warnings.append("without a sample nobody can tell how often the clip binds: the forecast assumes never")
    radius = pilot.terms.model.radius
    boxed = radius is not None and not float(np.abs(asked).max()) < radius
    if boxed:
        warnings.append("the noise reaches the box: the model may be pushed against it")
    return pushed > RARELY or boxed, tuple(warnings)
