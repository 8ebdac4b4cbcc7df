"""The budget game: owners with their own values and privacy costs choose budgets, or stay out and train alone.

A member gets value x [cost alone - cost together]^+ - privacy cost (its budget); without `keep_own` losses count, too.
An owner that stays out gets 0. The cost together is estimation/n + bias + K v, n the rows of all members and v = sum_l
(n_l/n)^2 var_l(eps_l), each owner drawing its own noise. That noise adds up, so an owner's best budget does not depend
on the others' budgets: **given who joins, every owner has a dominant budget**. What remains strategic is who joins; for
that an owner needs two sums, the others' rows and noise. At a posted price an owner that keeps its own model wants
another budget.

A joint model takes two, so nobody joining is always an equilibrium (as in P's Theorem 1).
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
    """The common part of games between owners."""

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
        """Return what a member counts of its gain, test cost alone less together."""
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
        """Return what each member counts of test cost alone less together; 0 for owners who stay out."""

    def price_of_privacy(self, epsilon: Floats, members: Members) -> float | None:
        """Return 1 - gains / everyone's gains without noise, each [.]^+ (P eq. 17); None if nothing could be gained."""
        quiet = self.stakes.cost.at(self.stakes.records.sum(), 0.0)
        free = (self.share * np.maximum(0.0, self.alone - quiet)).sum()
        return float(1 - np.maximum(0.0, self.gains(epsilon, members)).sum() / free) if free > 0 else None


@dataclass(frozen=True, eq=False)
class BudgetGame(OwnersGame):
    """The game of own budgets [..., N]. Test costs are in the target's units, payoffs in money."""

    stakes: Stakes
    value: Floats  # of one unit of test cost
    privacy_cost: PrivacyCosts
    keep_own: bool = True

    def fitness(self, epsilon: Floats, members: Members) -> float | None:
        """Return the joint model's expected relative fitness; None if fewer than two join."""
        if members.sum() < 2:
            return None
        return float(self.stakes.fitness(self.stakes.noise(epsilon).variance(members)))

    def gains(self, epsilon: Floats, members: Members) -> Floats:
        cost, noise = self.stakes.cost, self.stakes.noise(epsilon)
        below = self.counted(self.alone - cost.together(noise, members)[..., None])
        return np.where(members, self.share * below, 0.0)

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats:
        """Return what each owner would get by joining with budget `own` while other members have `epsilon`, plus
        `price` per unit of eps; 0 if it would be alone."""
        cost, noise = self.stakes.cost, self.stakes.noise(epsilon)
        together = cost.at(*noise.with_each(members, self.stakes.variances(own)))
        payoff = self.weight * self.counted(self.alone - together) - self.privacy_cost(own) + price * own
        return np.where(members.sum(axis=-1, keepdims=True) > members, payoff, 0.0)

    def payoffs(self, epsilon: Floats, members: Members) -> Floats:
        """Return payoffs before payments; 0 for owners who stay out."""
        return np.where(members, self.joining(epsilon, epsilon, members), 0.0)

    def noise_weight(self, members: Members) -> Floats:
        """Return what an owner's noise costs itself, if it joins, per unit of `stakes.unit_variance`."""
        unit = self.stakes.unit_noise
        size = unit.size(members)[..., None] + np.where(members, 0.0, unit.records)
        return np.asarray(self.weight * self.stakes.cost.noise_price * unit.shares(size))

    def own_worth(self, noise_weight: Floats, epsilon: Floats) -> Floats:
        """Return the part of each owner's payoff that its own budget decides."""
        return np.asarray(-noise_weight * self.stakes.unit_variance(epsilon) - self.privacy_cost(epsilon))

    def best_budgets(self, members: Members, price: float = 0.0, staying: bool = False) -> Floats:
        """Return every owner's best budget if it joins these coalitions, paid `price` per unit of eps. A member that
        keeps its own model, because it is paid or `staying`, has another; each that does adds noise, so others follow
        and none goes back."""
        weight = self.noise_weight(members)
        used = self._dominant_budgets(weight, price)
        if not self.keep_own or not (price > 0 or staying):
            return used
        kept, epsilon = self._dominant_budgets(np.zeros_like(weight), price), used
        for _ in range(self.owners):
            keeping = self.joining(kept, epsilon, members, price) > self.joining(used, epsilon, members, price)
            before, epsilon = epsilon, np.where(keeping, kept, used)
            if np.array_equal(before, epsilon):
                break
        return epsilon

    def _dominant_budgets(self, noise_weight: Floats, price: float) -> Floats:
        """Return the best budgets at these costs of an owner's own noise [..., N]."""
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
        """The grid's budgets [G, 1], `stakes.unit_variance` there, and every owner's privacy cost [G, N]."""
        low, high = np.log(self.budget_range)
        epsilon = np.exp(np.linspace(low, high, GRID_POINTS))[:, None]
        return epsilon, np.asarray(self.stakes.unit_variance(epsilon)), self.privacy_cost(epsilon)


@dataclass(frozen=True, eq=False)
class StableCoalition:
    """An equilibrium of who joins with which budget: no member would leave, nobody outside would join."""

    epsilon: Floats  # of those who stay out: what they would choose if they joined
    members: Members
    payoff: Floats  # with payments


def stable_coalition(game: BudgetGame, price: float = 0.0) -> StableCoalition:
    """Return an equilibrium: members play their dominant budgets and gain, nobody outside would gain by joining. Up to
    eight owners it has the largest total payoff; with more, a better one may exist, and a search that cycles ends at
    nobody joining. The learner pays `price` per unit of eps."""
    if game.owners <= MAX_EXACT_OWNERS:
        return _best_of_all(game, price)
    earlier = set[bytes]()
    ends = [end for end in (_search(game, start, price, earlier) for start in _starts(game, price)) if end is not None]
    return max(ends, key=lambda end: float(end.payoff.sum()))


def _starts(game: BudgetGame, price: float) -> list[Members]:
    """List coalitions to search from: all, the cheapest and, for few owners, prefixes by noise, gain and rows."""
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
    members = np.array(list(itertools.product((False, True), repeat=game.owners)))  # [2^N, N], nobody first
    epsilon = game.best_budgets(members, price)
    payoff = game.joining(epsilon, epsilon, members, price)
    stable = np.all((payoff > 0) == members, axis=1)
    inside = np.where(members, payoff, 0.0)
    best = int(np.argmax(np.where(stable, inside.sum(axis=1), -np.inf)))
    return StableCoalition(epsilon[best], members[best], inside[best])


def _search(game: BudgetGame, members: Members, price: float, earlier: set[bytes]) -> StableCoalition | None:
    """Let the worst losers leave, then the best gainers join. None: an `earlier` search came here, too."""
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
