"""The game with one noise for all: a coalition has one epsilon, the smallest that any member names.

Whoever joins gets value x [cost alone - cost together]^+ - privacy cost, both at the common epsilon (without the [.]^+ where members must
use the joint model: `keep_own`); whoever stays out gets 0. The privacy
that an owner's people get is that of the common noise, so nobody pays for a budget that others do not use: there is no free riding, but a
weakest link. Naming more than the others changes nothing; naming less moves everybody. So a common epsilon is an equilibrium among members
if none of them did better at any smaller one, and none does better alone. An owner whose payoff rises up to one peak wants nothing smaller
while the common epsilon is below it: **every common epsilon from where the last member stops losing up to the lowest peak is an
equilibrium**, and the largest of them is the best for every member. Payoffs with several peaks (posterior costs may have two) are looked
at point by point, and named.

A joint model takes two, so nobody joining is an equilibrium here as well.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from parley.aggregation import Members, OneNoise
from parley.forecasting.coalition import prefix
from parley.games.best_response import maximise
from parley.games.budget_game import OwnersGame, price_of_privacy
from parley.games.privacy_cost import PrivacyCosts
from parley.games.stakes import CommonStakes
from parley.validate import Floats

GRID = 129  # common epsilons looked at for every owner
EXACT_UP_TO = 8  # owners for whom every coalition is looked at
ONE_BY_ONE = 50  # owners up to which walks move one at a time
TOLERANCE = 1e-9  # of payoffs, below which two count as equal


@dataclass(frozen=True, eq=False)
class WeakestLink(OwnersGame):
    """Owners, what a joint model is worth to each, and what the common epsilon costs them. Arrays are [..., N]; payoffs in money."""

    stakes: CommonStakes
    value: Floats  # of one unit of test cost
    privacy_cost: PrivacyCosts
    keep_own: bool = True

    def payoff(self, common: Floats, members: Members) -> Floats:
        """What every owner gets in these coalitions, itself included, at a common epsilon [..., N], or [..., 1]; 0 where there is no other
        member."""
        records, cost = self.stakes.records, self.stakes.cost
        size = (members @ records)[..., None] + np.where(members, 0.0, records)
        together = cost.at(size, self.stakes.demand(common) / size**2)
        payoff = self.value * self.counted(cost.alone(records) - together) - self.privacy_cost(common)
        return np.where(members.sum(axis=-1, keepdims=True) > members, payoff, 0.0)

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats:
        """What every owner would get by naming `own`, the other members naming `epsilon`."""
        others = _least_of_others(np.where(members, epsilon, np.inf))
        common = np.minimum(own, others)
        return np.asarray(self.payoff(common, members) + price * own)

    def best_below(self, common: Floats, members: Members, peaks: Floats) -> Floats:
        """Every owner's best payoff at common epsilons up to this one [K] -> [K, N]: on a grid of its own, and at its peak."""
        low = np.full(len(common), self.budget_range[0])
        grid = np.exp(np.linspace(np.log(low), np.log(common), GRID))  # [GRID, K]
        grid[-1] = common
        on_grid = self.payoff(grid[..., None], members).max(axis=0)
        return np.asarray(np.maximum(on_grid, self.payoff(np.minimum(peaks, common[:, None]), members)))

    def peaks(self, members: Members) -> Floats:
        """The common epsilon that every owner likes best in this coalition, itself included [N]."""

        def worth(log_epsilon: Floats) -> Floats:
            return self.payoff(np.exp(log_epsilon).T, members).T

        low, high = (np.full(self.owners, np.log(end)) for end in self.budget_range)
        grid = np.exp(np.linspace(low[0], high[0], GRID))[:, None]
        return np.clip(np.exp(maximise(worth, low, high, GRID, self.payoff(grid, members).T)), *self.budget_range)

    def fitness(self, epsilon: Floats, members: Members) -> float | None:
        """Expected relative fitness of the joint model; None where fewer than two join and there is none."""
        if members.sum() < 2:
            return None
        common, size = np.asarray(epsilon[members].min()), float(members @ self.stakes.records)
        return float(self.stakes.fitness(self.stakes.demand(common) / size**2))

    def gains(self, epsilon: Floats, members: Members) -> Floats:
        """What every member counts of test cost alone less together; 0 for whoever stays out."""
        if not members.any():
            return np.zeros(self.owners)
        cost, size = self.stakes.cost, members @ self.stakes.records
        together = cost.at(size, self.stakes.demand(np.asarray(epsilon[members].min())) / size**2)
        return np.where(members, self.counted(cost.alone(self.stakes.records) - together), 0.0)

    def price_of_privacy(self, epsilon: Floats, members: Members) -> float | None:
        """What part of everyone's gain without noise is lost; None if there was nothing to gain."""
        return price_of_privacy(self.stakes.cost, self.stakes.records, self.gains(epsilon, members))

    def whom_to_ask(self) -> tuple[Members, float]:
        """The coalition of least test cost if every owner insists on its peak in the coalition of all, and its common epsilon."""
        peaks = self.peaks(self.everyone)
        chosen = self.stakes.cost.best_coalition(OneNoise(self.stakes.records, self.stakes.demand(peaks)))
        return chosen, float(peaks[chosen].min())


@dataclass(frozen=True, eq=False)
class Play:
    """What a coalition would play: the largest common epsilon from which no member wants to go down."""

    members: Members
    epsilon: float
    payoff: Floats  # at `epsilon`; of those outside: what they would get by joining, with a budget of their own
    peaks: Floats

    @property
    def stable(self) -> bool:
        """Whether no member leaves and nobody outside joins."""
        return bool(np.all((self.payoff > 0) == self.members))


@dataclass(frozen=True, eq=False)
class Standing:
    """Where every owner stands on a coalition's common epsilon, and which of them are equilibria among its members."""

    play: Play
    least: float  # where the last member stops losing; above what is played: some member loses at every equilibrium
    lowest: Floats  # of each owner: the interval of common epsilons around its peak where it does not walk away;
    highest: Floats  # NaN where it always does
    several_peaks: Members  # whose payoffs are not single-peaked, seen on a grid


def play(game: WeakestLink, members: Members) -> Play:
    """What a coalition of two or more would play."""
    peaks = game.peaks(members)
    common = _largest(game, members, peaks)
    best = game.best_below(np.array([common]), members, peaks)[0]
    here = game.payoff(np.full(game.owners, common), members)
    return Play(members, common, np.where(members, here, best), peaks)


def _largest(game: WeakestLink, members: Members, peaks: Floats) -> float:
    """The lowest peak of the members; where some member did better below it, the largest epsilon of a grid at which none did."""
    lowest = float(peaks[members].min())
    if _content(game, members, peaks, np.array([lowest]))[0]:
        return lowest
    grid = np.geomspace(game.budget_range[0], lowest, GRID)
    return float(grid[np.flatnonzero(_content(game, members, peaks, grid))[-1]])  # the smallest of all has nothing below it


def _content(game: WeakestLink, members: Members, peaks: Floats, common: Floats) -> Members:
    """At which common epsilons [K] no member did better at a smaller one."""
    best = game.best_below(common, members, peaks)[:, members]
    here = game.payoff(common[:, None], members)[:, members]
    return np.asarray(np.all(best - here <= TOLERANCE * (1 + np.abs(best)), axis=1))


def standing(game: WeakestLink, played: Play) -> Standing:
    """The owners' walk-away points in this coalition, and its equilibria."""
    grid = np.geomspace(*game.budget_range, GRID)
    curves = game.payoff(np.repeat(grid[:, None], game.owners, axis=1), played.members)  # [GRID, N]
    lowest, highest = (_walk_away(game, played, grid, curves, up) for up in (False, True))
    least = float(np.max(np.nan_to_num(lowest[played.members], nan=np.inf)))
    # Whoever keeps its own model falls until it begins to use the joint one: below 0, where it walks away anyhow.
    return Standing(played, least, lowest, highest, _several_peaks(np.maximum(curves, 0.0) if game.keep_own else curves))


def _walk_away(game: WeakestLink, played: Play, grid: Floats, curves: Floats, up: bool) -> Floats:
    """How far up or down from its peak the common epsilon may go before each owner walks away [N]: the grid, then bisection."""
    members, peaks = played.members, played.peaks
    losing = ~(curves > 0) & ((grid[:, None] > peaks) if up else (grid[:, None] < peaks))
    first = np.argmax(losing, axis=0) if up else GRID - 1 - np.argmax(losing[::-1], axis=0)
    inside, outside = peaks.copy(), np.where(losing.any(axis=0), grid[first], np.nan)
    for _ in range(50):
        middle = np.sqrt(inside * np.nan_to_num(outside, nan=1.0))
        gains = game.payoff(middle, members) > 0
        inside, outside = np.where(gains, middle, inside), np.where(gains, outside, middle)
    ends = np.where(losing.any(axis=0), inside, game.budget_range[int(up)])
    return np.where(game.payoff(peaks, members) > 0, ends, np.nan)


def _several_peaks(curves: Floats) -> Members:
    """Whether a curve [GRID, N] rises again after it fell."""
    size = 1 + np.abs(curves).max(axis=0)
    fallen = np.maximum.accumulate(-np.diff(curves, axis=0) > TOLERANCE * size, axis=0)
    return np.asarray((fallen[:-1] & (np.diff(curves, axis=0)[1:] > TOLERANCE * size)).any(axis=0))


def stable_play(game: WeakestLink) -> Play | None:
    """An equilibrium with members: nobody leaves, nobody lowers the common epsilon, nobody outside gains by joining; None: none was found.

    Up to eight owners every coalition is looked at, and the one with the largest total payoff is taken. With more it is the best end of
    walks from everyone, from whom it were best to ask, and from the first by peaks: whoever loses leaves, the worst first, then whoever
    gains joins; so with more than eight owners a better one may exist.
    """
    if game.owners <= EXACT_UP_TO:
        coalitions = [np.array(each) for each in itertools.product((True, False), repeat=game.owners) if sum(each) > 1]
        found = [each for each in (play(game, members) for members in coalitions) if each.stable]
    else:
        seen = set[bytes]()
        found = [end for end in (_walk(game, start, seen) for start in starts(game)) if end is not None]
    return max(found, key=lambda each: float(each.payoff[each.members].sum()), default=None)


def starts(game: WeakestLink) -> list[Members]:
    """Coalitions worth a look: everyone, the one to ask, and the owners with the highest peaks."""
    order = np.argsort(-game.peaks(game.everyone), kind="stable")
    sizes = np.unique(np.geomspace(2, game.owners, 10).astype(int))
    chosen = [*(prefix(order, size) for size in sizes[::-1]), game.whom_to_ask()[0]]
    return [members for members in chosen if members.sum() > 1]


def _walk(game: WeakestLink, members: Members, seen: set[bytes]) -> Play | None:
    """Whoever loses leaves, the worst first; then whoever gains joins, the best first; until nobody moves, or for ever: None, as where
    an earlier walk went on from."""
    members = members.copy()
    while members.sum() > 1 and members.tobytes() not in seen:
        seen.add(members.tobytes())
        here = play(game, members.copy())
        if here.stable:
            return here
        leaving, coming = np.flatnonzero(members & ~(here.payoff > 0)), np.flatnonzero(~members & (here.payoff > 0))
        moving = leaving if leaving.size else coming
        share = 0 if game.owners <= ONE_BY_ONE else moving.size // 8
        first = moving[np.argsort(-np.abs(here.payoff[moving]), kind="stable")[: 1 + share]]
        members[first] = ~members[first]
    return None


def _least_of_others(x: Floats) -> Floats:
    """The smallest along the last axis of all entries but each one; alone: infinity."""
    if x.shape[-1] < 2:
        return np.full_like(x, np.inf)
    two = np.partition(x, 1, axis=-1)[..., :2]
    return np.where(x == two[..., :1], two[..., 1:], two[..., :1])
