"""What a model costs that is made of so many rows: measured at a few sizes, and continued to others by a power law.

cost(n) = cost(m) + b (n^-c - m^-c), m the most rows that were looked at. How fast more rows help is known roughly at
best: each power c has the slope b that fits the smaller sizes, and counts for how well it does so. What the powers
disagree on is part of the error.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from parley.learning.outcome.boosting import LEAST_ROWS
from parley.validate import Floats

POWERS = np.array([0.5, 1.0])
REACH = 8.0  # times the most rows looked at: beyond, more rows are not thought to help
SIDES = 1.645  # standard errors to an end of a 90 % interval


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The cost of boosted trees of any number of rows, as public rows show it."""

    rows: float  # m
    cost: float  # there
    error: float  # its standard error, beside what it is compared with
    slopes: Floats  # b of every power
    slope_errors: Floats
    weights: Floats  # what every power counts for

    @classmethod
    def through(
        cls, rows: float, cost: float, error: float, sizes: ArrayLike, rises: ArrayLike, errors: ArrayLike
    ) -> "LearningCurve":
        """The curve through `cost` at m rows that fits how much more smaller `sizes` cost [k], known up to `errors`."""
        m, rise, precision = np.asarray(sizes), np.asarray(rises), np.maximum(np.asarray(errors), 1e-300) ** -2.0
        away = m[None] ** -POWERS[:, None] - rows ** -POWERS[:, None]
        known = np.sum(precision * away**2, axis=1)
        slopes = np.maximum(np.sum(precision * away * rise, axis=1) / known, 0.0)
        misfit = np.sum(precision * (rise - slopes[:, None] * away) ** 2, axis=1)
        weights = np.exp(-(misfit - misfit.min()) / 2)
        return cls(rows, cost, error, slopes, known**-0.5, weights / weights.sum())

    def at(self, records: Floats) -> tuple[Floats, Floats]:
        """(cost, standard error) [N] of trees of so many rows; infinite where they are too few for trees."""
        n = np.clip(records, 1.0, REACH * self.rows)
        away = n ** -POWERS[:, None] - self.rows ** -POWERS[:, None]
        each = self.slopes[:, None] * away
        mean = self.weights @ each
        chance = self.weights @ (self.slope_errors[:, None] * away) ** 2 + self.weights @ (each - mean) ** 2
        some = records >= LEAST_ROWS
        return np.where(some, self.cost + mean, np.inf), np.where(some, np.sqrt(self.error**2 + chance), 0.0)

    def ahead(self, records: Floats, linear: Floats) -> Floats:
        """For which owners [N] trees are expected to cost less than the linear model of this cost [N], by a standard
        error or more."""
        mean, error = self.at(records)
        return np.asarray(mean + error < linear)

    def best(self, records: Floats, linear: Floats, side: int = 0) -> Floats:
        """The cost of the model that is chosen [N]: trees where they are `ahead`, else linear; `side` -1 and 1: the low
        and the high end of its 90 % interval, for what is not known of trees."""
        mean, error = self.at(records)
        return np.where(mean + error < linear, np.minimum(linear, mean + side * SIDES * error), linear)

    def above(self, cost: float) -> "LearningCurve":
        """The same, counted from this cost."""
        return replace(self, cost=self.cost - cost)

    def in_units(self, unit: float) -> "LearningCurve":
        """The same with costs counted in another unit, `unit` of which make one of these."""
        return replace(
            self,
            cost=self.cost * unit,
            error=self.error * unit,
            slopes=self.slopes * unit,
            slope_errors=self.slope_errors * unit,
        )
