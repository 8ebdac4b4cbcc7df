"""What users' ratings say about the items at given item factors: what joint factorisation asks, round after round."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import DataError
from parley.losses import RecordBound
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, check_in_box, limited
from parley.tasks.ratings.terms import item_count
from parley.tasks.ratings.user_ratings import UserRatings
from parley.tasks.ratings.user_updates import UserUpdate, mean_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class ItemFactorsQuery(Query):
    """The mean over an owner's users of their bounded terms at theta, which is V = [b, Q] row by row
    (`user_updates`)."""

    kind: ClassVar[str] = "item-factors"
    theta: Floats


@dataclass(frozen=True, eq=False)
class ItemFactorsQuestion(Question):
    """Every user's terms about all items are bounded together: the gradients in b and Q, and how often an item is
    rated.

    Formal guarantee: an owner solves a user's (a_u, p_u) from that user's ratings and theta alone and remembers
    nothing, so a user's terms are a function of its own ratings and the question; they measure at most `clip` in
    `norm`, and replacing the user (so also any of its ratings) moves the mean over the public number of users by at
    most `sensitivity` (`UserUpdate.mean` has the proof, rounding included). No answer holds a user's factors: all that
    leaves is this mean with its noise.
    """

    asks = ItemFactorsQuery

    bound: RecordBound
    rule: UserUpdate
    items: int
    radius: float

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model, users = context.terms.model, context.terms.train_rows(owner)
        clip = limited(
            None if context.limits.clip is None else RecordBound(context.limits.clip, context.norm, clips=True)
        )
        rule, items = UserUpdate(clip.value, context.norm, ridge=model.penalty), item_count(model)
        return cls(
            parameters=context.parameters,
            records=users,
            size=items * ((model.factors or 0) + 2),
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
    """Rows that are ratings by users."""
    if not isinstance(rows, UserRatings):
        raise DataError("ratings: expected a table prepared by terms of ratings")
    return rows
