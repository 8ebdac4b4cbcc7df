"""The forecast: what the joint model will be worth, and to whom, before any data moves. Exact where W has bounds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from parley.data.sources import Table
from parley.decisions.forecasting.baselines import best_cost
from parley.decisions.forecasting.coalition import CoalitionCost
from parley.decisions.forecasting.coding import CodingCost, coding_cost
from parley.decisions.forecasting.expectation import REPLICATES, Expectation, Method, expect
from parley.decisions.forecasting.heterogeneity import ASSUMED, Heterogeneity
from parley.decisions.forecasting.joining import Interval, Joining, Verdict, intervals, joining, least_epsilon, verdict
from parley.decisions.forecasting.pilot import Pilot, open_pilot
from parley.decisions.forecasting.published import PublishedBounds, published_bounds
from parley.decisions.forecasting.sources import Source
from parley.decisions.forecasting.worth import Worth, better_plan, worth_of
from parley.errors import DataError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.metrics import Metrics, task_metrics
from parley.owner.warnings import budget_warning, noise_choice
from parley.privacy.adjacency import Adjacency
from parley.protocol.aggregation import CoalitionNoise, OneNoise
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import Floats, whole

RESAMPLES, FEWER = 30, 20  # of the pilot, for the interval; fewer where every one is run in batches
SCORED = 24  # models for the task's metrics


@dataclass(frozen=True)
class OwnerForecast:
    """What joining means for one owner: expected test costs for its own customers, in the target's own units."""

    name: str
    alone: float  # a ridge of its own rows
    together: float  # the joint model as it is
    personal: float  # the joint model, combined with its own rows
    gain: Interval  # alone less personal: from where owners differ most to where they differ least
    verdict: Verdict
    # own, or common where there is one noise; the score's part included; None: none pays; 0: all do
    break_even_epsilon: float | None
    marginal_value: float  # what the coalition loses without this owner
    shapley_value: float
    shapley_error: float

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "gain": vars(self.gain)}


@dataclass(frozen=True, eq=False)
class Forecast:
    """What training by these terms is expected to give."""

    terms: Terms
    method: Method
    relative_fitness: Interval
    coverage: str  # what the intervals cover
    excess_cost: Interval
    by_method: dict[str, float]  # mean relative fitness by every method that applies
    path: Floats  # expected relative fitness after each round [T]
    models: Floats  # as they may come out [., P]
    run_quartiles: tuple[float, float, float] | None  # of a single run's relative fitness, where the moments are exact
    metrics: Metrics  # the task's own, expected of the joint model; empty without a sample
    published_bounds: PublishedBounds
    owners: tuple[OwnerForecast, ...]
    joining: Joining  # what the owners' gains follow from
    best_coalition: tuple[str, ...]
    worth: Worth  # beside what nobody has to be asked for
    # how many times nearer to the best model a plan would come, if twice or more; None: a quick look found none
    plan_gain: float | None
    warnings: tuple[str, ...]
    target_words: str | None = None  # which targets count as 1 and which as 0, where there are two classes
    coding: CodingCost | None = None  # what names in one column cost, where the terms put them there
    expected: Expectation | None = field(default=None, repr=False)  # what it rests on: to go on from there

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --json` prints."""
        return {
            "title": self.terms.title,
            "relative_fitness": vars(self.relative_fitness),
            "excess_cost": vars(self.excess_cost),
            "interval_covers": self.coverage,
            "method": self.method,
            "by_method": self.by_method,
            "run_quartiles": self.run_quartiles,
            "metrics": self.metrics,
            "published_bounds": vars(self.published_bounds),
            "owners": [owner.to_json() for owner in self.owners],
            "adjacency": Adjacency.REPLACE_ONE,
            "differences": self.joining.differences.to_json(),
            "best_coalition": list(self.best_coalition),
            "baselines": self.worth.to_json(),
            "expected_cost": self.worth.together,
            "plan_gain": self.plan_gain,
            "warnings": list(self.warnings),
            "target_words": self.target_words,
            "coding": None if self.coding is None else vars(self.coding),
            "terms_hash": self.terms.hash,
        }


def forecast(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    resamples: int | None = None,
    differences: Heterogeneity = ASSUMED,
    progress: Progress = lambda done, total: None,
    doing: Callable[[str], None] = lambda what: None,
    speeds: Mapping[str, float] | None = None,
) -> Forecast:
    """Forecast the joint model of these terms from public knowledge. No private record is looked at.

    `pilot` is a public table, released moments or stated assumptions; left out: the terms' own public sample. For a
    squared loss whose clip and box do not bind, the moments are exact given what the pilot shows. Otherwise the
    algorithm itself is run on the pilot with the noise of the real owners. What joining adds for each owner hangs on
    how much owners differ: `differences`. `doing` is told what is worked at, `progress` how far that is. `speeds`
    (asynchronous terms) are as `train` takes them; who has speed 0 never answers, and the forecast is of the others.
    """
    whole(seed, "seed", least=0)
    doing("calibrating noise, running the pilot")
    expected = expect(open_pilot(terms, pilot, speeds))
    known, here, method = expected.pilot, expected.here, expected.method
    path, models = expected.outcome(seed, progress=progress)
    mean = float(path[-1])
    fits = {method: mean}
    if method == "pilot-run" and expected.moments is not None:
        fits["curvature-moments"] = float(expected.excess[-1]) / expected.unit
    doing("resampling the pilot")
    if resamples is None:
        resamples = FEWER if method == "pilot-run" and known.question.batched else RESAMPLES
    interval, failed = _interval(expected, mean, seed, whole(resamples, "resamples"), progress)
    scale = expected.unit * known.setup.preparation.target_scale**2
    doing("weighing coalitions, looking for break-even budgets")
    cost, noise = coalition_cost(expected, mean)
    gains = joining(expected, cost, known.combined_variance(), models, differences)
    owners = _owners(expected, cost, noise, gains, interval, progress)
    return Forecast(
        terms=terms,
        method=method,
        relative_fitness=interval,
        coverage=known.source.coverage,
        excess_cost=Interval(interval.mean * scale, interval.low * scale, interval.high * scale),
        by_method={str(name): value for name, value in fits.items()},
        path=path,
        models=models,
        run_quartiles=_run_quartiles(expected, seed) if method == "exact-moments" else None,
        metrics=_metrics(known, models[:SCORED]),
        published_bounds=published_bounds(known, here, mean * expected.unit),
        owners=owners,
        joining=gains,
        best_coalition=tuple(known.terms.owners[place].name for place in np.flatnonzero(cost.best_coalition(noise))),
        worth=worth_of(expected, mean, models),
        plan_gain=better_plan(expected, mean, seed),
        warnings=(
            *expected.warnings,
            *failed,
            *_worse_than_nothing(expected, mean),
            *_noise_choice(known),
            *_loud(known),
        ),
        target_words=known.setup.preparation.target_words,
        coding=coding_cost(terms),
        expected=expected,
    )


def _metrics(known: Pilot, models: Floats) -> Metrics:
    """The task's own metrics of models [R, P] on the pilot's rows; none without rows."""
    if not known.has_rows or known.source.invented:  # whose relation to the target is made up
        return {}
    return task_metrics(known.objective, known.setup.preparation, known.design, models)


def _interval(
    expected: Expectation, mean: float, seed: int, resamples: int, progress: Progress
) -> tuple[Interval, list[str]]:
    """The forecast's interval from the pilot's other versions, and a word where some of them allow none."""
    others = expected.pilot.others(np.random.default_rng(seed), resamples)
    values = []
    for draw, other in enumerate(others):
        progress(draw, len(others))
        try:
            values.append(expected.at(other).fitness(seed + draw + 1, REPLICATES // 4))
        except SettingError:
            continue  # its rows have no optimum
    failed = len(others) - len(values)
    if failed > len(others) // 2:
        raise DataError(
            "most versions of the pilot have no finite optimum (separable classes?): set model.regularisation or "
            "model.radius"
        )
    here, n = expected.here, float(expected.pilot.rows.sum())
    as_if_true = mean * expected.unit / max(here.least_cost - here.estimation / n, 0.5 * here.least_cost)
    low, high = expected.pilot.source.interval(mean, mean if here.records is None else as_if_true, np.array(values), n)
    words = (
        [f"{failed} of {len(others)} versions of the pilot have no finite optimum: the forecast rests on little"]
        if failed
        else []
    )
    return Interval(mean, low, high), words


def _worse_than_nothing(expected: Expectation, mean: float) -> list[str]:
    nothing = (expected.here.start_cost - expected.here.least_cost) / expected.unit
    if not mean > nothing:
        return []
    return [
        f"the model that asks nobody (ψ = {nothing:.3g}) would be better: budgets or records are too small for these "
        f"terms"
    ]


def _noise_choice(known: Pilot) -> list[str]:
    """Which noise is cheaper for the terms' clip, where that is a question."""
    said = noise_choice(known.setup, known.terms.owners[0].name)
    return [] if said is None else [said[0].lower() + said[1:].rstrip(".")]


def _loud(known: Pilot) -> list[str]:
    """Budgets that promise next to nothing."""
    warning = budget_warning(known.terms, [part.name for part in known.terms.owners])
    return [] if warning is None else [warning.sentence[0].lower() + warning.sentence[1:].rstrip(".")]


def _run_quartiles(expected: Expectation, seed: int) -> tuple[float, float, float]:
    """Quartiles of one run's relative fitness."""
    away = expected.here.inward(expected.models(20_000, seed) - expected.here.optimum)
    excess = 0.5 * away**2 @ (expected.here.curvature + expected.pilot.objective.regularisation)
    q25, median, q75 = np.quantile(excess / expected.unit, [0.25, 0.5, 0.75])
    return float(q25), float(median), float(q75)


def coalition_cost(expected: Expectation, fitness: float) -> tuple[CoalitionCost, CoalitionNoise]:
    """Estimation, bias and the price of noise, beside the noise of the terms' own budgets. By moments the error is
    linear in the noise's variance; by a pilot run it is taken to be so between none and the terms' own."""
    pilot, here = expected.pilot, expected.here
    noise = pilot.noise
    excess = fitness * expected.unit
    bias = min(expected.bias(), excess)
    price = (excess - bias) / pilot.combined_variance()
    return CoalitionCost(here.estimation, bias, price, here.start_cost - here.least_cost), noise


def _owners(
    expected: Expectation,
    cost: CoalitionCost,
    noise: CoalitionNoise,
    gains: Joining,
    fitness: Interval,
    progress: Progress,
) -> tuple[OwnerForecast, ...]:
    pilot, base = expected.pilot, best_cost(expected.pilot)
    unit = pilot.setup.preparation.target_scale**2
    marginal, (shapley, error) = cost.leave_one_out(noise), cost.shapley(noise)
    alone, together, personal = (unit * (base + each()) for each in (gains.alone, gains.together, gains.personal))
    found = intervals(
        unit * gains.gains(*(end / fitness.mean if fitness.mean > 0 else 1.0 for end in (fitness.high, fitness.low)))
    )
    result, known = [], dict[object, float | None]()
    tried = dict[float, float]() if isinstance(noise, OneNoise) else None  # one law for all owners
    score, variance_at = float(pilot.terms.score_epsilon), _variances(pilot, noise)
    for place, part in enumerate(pilot.terms.owners):
        progress(place, len(pilot.terms.owners))
        bearable = float(gains.bearable[place])
        like = part.records, part.epsilon, pilot.setup.part(part.name).training.series.count, bearable
        if like not in known:
            known[like] = least_epsilon(bearable, partial(variance_at, place), tried)
        even = known[like]
        result.append(
            OwnerForecast(
                name=part.name,
                alone=float(alone[place]),
                together=float(together[place]),
                personal=float(personal[place]),
                gain=found[place],
                verdict=verdict(found[place], unit * float(gains.least[place])),
                break_even_epsilon=even if even is None or even == 0 else even + score,
                marginal_value=float(marginal[place]) * unit,
                shapley_value=float(shapley[place]) * unit,
                shapley_error=float(error[place]) * unit,
            )
        )
    return tuple(result)


def _variances(pilot: Pilot, noise: CoalitionNoise) -> Callable[[int, float], float]:
    """The combined answer's variance if the owner at a place chose to train with an epsilon; where there is one noise,
    all with it."""
    records, size = noise.records, float(noise.records.sum())
    if isinstance(noise, OneNoise):
        return lambda place, epsilon: common_demand(pilot.setup, epsilon) / size**2
    others, variance = noise.without_each(np.ones(len(records), dtype=bool))
    rest, names = variance * (others / size) ** 2, pilot.setup.schedule.names

    def variance_at(place: int, epsilon: float) -> float:
        own = pilot.setup.variance_at(names[place], epsilon) * float(pilot.spread[place])
        return float(rest[place] + own * (records[place] / size) ** 2)

    return variance_at


def common_demand(setup: Setup, epsilon: float) -> float:
    """The variance of the one noise of a sum if training had this common epsilon; infinite where no law is loud
    enough."""
    try:
        return setup.law(0, Fraction(epsilon) + setup.terms.score_epsilon).sum_variance
    except TermsError:
        return math.inf
