"""What joining saves owners by one law: the costs of three models, in draws of all unknowns, from public knowledge.
Losses are taken as quadratic around the optimum, and the joint model's error is scaled to its expected cost. Scatter
costs the same in all directions, as it does for well-specified models."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from parley.decisions.expectation.expectation import Expectation
from parley.decisions.knowledge.baselines import LearningCurve, best_cost, fit_errors
from parley.decisions.knowledge.heterogeneity import Heterogeneity, assumed_heterogeneity
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import bent
from parley.decisions.outlook.coalition import coalition_cost
from parley.decisions.outlook.owners import Owners, Seen
from parley.protocol.aggregation import Members
from parley.validate import Floats

# by which positions of three unknowns, from 0 to 1, go on from world to world: powers of the root of x^4 = x + 1, far
# from all fractions, so that no two go together
WORLD_STRIDES = np.array([0.8191725133961645, 0.6710436067037893, 0.5497004779019703])
FINE_POSITIONS = (np.arange(64) + 0.5) / 64  # positions that what own rows show is weighed at


@dataclass(frozen=True, eq=False)
class _World:
    """One draw of the unknowns: the variance between owners [P], the joint model's error, how many standard errors
    trees cost more than expected, and which share of the joint model's saving is left with trees on top."""

    between: Floats
    owners: Owners
    trees: float
    beside: float


@dataclass(frozen=True, eq=False)
class Gains:
    """The costs of the owners' three models in the target's own units, in draws [N, D] of everything unknown."""

    pilot: Pilot
    owners: Owners  # at the variance of the terms' own budgets
    price: Floats  # the joint model's squared error in each direction by one unit of the combined answer's variance [P]
    differences: Heterogeneity
    level: float  # what the best model costs
    trees: LearningCurve | None  # what boosted trees of own rows cost above the best linear model
    error_factors: tuple[float, float] = (1.0, 1.0)  # of the joint model's squared error: 5 % and 95 % ends

    @cached_property
    def alone(self) -> Floats:
        """Costs of the model alone: linear, or boosted trees if public rows favour them."""
        return self._costs([self._alone(world) for world in self._worlds])

    @cached_property
    def together(self) -> Floats:
        """Costs of the joint model as it is."""
        return self._costs([world.owners.together(world.between) for world in self._worlds])

    @cached_property
    def personal(self) -> Floats:
        """Costs of the personal model. Trees of own rows on top of it keep a part of what a better start saves."""
        return self._costs([self._personal(world) for world in self._worlds])

    @property
    def draws(self) -> int:
        """The number of draws in each world."""
        return self.owners.draws

    @property
    def by_trees(self) -> Members:
        """Whether each owner's model alone is boosted trees [N]."""
        if self.trees is None:
            return np.zeros(len(self.owners.records), bool)
        world = self._worlds[len(self._worlds) // 2]
        return np.asarray(self.trees.ahead(self.owners.records, world.owners.alone(world.between).mean(axis=1)))

    def at(self, variance: Floats | float) -> "Gains":
        """Return the gains with this variance of the combined answer, common or per owner [N, 1]."""
        return replace(self, owners=replace(self.owners, noise=np.minimum(variance * self.price, 1e250)))

    def among(self, copies: float) -> "Gains":
        """Return the gains with `copies` owners like each of these, at the same variance."""
        return replace(self, owners=replace(self.owners, copies=copies))

    def under(self, pilot: Pilot) -> "Gains":
        """Return the gains under terms with other owners' numbers or another kind of noise."""
        changed = replace(self, pilot=pilot, owners=replace(self.owners, records=pilot.rows, members=None))
        if self.differences.origin == "assumed":
            differ = assumed_heterogeneity(float(np.median(pilot.rows)), len(self.price))
            changed = replace(changed, differences=differ)
        return changed.at(pilot.combined_variance())

    def for_members(self, members: Members) -> "Gains":
        """Return the gains if these owners learned together [N]."""
        noise, everyone = self.pilot.noise, np.ones(len(members), bool)
        if members.all() and self.owners.members is None:
            return self
        times = float(noise.variance(members) / noise.variance(everyone)) if members.any() else 1.0
        restricted = replace(self, owners=replace(self.owners, members=members))
        return restricted.at(self.pilot.combined_variance() * times)

    def seeing(self, seen: Seen) -> "Gains":
        """Return the gains for somebody who has seen one owner's private rows."""
        return replace(self, owners=replace(self.owners, seen=seen, drawn={}))

    def _costs(self, excess: list[Floats]) -> Floats:
        return np.asarray((self.level + np.concatenate(excess, axis=1)) * self._unit)

    @property
    def _unit(self) -> float:
        return float(self.pilot.setup.preparation.target_scale**2)

    @cached_property
    def _worlds(self) -> "list[_World]":
        unit, (better, worse) = self.owners.scatter / np.median(self.owners.records), self.error_factors
        worlds = list[_World]()
        for place, position in enumerate(self._positions(unit)):
            number = self.owners.law * self.owners.worlds + place
            error, trees, beside = (0.5 + number * WORLD_STRIDES) % 1
            times = math.exp(np.interp(error, (0.05, 0.5, 0.95), np.log((better, 1.0, worse))))
            owners = replace(self.owners.erring(times), world=number)
            worlds.append(_World(self.differences.at(position) * unit, owners, float(ndtri(trees)), float(beside)))
        return worlds

    def _positions(self, unit: Floats) -> Floats:
        """Return equally likely positions of how much owners differ, given what was seen."""
        even = (np.arange(self.owners.worlds) + 0.5) / self.owners.worlds
        if self.owners.seen is None:
            return even
        heights = np.array(
            [self.owners.likelihood(self.differences.at(position) * unit) for position in FINE_POSITIONS]
        )
        weights = np.cumsum(np.exp(heights - heights.max()))
        return FINE_POSITIONS[np.searchsorted(weights / weights[-1], even)]

    def _alone(self, world: "_World") -> Floats:
        linear = world.owners.alone(world.between)
        return linear if self.trees is None else np.minimum(linear, self._own_trees(linear, world.trees))

    def _personal(self, world: "_World") -> Floats:
        linear, alone = world.owners.personal(world.between), world.owners.alone(world.between)
        if self.trees is None:
            return linear
        trees = self._own_trees(alone, world.trees) - world.beside * (alone - linear)
        return np.minimum(linear, np.maximum(trees, -self.level))  # no cost is below 0

    def _own_trees(self, linear: Floats, side: float) -> Floats:
        """Return the cost of trees of own rows [N, 1]; infinity unless they are expected to beat the linear model."""
        if self.trees is None:
            return np.full((len(linear), 1), np.inf)
        ahead = self.trees.ahead(self.owners.records, linear.mean(axis=1))
        return np.where(ahead, self.trees.towards(self.owners.records, side), np.inf)[:, None]


def gains_by(
    expected: Expectation,
    fitness: float,
    models: Floats,
    differences: Heterogeneity | None = None,
    error_factors: tuple[float, float] = (1.0, 1.0),
    law: int = 0,
    laws: int = 1,
) -> Gains:
    """Return the owners' gains at this expected fitness and with these models; for number `law` of `laws` laws."""
    landscape, pilot = expected.here, expected.pilot
    cost, _ = coalition_cost(expected, fitness)
    penalty = pilot.objective.regularisation
    curved = bent(landscape.curvature + penalty)
    curvature = (landscape.curvature + penalty)[curved]
    still, loud = (shape[curved] for shape in expected.squared_errors(models))
    fits = fit_errors(pilot)
    bias, price = (_costing(shape, curvature, total) for shape, total in ((still, cost.bias), (loud, cost.noise_price)))
    owners = Owners(
        curvature=curvature,
        records=pilot.rows,
        scatter=2 * landscape.estimation / (len(curvature) * curvature),
        bias=bias,
        noise=pilot.combined_variance() * price,
        optimum=landscape.inward(_without_intercepts(expected))[curved],
        fit=None if fits is None else np.sqrt(np.mean(fits**2, axis=0))[curved],
        starts_publicly=pilot.starts_publicly,
        moved=math.sqrt(expected.moved()),
        laws=laws,
        law=law,
    )
    differ = differences or assumed_heterogeneity(float(np.median(pilot.rows)), len(curvature))
    return Gains(pilot, owners, price, differ, best_cost(pilot), cost.trees, error_factors)


def _costing(shape: Floats, curvature: Floats, total: float) -> Floats:
    """Scale squared errors [P] to cost `total`; spread evenly over all directions' costs if they cost nothing."""
    cost = 0.5 * float(shape @ curvature)
    if not cost > 0:
        return np.asarray(2 * total / (len(curvature) * curvature))
    return np.asarray(shape * (total / cost))


def _without_intercepts(expected: Expectation) -> Floats:
    """Return the public fit, or the common optimum [P], with zero intercepts, which nobody pulls towards zero."""
    pilot = expected.pilot
    best = (expected.here.optimum if pilot.own_fit is None else pilot.own_fit.theta).copy()
    preparation = pilot.setup.preparation
    if preparation.model.has_intercept and len(best) % preparation.width == 0:
        best[preparation.width - 1 :: preparation.width] = 0.0
    return best
