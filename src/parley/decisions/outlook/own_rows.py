"""What an owner's own procedure (`learning.outcome.correction`) makes of its rows, where one drawn estimate stands for
them.

Costs are quadratic around best parameters, in directions of the cost's curvature. The mean loss of an owner's rows is
a constant + 1/2 sum_j h_j (theta_j - u_j)^2, u their estimate. Cross-validation adds about `price`/n for each degree of
freedom with which a model follows its rows' chance (Mallows' Cp). Of K folds it is (1 + K/(K-1))/2 of that on average,
since models are made of fewer rows, and it scatters in each direction as chi^2_K/K does. The drawn u decides, as the
procedure does, on ridges, their average, the share of a correction that is kept and the way to another model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.learning.outcome.ridge import CHANCE, FAR, FEWER_FOLDS, FOLDS, MANY_ROWS, WEIGHTS
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model [N, D, P] and how much it follows the own rows' chance, as folds price it, over directions [N, D]."""

    theta: Floats
    freedom: Floats


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Estimates [N, D, P] of owners from so many records [N] each; `price` [N] is the variance of an estimate from one
    row, times its direction's curvature."""

    curvature: Floats
    price: Floats
    records: Floats
    estimate: Floats
    priced: Floats  # how many times `price` folds charge in each direction [N, D, P]

    def corrected(self, centre: Floats, others: Sequence[Floats], other: Fitted) -> Fitted:
        """A model [..., P] as own rows correct it, pulled to it or to others, and last as much of the way to another
        result as they bear out."""
        theta = np.broadcast_to(centre, self.estimate.shape)
        start = Fitted(theta, np.zeros(theta.shape[:2]))
        return self.kept(self.kept(start, self.ridge([centre, *others])), other)

    def ridge(self, centres: Sequence[Floats]) -> Fitted:
        """Ridges of every weight towards every centre [..., P], averaged: one that is z standard errors behind the best
        counts exp(-z - z^2/FAR)."""
        h, rows, pulls = self.curvature, self.records[:, None, None], self._pulls
        price = self.price[:, None, None]
        away = np.stack([centre - self.estimate for centre in centres])  # [centres, N, D, P]
        freedom = np.matmul(self.priced, (1 - pulls).swapaxes(1, 2))  # [N, D, weights]
        moved = np.matmul(away**2, (h * pulls**2).swapaxes(1, 2))  # twice what each costs [centres, N, D, weights]
        judged = 0.5 * moved + price / rows * freedom
        least = judged.min(axis=(0, 3))
        centre, weight = np.divmod(np.moveaxis(judged, 0, 2).reshape(*least.shape, -1).argmin(axis=-1), pulls.shape[1])
        best = np.take_along_axis(away, centre[None, :, :, None], axis=0)[0]
        best = best * np.take_along_axis(pulls, weight[:, :, None], axis=1)
        apart = moved - 2 * np.matmul(away * best, (h * pulls).swapaxes(1, 2)) + (best**2 @ h)[:, :, None]
        error = np.hypot(np.sqrt(price * rows * np.maximum(apart, 0.0)), CHANCE * price)
        z = (judged - least[:, :, None]) * rows / error
        shares = np.exp(-z - z**2 / FAR)
        shares /= shares.sum(axis=(0, 3), keepdims=True)
        theta = self.estimate + np.sum(np.matmul(shares, pulls) * away, axis=0)
        return Fitted(theta, np.sum(shares * freedom, axis=(0, 3)))

    def kept(self, start: Fitted, end: Fitted) -> Fitted:
        """As much of the way from one model to another as own rows bear out: of the best length 1 - 1/z^2, if it is z
        standard errors better."""
        step, freedom = end.theta - start.theta, end.freedom - start.freedom
        rows, price = self.records[:, None], self.price[:, None]
        bend = step**2 @ self.curvature
        slope = (step * (start.theta - self.estimate)) @ self.curvature + price / rows * freedom
        length = np.clip(-slope / np.maximum(bend, 1e-300), 0.0, 1.0)
        gain = -length * (slope + 0.5 * bend * length)
        error = length * np.sqrt(price * bend / rows)
        share = length * (1 - np.minimum(error / np.maximum(gain, 1e-300), 1.0) ** 2)
        return Fitted(start.theta + share[:, :, None] * step, start.freedom + share * freedom)

    @staticmethod
    def folds_price(records: Floats, shape: tuple[int, int, int], rng: np.random.Generator) -> Floats:
        """How many times the price folds of so many records charge [N, D, P]."""
        folds = np.where(records >= MANY_ROWS, FEWER_FOLDS, FOLDS)[:, None, None]
        return np.asarray((1 + folds / (folds - 1)) / 2 * rng.chisquare(folds, shape) / folds)

    @cached_property
    def _pulls(self) -> Floats:
        """How far each weight goes from an own estimate to the centre in each direction [N, weights, P]; the first all
        the way."""
        rows, average = (self.records[:, None] * self.curvature)[:, None], float(self.curvature.mean())
        weights = average * np.array(WEIGHTS[::-1])[:, None]
        return np.concatenate([np.ones_like(rows), weights / (weights + rows)], axis=1)
