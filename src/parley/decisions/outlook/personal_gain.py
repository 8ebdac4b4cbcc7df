"""What joining adds: the cost of an owner's personal model beside its model alone, drawn as the owner's own
procedure (`learning.outcome.correction`) would choose them.

Costs are quadratic around best parameters, in directions of the cost's curvature. Owners' best parameters scatter
around common ones (random effects), and so do the public sample's. One estimate u stands for an owner's rows: their
mean loss is a constant + 1/2 sum_j h_j (theta_j - u_j)^2. Cross-validation adds `price`/n for each degree of freedom
with which a model follows its rows' chance (Mallows' Cp). The drawn u decides, as the procedure does, on ridges, their
average, the share of a correction that is kept and the way to another model. What comes out is judged at the owner's
best parameters, which u is not: choosing may go wrong here as it may there. For squared losses this is exact except
for folds.

The model alone corrects the public fit, which asks nobody. Trees of own rows are not in these figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from parley.learning.outcome.ridge import CHANCE, FAR, WEIGHTS
from parley.validate import Floats

MOST_DRAWS, LEAST_DRAWS = 160, 16
NUMBERS = 2**17  # that all draws of all owners may have


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model [N, D, P] and how much it follows the own rows' chance, added up over directions [N, D]."""

    theta: Floats
    freedom: Floats


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Estimates [N, D, P] of owners from so many records [N] each; `price` is the variance of an estimate from one row,
    times its direction's curvature."""

    curvature: Floats
    price: float
    records: Floats
    estimate: Floats

    def corrected(self, centre: Floats, zero: Floats, other: Fitted) -> Fitted:
        """A model [..., P] as own rows correct it, and last as much of the way to another one as they bear out."""
        theta = np.broadcast_to(centre, self.estimate.shape)
        start = Fitted(theta, np.zeros(theta.shape[:2]))
        return self.kept(self.kept(start, self.ridge([centre, zero])), other)

    def ridge(self, centres: Sequence[Floats]) -> Fitted:
        """Ridges of every weight towards every centre [..., P], averaged: one that is z standard errors behind the best
        counts exp(-z - z^2/FAR)."""
        h, rows, pulls = self.curvature, self.records[:, None, None], self._pulls
        away = np.stack([centre - self.estimate for centre in centres])  # [centres, N, D, P]
        freedom = (len(h) - pulls.sum(axis=-1))[:, None]  # [N, 1, weights]
        moved = np.matmul(away**2, (h * pulls**2).swapaxes(1, 2))  # twice what each costs [centres, N, D, weights]
        judged = 0.5 * moved + self.price / rows * freedom
        least = judged.min(axis=(0, 3))
        centre, weight = np.divmod(np.moveaxis(judged, 0, 2).reshape(*least.shape, -1).argmin(axis=-1), pulls.shape[1])
        best = np.take_along_axis(away, centre[None, :, :, None], axis=0)[0]
        best = best * np.take_along_axis(pulls, weight[:, :, None], axis=1)
        apart = moved - 2 * np.matmul(away * best, (h * pulls).swapaxes(1, 2)) + (best**2 @ h)[:, :, None]
        error = np.hypot(np.sqrt(self.price * rows * np.maximum(apart, 0.0)), CHANCE * self.price)
        z = (judged - least[:, :, None]) * rows / error
        shares = np.exp(-z - z**2 / FAR)
        shares /= shares.sum(axis=(0, 3), keepdims=True)
        theta = self.estimate + np.sum(np.matmul(shares, pulls) * away, axis=0)
        return Fitted(theta, np.sum(shares * freedom, axis=(0, 3)))

    def kept(self, start: Fitted, end: Fitted) -> Fitted:
        """As much of the way from one model to another as own rows bear out: of the best length 1 - 1/z^2, if it is z
        standard errors better."""
        step, freedom, rows = end.theta - start.theta, end.freedom - start.freedom, self.records[:, None]
        bend = step**2 @ self.curvature
        slope = (step * (start.theta - self.estimate)) @ self.curvature + self.price / rows * freedom
        length = np.clip(-slope / np.maximum(bend, 1e-300), 0.0, 1.0)
        gain = -length * (slope + 0.5 * bend * length)
        error = length * np.sqrt(self.price * bend / rows)
        share = length * (1 - np.minimum(error / np.maximum(gain, 1e-300), 1.0) ** 2)
        return Fitted(start.theta + share[:, :, None] * step, start.freedom + share * freedom)

    @cached_property
    def _pulls(self) -> Floats:
        """How far each weight goes from an own estimate to the centre in each direction [N, weights, P]; the first all
        the way."""
        rows, average = (self.records[:, None] * self.curvature)[:, None], float(self.curvature.mean())
        weights = average * np.array(WEIGHTS[::-1])[:, None]
        return np.concatenate([np.ones_like(rows), weights / (weights + rows)], axis=1)


@dataclass(frozen=True, eq=False)
class Owners:
    """What is known of N owners' estimates in P directions."""

    curvature: Floats  # [P]
    records: Floats  # [N]
    scatter: Floats  # variance of an own estimate from one record [P]
    bias: Floats  # squared error of the joint model that its start leaves [P]
    noise: Floats  # squared error of the joint model by noise, [P] or for each owner [N, P]
    optimum: Floats  # the common one, from the model of zeros [P]
    fit: Floats | None = None  # root mean square error of the public fit [P]; None: there is none
    starts_publicly: bool = False
    moved: float = 1.0  # how far the joint model goes from its start (0) to the mean of owners' estimates (1)
    copies: float = 1.0  # how many owners there are like each of these
    drawn: dict[bytes, tuple[OwnRows, Floats, Fitted]] = field(default_factory=dict, repr=False)

    def erring(self, times: float) -> "Owners":
        """The same if the joint model's squared error were so many times as large."""
        return self if times == 1 else replace(self, bias=self.bias * times, noise=self.noise * times)

    @property
    def together_records(self) -> float:
        """The records of all owners."""
        return self.copies * float(self.records.sum())

    def alone(self, differences: Floats) -> Floats:
        """Excess cost of the models alone [N, D]; `differences`: variance of owners' best parameters [P]."""
        _, best, own = self._owners(differences)
        return self._cost(own.theta, best)

    def together(self, differences: Floats) -> Floats:
        """The joint model's, for each owner's own rows [N, D]."""
        rows, best, _ = self._owners(differences)
        return self._cost(self._joint(rows, differences), best)

    def personal(self, differences: Floats) -> Floats:
        """The personal models' [N, D]; an owner by itself has nobody to join."""
        rows, best, own = self._owners(differences)
        if len(self.records) == 1 and self.copies == 1:
            return self._cost(own.theta, best)
        return self._cost(rows.corrected(self._joint(rows, differences), -self.optimum, own).theta, best)

    def _cost(self, theta: Floats, best: Floats) -> Floats:
        return np.asarray(0.5 * (theta - best) ** 2 @ self.curvature)

    def _owners(self, differences: Floats) -> tuple[OwnRows, Floats, Fitted]:
        """(what their rows say, their best parameters [N, D, P], their models alone), drawn once: neither the joint
        model nor how many owners there are changes any of it."""
        key = differences.tobytes() + self.records.tobytes()
        if key not in self.drawn:
            if len(self.drawn) > 8:
                self.drawn.clear()
            shape = len(self.records), self._draws, len(self.curvature)
            normal = np.random.default_rng(1).standard_normal((2, *shape))
            best = np.sqrt(differences) * normal[0]
            estimate = best + np.sqrt(self.scatter / self.records[:, None])[:, None] * normal[1]
            price = float(np.mean(self.scatter * self.curvature))
            rows = OwnRows(self.curvature, price, self.records, estimate)
            own, public = rows.ridge([-self.optimum]), self._public(differences)
            if public is not None:
                own = rows.corrected(public, -self.optimum, own)
            self.drawn[key] = rows, best, own
        return self.drawn[key]

    @property
    def _draws(self) -> int:
        return int(np.clip(NUMBERS // (len(self.records) * len(self.curvature)), LEAST_DRAWS, MOST_DRAWS))

    @cached_property
    def _normal(self) -> Floats:
        """Standard normal numbers [3, D, P]: of the public fit, of its population, of noise."""
        return np.random.default_rng(2).standard_normal((3, self._draws, len(self.curvature)))

    def _public(self, differences: Floats) -> Floats | None:
        """The public fit [D, P]: its own population's best parameters, and its rows' chance."""
        if self.fit is None:
            return None
        return np.asarray(self.fit * self._normal[0] + np.sqrt(differences) * self._normal[1])

    def _joint(self, rows: OwnRows, differences: Floats) -> Floats:
        """The joint model [D, P], or for each owner [N, D, P]: what its start leaves, what owners' estimates are on
        average, and noise."""
        share = self.records / self.records.sum() / self.copies**0.5
        mean = np.einsum("n,ndp->dp", share, rows.estimate)
        left = np.sqrt(self.bias)
        if self.starts_publicly:
            start = left * self._normal[0] + (1 - self.moved) * np.sqrt(differences) * self._normal[1]
        else:
            start = -left * np.sign(self.optimum)
        noise = np.sqrt(self.noise)
        loud = noise[:, None] if noise.ndim > 1 else noise
        return np.asarray(start + self.moved * mean + loud * self._normal[2])
