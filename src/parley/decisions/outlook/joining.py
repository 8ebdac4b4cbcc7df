"""Is joining worth it, for whom? The personal model's expected gain over the model alone, owner by owner, from public
knowledge.

`personal_gain` has the law, exact for a squared loss with known differences between owners; other losses are taken as
quadratic around the optimum, and the joint model's error is scaled so that it costs what the forecast says that it
does. Scatter is alike in all directions' costs, as it is for models that are well specified.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from parley.decisions.expectation.expectation import Expectation
from parley.decisions.knowledge.baselines import best_cost, fit_errors
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.learning_curve import LearningCurve
from parley.decisions.knowledge.sources import bent
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.personal_gain import Owners
from parley.protocol.aggregation import Members
from parley.validate import Floats

Verdict = Literal["join", "stay", "unknown"]

LEAST_GAIN = 0.005  # of the cost alone: what a gain must exceed to count as one
SURE, EXPECTED = 0.9, 0.5  # shares of draws in which it does
ENDS = (0.05, 0.95)  # of an interval
# equally likely positions, from low to high, of how much owners differ; and, paired with them, of the joint model's
# error and of what trees cost
POSITIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
ERROR_POSITIONS, TREE_POSITIONS = (0.5, 0.9, 0.1, 0.7, 0.3), (0.3, 0.7, 0.5, 0.1, 0.9)
# of what the joint model saves a linear model: what it still saves where trees of own rows stand on top of both
BESIDE_TREES = 0.5
BREAK_EVEN = 1e-6  # relative: an epsilon from which joining pays is not more than this above the least
HALVINGS = 32  # of logarithms of variances


@dataclass(frozen=True)
class Interval:
    """A mean with an interval for what is left open."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Joining:
    """What the owners' three models cost above the best, in the cost's own units, in draws [N, D] of what is not known:
    how much owners differ, how good the joint model becomes, trees of own rows, and chance."""

    owners: Owners  # at the variance of the terms' own budgets
    price: Floats  # the joint model's squared error in each direction by one unit of the combined answer's variance [P]
    differences: Heterogeneity
    level: float  # what the best model costs
    trees: LearningCurve | None = None  # what boosted trees of own rows cost above the best linear model
    error_factors: tuple[float, float] = (1.0, 1.0)  # of the joint model's squared error: 5 % and 95 % ends

    @cached_property
    def alones(self) -> Floats:
        """Of the model alone: linear, or boosted trees where public rows say that they would be better."""
        return np.concatenate([self._alone(between, side) for between, _, side in self._worlds], axis=1)

    @cached_property
    def togethers(self) -> Floats:
        """Of the joint model as it is."""
        return np.concatenate([owners.together(between) for between, owners, _ in self._worlds], axis=1)

    @cached_property
    def personals(self) -> Floats:
        """Of the personal model. Trees of own rows on top of it keep a part of what a better start saves."""
        return np.concatenate([self._personal(*world) for world in self._worlds], axis=1)

    @cached_property
    def gains(self) -> Floats:
        """Alone less personal."""
        return np.asarray(self.alones - self.personals)

    @property
    def by_trees(self) -> Members:
        """For which owners the model alone is one of boosted trees [N]."""
        if self.trees is None:
            return np.zeros(len(self.owners.records), bool)
        between = self._worlds[len(self._worlds) // 2][0]
        return np.asarray(self.trees.ahead(self.owners.records, self.owners.alone(between).mean(axis=1)))

    @property
    def least(self) -> Floats:
        """What a gain must exceed to count as one [N]."""
        return np.asarray(LEAST_GAIN * (self.level + self.alones.mean(axis=1)))

    @property
    def chances(self) -> Floats:
        """The share of draws in which each owner's gain counts [N]."""
        return np.asarray((self.gains > self.least[:, None]).mean(axis=1))

    def counting(self, surely: bool = False) -> Members:
        """Whose gain counts [N]: in half of the draws or more, or `surely`, in nearly all."""
        return np.asarray(self.chances >= (SURE if surely else EXPECTED))

    @cached_property
    def bearable(self) -> Floats:
        """The variance of the combined answer up to which each owner's expected gain counts [N]; 0: none does."""
        return self.bearable_where(Joining.counting)

    def bearable_where(self, counting: Callable[["Joining"], Members]) -> Floats:
        """The variance of the combined answer up to which `counting` holds of each owner [N]; 0: of none."""
        low, high = np.full(len(self.least), -700.0), np.full(len(self.least), 700.0)

        def holds(logarithm: Floats) -> Members:
            return counting(self.at(np.exp(logarithm)[:, None]))

        worth = holds(low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            there = holds(middle)
            low, high = np.where(there, middle, low), np.where(there, high, middle)
        return np.where(worth, np.exp(low), 0.0)

    def at(self, variance: Floats | float) -> "Joining":
        """The same if the combined answer had this variance, one or for each owner its own [N, 1]."""
        return replace(self, owners=replace(self.owners, noise=np.minimum(variance * self.price, 1e250)))

    def among(self, copies: float) -> "Joining":
        """The same if there were so many owners like each of these, at the same variance."""
        return replace(self, owners=replace(self.owners, copies=copies))

    @cached_property
    def _worlds(self) -> list[tuple[Floats, Owners, float]]:
        """Equally likely: (the variance between owners [P], owners with the joint model's error, standard errors by
        which trees cost more than expected). Positions are paired so that no two unknowns go together."""
        unit, (better, worse) = self.owners.scatter / np.median(self.owners.records), self.error_factors
        worlds = []
        for differ, error, trees in zip(POSITIONS, ERROR_POSITIONS, TREE_POSITIONS, strict=True):
            times = math.exp(np.interp(error, (0.05, 0.5, 0.95), np.log((better, 1.0, worse))))
            worlds.append((self.differences.at(differ) * unit, self.owners.erring(times), float(ndtri(trees))))
        return worlds

    def _alone(self, between: Floats, side: float) -> Floats:
        linear = self.owners.alone(between)
        return linear if self.trees is None else np.minimum(linear, self._own_trees(linear, side))

    def _personal(self, between: Floats, owners: Owners, side: float) -> Floats:
        linear, alone = owners.personal(between), owners.alone(between)
        if self.trees is None:
            return linear
        return np.minimum(linear, self._own_trees(alone, side) - BESIDE_TREES * (alone - linear))

    def _own_trees(self, linear: Floats, side: float) -> Floats:
        """What trees of own rows cost [N, 1], where they are expected to cost less than the linear model; else
        infinity."""
        if self.trees is None:
            return np.full((len(linear), 1), np.inf)
        mean, error = self.trees.at(self.owners.records)
        ahead = self.trees.ahead(self.owners.records, linear.mean(axis=1))
        return np.where(ahead, mean + side * error, np.inf)[:, None]


@dataclass(frozen=True, eq=False)
class OwnerDraws:
    """What joining means for owners by one law or by several, in the target's own units [N, D]."""

    alone: Floats
    together: Floats
    personal: Floats
    least: Floats  # what a gain must exceed to count, in each draw [N, D]

    @classmethod
    def of(cls, laws: Sequence[tuple[Joining, float]]) -> "OwnerDraws":
        """All laws together, each with the unit of its costs."""
        parts = [
            (unit * (law.level + law.alones), unit * (law.level + law.togethers), unit * (law.level + law.personals))
            for law, unit in laws
        ]
        alone, together, personal = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        least = [np.broadcast_to((unit * law.least)[:, None], law.alones.shape) for law, unit in laws]
        return cls(alone, together, personal, np.concatenate(least, axis=1))

    @property
    def chances(self) -> Floats:
        """The share of draws in which each owner's gain counts [N]."""
        return np.asarray((self.alone - self.personal > self.least).mean(axis=1))

    @property
    def expected(self) -> Members:
        """Whose gain counts in half of the draws or more [N]."""
        return np.asarray(self.chances >= EXPECTED)

    @property
    def verdicts(self) -> list[Verdict]:
        """Join where the gain counts in nearly all draws, stay where it does in hardly any."""
        return ["join" if c >= SURE else "stay" if c <= 1 - SURE else "unknown" for c in self.chances]

    def intervals(self, draws: Floats) -> list[Interval]:
        """The mean of some of these draws [N, D] for every owner, and a 90 % interval."""
        low, high = np.quantile(draws, ENDS, axis=1)
        return [Interval(*map(float, each)) for each in zip(draws.mean(axis=1), low, high, strict=True)]


def joining(
    expected: Expectation,
    cost: CoalitionCost,
    variance: float,
    models: Floats,
    differences: Heterogeneity,
    error_factors: tuple[float, float] = (1.0, 1.0),
) -> Joining:
    """The owners' gains by a forecast: what its coalitions cost, the combined answer's variance, and models as they may
    come out."""
    here, penalty = expected.here, expected.pilot.objective.regularisation
    curved = bent(here.curvature + penalty)
    curvature = (here.curvature + penalty)[curved]
    still, loud = (shape[curved] for shape in expected.squared_errors(models))
    fits = fit_errors(expected.pilot)
    bias, price = (_costing(shape, curvature, total) for shape, total in ((still, cost.bias), (loud, cost.noise_price)))
    owners = Owners(
        curvature=curvature,
        records=expected.pilot.rows,
        scatter=2 * here.estimation / (len(curvature) * curvature),
        bias=bias,
        noise=variance * price,
        optimum=here.inward(_but_intercepts(expected))[curved],
        fit=None if fits is None else np.sqrt(np.mean(fits**2, axis=0))[curved],
        starts_publicly=expected.pilot.starts_publicly,
        moved=math.sqrt(expected.moved()),
    )
    return Joining(owners, price, differences, best_cost(expected.pilot), cost.trees, error_factors)


def least_epsilon(
    bearable: float, variance_at: Callable[[float], float], tried: dict[float, float] | None = None
) -> float | None:
    """The least epsilon at which the combined answer's variance is bearable; None if none is, 0 if all are.

    `tried` keeps variances by the logarithm of epsilon, for whoever asks of one law again: the search goes on between
    them.
    """
    known = {} if tried is None else tried

    def squeezed(log_epsilon: float) -> float:
        """Nearly straight where noise is loud: few steps find its zero, and each may calibrate noise."""
        if log_epsilon not in known:
            known[log_epsilon] = variance_at(math.exp(log_epsilon))
        spare = bearable - known[log_epsilon]
        return math.copysign(min(math.log1p(abs(spare) / bearable), 1e3), spare)

    low, high = math.log(1e-6), math.log(1e6)
    if not bearable > 0 or not squeezed(high) > 0:
        return None
    if squeezed(low) > 0:
        return 0.0
    low = max(x for x, variance in known.items() if not variance < bearable)
    high = min(x for x in known if x > low)
    return math.exp(brentq(squeezed, low, high, xtol=BREAK_EVEN / 2) + BREAK_EVEN / 2)


def _costing(shape: Floats, curvature: Floats, total: float) -> Floats:
    """Squared errors of this shape [P] that cost so much in all; alike in all directions' costs where there is none."""
    cost = 0.5 * float(shape @ curvature)
    if not cost > 0:
        return np.asarray(2 * total / (len(curvature) * curvature))
    return np.asarray(shape * (total / cost))


def _but_intercepts(expected: Expectation) -> Floats:
    """The common optimum [P] with zeros for its intercepts, which nobody pulls towards zero."""
    best, preparation = expected.here.optimum.copy(), expected.pilot.setup.preparation
    if preparation.model.has_intercept and len(best) % preparation.width == 0:
        best[preparation.width - 1 :: preparation.width] = 0.0
    return best
