"""The budget game: owners with their own values and privacy costs choose budgets, or stay out and train alone.

Whoever joins gets value x [cost alone - cost together]^+ - privacy cost (its budget): it keeps its own model where that
is better, unless all agreed to use the joint one (`keep_own`), and then losses count too. Whoever stays out gets 0. The
forecast's cost together is estimation/n + bias + K v, n the rows of all who join and v = sum_l (n_l/n)^2 var_l(eps_l)
where each owner draws its own noise. That noise adds up, so what an owner's own budget changes does not depend on the
others' budgets: **given who joins, every owner has a dominant budget**. What remains strategic is who joins, because n
counts for all, and for that an owner needs to know only the others' rows and their noise, two sums. At a posted price
whoever keeps its own model wants another budget, and who does so depends on the others' noise.

A joint model takes two: whoever joins alone trains alone, so nobody joining is always an equilibrium (as in P's Theorem
1). Others exist for most owners worth asking; `stable_coalition` says which one is taken.
"""

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.decisions.games.game import maximise
from parley.decisions.games.stakes import CommonStakes, Stakes
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.decisions.outlook.coalition import prefix
from parley.protocol.aggregation import Members
from parley.validate import Floats

GRID_POINTS = 65  # points of an owner's search over the logarithm of its budget; its payoff has at most two peaks
MAX_EXACT_OWNERS = 8  # owners for whom every coalition is looked at
MAX_MOVED_SINGLY = 50  # owners up to which searches begin in many places and move one owner at a time


class OwnersGame(ABC):
    """What games between owners have in common."""

    stakes: Stakes | CommonStakes
    value: Floats  # of one unit of test cost, to each owner
    keep_own: bool  # whether members keep their own model where it is better, so that nobody counts a loss

    @property
    def owners(self) -> int:
        """The number of owners, N."""
        return len(self.value)

    @property
    def everyone(self) -> Members:
        """The coalition of all owners [N]."""
        return np.ones(self.owners, dtype=bool)

    def counted(self, gain: Floats) -> Floats:
        """What a member counts of its gain, test cost alone less together."""
        return np.maximum(gain, 0.0) if self.keep_own else gain

    @property
    def alone(self) -> Floats:
        """The joint model's excess cost at which a member gains nothing [N]."""
        known = self.stakes
        return known.cost.alone(known.records) if known.lines is None else known.lines.alone

    @property
    def share(self) -> Floats:
        """The share of a saving in the joint model's cost that a member gains [N]."""
        return np.ones(self.owners) if self.stakes.lines is None else self.stakes.lines.share

    @property
    def weight(self) -> Floats:
        """The value of one unit of the joint model's cost [N]."""
        return np.asarray(self.value * self.share)

    @property
    def budget_range(self) -> tuple[float, float]:
        """The budgets that owners may choose."""
        return self.stakes.budget_range

    @abstractmethod
    def gains(self, epsilon: Floats, members: Members) -> Floats:
        """What each member counts of test cost alone less together; 0 for owners who stay out."""

    def price_of_privacy(self, epsilon: Floats, members: Members) -> float | None:
        """1 - sum of gains / sum of gains of everyone without noise (P eq. 17, [.]^+ of each); None if there was
        nothing to gain."""
        quiet = self.stakes.cost.at(self.stakes.records.sum(), 0.0)
        free = (self.share * np.maximum(0.0, self.alone - quiet)).sum()
        return float(1 - np.maximum(0.0, self.gains(epsilon, members)).sum() / free) if free > 0 else None


@dataclass(frozen=True, eq=False)
class BudgetGame(OwnersGame):
    """Owners, what a joint model is worth to each, and what budgets cost them. Test costs are in the target's units,
    payoffs in money.

    Budgets, payoffs and coalitions are arrays [..., N].
    """

    stakes: Stakes
    value: Floats  # of one unit of test cost
    privacy_cost: PrivacyCosts
    keep_own: bool = True

    def fitness(self, epsilon: Floats, members: Members) -> float | None:
        """Expected relative fitness of the joint model; None where fewer than two join and there is none."""
        if members.sum() < 2:
            return None
        return float(self.stakes.fitness(self.stakes.noise(epsilon).variance(members)))

    def gains(self, epsilon: Floats, members: Members) -> Floats:
        cost, noise = self.stakes.cost, self.stakes.noise(epsilon)
        below = self.counted(self.alone - cost.together(noise, members)[..., None])
        return np.where(members, self.share * below, 0.0)

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats:
        """What each owner would get by joining with its budget `own`, the other members' budgets being `epsilon`.

        With a `price`, that much for each unit of eps comes on top. Where there is no other member there is no joint
        model: 0.
        """
        cost, noise = self.stakes.cost, self.stakes.noise(epsilon)
        together = cost.at(*noise.with_each(members, self.stakes.variances(own)))
        payoff = self.weight * self.counted(self.alone - together) - self.privacy_cost(own) + price * own
        return np.where(members.sum(axis=-1, keepdims=True) > members, payoff, 0.0)

    def payoffs(self, epsilon: Floats, members: Members) -> Floats:
        """Payoffs before payments; 0 for owners who stay out."""
        return np.where(members, self.joining(epsilon, epsilon, members), 0.0)

    def noise_weight(self, members: Members) -> Floats:
        """What an owner's noise costs itself in these coalitions, itself included, for each unit of
        `stakes.unit_variance`."""
        unit = self.stakes.unit_noise
        size = unit.size(members)[..., None] + np.where(members, 0.0, unit.records)
        return np.asarray(self.weight * self.stakes.cost.noise_price * unit.shares(size))

    def own_worth(self, noise_weight: Floats, epsilon: Floats) -> Floats:
        """The part of each owner's payoff that its own budget decides."""
        return np.asarray(-noise_weight * self.stakes.unit_variance(epsilon) - self.privacy_cost(epsilon))

    def best_budgets(self, members: Members, price: float = 0.0, staying: bool = False) -> Floats:
        """Every owner's best budget in these coalitions, itself included, paid `price` a unit of eps.

        Whoever keeps its own model where it is paid, or `staying`, has another best budget. Those who do so are found
        from nobody doing so: each adds noise, so that others follow and none goes back. Unpaid they do best outside;
        their budgets here do not matter.
        """
        weight = self.noise_weight(members)
        used = self._dominant(weight, price)
        if not self.keep_own or not (price > 0 or staying):
            return used
        kept, epsilon = self._dominant(np.zeros_like(weight), price), used
        for _ in range(self.owners):
            keeping = self.joining(kept, epsilon, members, price) > self.joining(used, epsilon, members, price)
            before, epsilon = epsilon, np.where(keeping, kept, used)
            if np.array_equal(before, epsilon):
                break
        return epsilon

    def _dominant(self, noise_weight: Floats, price: float) -> Floats:
        """The best budgets where an owner's noise costs itself so much [..., N]."""
        weight, shape = noise_weight[..., None, :], noise_weight.shape

        def worth(log_epsilon: Floats) -> Floats:
            epsilon = np.exp(log_epsilon).reshape(*shape, -1).swapaxes(-1, -2)
            return (price * epsilon + self.own_worth(weight, epsilon)).swapaxes(-1, -2).reshape(log_epsilon.shape)

        low, high = (np.full(noise_weight.size, np.log(end)) for end in self.budget_range)
        epsilon, variance, cost = self._on_grid
        heights = (price * epsilon - weight * variance - cost).swapaxes(-1, -2).reshape(noise_weight.size, GRID_POINTS)
        return np.clip(np.exp(maximise(worth, low, high, GRID_POINTS, heights)), *self.budget_range).reshape(shape)

    @cached_property
    def _on_grid(self) -> tuple[Floats, Floats, Floats]:
        """(budgets [G, 1] of the grid, `stakes.unit_variance` there, every owner's privacy cost [G, N]): the same in
        all coalitions."""
        low, high = np.log(self.budget_range)
        epsilon = np.exp(np.linspace(low, high, GRID_POINTS))[:, None]
        return epsilon, np.asarray(self.stakes.unit_variance(epsilon)), self.privacy_cost(epsilon)


@dataclass(frozen=True, eq=False)
class StableCoalition:
    """Who joins with which budgets, when each chooses for itself: no member would leave, nobody outside would join."""

    epsilon: Floats  # of those who stay out: what they would choose if they joined
    members: Members
    payoff: Floats  # with payments


def stable_coalition(game: BudgetGame, price: float = 0.0) -> StableCoalition:
    """An equilibrium: members play their dominant budgets and gain, nobody outside would gain by joining.

    With a `price` the learner pays that much for every unit of eps. Up to eight owners every coalition is looked at,
    and of all equilibria the one with the largest total payoff is taken. With more owners it is the best end of
    searches from everyone, from the coalition of least cost and, up to fifty owners, from prefixes of several orders; a
    search on which owners join and leave for ever ends at nobody joining, which is an equilibrium always. So with more
    than eight owners a better equilibrium may exist.
    """
    if game.owners <= MAX_EXACT_OWNERS:
        return _best_of_all(game, price)
    earlier = set[bytes]()
    ends = [end for end in (_search(game, start, price, earlier) for start in _starts(game, price)) if end is not None]
    return max(ends, key=lambda end: float(end.payoff.sum()))


def _starts(game: BudgetGame, price: float) -> list[Members]:
    """Coalitions to search from, judged by the budgets that owners would choose in that of all: everyone, that of least
    cost, and for few owners the first two, three, four, six, ... by noise, by what they gain in all, and by rows."""
    epsilon = game.best_budgets(game.everyone, price)
    noise = game.stakes.noise(epsilon)
    starts = [game.everyone, game.stakes.cost.best_coalition(noise)]
    if game.owners <= MAX_MOVED_SINGLY:
        gain = game.joining(epsilon, epsilon, game.everyone, price)
        sizes = np.unique(np.geomspace(2, game.owners, 8).astype(int))
        for order in (
            noise.quietest_first(),
            np.argsort(-gain, kind="stable"),
            np.argsort(-noise.records, kind="stable"),
        ):
            starts += [prefix(order, size) for size in sizes]
    return starts


def _best_of_all(game: BudgetGame, price: float) -> StableCoalition:
    """Look at every coalition at once, one a row."""
    members = np.array(list(itertools.product((False, True), repeat=game.owners)))  # [2^N, N], nobody first
    epsilon = game.best_budgets(members, price)
    payoff = game.joining(epsilon, epsilon, members, price)
    stable = np.all((payoff > 0) == members, axis=1)
    inside = np.where(members, payoff, 0.0)
    best = int(np.argmax(np.where(stable, inside.sum(axis=1), -np.inf)))
    return StableCoalition(epsilon[best], members[best], inside[best])


def _search(game: BudgetGame, members: Members, price: float, earlier: set[bytes]) -> StableCoalition | None:
    """Let the worst loser leave until nobody loses, then the best gainer join, until nobody moves. None: an `earlier`
    search came here too, and ends the same."""
    members, seen = members.copy(), {members.tobytes()}
    while True:
        if members.tobytes() in earlier:
            return None
        epsilon = game.best_budgets(members, price)
        payoff = game.joining(epsilon, epsilon, members, price)
        leaving, coming = np.flatnonzero(members & ~(payoff > 0)), np.flatnonzero(~members & (payoff > 0))
        if not leaving.size and not coming.size:
            earlier |= seen
            return StableCoalition(epsilon, members, np.where(members, payoff, 0.0))
        moving = leaving if leaving.size else coming
        share = (
            0 if game.owners <= MAX_MOVED_SINGLY else moving.size // 8
        )  # an eighth at a time keeps 1,000 owners fast
        first = moving[np.argsort(-np.abs(payoff[moving]))[: 1 + share]]
        members[first] = ~members[first]
        state = members.tobytes()
        if state in seen:
            members[:] = False
        seen.add(state)
