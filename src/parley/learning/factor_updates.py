"""Items' factors learned from released updates alone: every round each owner answers with the bounded mean of its users' terms, and noise.

The learner sees the answers, how many users they are means over, and how large their noise is; all else follows from those. Owners whose
noise drowns what they say count for little, by weights that are public.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parley.accounting import Series, exact, make_series, series_rho
from parley.data.ratings import Ratings
from parley.errors import GuaranteeError, Malformed, SettingError, UnknownTerms
from parley.ledger import AnyLedger, StudyLedger
from parley.ledger.account import RHO_TOLERANCE, Reservation
from parley.mechanisms import Noise
from parley.objectives.factorization import root_mean_square
from parley.objectives.user_updates import LARGEST_ITEM, UserRatings, UserUpdate, by_user
from parley.queries.item_factors import ItemFactorsQuery
from parley.queries.question import check_in_box
from parley.validate import Floats, positive, whole

LEARNER = "learner"


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
    """An owner of ratings. Its answers are all that it says. With a durable `ledger` they are releases; without, a study's.

    Formal guarantee (durable ledger): `rule.rounds` answers together are (epsilon, delta)-DP for replacing all ratings of one of its
    `users`, whoever chooses V: each answer is a `Bounded` mean with the noise of a series that was calibrated for that many of them,
    debited before it is seen, and the ledger refuses one more. Asked again, also after a crash, it gives the answer that it gave. Noise is
    `SafeNoise` then, which includes floating point. Without an epsilon it has no privacy, and no ledger but a study's takes it.
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
        ledger: AnyLedger | None = None,
        name: str = "owner",
    ) -> None:
        self.rule, self._noise = rule, noise
        self._ledger: AnyLedger = StudyLedger() if ledger is None else ledger
        self._users, self._table = users, by_user(ratings, users, rule.low, rule.high)
        self.series: Series | None = None
        if self._ledger.durable and not (self._noise.safe and epsilon is not None):
            raise GuaranteeError(f"{name}: an owner with a durable ledger releases, so it needs an epsilon and safe noise")
        facts = repr((rule, ratings.item_names, len(users), epsilon, delta, mechanism, name))
        self.agreement = hashlib.sha256(facts.encode()).hexdigest()
        if epsilon is not None:
            budget = exact(epsilon), Fraction(str(delta)) if mechanism == "gaussian" else Fraction(0)
            self.series = make_series(mechanism, *budget, rule.rounds, rule.update.sensitivity(len(users)))
            if self.series.norm != rule.update.norm:
                raise SettingError(f"mechanism = {mechanism!r}: expected terms clipped in {self.series.norm.upper()}")
            rho = series_rho(mechanism, *budget, rule.rounds)
            margin = None if rho is None else rho * (1 + 2 * RHO_TOLERANCE)
            promise = Reservation(self.agreement, name, LEARNER, *budget, rule.rounds, rho=margin)
            self._ledger.accept(promise, self._digest() if self._ledger.durable else None)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def deviation(self) -> float:
        """Of the noise in each number of an answer; public."""
        return 0.0 if self.series is None else float(self.series.mechanism.variance**0.5)

    @property
    def spent(self) -> Fraction | None:
        """The epsilon spent so far; None without privacy."""
        return None if self.series is None else self._ledger.account(self.agreement).spent

    def answer(self, query: ItemFactorsQuery) -> Floats:
        """The mean of its users' bounded terms at the query's V, with noise [items, factors + 2]; or a refusal that costs nothing."""
        if query.terms_hash != self.agreement:  # another agreement has other noise, and its own debits
            raise UnknownTerms("query: expected the agreement that this owner accepted")
        if type(query) is not ItemFactorsQuery or type(query.round) is not int:
            raise Malformed("query: expected items' factors, and a whole number as its round")
        check_in_box(query.items, (self._table.item_count, self.rule.factors + 1), LARGEST_ITEM)
        series = self.series
        if series is None:
            return self.rule.update.mean(self._table, query.items).value.reshape(len(query.items), -1)

        def release() -> Callable[[], Floats]:
            bounded = self.rule.update.mean(self._table, query.items)
            return partial(series.mechanism.release, bounded, self._noise)

        value, _ = self._ledger.answer(query, series.spent_after, series.event.to_dict(), release)
        return value.reshape(len(query.items), -1)

    def _digest(self) -> bytes:
        """Of its ratings: one agreement is about one table."""
        arrays = (self._table.first, self._table.items, self._table.values)
        return hashlib.sha256(b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)).digest()

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


@dataclass(frozen=True, eq=False)
class Items:
    """What was learned: V = [b, Q] [items, factors + 1], and about how often each item was rated, by the same answers [items]."""

    V: Floats
    counts: Floats


def learn_items(owners: Sequence[UpdateOwner], items: int, rule: UpdateRule, seed: int) -> Items:
    """The items after `rule.rounds` rounds, from answers and public facts alone: started again it asks the same questions.

    Owner l's sums S_l = n_l answer are about c_l g with variance c_l v + s_l^2, g the mean gradient of a rating, c_l how often the item was
    rated and s_l the deviation of its noise. So owners are weighted by 1/(1 + s_l^2/(v c_l)), c_l the average over items (from answers),
    and a step is (S - pull V)/(c + (v + s^2/c)/t^2): Newton's in b for squared errors and a prior of deviation t on V, shorter where
    there is noise. The prior's pull v/t^2 is one for all rounds, in which noise averages out, so a round has the share of it that it
    has of what all rounds say.
    """
    if not owners or any(owner.rule != rule for owner in owners):
        raise SettingError("owners: expected one or more, of the same rule")
    V = np.zeros((items, rule.factors + 1))
    V[:, 1:] = rule.start * np.random.default_rng(seed).standard_normal((items, rule.factors))
    noise = np.array([len(owner) * owner.deviation for owner in owners])
    counts = np.zeros((len(owners), items))
    v, t = rule.error**2, rule.items_spread
    spreads, paces = np.full(rule.factors + 1, rule.users_spread**2), np.full(rule.factors + 1, rule.pace)
    spreads[0] = paces[0] = 1.0
    for done in range(rule.rounds):
        asked = [(owner, ItemFactorsQuery.ask(owner.agreement, LEARNER, done + 1, V)) for owner in owners]
        sums = np.stack([len(owner) * owner.answer(query) for owner, query in asked])
        counts += (sums[:, :, -1] / rule.update.count - counts) / (done + 1)
        rated = np.maximum(counts.mean(axis=1), 1.0)
        weights, in_all = (1 / (1 + noise**2 / (rounds * v * rated)) for rounds in (1, rule.rounds))
        total, c = np.einsum("l,lif->if", weights, sums), np.maximum(weights @ counts, 1.0)
        pull = v / t**2 * float(weights @ rated / (in_all @ rated))
        towards = total[:, :-1] / spreads - pull * V
        V += paces * towards / (c + (v + (weights**2 @ noise**2) / c) / t**2)[:, None]
        V = np.clip(V, -rule.box, rule.box)
    return Items(V, np.maximum(weights @ counts, 0.0))


def solved_error(V: Floats, train: Ratings, held_out: Ratings, rule: UpdateRule) -> float:
    """The error on held-out ratings of users whose factors are solved from their own ratings, given items' V by whatever method."""
    table: UserRatings = by_user(train, np.arange(len(train.user_names)), rule.low, rule.high)
    own, _ = rule.update.solved(table, V)
    x, v = own[held_out.users], V[held_out.items]
    found = (rule.low + rule.high) / 2 + v[:, 0] + x[:, 0] + np.einsum("nf,nf->n", x[:, 1:], v[:, 1:])
    return root_mean_square(held_out.values - np.clip(found, rule.low, rule.high))
