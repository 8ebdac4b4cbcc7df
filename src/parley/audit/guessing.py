"""By which of two tables was a run made? Guesses after runs whose table a fair coin chose, and what they prove.

Beside an event that is counted by either table (`distinguishing`), guesses use both ends of a statistic at once, and
one interval instead of two.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom

from parley.audit.distinguishing import THRESHOLDS
from parley.validate import Floats

GIVEN_AWAY = 0.1  # share of the failures of a bound that is kept for right guesses which delta may give away
CAUTION = 1e-3  # by how much rarer failures are when guesses are chosen: rare ones look best by chance


@dataclass(frozen=True)
class Guess:
    """Table b where a statistic is at least `high`, table a where it is at most `low`, else none; `turned`: the other
    way round."""

    low: float
    high: float
    turned: bool = False

    def right(self, a: Floats, b: Floats) -> tuple[int, int]:
        """(right, all) guesses after runs of which these are the statistics, by table."""
        (above_a, below_a), (above_b, below_b) = self._ends(a), self._ends(b)
        right = above_a + below_b if self.turned else above_b + below_a
        return right, above_a + below_a + above_b + below_b

    def _ends(self, statistic: Floats) -> tuple[int, int]:
        above = statistic >= self.high
        return int(np.count_nonzero(above)), int(np.count_nonzero((statistic <= self.low) & ~above))


def proved_by_guesses(right: Any, guesses: Any, runs: int, delta: float, confidence: float) -> Floats:
    """The epsilon that so many right guesses prove, at least 0.

    Formal guarantee: let each of `runs` independent runs be by table a or b as an independent fair coin says, and let
    what is guessed be a function of what that run released, fixed beforehand. If the release is (eps, delta)-DP, the
    result exceeds eps with probability at most 1 - confidence. How many guesses are made may depend on what was seen.

    Proof. Let q = e^eps/(1 + e^eps), and S the event in which b is guessed. Given S the coin says b with probability
    p = P_b(S)/(P_a(S) + P_b(S)). Let a uniform U decide whether the guess is right, where U < p, and call it given away
    where q <= U < p. That a run ends so has a probability of
    (P_a(S) + P_b(S)) max(p - q, 0)/2 = (1 - q) max(P_b(S) - e^eps P_a(S), 0)/2 <= delta/4, and as much for guesses of
    a: together at most delta/2, of every run on its own. So more than j guesses are given away with no more probability
    than Binomial(runs, delta/2) exceeds j, which depends on nothing that was seen. All other right guesses are, given
    how many guesses there are, at most Binomial(guesses, q), and the bound of Clopper and Pearson grows with them.

    >>> def proved(right: int) -> float:
    ...     return round(float(proved_by_guesses(right, 100, 200, 0.0, 0.99)), 2)
    >>> proved(50), proved(75), proved(100)
    (0.0, 0.56, 3.05)
    """
    miss, free = 1 - confidence, 0
    if delta > 0:
        free = int(binom.isf(GIVEN_AWAY * miss, runs, delta / 2)) + 1  # one more than it should be
        miss *= 1 - GIVEN_AWAY
    counted = np.maximum(np.asarray(right, dtype=np.float64) - free, 0.0)
    others = np.asarray(guesses, dtype=np.float64) - counted + 1
    least = np.where(counted > 0, betaincinv(np.maximum(counted, 1), others, miss), 0.0)
    least *= 1 - 1e-9  # it comes from an iteration
    return np.asarray(np.log(np.maximum(least / (1 - least), 1.0)))


def best_guess(a: Floats, b: Floats, delta: float, confidence: float) -> Guess:
    """The guess by which these statistics of as many runs by either table [n] prove most, chosen with caution: both
    ends or one. What it is worth, other runs have to say."""
    n, ends = len(a), (np.sort(a), np.sort(b))
    pooled = np.sort(np.concatenate(ends))
    ranks = np.unique(np.geomspace(1, n, THRESHOLDS).astype(np.int64))
    low, high = pooled[ranks - 1], pooled[2 * n - ranks]
    nowhere = np.full(len(ranks), math.inf)
    cautious = 1 - CAUTION * (1 - confidence)
    chances: list[tuple[float, Guess]] = []
    for lows, highs in ((-nowhere, high), (low, nowhere), (np.where(low < high, low, -nowhere), high)):
        above = [n - np.searchsorted(end, highs, side="left") for end in ends]
        below = [np.searchsorted(end, lows, side="right") for end in ends]
        made = above[0] + above[1] + below[0] + below[1]
        for turned in (False, True):
            right = above[0] + below[1] if turned else above[1] + below[0]
            found = proved_by_guesses(right, made, 2 * n, delta, cautious)
            best = int(np.argmax(found))
            chances.append((float(found[best]), Guess(float(lows[best]), float(highs[best]), turned)))
    return max(chances, key=lambda chance: chance[0])[1]
