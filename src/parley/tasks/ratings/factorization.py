"""Matrix factorisation by stochastic gradient descent (P section 2.1): r ~ p_u.q_i, every factor within [-box, box].
The loop is compiled by numba (extra `ratings`). P prints the error as p.q - r, with which its equation 3 climbs; here
it is r - p.q."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from parley.errors import DataError, SettingError
from parley.tasks.ratings.table import Places, Ratings
from parley.validate import Floats, non_negative, positive, whole

Integers = NDArray[np.int64]
RATINGS_PER_BLOCK = 256  # ratings


@dataclass(frozen=True)
class Factorization:
    """Minimise the sum over ratings of (r - p_u.q_i)^2 + penalty (|p_u|^2 + |q_i|^2); defaults are P's settings."""

    factors: int = 4
    passes: int = 20
    step: float = 0.0075
    penalty: float = 0.01
    box: float = 0.5
    spread: float = 0.1  # factors start normal with this deviation; P does not say which

    def __post_init__(self) -> None:
        whole(self.factors, "factors")
        whole(self.passes, "passes")
        for name in ("step", "box", "spread"):
            positive(getattr(self, name), name)
        non_negative(self.penalty, "penalty")

    def start(self, count: int, rng: np.random.Generator) -> Floats:
        """Return initial factors [count, factors]."""
        return np.clip(self.spread * rng.standard_normal((count, self.factors)), -self.box, self.box)

    def descend(self, ratings: Ratings, P: Floats, Q: Floats, rng: np.random.Generator) -> None:
        """Make one pass over `shuffled` ratings, in random order of blocks. Changes P and Q."""
        if P.shape != (len(ratings.user_names), self.factors) or Q.shape != (len(ratings.item_names), self.factors):
            raise SettingError("P, Q: expected a row for each user and item, and a column for each factor")
        blocks = rng.permutation(-(-len(ratings) // RATINGS_PER_BLOCK))
        _descend(blocks, ratings.users, ratings.items, ratings.values, P, Q, self.step, self.penalty, self.box)


def shuffled(ratings: Ratings, rng: np.random.Generator) -> Ratings:
    """Return the ratings in random order, once for all passes: sequential reads are six times faster."""
    if not len(ratings):
        raise DataError("ratings: expected at least one rating")
    places = ((ratings.users, ratings.user_names), (ratings.items, ratings.item_names))
    if any(place.min() < 0 or place.max() >= len(names) for place, names in places):  # the compiled loop does not look
        raise DataError("ratings: expected a name for every user and every item")
    return ratings.pick(rng.permutation(len(ratings)))


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _descend(
    blocks: Integers,
    users: Places,
    items: Places,
    values: Floats,
    P: Floats,
    Q: Floats,
    step: float,
    penalty: float,
    box: float,
) -> None:
    for block in blocks:
        for j in range(block * RATINGS_PER_BLOCK, min((block + 1) * RATINGS_PER_BLOCK, len(users))):
            u, i, error = users[j], items[j], values[j]
            for f in range(P.shape[1]):
                error -= P[u, f] * Q[i, f]
            for f in range(P.shape[1]):
                p, q = P[u, f], Q[i, f]
                P[u, f] = min(max(p + step * (error * q - penalty * p), -box), box)
                Q[i, f] = min(max(q + step * (error * p - penalty * q), -box), box)


def prediction_errors(ratings: Ratings, P: Floats, Q: Floats) -> Floats:
    """Return the error r - p_u.q_i of each rating."""
    return np.asarray(ratings.values - np.einsum("nf,nf->n", P[ratings.users], Q[ratings.items]))


def root_mean_square(errors: Floats) -> float:
    """Return the root of the mean squared error (P eq. 2)."""
    return float(np.sqrt(np.mean(errors**2)))


Order = Literal["in-turn", "parallel"]


class Player:
    """An owner of ratings and of its users' factors. Only the items' factors come in and go out."""

    def __init__(self, ratings: Ratings, rule: Factorization, rng: np.random.Generator) -> None:
        self._rng, self._rule, self._ratings = rng, rule, shuffled(ratings, rng)
        # a row for everybody's users; only its own are ever touched
        self._own = rule.start(len(ratings.user_names), rng)

    @property
    def size(self) -> int:
        """The number of ratings it learns from."""
        return len(self._ratings)

    def descend(self, Q: Floats) -> Floats:
        """Return the items' factors after a pass over its ratings."""
        after = Q.copy()
        self._rule.descend(self._ratings, self._own, after, self._rng)
        return after

    def predicted(self, Q: Floats, cells: Ratings) -> Floats:
        """Return p_u.q_i for its own users at these cells."""
        return cells.values - prediction_errors(cells, self._own, Q)

    def error(self, Q: Floats, held_out: Ratings) -> float:
        """Return the root mean square error on its users' held-out centred ratings."""
        return root_mean_square(prediction_errors(held_out, self._own, Q))


@dataclass(frozen=True, eq=False)
class Joint:
    """The last common items' factors, the players, and the items' factors that each ends with."""

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
    """Factorise the ratings of all owners together, or of one, in `rule.passes` passes. In turn, each owner starts from
    the result before it; in parallel, all start from the same Q, the mean of the last results weighted by ratings.
    After `shared` joint passes owners go on alone."""
    if not parts or len({part.item_names for part in parts}) != 1:
        raise SettingError("parts: expected the ratings of at least one owner, all for the same items")
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
    for _ in range(passes):
        Q = player.descend(Q)
    return Q
