"""The joint-learning game on measured gains: each of two players picks one of what was tried, or stays out.

A gain is in percent, and counts as [gain]+: nobody takes a model that is worse than its own (P eq. 10). A strategy
costs its player C/B (1 - p), the concern times what it gives up (P eq. 11), whether or not the model is taken. Staying
out ends the joint learning: nothing gained and nothing lost by either, so nobody can be held below 0, and that both
stay out is always an equilibrium (P Theorem 1). Where a strategy pays no more than that, its player is said to stay
out.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.validate import Floats, finite, non_negative

Pair = tuple[float, float]
STAYS_OUT = "stays out"
TIE_TOLERANCE = 1e-12  # of a payoff in percent: what differs by less is a rounding


@dataclass(frozen=True, eq=False)
class GainTable:
    """`gains[n][i, j]`: what player n gains by its own strategy i against the other's j. `privacy[n][i]` is what i
    keeps to itself.

    Where models are not `refusable` a loss counts, too, as on P's fits, on which P plays without [.]+ and without
    staying out."""

    privacy: tuple[Floats, Floats]
    gains: tuple[Floats, Floats]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    refusable: bool = True

    def __post_init__(self) -> None:
        sizes = [len(p) for p in self.privacy]
        for n, (p, gains, names) in enumerate(zip(self.privacy, self.gains, self.names, strict=True)):
            if gains.shape != (sizes[n], sizes[1 - n]) or len(names) != sizes[n]:
                raise SettingError(f"gains of player {n + 1}: expected a number for every pair of strategies")
            if not ((finite(p, "privacy") >= 0).all() and (p <= 1).all()) or not np.isfinite(gains).all():
                raise SettingError(f"player {n + 1}: expected privacy from 0 to 1, and gains that are numbers")

    @classmethod
    def alike(
        cls, privacy: ArrayLike, gains: ArrayLike, names: tuple[str, ...] | None = None, refusable: bool = True
    ) -> "GainTable":
        """Two players of whom the same was measured: gains [own, other]."""
        p, own = np.asarray(privacy, dtype=np.float64), np.asarray(gains, dtype=np.float64)
        called = names or tuple(f"{one:g}" for one in p)
        return cls((p, p), (own, own), (called, called), refusable)

    def payoffs(self, player: int, concern: float) -> Floats:
        """What a player of this concern has of every pair [own, other]."""
        return np.asarray(
            self.benefits(player) - non_negative(concern, "concern") * (1 - self.privacy[player])[:, None]
        )

    def benefits(self, player: int) -> Floats:
        """What a player has of the models of every pair [own, other]."""
        return np.maximum(self.gains[player], 0.0) if self.refusable else self.gains[player]

    @cached_property
    def without_privacy(self) -> float | None:
        """The sum of both gains where nobody protects anything (P eq. 17); None where that was not tried, or gains
        nothing."""
        open_ = [np.flatnonzero(p == 0) for p in self.privacy]
        if not all(len(one) for one in open_):
            return None
        i, j = (int(one[0]) for one in open_)
        best = max(float(self.gains[0][i, j]), 0.0) + max(float(self.gains[1][j, i]), 0.0)
        return best if best > 0 else None

    def price(self, i: int, j: int) -> float | None:
        """The Price of Privacy where the players play i and j: nobody takes a model that is worse than its own."""
        best = self.without_privacy
        kept = max(float(self.gains[0][i, j]), 0.0) + max(float(self.gains[1][j, i]), 0.0)
        return None if best is None else 1 - kept / best


@dataclass(frozen=True)
class Profile:
    """What both play, None if they stay out; what they keep, what they have of it, and the Price of Privacy (None:
    nothing to lose)."""

    strategies: tuple[int, int] | None
    names: tuple[str, str]
    privacy: Pair
    payoff: Pair
    price: float | None


def stable(table: GainTable, concern: Pair) -> Floats:
    """Where nobody gains by another strategy, nor by staying out [first's, second's]."""
    first, second = (table.payoffs(n, c) for n, c in enumerate(concern))
    return np.asarray(
        (first >= np.maximum(first.max(axis=0), 0) - TIE_TOLERANCE)
        & (second >= np.maximum(second.max(axis=0), 0) - TIE_TOLERANCE).T
    )


def profile(table: GainTable, concern: Pair, i: int, j: int) -> Profile:
    """This pair of strategies, whether or not anybody would stay with it."""
    payoff = float(table.payoffs(0, concern[0])[i, j]), float(table.payoffs(1, concern[1])[j, i])
    kept = float(table.privacy[0][i]), float(table.privacy[1][j])
    return Profile((i, j), (table.names[0][i], table.names[1][j]), kept, payoff, table.price(i, j))


def stay_out(table: GainTable) -> Profile:
    """Nobody learns together; all that could have been gained is lost, if anything."""
    return Profile(None, (STAYS_OUT, STAYS_OUT), (1.0, 1.0), (0.0, 0.0), None if table.without_privacy is None else 1.0)


def equilibrium(table: GainTable, concern: Pair) -> Profile:
    """The pure equilibrium with the largest sum of payoffs; staying out where there is no other.

    >>> found = equilibrium(GainTable.alike([0.0, 0.5], [[3.0, 2.0], [2.8, 1.0]]), concern=(1.0, 0.1))
    >>> found.privacy, found.payoff
    ((0.5, 0.0), (2.3, 1.9))
    """
    total = table.payoffs(0, concern[0]) + table.payoffs(1, concern[1]).T
    among = np.where(stable(table, concern), total, -np.inf)
    if not among.max() > TIE_TOLERANCE:
        return stay_out(table)
    return profile(table, concern, *map(int, divmod(int(among.argmax()), among.shape[1])))


def best_responses(table: GainTable, player: int, concern: float) -> list[str]:
    """The name of the best answer to each strategy of the other; staying out where nothing pays more."""
    payoffs = table.payoffs(player, concern)
    chosen = payoffs.argmax(axis=0)
    return [table.names[player][i] if payoffs[i, j] > TIE_TOLERANCE else STAYS_OUT for j, i in enumerate(chosen)]


def dominant(table: GainTable, player: int, concern: float) -> str | None:
    """The strategy that is a best answer to everything the other may play, if there is one; staying out where nothing
    ever pays."""
    payoffs = table.payoffs(player, concern)
    if not payoffs.max() > TIE_TOLERANCE:
        return STAYS_OUT
    best = (payoffs >= np.maximum(payoffs.max(axis=0), 0) - TIE_TOLERANCE).all(axis=1)
    return table.names[player][int(np.argmax(best))] if best.any() else None
