"""How much owners differ, from one noisy mean gradient of each: a random effect. Post-processing: it costs nothing
more.

In the directions of the covariance G of record gradients an owner's answer is its own mean, around that of all, plus
what n_i rows scatter, plus noise of known variance: its variance is v_ij = (k + 1/n_i) g_j + s_i^2. Owners differ by k
G: their best parameters scatter as estimates from 1/k rows do. With weights a_ij = g_j/v_ij, those of the likelihood's
derivative, and r_ij the distance to the weighted mean of all owners, T(k) = sum a_ij r_ij^2/v_ij has a known mean and
variance, for normal and for Laplace noise. The estimate is the k at which T(k) is its mean; the interval ends where
T(k) is at the ends of a scaled chi-square law of that mean and variance.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv

from parley.validate import Floats

CONFIDENCE = 0.9
GRID = 61  # values of k that are looked at first
MULTIPLES = (1e-4, 1e5)  # of the variance of an own estimate, beside 0
PEAKED = 3.0  # excess kurtosis of Laplace noise


@dataclass(frozen=True)
class BetweenOwners:
    """Between-owner variance as a multiple of that of an own estimate from `rows` rows, the median owner's."""

    mean: float
    low: float
    high: float
    rows: float

    def sentence(self) -> str:
        """How much owners differ, in words."""
        if self.low <= 0 and self.high > 2:
            size = "by nobody knows how much (at this epsilon answers do not tell)"
        else:
            size = (
                "hardly"
                if self.high < 0.25
                else "a little"
                if self.mean < 1
                else "clearly"
                if self.mean < 8
                else "much"
            )
        unit = (
            f"that of an own estimate from {self.rows:,.0f} rows ({CONFIDENCE:.0%}: {self.low:.3g} to {self.high:.3g})"
        )
        return f"Owners differ {size}: the variance between them is {self.mean:.3g} times {unit}."

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "rows": self.rows}


@dataclass(frozen=True, eq=False)
class OwnersAnswers:
    """Mean gradients [N, P] with noise of these variances [N], from so many rows [N]; G [P, P]. `peaked`: the noise is
    a Laplace one."""

    answers: Floats
    records: Floats
    noise: Floats
    covariance: Floats
    peaked: bool

    def between(self) -> BetweenOwners:
        """The estimate with its interval; G must not be zero."""
        unit = float(np.abs(self.covariance).max())
        scaled = replace(
            self, answers=self.answers / np.sqrt(unit), noise=self.noise / unit, covariance=self.covariance / unit
        )  # nor do extreme units
        return scaled._between()

    def _between(self) -> BetweenOwners:
        rows = float(np.median(self.records))
        grid = np.append(0.0, np.geomspace(*MULTIPLES, GRID)) / rows
        known = np.array([self._statistic(k) for k in grid]).T
        tail = (1 - CONFIDENCE) / 2
        low, best, high = (rows * self._falls_to(share, grid, known) for share in (1 - tail, None, tail))
        return BetweenOwners(best, min(low, best), max(high, best), rows)

    def _falls_to(self, share: float | None, grid: Floats, known: Floats) -> float:
        """The first k at which T is down to its mean, or to where this share of its law lies below; 0 if it is there
        already."""

        def above(total: Floats, mean: Floats, spread: Floats) -> Floats:
            return np.asarray(total - (mean if share is None else spread / mean * gammaincinv(mean**2 / spread, share)))

        down = np.flatnonzero(above(*known) <= 0)
        if not down.size or down[0] == 0:
            return 0.0 if down.size else float(grid[-1])
        low, high = grid[down[0] - 1], grid[down[0]]
        return float(brentq(lambda k: float(above(*np.array(self._statistic(k)))), low, high, xtol=1e-9 * high))

    @cached_property
    def _axes(self) -> tuple[Floats, Floats, Floats]:
        """(g [P], the directions as columns [P, P], the answers along them [N, P])."""
        g, axes = np.linalg.eigh(self.covariance)
        return np.maximum(g, 0.0), axes, (self.answers - self.answers.mean(axis=0)) @ axes

    def _statistic(self, k: float) -> tuple[float, float, float]:
        """(T, its mean, its variance) if owners differed by k."""
        g, axes, z = self._axes
        v = (k + 1 / self.records[:, None]) * g + self.noise[:, None]
        common = 1 / np.sum(1 / v, axis=0)  # the variance of the mean of all
        b = g / v**2
        b = b / b.max()  # T in other units: no square of it vanishes
        total = np.sum(b * (z - common * np.sum(z / v, axis=0)) ** 2)
        left = v - common
        chance = np.sum(b**2 * left**2) + np.sum(common**2 * (np.sum(b, axis=0) ** 2 - np.sum(b**2, axis=0)))
        tails = (
            PEAKED * np.sum(self.noise**2 * np.sum(((b * (left / v) ** 2) @ axes.T**2) ** 2, axis=1))
            if self.peaked
            else 0.0
        )
        return float(total), float(np.sum(b * left)), float(2 * chance + tails)
