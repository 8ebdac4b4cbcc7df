"""What owners' three models cost, in draws: of the model alone, of the joint model, and of the personal model.

Owners' best parameters scatter around common ones (random effects), and so do the public sample's. Each owner's rows
give an estimate of its own (`own_rows`), which decides as the owner's procedure does; what comes out is judged at the
owner's best parameters, which that estimate is not. So choosing may go wrong here as it may there. The model alone
corrects the public fit, which asks nobody. Trees of own rows are not in these figures.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from parley.decisions.outlook.own_rows import Fitted, OwnRows
from parley.protocol.aggregation import Members
from parley.validate import Floats

WORLDS, LEAST_WORLDS = 20, 3  # of one law, or of each where there are many
MOST_DRAWS, LEAST_DRAWS = 64, 4  # in each world
NUMBERS = 2**14  # that all draws of all owners may have, in each world
KEPT = 128  # worlds whose draws are kept


@dataclass(frozen=True, eq=False)
class Seen:
    """What private rows of one owner show: how far their estimate lies from the public fit, in each direction [P], and
    the variance of that by their chance."""

    place: int
    step: Floats
    chance: Floats


@dataclass(frozen=True, eq=False)
class Public:
    """Where the public fit lies [D, P]: by its rows' chance, and by its own population's best parameters."""

    error: Floats
    elsewhere: Floats

    @property
    def fit(self) -> Floats:
        return np.asarray(self.error + self.elsewhere)


@dataclass(frozen=True, eq=False)
class Owners:
    """What is known of N owners' estimates in P directions."""

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
        """The same if the joint model's squared error were so many times as large."""
        return self if times == 1 else replace(self, bias=self.bias * times, noise=self.noise * times)

    @property
    def together_records(self) -> float:
        """The records of all who learn together."""
        return self.copies * float(self._learning.sum())

    def alone(self, differences: Floats) -> Floats:
        """Excess cost of the models alone [N, D]; `differences`: variance of owners' best parameters [P]."""
        drawn = self._owners(differences)
        return self._cost(drawn.own.theta, drawn.best)

    def together(self, differences: Floats) -> Floats:
        """The joint model's, for each owner's own rows [N, D]."""
        drawn = self._owners(differences)
        return self._cost(self._joint(drawn, differences), drawn.best)

    def personal(self, differences: Floats) -> Floats:
        """The personal models' [N, D]; an owner by itself has nobody to join."""
        drawn = self._owners(differences)
        if np.count_nonzero(self._learning) * self.copies <= 1:
            return self._cost(drawn.own.theta, drawn.best)
        others = [drawn.zero] if drawn.public is None else [drawn.public.fit, drawn.zero]
        return self._cost(drawn.rows.corrected(self._joint(drawn, differences), others, drawn.own).theta, drawn.best)

    def likelihood(self, differences: Floats) -> float:
        """The logarithm of how likely what was seen is where owners differ so much; 0 where nothing was."""
        if self.seen is None or self.fit is None:
            return 0.0
        variance = self._apart(differences)
        return float(-0.5 * np.sum(np.log(variance) + self.seen.step**2 / variance))

    def _cost(self, theta: Floats, best: Floats) -> Floats:
        return np.asarray(0.5 * (theta - best) ** 2 @ self.curvature)

    def _owners(self, differences: Floats) -> "_Drawn":
        """Drawn once: neither the joint model nor who learns together changes any of it."""
        key = self.world.to_bytes(4) + differences.tobytes() + self.records.tobytes()
        if key not in self.drawn:
            if len(self.drawn) > KEPT:
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
        """The variance [P] of the step from the public fit to the estimate of the owner that was seen."""
        if self.seen is None or self.fit is None:
            raise TypeError("nothing was seen")
        return np.asarray(2 * differences + self.seen.chance + self.fit**2)

    @property
    def _chance(self) -> Floats:
        """The variance of owners' estimates by their rows' chance [N, P]."""
        chance = self.scatter / self.records[:, None]
        if self.seen is not None:
            chance[self.seen.place] = self.seen.chance
        return np.asarray(chance)

    @property
    def _learning(self) -> Floats:
        return self.records if self.members is None else self.records * self.members

    @property
    def draws(self) -> int:
        """How many in each world; where several laws share the numbers, each has fewer."""
        share = WORLDS / (self.laws * self.worlds)
        least, most = (max(int(each * share), 2) for each in (LEAST_DRAWS, MOST_DRAWS))
        return int(np.clip(NUMBERS * share / (len(self.records) * len(self.curvature)), least, most))

    @property
    def worlds(self) -> int:
        """How many are drawn of this law."""
        return max(WORLDS // self.laws, LEAST_WORLDS)

    def _joint(self, drawn: "_Drawn", differences: Floats) -> Floats:
        """The joint model [D, P], or for each owner [N, D, P]: what its start leaves, what owners' estimates are on
        average, and noise."""
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
    """What owners' rows say, their best parameters [N, D, P], the public fit, the model of zeros [..., P], their models
    alone, and standard normal numbers for noise [D, P]."""

    rows: OwnRows
    best: Floats
    public: Public | None
    zero: Floats
    own: Fitted
    normal: Floats
