"""The forecast: what the joint model will be worth, and to whom, before any data moves. Exact where W has bounds."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from parley.accounting import exact
from parley.data.table import Table
from parley.forecasting.coalition import best_coalition
from parley.forecasting.pilot import Landscape, Pilot, clipped_share, landscape, open_pilot, pilot_models
from parley.forecasting.published import PublishedBounds, published_bounds
from parley.forecasting.response import Response, linear_response
from parley.forecasting.worth import Economy
from parley.learning.train import Progress
from parley.objectives import LinearRegression
from parley.owner import owner_plan
from parley.terms import Terms
from parley.validate import Floats, whole

Method = Literal["exact-moments", "curvature-moments", "pilot-run"]

RESAMPLES = 30  # of the pilot, for the interval
REPLICATES = 24  # of a pilot run
RARELY = 1e-3  # a clip that binds for a larger share of records biases the moments


@dataclass(frozen=True)
class Interval:
    """A mean with a 90 % interval for what the pilot, one sample among many, leaves open."""

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
    path: Floats | None  # expected relative fitness after each round [T], where the moments are used
    run_quartiles: tuple[float, float, float] | None  # of a single run's relative fitness, likewise
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
            "published_bounds": vars(self.published_bounds),
            "owners": [vars(owner) for owner in self.owners],
            "best_coalition": list(self.best_coalition),
            "warnings": list(self.warnings),
            "terms_hash": self.terms.hash,
        }


def forecast(
    terms: Terms,
    pilot: Table | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    progress: Progress = lambda done, total: None,
) -> Forecast:
    """Forecast the joint model of these terms from a public pilot sample. No private record is looked at.

    For a squared loss whose clip and box do not bind, the moments are exact given the pilot's landscape. Otherwise the algorithm
    itself is run on the pilot with the noise of the real owners. The interval comes from resampling the pilot. "Together or
    alone" assumes that the owners' data follow one law; where they differ, joining may be worth more, or less, than it says.
    """
    known = open_pilot(terms, pilot)
    here = landscape(known)
    variance = combined_variance(known)
    response = moments(known, here)
    sure, warnings = trust_moments(known, here, response, variance)
    fits = {"exact-moments" if sure else "curvature-moments": fitness(known, here, response, variance)}
    method: Method = "exact-moments"
    if not sure:
        method = "pilot-run"
        fits[method] = _pilot_fitness(known, here, seed)
    interval = _interval(known, method, fits[method], seed, whole(resamples, "resamples"), progress)
    scale = here.least_cost * known.preparation.target_scale**2
    economy = economy_of(known, here, response, variance, method, seed)
    return Forecast(
        terms=terms,
        method=method,
        relative_fitness=interval,
        excess_cost=Interval(interval.mean * scale, interval.low * scale, interval.high * scale),
        by_method=fits,
        path=excess_path(known, here, response, variance) / here.least_cost if sure else None,
        run_quartiles=_run_quartiles(known, here, response, variance, seed) if sure else None,
        published_bounds=published_bounds(known, here, fits[method] * here.least_cost),
        owners=_owners(known, here, economy),
        best_coalition=_coalition(terms, known),
        warnings=warnings,
    )


def combined_variance(pilot: Pilot) -> float:
    """v: the variance of the owners' combined answer in one coordinate, sum (n_l/n)^2 var_l."""
    shares = pilot.rows / pilot.rows.sum()
    return float(shares**2 @ pilot.noise_variance())


def moments(pilot: Pilot, here: Landscape) -> Response:
    """The algorithm's response on this landscape, from theta[1] = 0."""
    return linear_response(pilot.algorithm, here.curvature, -here.directions.T @ here.optimum)


def excess_path(pilot: Pilot, here: Landscape, response: Response, variance: float) -> Floats:
    """E f(model) - f* after each round [T]: half the sum over directions of curvature times squared error."""
    total = here.curvature + pilot.objective.regularisation
    return 0.5 * (response.bias**2 + variance * response.gain) @ total


def fitness(pilot: Pilot, here: Landscape, response: Response, variance: float) -> float:
    """Expected relative fitness of the final model by its moments."""
    return float(excess_path(pilot, here, response, variance)[-1]) / here.least_cost


def trust_moments(pilot: Pilot, here: Landscape, response: Response, variance: float) -> tuple[bool, tuple[str, ...]]:
    """Whether the moments are exact here, and what a reader should know."""
    warnings = []
    start, end = np.zeros_like(here.optimum), here.optimum
    share = clipped_share(pilot, [start, end, (start + end) / 2])
    if share > RARELY:
        warnings.append(f"the clip binds for {share:.1%} of the pilot's records on the way: a larger one may serve better")
    radius = pilot.terms.model.radius
    spread = math.sqrt(variance * float(response.gain.max()))
    boxed = radius is not None and float(np.abs(end).max()) + 4 * spread > radius
    if boxed:
        warnings.append("the noise reaches the box: the model may be pushed against it")
    positives = float(np.sum(pilot.design.y > 0)) if pilot.terms.model.classifies else math.inf
    if min(positives, len(pilot.design) - positives if math.isfinite(positives) else math.inf) < 30:
        warnings.append(f"one class has only {positives:.0f} records in the pilot: the forecast rests on little")
    quadratic = isinstance(pilot.objective, LinearRegression)
    return quadratic and share <= RARELY and not boxed, tuple(warnings)


def _pilot_fitness(pilot: Pilot, here: Landscape, seed: int) -> float:
    models = pilot_models(pilot, REPLICATES, seed)
    return float(np.mean(pilot.objective.cost(pilot.design, models))) / here.least_cost - 1


def _interval(pilot: Pilot, method: Method, mean: float, seed: int, resamples: int, progress: Progress) -> Interval:
    """5 % and 95 % of the forecast over resampled pilots."""
    rng = np.random.default_rng(seed)
    values = []
    for draw in range(resamples):
        progress(draw, resamples)
        other = pilot.resampled(rng)
        there = landscape(other)
        if method == "pilot-run":
            values.append(_pilot_fitness(other, there, seed + draw + 1))
        else:
            values.append(fitness(other, there, moments(other, there), combined_variance(other)))
    low, high = np.quantile(values, [0.05, 0.95])
    return Interval(mean, min(float(low), mean), max(float(high), mean))


def _run_quartiles(pilot: Pilot, here: Landscape, response: Response, variance: float, seed: int) -> tuple[float, float, float]:
    """Quartiles of one run's relative fitness: half a weighted sum of squared normals, the errors being sums over rounds and owners."""
    rng = np.random.default_rng(seed)
    error = response.bias[-1] + np.sqrt(variance * response.gain[-1]) * rng.standard_normal((20_000, len(here.curvature)))
    excess = 0.5 * error**2 @ (here.curvature + pilot.objective.regularisation)
    q25, median, q75 = np.quantile(excess / here.least_cost, [0.25, 0.5, 0.75])
    return float(q25), float(median), float(q75)


def economy_of(pilot: Pilot, here: Landscape, response: Response, variance: float, method: Method, seed: int) -> Economy:
    """Estimation, bias and the price of noise, from the moments or from two pilot runs."""
    if method == "pilot-run":
        quiet = pilot.objective.cost(pilot.design, pilot_models(pilot, 1, seed, noiseless=True))
        bias = max(0.0, float(quiet[0]) - here.least_cost)
        noisy = _pilot_fitness(pilot, here, seed) * here.least_cost
        price = max(0.0, noisy - bias) / variance
    else:
        bias = float(excess_path(pilot, here, response, 0.0)[-1])
        price = float(excess_path(pilot, here, response, 1.0)[-1]) - bias
    return Economy(pilot.rows, pilot.noise_variance(), here.estimation, bias, price, here.start_cost - here.least_cost)


def _owners(pilot: Pilot, here: Landscape, economy: Economy) -> tuple[OwnerForecast, ...]:
    unit = pilot.preparation.target_scale**2
    base = here.least_cost + here.estimation / len(pilot.design)  # the pilot's optimum fits the pilot a little too well
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
