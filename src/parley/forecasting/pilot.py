"""What a learner may know before training: a public pilot sample, the terms, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley import objectives
from parley.accounting import Plan
from parley.aggregation import weighted_mean
from parley.data import Design, Preparation, fit_preparation, read_table
from parley.data.table import Table
from parley.errors import DataError
from parley.learning.algorithm import Descent, run
from parley.learning.train import make_algorithm
from parley.mechanisms import Bounded, FastNoise
from parley.objectives import LinearSVM, MarginObjective, RecordBound, optimum
from parley.owner import owner_plan
from parley.queries import Answer, GradientQuery
from parley.terms import Terms, training_records
from parley.validate import Floats

HINGE_WIDTH = 0.2  # over which the hinge's corner is smoothed to have a curvature


@dataclass(frozen=True, eq=False)
class Pilot:
    """A public sample prepared as the owners' tables will be, and what the terms make of it."""

    terms: Terms
    preparation: Preparation
    objective: MarginObjective
    algorithm: Descent
    design: Design
    bound: RecordBound
    plans: tuple[Plan, ...]  # one an owner, in the order of the terms

    @property
    def rows(self) -> Floats:
        """n_l of every owner."""
        return np.array([float(training_records(part.records, self.terms.model.holdout)) for part in self.terms.owners])

    def noise_variance(self) -> Floats:
        """Of each owner's answer, in one coordinate."""
        return np.array([plan.mechanism.variance for plan in self.plans])

    def resampled(self, rng: np.random.Generator) -> "Pilot":
        """The same with rows drawn with replacement: how else the sample might have come out."""
        rows = rng.integers(len(self.design), size=len(self.design))
        design = Design(self.design.X[rows], self.design.y[rows], self.design.weight[rows])
        return replace(self, design=design)


def open_pilot(terms: Terms, table: Table | None = None) -> Pilot:
    """The pilot sample of the terms (`model.public`), or another public table prepared by the same rules."""
    example = None if table is None else read_table(table)
    preparation, public = fit_preparation(terms, example)
    if example is not None:
        y = preparation.target(example, "pilot")
        design = Design(preparation.matrix(example, "pilot"), y, preparation.weights(y))
    elif public is not None:
        design = public
    else:
        raise DataError("a forecast needs a public sample: model.public in the terms, or a pilot table")
    objective = objectives.make(terms.model)
    bounds_and_plans = [owner_plan(terms, part.name, preparation, objective) for part in terms.owners]
    return Pilot(
        terms=terms,
        preparation=preparation,
        objective=objective,
        algorithm=make_algorithm(terms, objective, preparation, public),
        design=design,
        bound=bounds_and_plans[0][0],
        plans=tuple(plan for _, plan in bounds_and_plans),
    )


@dataclass(frozen=True, eq=False)
class Landscape:
    """The cost around its optimum as the pilot sees it."""

    optimum: Floats  # theta* [p]
    least_cost: float
    start_cost: float  # at theta[1] = 0
    curvature: Floats  # eigenvalues of the data part's Hessian [p]
    directions: Floats  # their eigenvectors as columns [p, p]
    estimation: float  # c: an optimum found on n records costs about c/n more on new ones


def landscape(pilot: Pilot) -> Landscape:
    """Optimum, curvature and estimation error. For records of one law, c = tr(H^-1 G)/2 with G the covariance of record gradients.

    For least squares with noise of variance s^2 that is s^2 p, the textbook's.
    """
    objective, design = pilot.objective, pilot.design
    theta = optimum(objective, [design], pilot.terms.model.radius)
    smooth = replace(objective, smoothing=HINGE_WIDTH) if isinstance(objective, LinearSVM) else objective
    ridge = objective.regularisation * np.eye(design.width)
    hessian = smooth.hessian(design, theta)
    curvature, directions = np.linalg.eigh(hessian - ridge)
    slope = objective.slope(design.X @ theta, design.y) * design.weight
    gradients = design.X * slope[:, None]
    spread = gradients.T @ gradients / len(design) - np.outer(gradients.mean(axis=0), gradients.mean(axis=0))
    return Landscape(
        optimum=theta,
        least_cost=float(objective.cost(design, theta)),
        start_cost=float(objective.cost(design, np.zeros_like(theta))),
        curvature=np.maximum(curvature, 0.0),
        directions=directions,
        estimation=float(np.trace(np.linalg.lstsq(hessian, spread, rcond=None)[0])) / 2,
    )


class PilotExchange:
    """Answers as the owners will: the pilot's clipped gradient with each owner's own noise. The learning loop cannot tell."""

    def __init__(self, pilot: Pilot, seed: int, noiseless: bool = False) -> None:
        self._pilot, self._noise, self._noiseless = pilot, FastNoise(seed), noiseless

    def ask(self, query: GradientQuery) -> list[Answer]:
        pilot = self._pilot
        value = pilot.objective.mean_gradient(pilot.design, query.theta, pilot.bound)
        answers = []
        for part, plan, rows in zip(pilot.terms.owners, pilot.plans, pilot.rows, strict=True):
            noisy = value
            if not self._noiseless:
                mechanism = plan.mechanism
                noisy = mechanism.release(Bounded(value, mechanism.sensitivity, mechanism.norm), self._noise)
            answers.append(Answer(query.id, part.name, int(rows), noisy))
        return answers


def pilot_models(pilot: Pilot, replicates: int, seed: int, noiseless: bool = False) -> Floats:
    """The models [replicates, p] that the algorithm reaches on the pilot with the noise of the real owners."""
    start = pilot.algorithm.start(pilot.design.width, (replicates,))
    final = run(pilot.algorithm, PilotExchange(pilot, seed, noiseless), weighted_mean, "pilot", "pilot", start)
    return pilot.algorithm.model(final)


def clipped_share(pilot: Pilot, thetas: Sequence[Floats]) -> float:
    """The largest share of pilot records whose gradient exceeds the bound, over these parameters."""
    if not pilot.bound.clips:
        return 0.0
    shares = [np.mean(pilot.objective.record_norms(pilot.design, t, pilot.bound.norm) > pilot.bound.value) for t in thetas]
    return float(max(shares))
