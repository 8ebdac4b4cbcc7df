"""Owners that answer like those who release updates, for studies of what else they might do."""

import numpy as np
from numpy.typing import NDArray

from parley.data.ratings import Ratings
from parley.learning.factor_updates import UpdateOwner, UpdateRule
from parley.mechanisms import FastNoise
from parley.queries.item_factors import ItemFactorsQuery
from parley.validate import Floats, non_negative


class NoisyRatingsOwner(UpdateOwner):
    """An owner whose ratings carry their noise already; its answers have no other.

    Formal guarantee: that of the mechanism that made the ratings, for all answers together: they are functions of noisy ratings and of V.
    What its users want is solved from their true ratings at home, which goes nowhere (`solved_error`).
    """

    def __init__(self, noisy: Ratings, users: NDArray[np.int64], rule: UpdateRule, variance: float) -> None:
        """`variance` is that of the noise on a rating, which is public; what is moved into the scale has half the range squared at most."""
        super().__init__(noisy, users, rule, FastNoise(0))
        most = ((rule.high - rule.low) / 2) ** 2
        per_item = len(noisy) / len(noisy.item_names)
        self._spread = float((min(non_negative(variance, "variance"), most) * per_item) ** 0.5 / len(users))

    @property
    def deviation(self) -> float:
        """Of what noise on ratings puts on the answer about an item, on average: the learner weights owners by it."""
        return self._spread


class PublicOwner(UpdateOwner):
    """Some users of a public set in the place of an owner, with noise of a stated deviation. No privacy: its users are public."""

    def __init__(
        self, ratings: Ratings, users: NDArray[np.int64], rule: UpdateRule, deviation: float, rng: np.random.Generator
    ) -> None:
        super().__init__(ratings, users, rule, FastNoise(0))
        self._spread, self._rng = non_negative(deviation, "deviation"), rng

    @property
    def deviation(self) -> float:
        return self._spread

    def answer(self, query: ItemFactorsQuery) -> Floats:
        found = super().answer(query)
        return np.asarray(found + self._spread * self._rng.standard_normal(found.shape))
