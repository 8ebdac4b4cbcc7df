"""The game with one noise for all: a coalition has one epsilon, the smallest that any member names.

A member gets value x [cost alone - cost together]^+ - privacy cost, both at the common epsilon; without `keep_own`
losses count, too. An owner that stays out gets 0. Nobody pays for a budget that others do not use, so there is no free
riding but a weakest link.

Naming more than the others changes nothing; naming less moves everybody. So a common epsilon is an equilibrium among
members if none does better at any smaller one, and none does better alone. An owner whose payoff rises up to one peak
wants nothing smaller while the common epsilon is below it. So **every common epsilon from where the last member stops
losing up to the lowest peak is an equilibrium**, and the largest is the best for every member. Payoffs with several
peaks (posterior costs may have two) are checked point by point and reported. Nobody joining is an equilibrium, too.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from parley.decisions.games.budget_game import OwnersGame
from parley.decisions.games.stakes import CommonStakes, Demand
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.decisions.outlook.coalition import prefix
from parley.protocol.aggregation import Members, OneNoise
from parley.validate import Floats, Integers

# of false position; lines that are straight within a thousandth cross within rounding after four
FALSE_POSITION_STEPS = 8


@dataclass(frozen=True, eq=False)
class LocalMaxima:
    """Every owner's local maxima [M], by owner and then by epsilon; each owner has at least one."""

    owner: Integers
    epsilon: Floats
    height: Floats
    first: Integers  # [N]: the place of each owner's first

    def peaks(self) -> Floats:
        """Return where each owner's payoff is highest [N]; the lowest epsilon among equal ones."""
        top = np.maximum.reduceat(self.height, self.first)[self.owner]
        return np.asarray(np.minimum.reduceat(np.where(self.height == top, self.epsilon, np.inf), self.first))

    def best_below(self, common: Floats) -> tuple[Floats, Floats]:
        """Return each owner's highest local maximum up to these epsilons [K], and where it is [K, N]; none: -inf."""
        seen = np.where(self.epsilon <= common[:, None], self.height, -np.inf)
        best = np.maximum.reduceat(seen, self.first, axis=1)
        at_best = np.where(seen == best[:, self.owner], self.epsilon, -np.inf)
        return best, np.maximum.reduceat(at_best, self.first, axis=1)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The thresholds at which owners' payoffs stop rising: they give all local maxima over the common epsilon.

    On the logarithm of epsilon a payoff rises while weight p(eps) D(eps) > eps c'(eps). D is the variance of the one
    noise, which falls like eps^-p between two knots; c is the owner's privacy cost. eps c'/(p D) is the same in every
    coalition and is kept at both ends of every cell between knots [cells, N]. Two maxima within one cell, 4 % of
    epsilon, count as one.
    """

    demand: Demand
    privacy_cost: PrivacyCosts
    left: Floats
    right: Floats

    @classmethod
    def from_demand(cls, demand: Demand, privacy_cost: PrivacyCosts) -> "Thresholds":
        """Compute the thresholds for this demand and these owners' costs."""
        given_up = privacy_cost.marginal(demand.knots[:, None])
        # a flat cell, p = 0: nothing is saved there, and nothing is above 0/0
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right = (
                given_up[ends] / (demand.powers * demand.heights[ends])[:, None]
                for ends in (slice(None, -1), slice(1, None))
            )
        return cls(demand, privacy_cost, left, right)

    def tops(self, weight: Floats, most: Floats) -> tuple[Integers, Floats]:
        """Return (owners, epsilons) of all local maxima, sorted by both, at these weights of noise [N]. A model whose
        noise is `most` [N] or more is not used, so payoffs fall there."""
        used = self.demand.heights[:, None] < most
        # whether it rises at a cell's ends
        into, out = (weight > self.left) & used[:-1], (weight > self.right) & used[1:]
        at_knot = np.ones((len(self.demand.knots), len(weight)), dtype=bool)
        at_knot[1:] &= out
        at_knot[:-1] &= ~into
        owner, knot = np.nonzero(at_knot.T)
        inside, cell = np.nonzero((into & ~out).T)
        owners = np.concatenate([owner, inside])
        epsilon = np.concatenate([self.demand.knots[knot], self._crossings(weight[inside], inside, cell)])
        order = np.lexsort((epsilon, owners))
        return owners[order], epsilon[order]

    def _crossings(self, weight: Floats, owner: Integers, cell: Integers) -> Floats:
        """Find by false position (Illinois) where in its cell each of these payoffs stops rising."""
        power, start = self.demand.powers[cell], np.log(self.demand.knots[cell])
        saved, costs = np.log(weight * power * self.demand.heights[cell]), self.privacy_cost.take(owner)

        def rise(x: Floats) -> Floats:
            return np.asarray(saved - power * (x - start) - np.log(costs.marginal(np.exp(x))))

        a, b = start, np.log(self.demand.knots[cell + 1])
        f_a, f_b = np.maximum(rise(a), 0.0), np.minimum(rise(b), 0.0)
        x, before = a, np.zeros(len(a), dtype=int)
        for _ in range(FALSE_POSITION_STEPS):
            gap = f_a - f_b
            x = np.where(gap > 0, a + (b - a) * f_a / np.where(gap > 0, gap, 1.0), a)
            f = rise(x)
            above = f > 0
            f_a, f_b = (
                np.where(above, f, np.where(before < 0, f_a / 2, f_a)),
                np.where(above, np.where(before > 0, f_b / 2, f_b), f),
            )
            a, b, before = np.where(above, x, a), np.where(above, b, x), np.where(above, 1, -1)
        return np.clip(np.exp(x), self.demand.knots[cell], self.demand.knots[cell + 1])


GRID_POINTS = 129  # common epsilons looked at where owners stand
MAX_EXACT_OWNERS = 8  # owners for whom every coalition is looked at
MAX_REMEMBERED = 256  # coalitions whose local maxima are kept: all of as many owners
MAX_MOVED_SINGLY = 50  # owners up to which searches move one at a time
TOLERANCE = 1e-9  # of payoffs, below which two count as equal


@dataclass(frozen=True, eq=False)
class WeakestLink(OwnersGame):
    """The owners' game with one common epsilon. Arrays are [..., N]; payoffs in money."""

    stakes: CommonStakes
    value: Floats  # of one unit of test cost
    privacy_cost: PrivacyCosts
    keep_own: bool = True

    def payoff(self, common: Floats, members: Members) -> Floats:
        """Return each owner's payoff if it joins, at a common epsilon [..., N] or [..., 1]; 0 if it would be alone."""
        cost = self.stakes.cost
        size = self._size(members)
        together = cost.at(size, self.stakes.demand(common) / size**2)
        payoff = self.weight * self.counted(self.alone - together) - self.privacy_cost(common)
        return np.where(self._others(members), payoff, 0.0)

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats:
        """Return what each owner would get by naming `own` if the other members name `epsilon`."""
        others = _least_of_others(np.where(members, epsilon, np.inf))
        common = np.minimum(own, others)
        return np.asarray(self.payoff(common, members) + price * own)

    def local_maxima(self, members: Members) -> LocalMaxima:
        """Return all local maxima of every owner's payoff if it joins this coalition; cached."""
        return self._found(np.asarray(members, dtype=bool).tobytes())

    @cached_property
    def _found(self) -> Callable[[bytes], LocalMaxima]:
        return lru_cache(maxsize=MAX_REMEMBERED)(self._local_maxima)

    def _local_maxima(self, coalition: bytes) -> LocalMaxima:
        members = np.frombuffer(coalition, dtype=bool)
        cost, alone = self.stakes.cost, self.alone
        size = self._size(members)
        weight = np.where(self._others(members), self.weight * cost.noise_price / size**2, 0.0)
        owner, epsilon = self._thresholds.tops(weight, self._most_noise(alone - cost.at(size, 0.0), size))
        together = cost.at(size[owner], self.stakes.demand(epsilon) / size[owner] ** 2)
        height = self.weight[owner] * self.counted(alone[owner] - together) - self.privacy_cost.take(owner)(epsilon)
        first = np.searchsorted(owner, np.arange(self.owners))
        return LocalMaxima(owner, epsilon, np.where(self._others(members)[owner], height, 0.0), first)

    def _most_noise(self, without: Floats, size: Floats) -> Floats:
        """Return the noise up to which a member uses a joint model that is better by `without` if noiseless."""
        if not self.keep_own:
            return np.full(self.owners, np.inf)
        price = self.stakes.cost.noise_price
        return np.where(without > 0, without * size**2 / price if price > 0 else np.inf, 0.0)

    @cached_property
    def _thresholds(self) -> Thresholds:
        return Thresholds.from_demand(self.stakes.demand, self.privacy_cost)

    def best_below(self, common: Floats, members: Members, local_maxima: LocalMaxima) -> Floats:
        """Return each owner's best payoff at common epsilons up to these [K] -> [K, N]."""
        return np.asarray(np.maximum(self.payoff(common[:, None], members), local_maxima.best_below(common)[0]))

    def peaks(self, members: Members) -> Floats:
        """Return the common epsilon that each owner likes best in this coalition, if it joins [N]."""
        return self.local_maxima(members).peaks()

    def _size(self, members: Members) -> Floats:
        """Return each coalition's rows if each owner joins."""
        return np.asarray((members @ self.stakes.records)[..., None] + np.where(members, 0.0, self.stakes.records))

    def _others(self, members: Members) -> Members:
        return np.asarray(members.sum(axis=-1, keepdims=True) > members)

    def fitness(self, epsilon: Floats, members: Members) -> float | None:
        """Return the joint model's expected relative fitness; None if fewer than two join."""
        if members.sum() < 2:
            return None
        common, size = np.asarray(epsilon[members].min()), float(members @ self.stakes.records)
        return float(self.stakes.fitness(self.stakes.demand(common) / size**2))

    def gains(self, epsilon: Floats, members: Members) -> Floats:
        if not members.any():
            return np.zeros(self.owners)
        cost, size = self.stakes.cost, members @ self.stakes.records
        together = cost.at(size, self.stakes.demand(np.asarray(epsilon[members].min())) / size**2)
        return np.where(members, self.share * self.counted(self.alone - together), 0.0)

    def whom_to_ask(self) -> tuple[Members, float]:
        """Return the coalition of least test cost, and its epsilon, if all insist on their peaks among everyone."""
        peaks = self.peaks(self.everyone)
        chosen = self.stakes.cost.best_coalition(OneNoise(self.stakes.records, self.stakes.demand(peaks)))
        return chosen, float(peaks[chosen].min())


@dataclass(frozen=True, eq=False)
class Play:
    """A coalition's play: the largest common epsilon from which no member wants to go down."""

    members: Members
    epsilon: float
    payoff: Floats  # at `epsilon`; of those outside: what they would get by joining, with a budget of their own
    peaks: Floats

    @property
    def stable(self) -> bool:
        """Whether no member leaves and nobody outside joins."""
        return bool(np.all((self.payoff > 0) == self.members))


@dataclass(frozen=True, eq=False)
class Preferences:
    """Every owner's preferences on a coalition's common epsilon, and its equilibria among members."""

    play: Play
    least: float  # where the last member stops losing; above what is played: some member loses at every equilibrium
    lowest: Floats  # of each owner: the interval of common epsilons around its peak where it does not walk away;
    highest: Floats  # NaN where it always does
    several_peaks: Members  # whose payoffs are not single-peaked, seen on a grid


def play(game: WeakestLink, members: Members) -> Play:
    """Find what a coalition of two or more would play."""
    local_maxima = game.local_maxima(members)
    peaks = local_maxima.peaks()
    common, payoff = _largest_content_epsilon(game, members, local_maxima, float(peaks[members].min()))
    below = np.maximum(payoff, local_maxima.best_below(np.array([common]))[0][0])
    return Play(members, common, np.where(members, payoff, below), peaks)


def _largest_content_epsilon(
    game: WeakestLink, members: Members, local_maxima: LocalMaxima, common: float
) -> tuple[float, Floats]:
    """Return the largest common epsilon up to `common` at which every member is content, and the payoffs there."""
    while True:
        payoff = game.payoff(np.array([common]), members)
        best, where = (first[0] for first in local_maxima.best_below(np.array([common])))
        unhappy = members & (best - payoff > TOLERANCE * (1 + np.abs(best)))
        if not unhappy.any():
            return common, payoff
        common = float(where[unhappy].min())


def preferences(game: WeakestLink, played: Play) -> Preferences:
    """Find the owners' walk-away points in this coalition, and its equilibria."""
    grid = np.geomspace(*game.budget_range, GRID_POINTS)
    curves = game.payoff(np.repeat(grid[:, None], game.owners, axis=1), played.members)  # [GRID_POINTS, N]
    lowest, highest = (_walk_away(game, played, grid, curves, up) for up in (False, True))
    least = float(np.max(np.nan_to_num(lowest[played.members], nan=np.inf)))
    # Whoever keeps its own model falls until it begins to use the joint one: below 0, where it walks away anyhow.
    return Preferences(
        played, least, lowest, highest, _several_peaks(np.maximum(curves, 0.0) if game.keep_own else curves)
    )


def _walk_away(game: WeakestLink, played: Play, grid: Floats, curves: Floats, up: bool) -> Floats:
    """Return how far up or down from its peak epsilon may go before each owner leaves [N]; by grid and bisection."""
    members, peaks = played.members, played.peaks
    losing = ~(curves > 0) & ((grid[:, None] > peaks) if up else (grid[:, None] < peaks))
    first = np.argmax(losing, axis=0) if up else GRID_POINTS - 1 - np.argmax(losing[::-1], axis=0)
    inside, outside = peaks.copy(), np.where(losing.any(axis=0), grid[first], np.nan)
    for _ in range(50):
        middle = np.sqrt(inside * np.nan_to_num(outside, nan=1.0))
        gains = game.payoff(middle, members) > 0
        inside, outside = np.where(gains, middle, inside), np.where(gains, outside, middle)
    ends = np.where(losing.any(axis=0), inside, game.budget_range[int(up)])
    return np.where(game.payoff(peaks, members) > 0, ends, np.nan)


def _several_peaks(curves: Floats) -> Members:
    size = 1 + np.abs(curves).max(axis=0)
    fallen = np.maximum.accumulate(-np.diff(curves, axis=0) > TOLERANCE * size, axis=0)
    return np.asarray((fallen[:-1] & (np.diff(curves, axis=0)[1:] > TOLERANCE * size)).any(axis=0))


def stable_play(game: WeakestLink) -> Play | None:
    """Find an equilibrium with members: nobody leaves, lowers the common epsilon, or gains by joining; None if none is
    found. Up to eight owners it is the one with the largest total payoff; with more, a better one may exist."""
    if game.owners <= MAX_EXACT_OWNERS:
        coalitions = [np.array(each) for each in itertools.product((True, False), repeat=game.owners) if sum(each) > 1]
        plays = [each for each in (play(game, members) for members in coalitions) if each.stable]
    else:
        seen = set[bytes]()
        plays = [end for end in (_search(game, start, seen) for start in starts(game)) if end is not None]
    return max(plays, key=lambda each: float(each.payoff[each.members].sum()), default=None)


def starts(game: WeakestLink) -> list[Members]:
    """List coalitions to search from: everyone, the one to ask, and the owners with the highest peaks."""
    order = np.argsort(-game.peaks(game.everyone), kind="stable")
    sizes = np.unique(np.geomspace(2, game.owners, 10).astype(int))
    chosen = [*(prefix(order, size) for size in sizes[::-1]), game.whom_to_ask()[0]]
    return [members for members in chosen if members.sum() > 1]


def _search(game: WeakestLink, members: Members, seen: set[bytes]) -> Play | None:
    """Let losers leave, then gainers join, until nobody moves. None: it cycles, or an earlier search came here."""
    members = members.copy()
    while members.sum() > 1 and members.tobytes() not in seen:
        seen.add(members.tobytes())
        current = play(game, members.copy())
        if current.stable:
            return current
        leaving, coming = (
            np.flatnonzero(members & ~(current.payoff > 0)),
            np.flatnonzero(~members & (current.payoff > 0)),
        )
        moving = leaving if leaving.size else coming
        share = 0 if game.owners <= MAX_MOVED_SINGLY else moving.size // 8
        first = moving[np.argsort(-np.abs(current.payoff[moving]), kind="stable")[: 1 + share]]
        members[first] = ~members[first]
    return None


def _least_of_others(x: Floats) -> Floats:
    """Return the smallest of the other entries along the last axis; infinity for a single one."""
    if x.shape[-1] < 2:
        return np.full_like(x, np.inf)
    two = np.partition(x, 1, axis=-1)[..., :2]
    return np.where(x == two[..., :1], two[..., 1:], two[..., :1])
