"""The forecast: what the joint model will be worth, and to whom, before any data moves. Exact where W has bounds."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from parley.accounting import exact
from parley.data.table import Table
from parley.forecasting.coalition import best_coalition
from parley.forecasting.expectation import REPLICATES, Expectation, Method, expect
from parley.forecasting.pilot import Pilot, open_pilot
from parley.forecasting.published import PublishedBounds, published_bounds
from parley.forecasting.sources import Sample, Source
from parley.forecasting.worth import Economy
from parley.learning.metrics import Metrics, task_metrics
from parley.learning.train import Progress
from parley.owner import owner_plan
from parley.terms import Terms
from parley.validate import Floats, whole

RESAMPLES = 30  # of the pilot, for the interval


@dataclass(frozen=True)
class Interval:
    """A mean with an interval for what the pilot leaves open: 90 % for a sample or a release, every case for stated assumptions."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class OwnerForecast:
    """What joining means for one owner: expected test costs, in the target's own units."""

    name: str
    alone: float
    together: float
    gain: float
    break_even_epsilon: float | None  # None: no budget makes joining worth it; 0: every budget does
    marginal_value: float  # what the coalition loses without this owner
    shapley_value: float
    shapley_error: float


@dataclass(frozen=True, eq=False)
class Forecast:
    """What training by these terms is expected to give."""

    terms: Terms
    method: Method
    relative_fitness: Interval
    excess_cost: Interval
    by_method: dict[str, float]  # mean relative fitness by every method that applies
    path: Floats  # expected relative fitness after each round [T]
    run_quartiles: tuple[float, float, float] | None  # of a single run's relative fitness, where the moments are exact
    metrics: Metrics  # the task's own, expected of the joint model; empty without a sample
    published_bounds: PublishedBounds
    owners: tuple[OwnerForecast, ...]
    best_coalition: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --json` prints."""
        return {
            "title": self.terms.title,
            "relative_fitness": vars(self.relative_fitness),
            "excess_cost": vars(self.excess_cost),
            "method": self.method,
            "by_method": self.by_method,
            "run_quartiles": self.run_quartiles,
            "metrics": self.metrics,
            "published_bounds": vars(self.published_bounds),
            "owners": [vars(owner) for owner in self.owners],
            "best_coalition": list(self.best_coalition),
            "warnings": list(self.warnings),
            "terms_hash": self.terms.hash,
        }


def forecast(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    progress: Progress = lambda done, total: None,
) -> Forecast:
    """Forecast the joint model of these terms from public knowledge. No private record is looked at.

    `pilot` is a public table, released moments or stated assumptions; left out: the terms' own public sample. For a squared loss
    whose clip and box do not bind, the moments are exact given what the pilot shows. Otherwise the algorithm itself is run on the
    pilot with the noise of the real owners. "Together or alone" assumes that the owners' data follow one law; where they differ,
    joining may be worth more, or less, than it says.
    """
    expected = expect(open_pilot(terms, pilot))
    known, here, method = expected.pilot, expected.here, expected.method
    fits = {method: expected.fitness(seed)}
    if method == "pilot-run" and expected.response is not None:
        fits["curvature-moments"] = float(expected.excess[-1]) / here.least_cost
    interval = _interval(expected, fits[method], seed, whole(resamples, "resamples"), progress)
    scale = here.least_cost * known.preparation.target_scale**2
    return Forecast(
        terms=terms,
        method=method,
        relative_fitness=interval,
        excess_cost=Interval(interval.mean * scale, interval.low * scale, interval.high * scale),
        by_method={str(name): value for name, value in fits.items()},
        path=expected.path(seed),
        run_quartiles=_run_quartiles(expected, seed) if method == "exact-moments" else None,
        metrics=_metrics(expected, seed),
        published_bounds=published_bounds(known, here, fits[method] * here.least_cost),
        owners=_owners(expected, economy_of(expected, seed)),
        best_coalition=_coalition(terms, known),
        warnings=expected.warnings,
    )


def _interval(expected: Expectation, mean: float, seed: int, resamples: int, progress: Progress) -> Interval:
    """The forecast over the pilot's other versions."""
    others = expected.pilot.others(np.random.default_rng(seed), resamples)
    values = []
    for draw, other in enumerate(others):
        progress(draw, len(others))
        values.append(expected.at(other).fitness(seed + draw + 1, REPLICATES // 4))
    low, high = np.quantile(values, expected.pilot.source.interval)
    return Interval(mean, min(float(low), mean), max(float(high), mean))


def _run_quartiles(expected: Expectation, seed: int) -> tuple[float, float, float]:
    """Quartiles of one run's relative fitness: half a weighted sum of squared normals, the errors being sums over rounds and owners."""
    away = (expected.models(20_000, seed) - expected.here.optimum) @ expected.here.directions
    excess = 0.5 * away**2 @ (expected.here.curvature + expected.pilot.objective.regularisation)
    q25, median, q75 = np.quantile(excess / expected.here.least_cost, [0.25, 0.5, 0.75])
    return float(q25), float(median), float(q75)


def _metrics(expected: Expectation, seed: int) -> Metrics:
    pilot = expected.pilot
    return (
        task_metrics(pilot.preparation, pilot.design, expected.models(REPLICATES, seed)) if isinstance(pilot.source, Sample) else {}
    )


def economy_of(expected: Expectation, seed: int) -> Economy:
    """Estimation, bias and the price of noise, from the moments or from two pilot runs."""
    pilot, here = expected.pilot, expected.here
    bias = expected.bias()
    if expected.method == "pilot-run":
        price = max(0.0, expected.fitness(seed) * here.least_cost - bias) / pilot.combined_variance()
    else:
        price = float(expected.excess_at(1.0)[-1]) - bias
    return Economy(pilot.rows, pilot.noise_variance(), here.estimation, bias, price, here.start_cost - here.least_cost)


def _owners(expected: Expectation, economy: Economy) -> tuple[OwnerForecast, ...]:
    pilot, base = expected.pilot, expected.here.test_cost
    unit = pilot.preparation.target_scale**2
    marginal, (shapley, error) = economy.leave_one_out(), economy.shapley()
    together = base + economy.together()
    result = []
    for place, part in enumerate(pilot.terms.owners):
        alone = base + economy.alone(place)
        result.append(
            OwnerForecast(
                name=part.name,
                alone=alone * unit,
                together=together * unit,
                gain=(alone - together) * unit,
                break_even_epsilon=economy.break_even(place, partial(_variance_at, pilot, part.name)),
                marginal_value=float(marginal[place]) * unit,
                shapley_value=float(shapley[place]) * unit,
                shapley_error=float(error[place]) * unit,
            )
        )
    return tuple(result)


def _variance_at(pilot: Pilot, name: str, epsilon: float) -> float:
    """The noise variance of an owner's answers if it chose this epsilon."""
    owners = tuple(o.model_copy(update={"epsilon": epsilon}) if o.name == name else o for o in pilot.terms.owners)
    terms = pilot.terms.model_copy(update={"owners": owners})
    return owner_plan(terms, name, pilot.preparation, pilot.objective)[1].mechanism.variance


def _coalition(terms: Terms, pilot: Pilot) -> tuple[str, ...]:
    epsilons = [float(exact(part.epsilon)) for part in terms.owners]
    chosen = best_coalition(pilot.rows, epsilons)
    return tuple(terms.owners[int(place)].name for place in chosen)
