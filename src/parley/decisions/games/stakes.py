"""The costs of coalitions and the noise of any budgets, from public knowledge alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from parley.data.sources import Table
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Source
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.outlook import Outlook
from parley.errors import SettingError, TermsError
from parley.privacy.accounting import exact, make_series
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.stages import uses
from parley.terms import Terms
from parley.validate import Floats, Integers

# Budgets need an upper end: an owner without a privacy cost would ask for infinity. At eps = 10 an even chance can
# become 0.99995.
BUDGET_RANGE = (0.01, 10.0)
SAMPLED_KNOTS = 9  # where one takes seconds: draws in secret
MIN_SLOPE = 1e-9  # the least share
NOISE_LAW_KNOTS = 161  # of the noise law between the ends of the range of budgets


@dataclass(frozen=True, eq=False)
class Lines:
    """What joining saves each owner [N], as a line in the joint model's excess cost: `share` of its distance below
    `alone`. The line is exact without personalisation; else it meets the outlook's gain at the terms' budgets and
    without noise, and lies above it in between."""

    alone: Floats
    share: Floats

    @classmethod
    def from_outlook(cls, outlook: Outlook, cost: CoalitionCost, variance: float) -> "Lines":
        """Draw the line through an outlook's gains at this variance; costs in the target's units. Stated privacy costs
        change nothing: owners with equal records are averaged whatever their costs."""
        outlook = replace(outlook, prices=np.zeros_like(outlook.prices))
        size, gain = np.array(outlook.laws[0].owners.together_records), outlook.expected_gain
        noisy, quiet = float(cost.at(size, variance)), float(cost.at(size, 0.0))
        if not outlook.corrected:
            return cls(noisy + gain, np.ones(len(gain)))
        most = outlook.louder(0.0).expected_gain
        share = np.maximum((most - gain) / max(noisy - quiet, 1e-300), MIN_SLOPE)
        return cls(noisy + gain / share, share)

    def take(self, owners: Integers) -> "Lines":
        """Return the lines of these owners alone."""
        return Lines(self.alone[owners], self.share[owners])


@dataclass(frozen=True, eq=False, kw_only=True)
class ForecastStakes:
    """A forecast of what any coalition costs, in the target's own units."""

    cost: CoalitionCost
    least_cost: float  # of the best model on the pilot; relative fitness is measured in it
    budget_range: tuple[float, float] = BUDGET_RANGE
    lines: Lines | None = None  # what joining saves owners; None: what the joint model costs less than one of own rows
    outlook: Outlook | None = None  # which says so
    warnings: tuple[str, ...] = ()

    def fitness(self, variance: Floats) -> Floats:
        """Return the expected relative fitness of models whose combined answers have this variance."""
        return np.asarray(self.cost.privacy_error(variance) / self.least_cost)


@dataclass(frozen=True, eq=False, kw_only=True)
class Stakes(ForecastStakes):
    """The cost of any coalition with any budgets in the range. An owner's noise at epsilon has `unit_variance`(epsilon)
    times the variance in `unit_noise`, its squared sensitivity."""

    unit_noise: EachOwnerNoise
    unit_variance: Callable[[Floats], Floats]

    @property
    def records(self) -> Floats:
        """Each owner's number of records n_l."""
        return self.unit_noise.records

    def variances(self, epsilon: Floats) -> Floats:
        """Return the variances of owners' answers at budgets [..., N]."""
        return np.asarray(self.unit_noise.variances * self.unit_variance(epsilon))

    def noise(self, epsilon: Floats) -> EachOwnerNoise:
        """Return the owners' noise at budgets [..., N]."""
        return EachOwnerNoise(self.records, self.variances(epsilon))

    def variance_at(self, fitness: float) -> float:
        """Return the variance of combined answers at this relative fitness; noise must have a price."""
        return (fitness * self.least_cost - self.cost.bias) / self.cost.noise_price


@dataclass(frozen=True, eq=False)
class Demand:
    """The variance of the one noise in a sum at any common epsilon: log-linear between knots, never rising.

    >>> bool(np.isclose(Demand(np.array([0.1, 10.0]), np.array([100.0, 0.01]))(np.array(1.0)), 1.0))
    True
    """

    knots: Floats
    heights: Floats

    def __call__(self, epsilon: Floats) -> Floats:
        """Return the variance of the one noise at this epsilon."""
        return np.asarray(np.exp(np.interp(np.log(epsilon), *self._logarithms)))

    @cached_property
    def powers(self) -> Floats:
        """The power p of every cell between two knots, where the variance falls like eps^-p."""
        x, y = self._logarithms
        return np.asarray((y[:-1] - y[1:]) / np.diff(x))

    @cached_property
    def _logarithms(self) -> tuple[Floats, Floats]:
        return np.log(self.knots), np.log(self.heights)


@dataclass(frozen=True, eq=False, kw_only=True)
class CommonStakes(ForecastStakes):
    """The cost of any coalition with one noise for all; `demand` is that noise's variance in a sum."""

    records: Floats
    demand: Demand


def common_stakes(
    terms: Terms,
    pilot: Table | Source | None = None,
    budget_range: tuple[float, float] = BUDGET_RANGE,
    seed: int = 0,
    keep_own: bool = True,
    differences: Heterogeneity | None = None,
) -> CommonStakes:
    """Forecast the cost of any coalition with any common epsilon in the range. No private record is read."""
    known, shared = _forecast_fields(terms, pilot, seed, keep_own, differences)
    budget_range = (budget_range[0], _largest_drawable(known, *budget_range))
    return CommonStakes(records=known.rows, demand=demand_law(known, budget_range), budget_range=budget_range, **shared)


def demand_law(known: Pilot, budget_range: tuple[float, float]) -> Demand:
    """Calibrate the demand at knots as hosts do; within 1 %, since the noise's unit jumps by up to 0.4 %."""
    knots = np.geomspace(*budget_range, NOISE_LAW_KNOTS)
    heights = np.array([known.setup.law(0, exact(float(epsilon))).sum_variance for epsilon in knots])
    return Demand(knots, np.minimum.accumulate(heights) * known.sum_spread)


def _largest_drawable(known: Pilot, low: float, high: float) -> float:
    """Return the largest common epsilon up to `high` at which the terms' delta pays for the hosts' random bits."""

    def drawable(epsilon: float) -> bool:
        try:
            known.setup.under(known.terms.changed(everyone={"epsilon": epsilon})).law()
        except TermsError:
            return False
        return True

    if drawable(high):
        return high
    while high / low > 1 + 1e-4:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if drawable(middle) else (low, middle)
    return low


def stakes(
    terms: Terms,
    pilot: Table | Source | None = None,
    budget_range: tuple[float, float] = BUDGET_RANGE,
    seed: int = 0,
    keep_own: bool = True,
    differences: Heterogeneity | None = None,
) -> Stakes:
    """Forecast the cost of any coalition with any budgets in the range (all above the score's part). No private record
    is read. A few pilot runs cannot tell little noise from none, so the price of noise is at least the curvature's."""
    if terms.learning.rules.one_owner:
        raise TermsError(
            "learning.algorithm: objective-perturbation is for one owner; expected an algorithm for several owners"
        )
    if terms.aggregation is not None and terms.aggregation.rule != "mean":
        raise TermsError(
            f"aggregation.rule: expected 'mean' to negotiate budgets; with {terms.aggregation.rule!r} and unequal "
            "noise the game has no known solution"
        )
    known, shared = _forecast_fields(terms, pilot, seed, keep_own, differences)
    records = np.array([float(question.records) for question in known.questions])
    sensitivity = np.array([mechanism.sensitivity for mechanism in known.mechanisms])
    return Stakes(
        unit_noise=EachOwnerNoise(records, sensitivity**2 * known.spread),
        unit_variance=noise_law(terms, budget_range),
        budget_range=budget_range,
        **shared,
    )


def _forecast_fields(
    terms: Terms, pilot: Table | Source | None, seed: int, keep_own: bool, differences: Heterogeneity | None
) -> tuple[Pilot, dict[str, Any]]:
    """Return the pilot and the forecast's fields of `Stakes`. With `keep_own` members personalise the joint model."""
    result = forecast(terms, pilot, seed, differences=differences)
    expected, warnings, (cost, _) = result.expected, result.expected.warnings, result.coalitions
    if expected.curvature_price is not None:
        cost = replace(cost, noise_price=max(cost.noise_price, expected.curvature_price))
        guess = "the price of noise is a guess: the larger of a pilot run's and the curvature's"
        warnings = (*warnings, guess)
    known, outlook = expected.pilot, replace(result.outlook, corrected=keep_own)
    unit = known.setup.preparation.target_scale**2
    cost = cost.in_units(unit)
    lines = Lines.from_outlook(outlook, cost, known.combined_variance())
    shared = {"cost": cost, "least_cost": expected.unit * unit, "lines": lines, "outlook": result.outlook}
    return known, shared | {"warnings": warnings}


def noise_law(terms: Terms, budget_range: tuple[float, float]) -> Callable[[Floats], Floats]:
    """Return the variance of one coordinate's noise at any epsilon in the range, for answers of sensitivity 1 by these
    terms.

    It is calibrated at knots by the owners' own series and splined on logarithms: exact for Laplace noise, within 1e-6
    for Gaussian. An agreed score's part of epsilon does not go into training.

    >>> model = {"kind": "linear-svm", "target": "y"}
    >>> terms = Terms.from_dict({"model": model, "learning": {"horizon": 10}, "privacy": {"clip": 1.0},
    ...                          "owners": [{"name": "a", "records": 9, "epsilon": 1.0}]})
    >>> float(noise_law(terms, (0.1, 10.0))(np.array([2.0])).round(6)[0])  # Laplace noise of scale 10/2
    50.0
    """
    if not terms.learning.waits:
        raise SettingError(
            "learning.staleness: remove the key to negotiate; budgets can be negotiated only if rounds wait for every "
            "owner"
        )
    privacy, learning, set_aside = terms.privacy, terms.learning, float(terms.score_epsilon)
    many = uses(learning, range(1, learning.horizon + 1))
    rate = 1 / (learning.batches or 1) if learning.poisson else 1.0
    knots = np.geomspace(
        budget_range[0] - set_aside, budget_range[1] - set_aside, NOISE_LAW_KNOTS if rate == 1 else SAMPLED_KNOTS
    )
    delta = Fraction(str(privacy.delta))
    series = [
        make_series(privacy.mechanism, exact(float(e)), delta, many, 1.0, privacy.shared_records, rate) for e in knots
    ]
    spline = CubicSpline(np.log(knots), np.log([each.mechanism.variance for each in series]))
    return lambda epsilon: np.asarray(np.exp(spline(np.log(epsilon - set_aside))))
