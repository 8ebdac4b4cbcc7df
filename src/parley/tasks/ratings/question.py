"""The question of joint factorisation: the gradient of users' ratings in the items' V = [b, Q], public in every round.

A rating is about middle + b_i + a_u + p_u.q_i. An owner solves each user's (a_u, p_u) from that user's ratings and V
alone. Each rated item then gets e (1, p_u), e the error, and a counting constant. One rating moves all of its user's
terms, so these are always clipped together.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.data.design import UNIT_ROUNDOFF
from parley.errors import DataError, SettingError
from parley.losses.loss import RecordBound
from parley.privacy.mechanisms import Bounded, Norm
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, check_in_box, limited
from parley.tasks.ratings.table import UserRatings
from parley.tasks.ratings.terms import LARGEST_ITEM, RatingsModel
from parley.validate import Floats, positive, whole


@dataclass(frozen=True)
class UserUpdate:
    """How a user's terms are made and clipped: `ridge` is on p_u, `own_ridge` on a_u, `count` counts an item."""

    clip: float
    norm: Norm = "l2"
    ridge: float = 10.0
    own_ridge: float = 1.0
    count: float = 0.3

    def __post_init__(self) -> None:
        for name in ("clip", "ridge", "own_ridge", "count"):
            value = positive(getattr(self, name), name)
            if not 1e-50 <= value <= 1e50:
                raise SettingError(f"{name} = {value:g}: expected a number from 1e-50 to 1e50")

    def mean(self, table: UserRatings, V: Floats) -> Bounded:
        """Return the mean over users of their clipped terms [items (factors + 2)]: the gradients in b and Q, and how
        often an item is rated.

        Formal guarantee: replacing all ratings of one user (so also replacing, adding or removing one rating) moves the
        computed value by at most `sensitivity` in `norm`; the number of users is public. A user's terms are a function
        of its ratings and V. Their clipped norm is at most clip: the norm of m stored numbers has a relative error of
        at most (m + 2) u, which the margin of 4 (m + 8) u covers with its own rounding and that of every product.
        Squares that vanish belong to terms below 1e-150, negligible beside a clip of 1e-50. Terms with infinite or NaN
        norm count 0. So the exact mean moves by at most 2 clip/n. A user has one rating of an item (`by_user`), so it
        adds at most one number to each coordinate, in the order of users. A computed sum is off by at most gamma_n
        times the sum of sizes, and the mean by gamma_n clip, the slack of `RecordBound`.
        """
        if V.ndim != 2 or V.shape[0] != table.item_count or not np.abs(V).max(initial=0.0) <= LARGEST_ITEM:
            raise SettingError(
                f"V: expected a row for each of {table.item_count} items, with absolute values up to {LARGEST_ITEM:g}"
            )
        total, _, _ = self._terms(table, V)
        return Bounded(total.ravel() / len(table), self.sensitivity(len(table)), self.norm)

    def sensitivity(self, users: int) -> float:
        """Return how far one of `users` users can move the mean."""
        return self.bound.sensitivity(users, mean_slack(users))

    @property
    def bound(self) -> RecordBound:
        """The bound on what one user adds to the sum."""
        return RecordBound(self.clip, self.norm, clips=True)

    def solved(self, table: UserRatings, V: Floats) -> tuple[Floats, Floats]:
        """Return ((a_u, p_u) of every user [n, factors + 1], norms of unclipped terms [n]). They never leave."""
        _, own, sizes = self._terms(table, V)
        return own, sizes

    def _terms(self, table: UserRatings, V: Floats) -> tuple[Floats, Floats, Floats]:
        settings = self.own_ridge, self.ridge, self.count, self.clip, self.norm == "l1"
        own = np.array(V)  # what is read-only would be compiled for once more
        from parley.tasks.ratings.user_terms import terms_of_users  # compiled, by what not everybody has installed

        found: tuple[Floats, Floats, Floats] = terms_of_users(table.first, table.items, table.values, own, *settings)
        return found


def mean_slack(users: int) -> float:
    """Return the relative rounding error of a mean of `users` numbers added in sequence."""
    roundings = (whole(users, "users") + 8) * UNIT_ROUNDOFF
    return roundings / (1 - roundings)


@dataclass(frozen=True, eq=False)
class ItemFactorsQuery(Query):
    """The mean over an owner's users of their clipped terms at theta, V = [b, Q] row by row (`question`)."""

    kind: ClassVar[str] = "item-factors"
    theta: Floats


@dataclass(frozen=True, eq=False)
class ItemFactorsQuestion(Question):
    """A user's terms about all items are clipped together: the gradients in b and Q, and how often an item is rated.

    Formal guarantee: an owner solves a user's (a_u, p_u) from that user's ratings and theta alone and keeps no state.
    So a user's terms are a function of its own ratings and the question, with norm at most `clip` in `norm`. Replacing
    the user (so also any of its ratings) moves the mean over the public number of users by at most `sensitivity`,
    rounding included (proof in `UserUpdate.mean`). All that leaves is this mean with its noise; no answer holds a
    user's factors.
    """

    asks = ItemFactorsQuery

    bound: RecordBound
    rule: UserUpdate
    items: int
    radius: float

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model, users = RatingsModel.expect(context.terms.model), context.terms.train_rows(owner)
        clip = limited(
            None if context.limits.clip is None else RecordBound(context.limits.clip, context.norm, clips=True)
        )
        rule, items = UserUpdate(clip.value, context.norm, ridge=model.penalty), model.item_count
        return cls(
            parameters=context.parameters,
            records=users,
            size=items * (model.factors + 2),
            norm=context.norm,
            sensitivity=rule.sensitivity(users),
            extent=rule.bound.extent(mean_slack(users)),
            bound=rule.bound,
            rule=rule,
            items=items,
            radius=context.limits.radius or 0.0,
        )

    def check(self, query: Any, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_in_box(query.theta, (*replicates, self.parameters), self.radius)

    def exact(self, query: ItemFactorsQuery, tables: Tables) -> Floats:
        ratings, flat = ratings_of(tables.train), query.theta.reshape(-1, self.parameters)
        found = [self.rule.mean(ratings, self._items(theta)).value for theta in flat]
        return np.stack(found).reshape(*query.theta.shape[:-1], self.size)

    def record_sizes(self, design: Any, theta: Floats) -> Floats:
        return self.rule.solved(ratings_of(design), self._items(theta))[1]

    def words(self) -> str:
        return (
            f"a mean over {self.records:,} users of what their ratings say about {self.items:,} items, "
            f"{self.size:,} numbers"
        )

    def _items(self, theta: Floats) -> Floats:
        return theta.reshape(self.items, -1)


def ratings_of(rows: Any) -> UserRatings:
    """Return rows that are ratings by users; refuse others."""
    if not isinstance(rows, UserRatings):
        raise DataError("ratings: expected a table prepared with terms for ratings")
    return rows
