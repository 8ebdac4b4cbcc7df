"""What an attacker bets on, and what its hits prove: lower confidence bounds on epsilon.

A guarantee of (eps, delta) says of every event S and every two neighbouring tables P_b(S) <= e^eps P_a(S) + delta. So
one event that is seen much more often under one table than under the other proves that eps is at least so much.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from parley.validate import Floats

THRESHOLDS = 256  # that are looked at from either end, more of them where events are rare


@dataclass(frozen=True)
class Event:
    """A statistic of at least `threshold` (`above`), or below it; `of_b`: it is taken as a sign of the table b."""

    threshold: float
    above: bool
    of_b: bool

    def hits(self, statistic: Floats) -> int:
        """In how many draws [n] it happens."""
        return int(np.count_nonzero((statistic >= self.threshold) == self.above))

    def bound(self, hits_a: int, hits_b: int, draws: int, delta: float, confidence: float) -> float:
        """The epsilon that so many hits in as many draws of each table prove.

        Formal guarantee: if event and number of draws were chosen without looking at these draws, which are
        independent, the true eps at delta is below the result with probability at most 1 - confidence, half of it for
        either rate (Clopper and Pearson 1934).
        """
        found = proved(hits_b if self.of_b else hits_a, hits_a if self.of_b else hits_b, draws, delta, confidence)
        return float(found)


def proved(signs: ArrayLike, alarms: ArrayLike, draws: int, delta: float, confidence: float) -> Floats:
    """ln((p - delta)/q), at least 0, with p the least probable rate of `signs` and q the largest of `alarms`.

    >>> bool(proved(5000, 5000, 10_000, 0.0, 0.99) == 0), round(float(proved(10_000, 0, 10_000, 0.0, 0.99)), 2)
    (True, 7.54)
    """
    least, _ = rates(signs, draws, (1 - confidence) / 2)
    _, most = rates(alarms, draws, (1 - confidence) / 2)
    # ends of intervals come from an iteration: a part in 1e9 is more than it is off
    ratio = np.maximum(least * (1 - 1e-9) - delta, 0.0) / np.maximum(most * (1 + 1e-9), 1e-300)
    return np.asarray(np.log(np.maximum(ratio, 1.0)))


def rates(hits: ArrayLike, draws: int, miss: float) -> tuple[Floats, Floats]:
    """(low, high): ends of one-sided intervals for the rate of which so many hits were drawn, each wrong with at most
    this probability.

    >>> low, high = rates(0, 100, 0.005)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0516)
    """
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), draws - k + 1, miss), 0.0)
    high = np.where(k < draws, betaincinv(k + 1, np.maximum(draws - k, 1), 1 - miss), 1.0)
    return low, high


def best_event(a: Floats, b: Floats, delta: float, confidence: float) -> Event:
    """The event on which these draws of two tables [n] prove most: both tails, and as a sign of either table. What it
    is worth, other draws have to say."""
    n, ends = len(a), [np.sort(a), np.sort(b)]
    at = thresholds(np.concatenate(ends))
    above_a, above_b = (n - np.searchsorted(end, at, side="left") for end in ends)
    chances: list[tuple[float, Event]] = []
    for above in (True, False):
        hits_a, hits_b = (above_a, above_b) if above else (n - above_a, n - above_b)
        for of_b in (True, False):
            found = proved(*((hits_b, hits_a) if of_b else (hits_a, hits_b)), n, delta, confidence)
            best = int(np.argmax(found))
            chances.append((float(found[best]), Event(float(at[best]), above, of_b)))
    return max(chances, key=lambda chance: chance[0])[1]


def thresholds(pooled: Floats) -> Floats:
    """Values of the statistic to cut at, dense where few draws lie beyond."""
    n = len(pooled)
    ranks = np.unique(np.geomspace(1, n, THRESHOLDS).astype(np.int64))
    ordered = np.sort(pooled)
    return np.unique(np.concatenate([ordered[ranks - 1], ordered[n - ranks]]))


def trade_off(a: Floats, b: Floats, points: int = 200) -> tuple[tuple[float, float], ...]:
    """(false alarms, misses) of the test that takes a large statistic as a sign of b, by its threshold."""
    at = np.quantile(np.concatenate([a, b]), np.linspace(0, 1, points))
    alarms = 1 - np.searchsorted(np.sort(a), at, side="left") / len(a)
    misses = np.searchsorted(np.sort(b), at, side="left") / len(b)
    pairs: Any = zip(alarms.tolist(), misses.tolist(), strict=True)
    return ((1.0, 0.0), *pairs, (0.0, 1.0))
