"""The terms and what is known of the data, put together: how the owners' answers will look before anybody asked them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from parley import objectives
from parley.accounting import Plan
from parley.aggregation import mean_variance, weighted_mean
from parley.data import Design, Preparation, fit_preparation, read_table
from parley.data.table import Table
from parley.errors import DataError
from parley.forecasting.sources import Landscape, Sample, Source
from parley.learning.algorithm import Algorithm, Descent, State, run
from parley.learning.train import make_algorithm
from parley.mechanisms import Bounded, FastNoise
from parley.objectives import MarginObjective, RecordBound
from parley.objectives.moments import bounded_moments
from parley.owner import owner_plan
from parley.queries import Answer, GradientQuery, Query, UpdateQuery
from parley.terms import Terms, training_records
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Pilot:
    """Public knowledge, prepared as the owners' tables will be, and what the terms make of it."""

    terms: Terms
    preparation: Preparation
    public: Design | None  # of the terms, from which an automatic step is taken
    source: Source
    objective: MarginObjective
    algorithm: Algorithm
    bound: RecordBound
    plans: tuple[Plan, ...]  # one an owner, in the order of the terms

    @property
    def design(self) -> Design:
        """The pilot's rows; only a sample has any."""
        if not isinstance(self.source, Sample):
            raise DataError("this forecast has to run the algorithm on rows, so it needs a public sample; give one as the pilot")
        return self.source.design

    @property
    def rows(self) -> Floats:
        """n_l of every owner."""
        return np.array([float(training_records(part.records, self.terms.model.holdout)) for part in self.terms.owners])

    def noise_variance(self) -> Floats:
        """Of each owner's answer, in one coordinate."""
        return np.array([plan.mechanism.variance for plan in self.plans])

    def combined_variance(self) -> float:
        """v: the variance of the owners' combined answer in one coordinate, sum (n_l/n)^2 var_l."""
        return mean_variance(self.rows, self.noise_variance())

    def landscape(self) -> Landscape:
        """The cost around its optimum."""
        return self.source.landscape(self.objective, self.terms.model.radius)

    def under(self, terms: Terms) -> "Pilot":
        """The same knowledge under other terms for the same columns."""
        return _under(terms, self.preparation, self.public, self.source)

    def others(self, rng: np.random.Generator, count: int) -> "list[Pilot]":
        """The pilot as it might have come out."""
        return [replace(self, source=source) for source in self.source.others(rng, count)]


def open_pilot(terms: Terms, known: Table | Source | None = None) -> Pilot:
    """Public knowledge for these terms: the terms' own `model.public`, another public table, or another source."""
    if known is not None and not isinstance(known, Table):
        preparation, public = fit_preparation(terms)
        if known.width != preparation.width:
            raise DataError(
                f"the pilot describes {known.width} features, the terms have {preparation.width} (with the constant, if any)"
            )
        return _under(terms, preparation, public, known)
    example = None if known is None else read_table(known)
    preparation, public = fit_preparation(terms, example)
    if example is not None:
        y = preparation.target(example, "pilot")
        design = Design(preparation.matrix(example, "pilot"), y, preparation.weights(y))
    elif public is not None:
        design = public
    else:
        raise DataError(
            "a forecast needs public knowledge: model.public in the terms, a pilot table, released moments or stated assumptions"
        )
    return _under(terms, preparation, public, Sample(design))


def _under(terms: Terms, preparation: Preparation, public: Design | None, source: Source) -> Pilot:
    objective = objectives.make(terms.model)
    bounds_and_plans = [owner_plan(terms, part.name, preparation, objective) for part in terms.owners]
    return Pilot(
        terms=terms,
        preparation=preparation,
        public=public,
        source=source,
        objective=objective,
        algorithm=make_algorithm(terms, objective, preparation, public),
        bound=bounds_and_plans[0][0],
        plans=tuple(plan for _, plan in bounds_and_plans),
    )


class PilotExchange:
    """Answers as the owners will: the pilot's clipped answer with each owner's own noise. The learning loop cannot tell."""

    def __init__(self, pilot: Pilot, replicates: int, seed: int, noiseless: bool = False) -> None:
        self._pilot, self._replicates, self._noise, self._noiseless = pilot, replicates, FastNoise(seed), noiseless

    def ask(self, query: Query) -> list[Answer]:
        pilot = self._pilot
        if isinstance(query, GradientQuery):
            value = self._gradient(query.theta)
        elif isinstance(query, UpdateQuery) and isinstance(pilot.algorithm, Descent):
            value = pilot.algorithm.answer(self._gradient, query.start)
        else:
            once = bounded_moments(pilot.design, pilot.bound).value
            value = np.broadcast_to(once, (self._replicates, len(once)))
        answers = []
        for part, plan, rows in zip(pilot.terms.owners, pilot.plans, pilot.rows, strict=True):
            noisy = value
            if not self._noiseless:
                mechanism = plan.mechanism
                noisy = mechanism.release(Bounded(value, mechanism.sensitivity, mechanism.norm), self._noise)
            answers.append(Answer(query.id, part.name, int(rows), noisy))
        return answers

    def _gradient(self, theta: Floats) -> Floats:
        return self._pilot.objective.mean_gradient(self._pilot.design, theta, self._pilot.bound)


def pilot_models(
    pilot: Pilot, replicates: int, seed: int, noiseless: bool = False, after_round: Callable[[State], None] = lambda state: None
) -> Floats:
    """The models [replicates, p] that the algorithm reaches on the pilot with the noise of the real owners."""
    start = pilot.algorithm.start(pilot.design.width, (replicates,))
    exchange = PilotExchange(pilot, replicates, seed, noiseless)
    return pilot.algorithm.model(run(pilot.algorithm, exchange, weighted_mean, "pilot", "pilot", start, after_round))


def clipped_share(pilot: Pilot, thetas: Floats) -> float:
    """The largest share of pilot records whose gradient exceeds the bound, over these parameters [..., p]."""
    if not pilot.bound.clips:
        return 0.0
    norms = [pilot.objective.record_norms(pilot.design, theta, pilot.bound.norm) for theta in thetas]
    return float(max(np.mean(size > pilot.bound.value) for size in norms))
