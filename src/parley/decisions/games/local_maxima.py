"""Where owners' payoffs stop rising: all local maxima over the common epsilon, in one coalition, without a search.

An owner's payoff rises while noise that it saves weighs more than privacy that it gives up: on the logarithm of
epsilon, while weight p(eps) D(eps) > eps c'(eps), D the variance of the one noise, which falls like eps^-p between two
knots, c the owner's privacy cost. Divided by p D the right side is the same in every coalition; a coalition only
changes the weight. So at both ends of every cell between knots one comparison says whether the payoff rises there, and
where it rises into a cell and falls out of it, the top is where two nearly straight lines on logarithms cross. Two tops
within one cell, 4 % of epsilon, count as one.
"""

from dataclasses import dataclass

import numpy as np

from parley.decisions.games.stakes import Demand
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.validate import Floats, Integers

STEPS = 8  # of false position; lines that are straight within a thousandth cross within rounding after four


@dataclass(frozen=True, eq=False)
class LocalMaxima:
    """Every owner's local maxima [M], owner by owner from the lowest epsilon up; each owner has at least one."""

    owner: Integers
    epsilon: Floats
    height: Floats
    first: Integers  # [N]: the place of each owner's first

    def peaks(self) -> Floats:
        """Where each owner's payoff is highest [N]; of equal ones the lowest."""
        top = np.maximum.reduceat(self.height, self.first)[self.owner]
        return np.asarray(np.minimum.reduceat(np.where(self.height == top, self.epsilon, np.inf), self.first))

    def best_below(self, common: Floats) -> tuple[Floats, Floats]:
        """Each owner's highest local maximum up to these epsilons [K] and the largest epsilon where it is, both [K, N];
        none: -inf."""
        seen = np.where(self.epsilon <= common[:, None], self.height, -np.inf)
        best = np.maximum.reduceat(seen, self.first, axis=1)
        there = np.where(seen == best[:, self.owner], self.epsilon, -np.inf)
        return best, np.maximum.reduceat(there, self.first, axis=1)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """What a coalition's weights are compared with at both ends of every cell: eps c'/(p D), of every owner, [cells,
    N]."""

    demand: Demand
    privacy_cost: PrivacyCosts
    left: Floats
    right: Floats

    @classmethod
    def of(cls, demand: Demand, privacy_cost: PrivacyCosts) -> "Thresholds":
        """The thresholds that follow from this demand and the costs of these owners."""
        given_up = privacy_cost.marginal(demand.knots[:, None])
        # a flat cell, p = 0: nothing is saved there, and nothing is above 0/0
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right = (
                given_up[ends] / (demand.powers * demand.heights[ends])[:, None]
                for ends in (slice(None, -1), slice(1, None))
            )
        return cls(demand, privacy_cost, left, right)

    def tops(self, weight: Floats, most: Floats) -> tuple[Integers, Floats]:
        """(owners, epsilons) of all local maxima, sorted by both, where an owner's noise weighs so much [N]; a model
        with a noise of more than `most` [N] is not used, so that payoffs fall there."""
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
        """Where in its cell each of these stops rising: false position, a side that stays counting half (Illinois)."""
        power, start = self.demand.powers[cell], np.log(self.demand.knots[cell])
        saved, costs = np.log(weight * power * self.demand.heights[cell]), self.privacy_cost.take(owner)

        def rise(x: Floats) -> Floats:
            return np.asarray(saved - power * (x - start) - np.log(costs.marginal(np.exp(x))))

        a, b = start, np.log(self.demand.knots[cell + 1])
        f_a, f_b = np.maximum(rise(a), 0.0), np.minimum(rise(b), 0.0)
        x, before = a, np.zeros(len(a), dtype=int)
        for _ in range(STEPS):
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
