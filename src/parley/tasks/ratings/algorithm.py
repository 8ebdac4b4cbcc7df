"""Items' factors learned from released updates alone: in every round each owner answers with the noisy mean of its
users' clipped terms. Owners with much noise count for little, by public weights; one noise for all gives one answer
with one weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.ratings.question import ItemFactorsQuery, UserUpdate
from parley.tasks.ratings.terms import RatingsModel
from parley.validate import Floats

ITEMS_SPREAD = 0.5  # deviation expected of what an item's b differs by, ratings being from -2 to 2
FACTORS_SPREAD = 1.0  # and of its factors
USERS_SPREAD = 0.4  # variance expected of users' factors, times their ridge
RATING_DEVIATION = 0.85  # deviation expected of what is left of a rating
FACTOR_PACE = 0.5  # of a full step in the factors


@dataclass(frozen=True, eq=False)
class Items:
    """Learned V = [b, Q] [items, factors + 1], and estimates of how often each item was rated [items]."""

    V: Floats
    counts: Floats


@dataclass(frozen=True, eq=False)
class ItemFactors(Algorithm):
    """The learner; its state holds each owner's average answer on how often items are rated, and the number of answers.

    A user has x = (1, p_u); E x^2 = m is 1 for b and the variance of users' factors for Q. Owner l's sums S_l = n_l
    answer are about c_l m (V* - V) with variance c_l m v + s_l^2: c_l is how often the item was rated, v the variance
    of a rating's error, s_l the noise's deviation. So the weight is w = 1/(1 + s_l^2/(c_l m v)), c_l averaged over
    items. With a prior of deviation t on V the best step is (S/m - pull V)/(c + (v + s^2/(c m))/(m t^2)), with S, c and
    s^2 the sums of w S_l, w c_l and w^2 s_l^2. The pull v/(m t^2) is one for all rounds, in which noise averages out,
    so each round has its share of it. Users follow the items, so factors take half steps.
    """

    items: int
    names: tuple[str, ...]  # of those who answer; one for all where one noise is for all
    records: Floats  # how many users each of their answers is about
    noise: Floats  # deviation of the noise in a number of their sums
    turns: Floats  # in how many rounds each is asked
    ridge: float
    factors: int
    centre: Floats | float = 0.0  # of the prior on V, [items, factors + 1]
    spreads: tuple[float, float] = (ITEMS_SPREAD, FACTORS_SPREAD)  # its deviation in b, and in Q

    @classmethod
    def make(cls, setup: Setup) -> Self:
        noise, model = setup.aggregation.noise(setup), RatingsModel.expect(setup.terms.model)
        horizon, names = setup.terms.learning.horizon, tuple(setup.schedule.names)
        if isinstance(noise, EachOwnerNoise):
            records, variances = noise.records, noise.variances
            turns = np.array([float(len(setup.schedule.rounds_of(name))) for name in names])
        else:
            names, turns = ("",), np.array([float(horizon)])
            records, variances = np.array([noise.records.sum()]), np.array([noise.all_together])
        deviations = records * np.sqrt(variances)
        return cls(
            setup.objective,
            horizon,
            setup.limits.radius,
            model.item_count,
            names,
            records,
            deviations,
            turns,
            model.penalty,
            model.factors,
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta, who = np.broadcast_to(origin, (*replicates, origin.shape[-1])), len(self.names)
        return State(
            1, theta, {"counts": np.zeros((*replicates, who, self.items)), "heard": np.zeros((*replicates, who))}
        )

    def query(self, state: State, asker: Asker) -> ItemFactorsQuery:
        return ItemFactorsQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        replicates = state.theta.shape[:-1]
        V = state.theta.reshape(*replicates, self.items, -1)
        shape = (*replicates, self.items, V.shape[-1] + 1)
        if self.names == ("",):
            owner_places, values = [0], [combined]
        else:
            owner_places, values = [self.names.index(a.owner) for a in answers], [a.value for a in answers]
        sums = np.stack(
            [self.records[who] * v.reshape(shape) for who, v in zip(owner_places, values, strict=True)], axis=-3
        )
        counts, answer_counts = state.memory["counts"].copy(), state.memory["heard"].copy()
        answer_counts[..., owner_places] += 1
        counts[..., owner_places, :] += (
            sums[..., -1] / UserUpdate.count - counts[..., owner_places, :]
        ) / answer_counts[..., owner_places, None]
        stepped = V + self._step(V, sums[..., :-1], counts[..., owner_places, :], owner_places)
        theta = self.project(stepped).reshape(state.theta.shape)
        return State(state.round + 1, theta, {"counts": counts, "heard": answer_counts})

    def learned(self, state: State) -> list[Items]:
        """Return the present items of every replicate."""
        counts = state.memory["counts"]
        weights = self._weights(counts, list(range(len(self.names))))[..., 0]
        rated = np.maximum(np.einsum("...l,...li->...i", weights, counts), 0.0).reshape(-1, self.items)
        every = state.theta.reshape(len(rated), self.items, -1)
        return [Items(V.copy(), often) for V, often in zip(every, rated, strict=True)]

    def heard(self, rated: Floats) -> Floats:
        """Return the share [owners] of their information on a factor that all rounds pass on through noise."""
        counts = np.repeat(rated[:, None], self.items, axis=1)
        return np.asarray(self._weights(counts, list(range(len(self.names))), self.turns)[:, -1])

    def _step(self, V: Floats, sums: Floats, counts: Floats, owner_places: list[int]) -> Floats:
        weights, in_all = (
            self._weights(counts, owner_places),
            self._weights(counts, owner_places, self.turns[owner_places]),
        )
        total = np.einsum("...lf,...lif->...if", weights, sums)
        c = np.maximum(np.einsum("...lf,...li->...if", weights, counts), 1.0)
        rated = _mean_rating_counts(counts)[..., None]
        share = ((weights * rated).sum(axis=-2) / (in_all * rated).sum(axis=-2))[..., None, :]
        prior = self._signal * self._spread**2
        loud = np.einsum("...lf,l->...f", weights**2, self.noise[owner_places] ** 2)[..., None, :]
        towards = total / self._signal - share * RATING_DEVIATION**2 / prior * (V - self.centre)
        return np.asarray(
            self._factor_paces * towards / (c + (RATING_DEVIATION**2 + loud / (c * self._signal)) / prior)
        )

    def _weights(self, counts: Floats, there: list[int], rounds: Floats | None = None) -> Floats:
        """Return each owner's weight in b and in every factor [..., owners, factors + 1]."""
        noise = self.noise[there] ** 2 / (1.0 if rounds is None else rounds)
        return np.asarray(
            1 / (1 + noise[:, None] / (RATING_DEVIATION**2 * _mean_rating_counts(counts)[..., None] * self._signal))
        )

    @property
    def _signal(self) -> Floats:
        """E x^2: 1 for b, the variance of users' factors for Q."""
        return np.append(1.0, np.full(self.factors, USERS_SPREAD / self.ridge))

    @property
    def _spread(self) -> Floats:
        return np.append(self.spreads[0], np.full(self.factors, self.spreads[1]))

    @property
    def _factor_paces(self) -> Floats:
        return np.append(1.0, np.full(self.factors, FACTOR_PACE))


def _mean_rating_counts(counts: Floats) -> Floats:
    """Return how often an item is rated on average at each owner [..., owners], at least 1."""
    return np.asarray(np.maximum(counts.mean(axis=-1), 1.0))
