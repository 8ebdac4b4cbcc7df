"""The forecast: what the joint model will be worth, and to whom, before any data moves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from parley.data.blocks import one_thread
from parley.data.fitting import grown_here
from parley.data.sources import Table
from parley.decisions.expectation.expectation import (
    MIN_REPLICATES,
    NO_OPTIMUM_REASON,
    Expectation,
    Law,
    Method,
    prospect,
)
from parley.decisions.expectation.published import PublishedBounds, published_bounds
from parley.decisions.knowledge.baselines import best_cost
from parley.decisions.knowledge.coding import CodingCost, coding_cost
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Source
from parley.decisions.outlook.coalition import CoalitionCost, coalition_cost
from parley.decisions.outlook.gains import gains_by
from parley.decisions.outlook.outlook import Consortium, Interval, Outlook, OwnerOutlook
from parley.decisions.outlook.owner_values import OwnerValue, needed_words, owner_values, owners_needed
from parley.decisions.outlook.worth import Worth, joint_cost, worth_of
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.metrics import Metrics, task_metrics
from parley.owner.warnings import budget_warning, noise_choice
from parley.privacy.events import Adjacency
from parley.protocol.aggregation import CoalitionNoise
from parley.terms import Terms
from parley.terms.sections import OWNER_UNIT
from parley.validate import Floats, whole

SCORED_MODELS = 24  # models for the task's metrics
# times the upper end of the forecast's interval: beyond it a simulation contradicts its forecast
CONTRADICTION_FACTOR = 2.0


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected outcome of training by these terms; consequences are computed on demand."""

    terms: Terms
    expected: Expectation = field(repr=False)  # what it rests on: to go on from there
    seed: int
    relative_fitness: Interval
    path: Floats  # expected relative fitness after each round [T]
    models: Floats  # as they may come out [., P]
    differences: Heterogeneity | None  # how much owners differ; None: not known
    laws: tuple[Law, ...] = field(default=(), repr=False)  # that were invented, where there is no public sample
    interval_warnings: tuple[str, ...] = ()

    @property
    def method(self) -> Method:
        return self.expected.method

    @property
    def coverage(self) -> str:
        """What the intervals cover, in words."""
        return self.expected.pilot.source.coverage

    @property
    def excess_cost(self) -> Interval:
        """The cost above the least training cost, in the target's own units."""
        unit, fitness = self.expected.pilot.setup.preparation.target_scale**2, self.relative_fitness
        mean, *ends = (unit * self.expected.unit * end for end in (fitness.mean, fitness.low, fitness.high))
        return _hull(mean, [unit * law.expected.unit * law.fitness for law in self.laws] or ends)

    @property
    def by_method(self) -> dict[str, float]:
        """Mean relative fitness by each method that applies."""
        return self.expected.by_method(float(self.path[-1]))

    @cached_property
    def run_quartiles(self) -> tuple[float, float, float] | None:
        """Quartiles of a single run's relative fitness, where the moments are exact."""
        return self.expected.run_quartiles(self.seed)

    @cached_property
    def metrics(self) -> Metrics:
        """The joint model's expected task metrics; empty without a sample."""
        return _metrics(self.expected.pilot, self.models[:SCORED_MODELS])

    @cached_property
    def coding(self) -> CodingCost | None:
        """The cost of integer coding of names, if the terms use it."""
        return coding_cost(self.terms)

    @property
    def published_bounds(self) -> PublishedBounds:
        """W's own bounds."""
        expected = self.expected
        return published_bounds(expected.pilot, expected.here, float(self.path[-1]) * expected.unit)

    @cached_property
    def best_cost(self) -> float:
        """The best model's cost on new rows, prepared."""
        return best_cost(self.expected.pilot)

    @cached_property
    def coalitions(self) -> tuple[CoalitionCost, CoalitionNoise]:
        """The cost of any coalition, and the noise of the terms' own budgets."""
        return coalition_cost(self.expected, float(self.path[-1]))

    @cached_property
    def outlook(self) -> Outlook:
        """The consequences of joining for each owner, and the verdicts, as every command reports them."""
        who = self.expected.pilot.terms  # without owners that never answer
        if self.laws:  # each has an error of its own
            count = len(self.laws)
            laws = [
                gains_by(law.expected, law.fitness, law.models, self.differences, law=place, laws=count)
                for place, law in enumerate(self.laws)
            ]
            return Outlook.from_laws(who, laws)
        fitness = self.relative_fitness
        low, high = (max(end / fitness.mean, 1e-9) if fitness.mean > 0 else 1.0 for end in (fitness.low, fitness.high))
        factors = min(low, 1.0), max(high, 1.0)
        return Outlook.from_laws(
            who, [gains_by(self.expected, float(self.path[-1]), self.models, self.differences, factors)]
        )

    @property
    def owners(self) -> tuple[OwnerOutlook, ...]:
        """The outlook of each owner."""
        return self.outlook.owners

    @cached_property
    def values(self) -> tuple[OwnerValue, ...]:
        """Each owner's addition to the joint model, and the epsilon from which joining pays it."""
        return owner_values(self.outlook, self.expected, *self.coalitions)

    @property
    def verdict(self) -> Consortium:
        """The verdict for the consortium."""
        return self.outlook.consortium

    @property
    def expected_cost(self) -> Interval:
        """The joint model's expected test cost, in the target's own units."""
        fitness = self.relative_fitness
        ends = [joint_cost(self.expected, end) for end in (fitness.low, fitness.high)]
        return _hull(self.worth.together, [joint_cost(law.expected, law.fitness) for law in self.laws] or ends)

    @cached_property
    def best_coalition(self) -> tuple[str, ...]:
        """The names of the best owners to ask."""
        cost, noise = self.coalitions
        names = self.expected.pilot.terms.owners
        return tuple(names[place].name for place in np.flatnonzero(cost.best_coalition(noise)))

    @cached_property
    def worth(self) -> Worth:
        """The joint model compared with models that ask no owner."""
        return worth_of(self.expected, float(self.path[-1]), self.models)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader."""
        known, mean = self.expected.pilot, float(self.path[-1])
        sentences = (
            *_other_trees(known),
            *_worse_than_nothing(self.expected, mean),
            *_noise_choice(known),
            *_budget_warnings(known),
        )
        if self.terms.privacy.unit == OWNER_UNIT:
            sentences = (needed_words(self.owners_needed, len(self.terms.owners)), *sentences)
        return (*self.expected.warnings, *self.interval_warnings, *sentences)

    @cached_property
    def owners_needed(self) -> int | None:
        """The number of owners like these at which one is expected to gain by joining; None if no number is enough."""
        noise = self.coalitions[1]
        return owners_needed(self.outlook, noise, lambda there, _: bool((there.chances >= 0.5).any()))

    @property
    def target_words(self) -> str | None:
        """A sentence on which targets count as 1 and which as 0, if there are two classes."""
        return self.expected.pilot.setup.preparation.target_words

    def headline_json(self) -> dict[str, Any]:
        """Return the part of every command's --json about these terms."""
        printed = {"relative_fitness": self.relative_fitness.mean, "expected_cost": self.worth.together}
        return self.outlook.to_json() | printed

    def _owners_json(self) -> dict[str, Any]:
        printed = self.outlook.to_json()
        for sentence, owner, value in zip(printed["owners"], self.owners, self.values, strict=True):
            sentence |= {"together_interval": vars(owner.together_interval), "alone_model": owner.alone_model} | {
                key: each for key, each in vars(value).items() if key != "name"
            }
        return printed

    @one_thread
    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --json` prints."""
        rounds = self.expected.pilot.lossy_rounds
        return {
            "title": self.terms.title,
            "relative_fitness": vars(self.relative_fitness),
            "excess_cost": vars(self.excess_cost),
            "answers_per_round": None if rounds is None else rounds.moments.answers,
            "interval_covers": self.coverage,
            "method": self.method,
            "by_method": self.by_method,
            "run_quartiles": self.run_quartiles,
            "metrics": self.metrics,
            "published_bounds": vars(self.published_bounds),
            **self._owners_json(),
            "adjacency": Adjacency.from_unit(self.terms.privacy.unit),
            "owners_needed": self.owners_needed,
            "differences": self.outlook.laws[0].differences.to_json(),
            "best_coalition": list(self.best_coalition),
            "baselines": self.worth.to_json(),
            "public_alone_model": self.worth.baselines.public_model,
            "expected_cost": self.worth.together,
            "expected_cost_interval": vars(self.expected_cost),
            "warnings": list(self.warnings),
            "target_words": self.target_words,
            "coding": None if self.coding is None else vars(self.coding),
            "terms_hash": self.terms.hash,
        }


@one_thread
def forecast(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    resamples: int | None = None,
    differences: Heterogeneity | None = None,
    progress: Progress = lambda done, total: None,
    doing: Callable[[str], None] = lambda what: None,
    speeds: Mapping[str, float] | None = None,
) -> Forecast:
    """Forecast the joint model of these terms from public knowledge. No private record is read.

    For a squared loss whose clip and box do not bind, the moments are exact given the pilot. Otherwise the algorithm
    runs on the pilot with the real owners' noise.

    Parameters
    ----------
    terms
        The terms to forecast.
    pilot
        A public table, released moments or stated assumptions. Default: the terms' own public sample.
    seed
        The seed of the pilot's resamples and runs.
    resamples
        The number of resamples of the pilot for the interval. Default: chosen by the method.
    differences
        How much owners differ: the less, the more joining adds. Default: unknown.
    progress
        Called with the progress: (done, of).
    doing
        Called with the name of each step.
    speeds
        For asynchronous terms, as `train` takes them. An owner of speed 0 never answers and is left out.

    Returns
    -------
    Forecast
        Relative fitness with its interval; costs, gain and verdict of each owner; the best coalition.

    Examples
    --------
    >>> import parley
    >>> public = parley.data.synthetic_lending(400, seed=1)
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}, "radius": 30.0},
    ...     "learning": {"horizon": 20, "step": 1e-6},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "a", "records": 4000, "epsilon": 1.0}, {"name": "b", "records": 900, "epsilon": 1.0}],
    ... })
    >>> [owner.name for owner in forecast(terms, public, resamples=4).owners]
    ['a', 'b']
    """
    whole(seed, "seed", least=0)
    doing("calibrating noise, running the pilot")
    some = None if resamples is None else whole(resamples, "resamples")
    seen = prospect(terms, pilot, seed, speeds, some, progress)
    if seen.laws:
        interval, failed = _hull(seen.fitness, [law.fitness for law in seen.laws]), seen.failed
    else:
        doing("resampling the pilot")
        interval, failed = _interval(seen.expected, seen.fitness, seed, some or seen.expected.resamples, progress)
    words = [f"{failed} versions of the pilot have no finite optimum: the forecast rests on little"] if failed else []
    beside = seen.laws, tuple(words)
    return Forecast(terms, seen.expected, seed, interval, seen.path, seen.models, differences, *beside)


def outlook(terms: Terms, knowledge: Table | Source | None = None) -> Outlook:
    """Return the consequences of joining by these terms for each owner, and the verdicts. No private record is read.

    Parameters
    ----------
    terms
        The terms to judge.
    knowledge
        A public table, released moments or stated assumptions. Default: the terms' own public sample.

    Returns
    -------
    Outlook
        `owners`: costs, gain and verdict of each; `consortium`: the verdict for all, and the members; `at`: the same
        with other budgets, noise or members.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]},
    ...               "centres": {"fico": 700, "dti": 18}, "scales": {"fico": 30, "dti": 8}},
    ...     "learning": {"algorithm": "sufficient-statistics"},
    ...     "owners": [{"name": "a", "records": 40_000, "epsilon": 1.0}, {"name": "b", "records": 40, "epsilon": 1.0}],
    ... })
    >>> found = outlook(terms, parley.data.synthetic_lending(400, seed=1))
    >>> {owner.name: owner.verdict for owner in found.owners}
    {'a': 'stay', 'b': 'unsure'}
    """
    return forecast(terms, knowledge).outlook


def missed_forecast(
    terms: Terms, worth: Worth, simulated: float, speeds: Mapping[str, float] | None
) -> Interval | None:
    """Return the forecast of relative fitness that a simulation exceeds by far; None if it does not."""
    if worth.fitness is None or not simulated > CONTRADICTION_FACTOR * worth.fitness:
        return None
    interval = forecast(terms, speeds=speeds).relative_fitness
    return interval if simulated > CONTRADICTION_FACTOR * interval.high else None


def worth_spending(
    terms: Terms, seed: int = 0, speeds: Mapping[str, float] | None = None, differences: Heterogeneity | None = None
) -> Worth:
    """Value these terms before a release, with their owners' outlook; raise an error if nothing can be forecast."""
    result = forecast(terms, seed=seed, differences=differences, speeds=speeds)
    return replace(result.worth, outlook=result.outlook)


@dataclass(frozen=True)
class WhatIf:
    """The joint model's worth if the owners had these records and budgets."""

    terms: Terms
    relative_fitness: Interval
    outlook: Outlook
    best_coalition: tuple[str, ...]  # whom to ask for the least test cost of the joint model


@one_thread
def what_if(base: Forecast, terms: Terms, personal: bool = True) -> WhatIf:
    """Carry the forecast `base` over to terms that differ in owners' numbers and in where noise is drawn. No private
    record is read, and nothing is run again. With `personal` members personalise. Exact by moments; after a pilot run,
    the cost is taken as linear in the combined answer's variance. The interval keeps its relative width."""
    cost, _ = base.coalitions
    outlook = replace(base.outlook.at(terms=terms), corrected=personal)
    pilot = base.expected.pilot.under(terms)
    unit = base.expected.here.least_at(float(pilot.rows.sum()))
    known, mean = base.relative_fitness, float(cost.privacy_error(pilot.combined_variance())) / unit
    fitness = _hull(mean, [each * (mean / known.mean if known.mean > 0 else 1.0) for each in (known.low, known.high)])
    chosen = cost.best_coalition(pilot.noise)
    names = tuple(terms.owners[place].name for place in np.flatnonzero(chosen))
    return WhatIf(terms, fitness, outlook, names)


def _hull(mean: float, values: Sequence[float]) -> Interval:
    return Interval(mean, min(mean, *values), max(mean, *values))


def _metrics(known: Pilot, models: Floats) -> Metrics:
    if not known.has_rows or known.source.invented:  # whose relation to the target is made up
        return {}
    return task_metrics(known.objective, known.setup.preparation, known.design, models)


def _interval(
    expected: Expectation, mean: float, seed: int, resamples: int, progress: Progress
) -> tuple[Interval, int]:
    """Return the forecast's interval from the pilot's other versions, and how many of them allow none."""
    others = expected.pilot.others(np.random.default_rng(seed), resamples, run=expected.simulated)
    values = []
    for draw, other in enumerate(others):
        progress(draw, len(others))
        try:
            values.append(expected.at(other).fitness(seed + draw + 1, MIN_REPLICATES // 4))
        except SettingError:
            continue  # its rows have no optimum
    failed = len(others) - len(values)
    if failed > len(others) // 2:
        raise DataError(NO_OPTIMUM_REASON)
    landscape, n = expected.here, float(expected.pilot.rows.sum())
    as_if_true = mean * expected.unit / max(landscape.least_cost - landscape.estimation / n, 0.5 * landscape.least_cost)
    low, high = expected.pilot.source.interval(
        mean, mean if landscape.records is None else as_if_true, np.array(values), n
    )
    return Interval(mean, low, high), failed


def _worse_than_nothing(expected: Expectation, mean: float) -> list[str]:
    nothing = (expected.here.start_cost - expected.here.least_cost) / expected.unit
    if not mean > nothing:
        return []
    return [
        f"a model that uses no owner's data (ψ = {nothing:.3g}) would be better: budgets or records are too small for "
        f"these terms"
    ]


def _noise_choice(known: Pilot) -> list[str]:
    sentence = noise_choice(known.setup, known.terms.owners[0].name)
    return [] if sentence is None else [sentence[0].lower() + sentence[1:].rstrip(".")]


def _budget_warnings(known: Pilot) -> list[str]:
    """Warn of budgets that protect little."""
    warning = budget_warning(known.terms, [part.name for part in known.terms.owners])
    return [] if warning is None else [warning.sentence[0].lower() + warning.sentence[1:].rstrip(".")]


def _other_trees(known: Pilot) -> list[str]:
    if grown_here(known.setup.preparation) is not False:
        return []
    return [
        "this machine grows other trees on the public sample than the pinned file holds, and the forecast is of its "
        "own. Another processor may choose splits of equal worth, or somebody changed the file. Pinned trees may be "
        "wrong about rows unlike the public ones: pin them again (parley pin), or ask who wrote the terms"
    ]
