"""Items' factors learned from released updates alone: every round each owner answers with the bounded mean of its users' terms, and noise.

The learner sees the answers, how many users they are means over, and how large their noise is; all else follows from those. Owners whose
noise drowns what they say count for little, by weights that are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.accounting import Series, exact, make_series
from parley.data.ratings import Ratings
from parley.errors import SettingError
from parley.mechanisms import Noise
from parley.objectives.factorization import root_mean_square
from parley.objectives.user_updates import UserRatings, UserUpdate, by_user
from parley.validate import Floats, positive, whole


@dataclass(frozen=True)
class UpdateRule:
    """Public settings: rounds, factors, how users' terms are bounded, the scale of ratings, and what is expected of items and errors."""

    rounds: int = 20
    factors: int = 4
    update: UserUpdate = field(default_factory=lambda: UserUpdate(clip=5.0))
    low: float = 1.0
    high: float = 5.0
    start: float = 0.1  # deviation of the items' factors at first
    users_spread: float = 0.2  # deviation expected of users' factors
    items_spread: float = 0.5  # deviation expected of what an item differs by
    error: float = 0.85  # deviation expected of what is left of a rating
    pace: float = 0.5  # of a full step in the factors
    box: float = 2.0

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        whole(self.factors, "factors")
        for name in ("start", "users_spread", "items_spread", "error", "pace", "box"):
            positive(getattr(self, name), name)


class UpdateOwner:
    """An owner of ratings. Its answers are all that it says.

    Formal guarantee: with an `epsilon`, `rule.rounds` answers together are (epsilon, delta)-DP for replacing all ratings of one of its
    `users`, whoever chooses V: each answer is a `Bounded` mean with the noise of a series that was calibrated for that many of them, and
    one answer more is refused. With `SafeNoise` that includes floating point. Without an epsilon it has no privacy.
    """

    def __init__(
        self,
        ratings: Ratings,
        users: NDArray[np.int64],
        rule: UpdateRule,
        noise: Noise,
        epsilon: float | None = None,
        delta: float = 1e-5,
        mechanism: str = "gaussian",
    ) -> None:
        self.rule, self._noise, self._given = rule, noise, 0
        self._users, self._table = users, by_user(ratings, users, rule.low, rule.high)
        self.series: Series | None = None
        if epsilon is not None:
            budget = exact(epsilon), Fraction(str(delta)) if mechanism == "gaussian" else Fraction(0)
            self.series = make_series(mechanism, *budget, rule.rounds, rule.update.sensitivity(len(users)))
            if self.series.norm != rule.update.norm:
                raise SettingError(f"mechanism = {mechanism!r}: expected terms clipped in {self.series.norm.upper()}")

    def __len__(self) -> int:
        return len(self._table)

    @property
    def deviation(self) -> float:
        """Of the noise in each number of an answer; public."""
        return 0.0 if self.series is None else float(self.series.mechanism.variance**0.5)

    @property
    def spent(self) -> Fraction | None:
        """The epsilon spent so far; None without privacy."""
        return None if self.series is None else self.series.spent_after(self._given)

    def answer(self, V: Floats) -> Floats:
        """The mean of its users' bounded terms at V, with noise [items, factors + 2]."""
        if self._given >= self.rule.rounds:
            raise SettingError(f"rounds: all {self.rule.rounds} answers were given")
        self._given += 1
        bounded = self.rule.update.mean(self._table, V)
        value = bounded.value if self.series is None else self.series.mechanism.release(bounded, self._noise)
        return value.reshape(len(V), -1)

    def predict(self, V: Floats, ratings: Ratings) -> Floats:
        """What its own users would rate, within the scale; solved from their ratings here, and told nobody."""
        own, _ = self.rule.update.solved(self._table, V)
        row = np.full(len(ratings.user_names), -1)
        row[self._users] = np.arange(len(self._users))
        if (row[ratings.users] < 0).any():
            raise SettingError("ratings: expected those of its own users")
        x, v = own[row[ratings.users]], V[ratings.items]
        middle = (self.rule.low + self.rule.high) / 2
        found = middle + v[:, 0] + x[:, 0] + np.einsum("nf,nf->n", x[:, 1:], v[:, 1:])
        return np.asarray(np.clip(found, self.rule.low, self.rule.high))

    def error(self, V: Floats, held_out: Ratings) -> float:
        """The root mean square error on ratings of its own users, in units of ratings."""
        return root_mean_square(held_out.values - self.predict(V, held_out))


def learn_items(owners: Sequence[UpdateOwner], items: int, rule: UpdateRule, seed: int) -> Floats:
    """V = [b, Q] of all items after `rule.rounds` rounds, from answers and public facts alone.

    Owner l's sums S_l = n_l answer are about c_l g with variance c_l v + s_l^2, g the mean gradient of a rating, c_l how often the item was
    rated and s_l the deviation of its noise. So owners are weighted by 1/(1 + s_l^2/(v c_l)), c_l the average over items (from answers),
    and a step is S/(c + (v + s^2/c)/t^2): Newton's in b for squared errors, shrunk as a prior of deviation t on items demands.
    """
    if not owners or any(owner.rule != rule for owner in owners):
        raise SettingError("owners: expected one or more, of the same rule")
    V = np.zeros((items, rule.factors + 1))
    V[:, 1:] = rule.start * np.random.default_rng(seed).standard_normal((items, rule.factors))
    noise = np.array([len(owner) * owner.deviation for owner in owners])
    counts = np.zeros((len(owners), items))
    v, t = rule.error**2, rule.items_spread
    for done in range(rule.rounds):
        sums = np.stack([len(owner) * owner.answer(V) for owner in owners])
        counts += (sums[:, :, -1] / rule.update.count - counts) / (done + 1)
        weights = 1 / (1 + noise**2 / (v * np.maximum(counts.mean(axis=1), 1.0)))
        total, c = np.einsum("l,lif->if", weights, sums), np.maximum(weights @ counts, 1.0)
        step = 1 / (c + (v + (weights**2 @ noise**2) / c) / t**2)
        V[:, 0] += step * total[:, 0]
        V[:, 1:] += rule.pace * step[:, None] * total[:, 1:-1] / rule.users_spread**2
        V = np.clip(V, -rule.box, rule.box)
    return V


def solved_error(V: Floats, train: Ratings, held_out: Ratings, rule: UpdateRule) -> float:
    """The error on held-out ratings of users whose factors are solved from their own ratings, given items' V by whatever method."""
    table: UserRatings = by_user(train, np.arange(len(train.user_names)), rule.low, rule.high)
    own, _ = rule.update.solved(table, V)
    x, v = own[held_out.users], V[held_out.items]
    found = (rule.low + rule.high) / 2 + v[:, 0] + x[:, 0] + np.einsum("nf,nf->n", x[:, 1:], v[:, 1:])
    return root_mean_square(held_out.values - np.clip(found, rule.low, rule.high))
