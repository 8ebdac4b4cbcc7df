"""The real game: owners with their own values and privacy costs choose budgets, or stay out and train alone.

Whoever joins gets value x (cost alone - cost together) - privacy cost (its budget); whoever stays out gets 0. The forecast's cost together
is estimation/n + bias + K sum_l n_l^2 var_l(eps_l)/n^2, n the rows of all who join. The noise of several owners adds up, so what an owner's
own budget changes does not depend on the others' budgets: **given who joins, every owner has a dominant budget**. What remains strategic is
who joins, because n counts for all, and for that an owner needs to know only the others' rows and their noise, two sums.

A joint model takes two: whoever joins alone trains alone, so nobody joining is always an equilibrium (as in P's Theorem 1). Others exist
for most owners worth asking; `settle` says which one is taken.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.games.privacy_cost import PrivacyCosts
from parley.games.response import maximise
from parley.validate import Floats

# Budgets need an upper end: an owner without a privacy cost would ask for infinity. At eps = 10 an even chance can become 0.99995.
BOX = (0.01, 10.0)
GRID = 65  # points of an owner's search over the logarithm of its budget; its payoff has at most two peaks
EXACT_UP_TO = 8  # owners for whom every coalition is looked at
ONE_BY_ONE = 50  # owners up to which walks begin in many places and move one owner at a time

Members = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Collaboration:
    """Owners, what a joint model is worth to each, and what budgets cost them. Test costs are in the target's units, payoffs in money."""

    rows: Floats  # n_l
    noise: Floats  # n_l^2 var_l at unit variance: rows^2 sensitivity^2
    unit_variance: Callable[[Floats], Floats]
    value: Floats  # of one unit of test cost
    privacy_cost: PrivacyCosts
    estimation: float
    bias: float
    noise_price: float
    least_cost: float
    box: tuple[float, float] = BOX

    @property
    def owners(self) -> int:
        """N."""
        return len(self.rows)

    def noise_at(self, epsilon: Floats) -> Floats:
        """n_l^2 var_l of every owner at budgets [N] or [N, K]."""
        return self.noise.reshape((-1,) + (1,) * (epsilon.ndim - 1)) * self.unit_variance(epsilon)

    def excess(self, rows: Floats, noise: Floats) -> Floats:
        """The privacy error of coalitions with these sums: bias + K noise/rows^2."""
        return self.bias + self.noise_price * noise / rows**2

    def fitness(self, epsilon: Floats, members: Members) -> float | None:
        """Expected relative fitness of the joint model; None where fewer than two join and there is none."""
        if members.sum() < 2:
            return None
        return float(self.excess(self.rows[members].sum(), self.noise_at(epsilon)[members].sum())) / self.least_cost

    def gain(self, rows: Floats, noise: Floats) -> Floats:
        """Test cost alone less test cost together, for every owner as part of a coalition with these sums (its own included)."""
        return self.estimation / self.rows - self.estimation / rows - self.excess(rows, noise)

    def best_budgets(self, rows: Floats, price: float = 0.0) -> Floats:
        """Every owner's best budget in coalitions of so many rows ([N] or [N, M], itself included), paid `price` a unit of eps."""
        weight = ((self.value * self.noise_price * self.noise)[:, None] / rows.reshape(self.owners, -1) ** 2).reshape(-1, 1)

        def worth(log_epsilon: Floats) -> Floats:
            epsilon = np.exp(log_epsilon)
            cost = self.privacy_cost(epsilon.reshape(self.owners, -1)).reshape(epsilon.shape)
            return np.asarray(price * epsilon - weight * self.unit_variance(epsilon) - cost)

        low, high = (np.full(rows.size, np.log(end)) for end in self.box)
        return np.clip(np.exp(maximise(worth, low, high, GRID)), *self.box).reshape(rows.shape)

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats:
        """What every owner would get by joining with its budget `own`, the other members' budgets being `epsilon`.

        With a `price`, that much for each unit of eps comes on top. Where there is no other member there is no joint model: 0.
        """
        rows, noise = self.others(epsilon, members)
        payoff = self.value * self.gain(rows + self.rows, noise + self.noise_at(own)) - self.privacy_cost(own) + price * own
        return np.where(rows > 0, payoff, 0.0)

    def others(self, epsilon: Floats, members: Members) -> tuple[Floats, Floats]:
        """For every owner the sums of rows and of noise over the *other* members."""
        rows, noise = np.where(members, self.rows, 0.0), np.where(members, self.noise_at(epsilon), 0.0)
        return rows.sum() - rows, np.maximum(noise.sum() - noise, 0.0)

    def payoffs(self, epsilon: Floats, members: Members) -> Floats:
        """Payoffs before payments; 0 for whoever stays out."""
        if not members.any():
            return np.zeros(self.owners)
        noise = self.noise_at(epsilon)[members].sum()
        inside = self.value * self.gain(self.rows[members].sum(), noise) - self.privacy_cost(epsilon)
        return np.where(members, inside, 0.0)

    def price_of_privacy(self, epsilon: Floats, members: Members) -> float | None:
        """1 - sum of gains / sum of gains of everyone without noise (P eq. 17, [.]^+ of each); None if there was nothing to gain."""
        free = np.maximum(0.0, self.gain(self.rows.sum(), np.zeros(1))).sum()
        if not free > 0:
            return None
        here = (
            self.gain(self.rows[members].sum(), self.noise_at(epsilon)[members].sum()) if members.any() else np.zeros(self.owners)
        )
        return float(1 - np.maximum(0.0, here[members]).sum() / free)


@dataclass(frozen=True, eq=False)
class Settled:
    """Who joins with which budgets, when each chooses for itself."""

    epsilon: Floats  # of those who stay out: what they would choose if they joined
    members: Members
    payoff: Floats  # with payments


def settle(game: Collaboration, price: float = 0.0) -> Settled:
    """An equilibrium: members play their dominant budgets and gain, nobody outside would gain by joining.

    With a `price` the learner pays that much for every unit of eps. Up to eight owners every coalition is looked at, and of all equilibria
    the one with the largest total payoff is taken. With more owners it is the best end of walks from everyone, from the coalition of least
    cost and, up to fifty owners, from prefixes of several orders; a walk on which owners join and leave for ever ends at nobody joining,
    which is an equilibrium always. So with more than eight owners a better equilibrium may exist.
    """
    if game.owners <= EXACT_UP_TO:
        return _best_of_all(game, price)
    starts = [np.ones(game.owners, dtype=bool), _least_cost(game, price)]
    if game.owners <= ONE_BY_ONE:
        starts += _prefixes(game, price)
    ends = [_walk(game, start, price) for start in starts]
    return max(ends, key=lambda settled: float(settled.payoff.sum()))


def _prefixes(game: Collaboration, price: float) -> list[Members]:
    """Coalitions to walk from: the first two, three, four, six, ... owners by rows per noise, by what they gain in all, and by rows."""
    epsilon = game.best_budgets(np.full(game.owners, game.rows.sum()), price)
    gain = game.joining(epsilon, epsilon, np.ones(game.owners, dtype=bool), price)
    starts = []
    for score in (game.rows / game.noise_at(epsilon), gain, game.rows):
        order = np.argsort(-score, kind="stable")
        for size in np.unique(np.geomspace(2, game.owners, 8).astype(int)):
            members = np.zeros(game.owners, dtype=bool)
            members[order[:size]] = True
            starts.append(members)
    return starts


def _best_of_all(game: Collaboration, price: float) -> Settled:
    """Every coalition at once, one a column."""
    members = np.array(list(itertools.product((False, True), repeat=game.owners))).T  # [N, 2^N], nobody first
    rows = np.where(members, game.rows[:, None], 0.0)
    others = rows.sum(axis=0) - rows
    total = others + game.rows[:, None]
    epsilon = game.best_budgets(total, price)
    noise = game.noise_at(epsilon)
    theirs = np.where(members, noise, 0.0)
    quiet = np.maximum(theirs.sum(axis=0) - theirs, 0.0) + noise
    gain = (game.estimation / game.rows)[:, None] - game.estimation / total - game.excess(total, quiet)
    joined = np.where(others > 0, game.value[:, None] * gain - game.privacy_cost(epsilon) + price * epsilon, 0.0)
    stable = np.all((joined > 0) == members, axis=0)
    sums = np.where(stable, np.where(members, joined, 0.0).sum(axis=0), -np.inf)
    best = int(np.argmax(sums))
    return Settled(epsilon[:, best], members[:, best], np.where(members[:, best], joined[:, best], 0.0))


def _walk(game: Collaboration, members: Members, price: float) -> Settled:
    """Whoever loses leaves, the worst first; then whoever gains joins, the best first; until nobody moves."""
    members, seen = members.copy(), set()
    while True:
        rows = game.rows[members].sum() + np.where(members, 0.0, game.rows)  # of the coalition with each owner in it
        epsilon = game.best_budgets(rows, price)
        payoff = game.joining(epsilon, epsilon, members, price)
        leaving, coming = np.flatnonzero(members & ~(payoff > 0)), np.flatnonzero(~members & (payoff > 0))
        if not leaving.size and not coming.size:
            return Settled(epsilon, members, np.where(members, payoff, 0.0))
        moving = leaving if leaving.size else coming
        share = 0 if game.owners <= ONE_BY_ONE else moving.size // 8  # an eighth at a time keeps 1,000 owners fast
        first = moving[np.argsort(-np.abs(payoff[moving]))[: 1 + share]]
        members[first] = ~members[first]
        state = members.tobytes()
        if state in seen:
            members[:] = False
        seen.add(state)


def _least_cost(game: Collaboration, price: float) -> Members:
    """The coalition of least expected cost at the budgets that owners would choose in the coalition of all: a prefix by rows per noise."""
    epsilon = game.best_budgets(np.full(game.owners, game.rows.sum()), price)
    noise = game.noise_at(epsilon)
    order = np.argsort(-game.rows / noise, kind="stable")
    rows, sums = np.cumsum(game.rows[order]), np.cumsum(noise[order])
    members = np.zeros(game.owners, dtype=bool)
    members[order[: 1 + int(np.argmin(game.estimation / rows + game.excess(rows, sums)))]] = True
    return members
