"""Owners factorise their ratings together (P section 2): users' factors stay where they are, the items' factors Q
travel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.errors import SettingError
from parley.tasks.ratings.factorization import Factorization, prediction_errors, root_mean_square, shuffled
from parley.tasks.ratings.table import Ratings
from parley.validate import Floats, whole

Order = Literal["in-turn", "parallel"]


class Player:
    """An owner of ratings and of its users' factors. What comes in and goes out are the items' factors alone."""

    def __init__(self, ratings: Ratings, rule: Factorization, rng: np.random.Generator) -> None:
        self._rng, self._rule, self._ratings = rng, rule, shuffled(ratings, rng)
        # a row for everybody's users; only its own are ever touched
        self._own = rule.start(len(ratings.user_names), rng)

    @property
    def size(self) -> int:
        """How many ratings it learns from."""
        return len(self._ratings)

    def descend(self, Q: Floats) -> Floats:
        """The items' factors after a pass over its ratings."""
        after = Q.copy()
        self._rule.descend(self._ratings, self._own, after, self._rng)
        return after

    def predicted(self, Q: Floats, cells: Ratings) -> Floats:
        """p_u.q_i for its own users at these cells."""
        return cells.values - prediction_errors(cells, self._own, Q)

    def error(self, Q: Floats, held_out: Ratings) -> float:
        """The root mean square error on centred ratings of its own users that it did not learn from."""
        return root_mean_square(prediction_errors(held_out, self._own, Q))


@dataclass(frozen=True, eq=False)
class Joint:
    """What came of it: the common items' factors as they were shared last, the players, and the items' factors that
    each ends with."""

    items: Floats
    players: tuple[Player, ...]
    own_items: tuple[Floats, ...]


def factorize(
    parts: Sequence[Ratings],
    rule: Factorization,
    seed: int | np.random.SeedSequence,
    order: Order = "in-turn",
    shared: int | None = None,
) -> Joint:
    """All owners together, or one alone: `rule.passes` passes over everybody's ratings.

    In turn, each starts from what the one before it returned. In parallel, all start from the same Q, and the next is
    the mean of what they return, weighted by ratings. With `shared`, only the first so many passes are; in the others
    each goes on from what it has.
    """
    if not parts or len({part.item_names for part in parts}) != 1:
        raise SettingError("parts: expected the ratings of one owner or more, of the same items")
    if order not in ("in-turn", "parallel"):
        raise SettingError(f"order = {order!r}: expected 'in-turn' or 'parallel'")
    first, *others = (
        np.random.SeedSequence(seed).spawn(1 + len(parts)) if isinstance(seed, int) else seed.spawn(1 + len(parts))
    )
    players = tuple(Player(part, rule, np.random.default_rng(own)) for part, own in zip(parts, others, strict=True))
    weights = np.array([player.size for player in players]) / sum(player.size for player in players)
    Q = rule.start(len(parts[0].item_names), np.random.default_rng(first))
    together = rule.passes if shared is None else min(whole(shared, "shared", least=0), rule.passes)
    for _ in range(together):
        if order == "in-turn":
            for player in players:
                Q = player.descend(Q)
        else:
            Q = np.asarray(np.einsum("l,lif->if", weights, np.stack([player.descend(Q) for player in players])))
    return Joint(Q, players, tuple(_alone(player, Q, rule.passes - together) for player in players))


def _alone(player: Player, Q: Floats, passes: int) -> Floats:
    """A player's items' factors after so many further passes by itself."""
    for _ in range(passes):
        Q = player.descend(Q)
    return Q
