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

from parley.decisions.forecasting.baselines import fit_errors
from parley.decisions.forecasting.coalition import CoalitionCost
from parley.decisions.forecasting.expectation import Expectation
from parley.decisions.forecasting.heterogeneity import Heterogeneity
from parley.decisions.forecasting.learning_curve import LearningCurve
from parley.decisions.forecasting.personal_gain import Owners
from parley.decisions.forecasting.sources import bent
from parley.protocol.aggregation import Members
from parley.validate import Floats

Verdict = Literal["join", "stay", "unknown"]

# of the estimation error of own rows: what a gain must exceed to count as one, since its weight has to be found
COUNTS = 0.05
# of what the joint model saves a linear model: what it still saves where trees of own rows stand on top of both
BESIDE_TREES = 0.5
BREAK_EVEN = 1e-6  # relative: an epsilon from which joining pays is not more than this above the least
HALVINGS = 40  # of logarithms of variances


@dataclass(frozen=True)
class Interval:
    """A mean with an interval for what is left open."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Joining:
    """What the owners' three models cost above the best, in the cost's own units. `price` [P] is the joint model's
    squared error in each direction by one unit of the combined answer's variance."""

    owners: Owners  # at the variance of the terms' own budgets
    price: Floats
    differences: Heterogeneity
    trees: LearningCurve | None = None  # what boosted trees of own rows cost above the best linear model

    def alone(self) -> Floats:
        """Of the model alone, where differences are as thought most likely [N]."""
        return self._alone(self.owners, self._between(self.differences.mean))

    def by_trees(self) -> Floats:
        """For which owners the model alone is one of boosted trees [N]."""
        linear = self.owners.alone(self._between(self.differences.mean))
        return np.zeros(len(linear), bool) if self.trees is None else self.trees.ahead(self.owners.records, linear)

    def together(self) -> Floats:
        return self.owners.together(self._between(self.differences.mean))

    def togethers(self, worse: float = 1.0, better: float = 1.0) -> Floats:
        """(mean, low, high) of what the joint model as it is costs each owner [3, N]; ends as in `gains`."""
        known = self.differences
        ends = np.array(
            [
                self.owners.erring(times).together(self._between(differ))
                for differ, times in ((known.mean, 1.0), (known.low, better), (known.high, worse))
            ]
        )
        return np.array([ends[0], ends.min(axis=0), ends.max(axis=0)])

    def personal(self) -> Floats:
        return self._alone(self.owners, self._between(self.differences.mean)) - self._gain(self.differences.mean, 1.0)

    @property
    def least(self) -> Floats:
        """What a gain must exceed to count as one [N]."""
        return np.asarray(COUNTS * 0.5 * self.owners.curvature @ self.owners.scatter / self.owners.records)

    def gains(self, worse: float = 1.0, better: float = 1.0, *, personal: bool = True) -> Floats:
        """(mean, low, high) of every owner's gain [3, N] by its `personal` model, or by the joint one as it is: low
        where owners differ most, the joint model's error is `worse` times what is expected and trees of own rows are as
        good as they may be, high where they differ least, it is `better` times that and trees are as bad."""
        known = self.differences
        ends = np.array(
            [
                self._gain(known.mean, 1.0, 0, personal),
                self._gain(known.high, worse, -1, personal),
                self._gain(known.low, better, 1, personal),
            ]
        )
        return np.array([ends[0], ends.min(axis=0), ends.max(axis=0)])

    def counting(self, worse: float = 1.0, better: float = 1.0, *, surely: bool = False) -> Members:
        """Whose gain counts [N]: as expected, or `surely`, at the low end of its interval."""
        return np.asarray(self.gains(worse, better)[1 if surely else 0] > self.least)

    @cached_property
    def bearable(self) -> Floats:
        """The variance of the combined answer up to which each owner's expected gain counts [N]; 0: none does."""
        return self.bearable_where(Joining._expected)

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

    def _expected(self) -> Members:
        return np.asarray(self._gain(self.differences.mean, 1.0) > self.least)

    def _gain(self, difference: float, times: float, side: int = 0, personal: bool = True) -> Floats:
        between, owners = self._between(difference), self.owners.erring(times)
        if not personal:
            return self._alone(owners, between, side) - owners.together(between)
        linear = owners.alone(between), owners.personal(between)
        if self.trees is None:
            return linear[0] - linear[1]
        alone = self.trees.best(owners.records, linear[0], side)
        on_top = np.where(alone < linear[0], alone - BESIDE_TREES * (linear[0] - linear[1]), np.inf)
        return np.asarray(alone - np.minimum(linear[1], on_top))

    def _alone(self, owners: Owners, between: Floats, side: int = 0) -> Floats:
        """The cost of the better model alone; `side` as in `LearningCurve.best`."""
        linear = owners.alone(between)
        return linear if self.trees is None else self.trees.best(owners.records, linear, side)

    def _between(self, multiple: float) -> Floats:
        return np.asarray(multiple * self.owners.scatter / np.median(self.owners.records))


def joining(
    expected: Expectation, cost: CoalitionCost, variance: float, models: Floats, differences: Heterogeneity
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
    return Joining(owners, price, differences, cost.trees)


def verdict(gain: Interval, least: float) -> Verdict:
    """Join where the gain counts whatever owners differ by, stay where it does not even if they differ least."""
    return "join" if gain.low > least else "unknown" if gain.high > least else "stay"


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


def intervals(values: Floats) -> Sequence[Interval]:
    """An interval for every owner, from its (mean, low, high) [3, N]."""
    return [Interval(*(float(v) for v in column)) for column in values.T]
