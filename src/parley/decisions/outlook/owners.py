"""Draws of what owners' three models cost: the model alone, the joint model and the personal model.

Owners' best parameters and the public sample's scatter around common ones (random effects). Each owner's rows give an
estimate (`OwnRows`), which decides as the owner's procedure does; costs are then judged at the owner's best parameters.
So choosing may go wrong here as it may there. The model alone corrects the public fit. Trees of own rows are not in
these figures.

Costs are quadratic around best parameters, in directions of the cost's curvature: the mean loss of an owner's rows is a
constant + 1/2 sum_j h_j (theta_j - u_j)^2, u their estimate. Cross-validation adds about `price`/n for each degree of
freedom with which a model follows its rows' chance (Mallows' Cp). With K folds it adds (1 + K/(K-1))/2 of that on
average, since models are made of fewer rows, and it scatters in each direction like chi^2_K/K. The drawn u decides on
ridges, their average, the share of a correction to keep and the way to another model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from parley.learning.outcome.ridge import (
    CENTRE_WEIGHTS,
    CHANCE_LOG_LIKELIHOOD,
    FEWER_FOLDS,
    FOLDS,
    MANY_ROWS,
    TAIL_SQUARE_SCALE,
)
from parley.protocol.aggregation import Members
from parley.validate import Floats

WORLDS, LEAST_WORLDS = 20, 3  # of one law, or of each where there are many
MAX_DRAWS, LEAST_DRAWS = 64, 4  # in each world
MAX_NUMBERS = 2**14  # that all draws of all owners may have, in each world
MAX_KEPT_WORLDS = 128  # worlds whose draws are kept


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model [N, D, P] and its degrees of freedom over directions [N, D], as folds price them."""

    theta: Floats
    freedom: Floats


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Owners' estimates [N, D, P]; `price` [N]: the variance of one from one row, times its direction's curvature."""

    curvature: Floats
    price: Floats
    records: Floats
    estimate: Floats
    priced: Floats  # how many times `price` folds charge in each direction [N, D, P]

    def corrected(self, centre: Floats, others: Sequence[Floats], other: Fitted) -> Fitted:
        """Correct the model `centre` [..., P] by own rows, pulled to it or to others, then partly to `other`."""
        theta = np.broadcast_to(centre, self.estimate.shape)
        start = Fitted(theta, np.zeros(theta.shape[:2]))
        return self.kept(self.kept(start, self.ridge([centre, *others])), other)

    def ridge(self, centres: Sequence[Floats]) -> Fitted:
        """Average ridges of every weight towards every centre [..., P]. One that is z standard errors behind the best
        counts exp(-z - z^2/TAIL_SQUARE_SCALE)."""
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
        error = np.hypot(np.sqrt(price * rows * np.maximum(apart, 0.0)), CHANCE_LOG_LIKELIHOOD * price)
        z = (judged - least[:, :, None]) * rows / error
        shares = np.exp(-z - z**2 / TAIL_SQUARE_SCALE)
        shares /= shares.sum(axis=(0, 3), keepdims=True)
        theta = self.estimate + np.sum(np.matmul(shares, pulls) * away, axis=0)
        return Fitted(theta, np.sum(shares * freedom, axis=(0, 3)))

    def kept(self, start: Fitted, end: Fitted) -> Fitted:
        """Go from one model towards another, 1 - 1/z^2 of the best length if that is z standard errors better."""
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
        """Draw how many times the price the folds of these records charge [N, D, P]."""
        folds = np.where(records >= MANY_ROWS, FEWER_FOLDS, FOLDS)[:, None, None]
        return np.asarray((1 + folds / (folds - 1)) / 2 * rng.chisquare(folds, shape) / folds)

    @cached_property
    def _pulls(self) -> Floats:
        """The share of the way from an own estimate to the centre [N, weights, P]; the first is the whole way."""
        rows, average = (self.records[:, None] * self.curvature)[:, None], float(self.curvature.mean())
        weights = average * np.array(CENTRE_WEIGHTS[::-1])[:, None]
        return np.concatenate([np.ones_like(rows), weights / (weights + rows)], axis=1)


@dataclass(frozen=True, eq=False)
class Seen:
    """The step from the public fit to the estimate of one owner's private rows [P], and its variance by chance."""

    place: int
    step: Floats
    chance: Floats


@dataclass(frozen=True, eq=False)
class Public:
    """The error of the public fit [D, P]: by its rows' chance, and by its own population's best parameters."""

    error: Floats
    elsewhere: Floats

    @property
    def fit(self) -> Floats:
        return np.asarray(self.error + self.elsewhere)


@dataclass(frozen=True, eq=False)
class Owners:
    """Public knowledge of N owners' estimates in P directions."""

    curvature: Floats  # [P]
    records: Floats  # [N]
    scatter: Floats  # variance of an own estimate from one record [P]
    bias: Floats  # squared error of the joint model that its start leaves [P]
    noise: Floats  # squared error of the joint model by noise, [P] or for each owner [N, P]
    optimum: Floats  # the public fit, or where there is none the common optimum, from the model of zeros [P]
    fit: Floats | None = None  # root mean square error of the public fit [P]; None: there is none
    starts_publicly: bool = False
    moved: float = 1.0  # how far the joint model goes from its start (0) to the mean of owners' estimates (1)
    copies: float = 1.0  # how many owners there are like each of these
    members: Members | None = None  # who learns together [N]; None: all
    seen: Seen | None = None
    laws: int = 1  # among how many this is one
    law: int = 0  # which
    world: int = 0  # each has random numbers of its own
    drawn: dict[bytes, "_Drawn"] = field(default_factory=dict, repr=False)

    def erring(self, times: float) -> "Owners":
        """Return the same with the joint model's squared error multiplied by `times`."""
        return self if times == 1 else replace(self, bias=self.bias * times, noise=self.noise * times)

    @property
    def together_records(self) -> float:
        """The records of all who learn together."""
        return self.copies * float(self._learning.sum())

    def alone(self, differences: Floats) -> Floats:
        """Return excess costs of the models alone [N, D]; `differences`: variance of owners' best parameters [P]."""
        drawn = self._owners(differences)
        return self._cost(drawn.own.theta, drawn.best)

    def together(self, differences: Floats) -> Floats:
        """Return excess costs of the joint model on each owner's rows [N, D]."""
        drawn = self._owners(differences)
        return self._cost(self._joint(drawn, differences), drawn.best)

    def personal(self, differences: Floats) -> Floats:
        """Return excess costs of the personal models [N, D]; an owner by itself has nobody to join."""
        drawn = self._owners(differences)
        if np.count_nonzero(self._learning) * self.copies <= 1:
            return self._cost(drawn.own.theta, drawn.best)
        others = [drawn.zero] if drawn.public is None else [drawn.public.fit, drawn.zero]
        return self._cost(drawn.rows.corrected(self._joint(drawn, differences), others, drawn.own).theta, drawn.best)

    def likelihood(self, differences: Floats) -> float:
        """Return the log-likelihood of what was seen if owners differ by this much; 0 if nothing was seen."""
        if self.seen is None or self.fit is None:
            return 0.0
        variance = self._apart(differences)
        return float(-0.5 * np.sum(np.log(variance) + self.seen.step**2 / variance))

    def _cost(self, theta: Floats, best: Floats) -> Floats:
        return np.asarray(0.5 * (theta - best) ** 2 @ self.curvature)

    def _owners(self, differences: Floats) -> "_Drawn":
        """Draw once; neither the joint model nor the members change the draws."""
        key = self.world.to_bytes(4) + differences.tobytes() + self.records.tobytes()
        if key not in self.drawn:
            if len(self.drawn) > MAX_KEPT_WORLDS:
                self.drawn.clear()
            shape = len(self.records), self.draws, len(self.curvature)
            rng = np.random.default_rng([1, self.world])
            best = np.sqrt(differences) * rng.standard_normal(shape)
            chance = np.sqrt(self._chance)[:, None] * rng.standard_normal(shape)
            normal = np.random.default_rng([2, self.world]).standard_normal((3, *shape[1:]))
            public = None
            if self.fit is not None:
                error, elsewhere = self.fit * normal[0], np.sqrt(differences) * normal[1]
                if self.seen is not None:  # four normal numbers whose sum is known
                    place = self.seen.place
                    rest = self.seen.step - (best[place] + chance[place] - error - elsewhere)
                    rest = rest / self._apart(differences)
                    best[place] += differences * rest
                    chance[place] += self.seen.chance * rest
                    error, elsewhere = error - self.fit**2 * rest, elsewhere - differences * rest
                public = Public(error, elsewhere)
            price = self._chance @ self.curvature * self.records / len(self.curvature)
            priced = OwnRows.folds_price(self.records, shape, np.random.default_rng([3, self.world]))
            rows = OwnRows(self.curvature, price, self.records, best + chance, priced)
            zero = -self.optimum if public is None else public.fit - self.optimum
            own = rows.ridge([zero])
            if public is not None:
                own = rows.corrected(public.fit, [zero], own)
            self.drawn[key] = _Drawn(rows, best, public, zero, own, normal[2])
        return self.drawn[key]

    def _apart(self, differences: Floats) -> Floats:
        """Return the variance [P] of the step from the public fit to the estimate of the owner that was seen."""
        if self.seen is None or self.fit is None:
            raise TypeError("nothing was seen")
        return np.asarray(2 * differences + self.seen.chance + self.fit**2)

    @property
    def _chance(self) -> Floats:
        """The variance of owners' estimates from chance in their rows [N, P]."""
        chance = self.scatter / self.records[:, None]
        if self.seen is not None:
            chance[self.seen.place] = self.seen.chance
        return np.asarray(chance)

    @property
    def _learning(self) -> Floats:
        return self.records if self.members is None else self.records * self.members

    @property
    def draws(self) -> int:
        """The number of draws in each world; fewer if several laws share them."""
        share = WORLDS / (self.laws * self.worlds)
        least, most = (max(int(each * share), 2) for each in (LEAST_DRAWS, MAX_DRAWS))
        return int(np.clip(MAX_NUMBERS * share / (len(self.records) * len(self.curvature)), least, most))

    @property
    def worlds(self) -> int:
        """The number of worlds of this law."""
        return max(WORLDS // self.laws, LEAST_WORLDS)

    def _joint(self, drawn: "_Drawn", differences: Floats) -> Floats:
        """Return the joint model [D, P], or one per owner [N, D, P]: start, owners' mean estimate and noise."""
        public = drawn.public
        share, estimates = self._learning / max(self._learning.sum(), 1e-300), drawn.rows.estimate
        if self.copies > 1:  # one of them is the owner itself, the others have rows of their own
            normal = np.random.default_rng([4, self.world]).standard_normal(estimates.shape)
            others = np.sqrt(differences + self._chance)[:, None] * normal
            estimates = (estimates + (self.copies - 1) ** 0.5 * others) / self.copies
        mean = np.einsum("n,ndp->dp", share, estimates) / min(self.copies, 1.0) ** 0.5
        left = np.sqrt(self.bias)
        if self.starts_publicly and public is not None and self.fit is not None:
            start = left / np.maximum(self.fit, 1e-300) * public.error + (1 - self.moved) * public.elsewhere
        else:
            start = -left * np.sign(self.optimum)
        noise = np.sqrt(self.noise)
        loud = noise[:, None] if noise.ndim > 1 else noise
        return np.asarray(start + self.moved * mean + loud * drawn.normal)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Owners' estimates and best parameters [N, D, P], public fit, zero model, models alone, and normals [D, P]."""

    rows: OwnRows
    best: Floats
    public: Public | None
    zero: Floats
    own: Fitted
    normal: Floats
