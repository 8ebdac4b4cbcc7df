"""Events and guesses an attacker bets on, and the lower confidence bounds on epsilon that their hits prove. (eps,
delta)-DP means P_b(S) <= e^eps P_a(S) + delta for every event S and any two neighbouring tables a and b. So an event
that is seen much more often under one table than under the other proves that eps is at least so large."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv
from scipy.stats import binom

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import Bounded, Exponential, FastNoise, Geometric, Mechanism, SafeNoise, Stable
from parley.privacy.mechanisms.shared_noise import SharedNoise, draw_plainly
from parley.validate import Floats, finite, non_negative, whole

GIVEN_AWAY_SHARE = 0.1  # share of the failures of a bound that is kept for right guesses which delta may give away
CAUTION_FACTOR = 1e-3  # by how much rarer failures are when guesses are chosen: rare ones look best by chance
THRESHOLD_COUNT = 256  # that are looked at from either end, more of them where events are rare


@dataclass(frozen=True)
class Event:
    """A statistic of at least `threshold` (`above`), or below it; `of_b`: taken as a sign of table b."""

    threshold: float
    above: bool
    of_b: bool

    def hits(self, statistic: Floats) -> int:
        """Count the draws [n] in which it happens."""
        return int(np.count_nonzero((statistic >= self.threshold) == self.above))

    def bound(self, hits_a: int, hits_b: int, draws: int, delta: float, confidence: float) -> float:
        """Return the epsilon that these hits in `draws` draws of each table prove.

        Formal guarantee: if event and number of draws were chosen without looking at these draws, which are
        independent, the true eps at delta is below the result with probability at most 1 - confidence, half of it for
        either rate (Clopper and Pearson 1934).
        """
        found = proved(hits_b if self.of_b else hits_a, hits_a if self.of_b else hits_b, draws, delta, confidence)
        return float(found)


def proved(signs: ArrayLike, alarms: ArrayLike, draws: int, delta: float, confidence: float) -> Floats:
    """Return ln((p - delta)/q), at least 0, p the lower end for the rate of `signs` and q the upper end for `alarms`.

    >>> bool(proved(5000, 5000, 10_000, 0.0, 0.99) == 0), round(float(proved(10_000, 0, 10_000, 0.0, 0.99)), 2)
    (True, 7.54)
    """
    lowest_rate, _ = rates(signs, draws, (1 - confidence) / 2)
    _, highest_rate = rates(alarms, draws, (1 - confidence) / 2)
    # ends of intervals come from an iteration: a part in 1e9 is more than it is off
    ratio = np.maximum(lowest_rate * (1 - 1e-9) - delta, 0.0) / np.maximum(highest_rate * (1 + 1e-9), 1e-300)
    return np.asarray(np.log(np.maximum(ratio, 1.0)))


def rates(hits: ArrayLike, draws: int, miss: float) -> tuple[Floats, Floats]:
    """Return (low, high), one-sided ends for the rate behind these hits, each wrong with probability at most `miss`.

    >>> low, high = rates(0, 100, 0.005)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0516)
    """
    k = np.asarray(hits, dtype=np.float64)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), draws - k + 1, miss), 0.0)
    high = np.where(k < draws, betaincinv(k + 1, np.maximum(draws - k, 1), 1 - miss), 1.0)
    return low, high


def best_event(a: Floats, b: Floats, delta: float, confidence: float) -> Event:
    """Return the event on which draws of two tables [n] prove most, in either tail; how much, other draws tell."""
    n, ends = len(a), [np.sort(a), np.sort(b)]
    cuts = thresholds(np.concatenate(ends))
    above_a, above_b = (n - np.searchsorted(end, cuts, side="left") for end in ends)
    candidates: list[tuple[float, Event]] = []
    for above in (True, False):
        hits_a, hits_b = (above_a, above_b) if above else (n - above_a, n - above_b)
        for of_b in (True, False):
            epsilons = proved(*((hits_b, hits_a) if of_b else (hits_a, hits_b)), n, delta, confidence)
            best = int(np.argmax(epsilons))
            candidates.append((float(epsilons[best]), Event(float(cuts[best]), above, of_b)))
    return max(candidates, key=lambda chance: chance[0])[1]


def thresholds(pooled: Floats) -> Floats:
    """Return values of the statistic to cut at, dense at both ends."""
    n = len(pooled)
    ranks = np.unique(np.geomspace(1, n, THRESHOLD_COUNT).astype(np.int64))
    sorted_statistic = np.sort(pooled)
    return np.unique(np.concatenate([sorted_statistic[ranks - 1], sorted_statistic[n - ranks]]))


def trade_off(a: Floats, b: Floats, points: int = 200) -> tuple[tuple[float, float], ...]:
    """Return (false alarms, misses) by threshold for the test that takes a large statistic as a sign of b."""
    at = np.quantile(np.concatenate([a, b]), np.linspace(0, 1, points))
    alarms = 1 - np.searchsorted(np.sort(a), at, side="left") / len(a)
    misses = np.searchsorted(np.sort(b), at, side="left") / len(b)
    pairs: Any = zip(alarms.tolist(), misses.tolist(), strict=True)
    return ((1.0, 0.0), *pairs, (0.0, 1.0))


@dataclass(frozen=True)
class Guess:
    """Table b for a statistic of at least `high`, a for at most `low`, else none; `turned`: the other way round."""

    low: float
    high: float
    turned: bool = False

    def right(self, a: Floats, b: Floats) -> tuple[int, int]:
        """Return (right guesses, all guesses) for statistics of runs by either table."""
        (above_a, below_a), (above_b, below_b) = self._ends(a), self._ends(b)
        right = above_a + below_b if self.turned else above_b + below_a
        return right, above_a + below_a + above_b + below_b

    def _ends(self, statistic: Floats) -> tuple[int, int]:
        above = statistic >= self.high
        return int(np.count_nonzero(above)), int(np.count_nonzero((statistic <= self.low) & ~above))


def proved_by_guesses(right: Any, guesses: Any, runs: int, delta: float, confidence: float) -> Floats:
    """Return the epsilon that this number of right guesses proves, at least 0.

    Formal guarantee: let an independent fair coin for each of `runs` independent runs choose table a or b, and let each
    guess be a function, fixed beforehand, of what that run released. If the release is (eps, delta)-DP, the result
    exceeds eps with probability at most 1 - confidence. The number of guesses may depend on what was seen.

    Proof. Let q = e^eps/(1 + e^eps), and S the event in which b is guessed. Given S the coin is b with probability p =
    P_b(S)/(P_a(S) + P_b(S)). Let a uniform U make the guess right if U < p, and given away if q <= U < p. A run ends so
    with probability (P_a(S) + P_b(S)) max(p - q, 0)/2 = (1 - q) max(P_b(S) - e^eps P_a(S), 0)/2 <= delta/4. With
    guesses of a this is at most delta/2 for every run on its own. So more than j guesses are given away with at most
    the probability that Binomial(runs, delta/2) exceeds j, which does not depend on what was seen. Given the number of
    guesses, the other right ones are at most Binomial(guesses, q), and the bound of Clopper and Pearson grows with
    them.

    >>> def proved(right: int) -> float:
    ...     return round(float(proved_by_guesses(right, 100, 200, 0.0, 0.99)), 2)
    >>> proved(50), proved(75), proved(100)
    (0.0, 0.56, 3.05)
    """
    miss, free = 1 - confidence, 0
    if delta > 0:
        free = int(binom.isf(GIVEN_AWAY_SHARE * miss, runs, delta / 2)) + 1  # one more than it should be
        miss *= 1 - GIVEN_AWAY_SHARE
    counted = np.maximum(np.asarray(right, dtype=np.float64) - free, 0.0)
    others = np.asarray(guesses, dtype=np.float64) - counted + 1
    min_right_share = np.where(counted > 0, betaincinv(np.maximum(counted, 1), others, miss), 0.0)
    min_right_share *= 1 - 1e-9  # it comes from an iteration
    return np.asarray(np.log(np.maximum(min_right_share / (1 - min_right_share), 1.0)))


def best_guess(a: Floats, b: Floats, delta: float, confidence: float) -> Guess:
    """Return the guess by which statistics of either table [n] cautiously prove most; how much, other runs tell."""
    n, ends = len(a), (np.sort(a), np.sort(b))
    pooled = np.sort(np.concatenate(ends))
    ranks = np.unique(np.geomspace(1, n, THRESHOLD_COUNT).astype(np.int64))
    low, high = pooled[ranks - 1], pooled[2 * n - ranks]
    no_cut = np.full(len(ranks), math.inf)
    cautious = 1 - CAUTION_FACTOR * (1 - confidence)
    candidates: list[tuple[float, Guess]] = []
    for lows, highs in ((-no_cut, high), (low, no_cut), (np.where(low < high, low, -no_cut), high)):
        above = [n - np.searchsorted(end, highs, side="left") for end in ends]
        below = [np.searchsorted(end, lows, side="right") for end in ends]
        made = above[0] + above[1] + below[0] + below[1]
        for turned in (False, True):
            right = above[0] + below[1] if turned else above[1] + below[0]
            epsilons = proved_by_guesses(right, made, 2 * n, delta, cautious)
            best = int(np.argmax(epsilons))
            candidates.append((float(epsilons[best]), Guess(float(lows[best]), float(highs[best]), turned)))
    return max(candidates, key=lambda chance: chance[0])[1]


# (value [d...], how many, generator) -> so many released values [how many, d...]
Release = Callable[[Floats, int, np.random.Generator], ArrayLike]

NUMBERS_PER_CHUNK = 2**20  # numbers that are drawn at once: memory does not grow with the number of draws
MAX_PILOT_DRAWS = 2**21  # draws of each table that choose the event, at most


def lower_bound(
    release: Release,
    a: ArrayLike,
    b: ArrayLike,
    draws: int,
    delta: float = 0.0,
    confidence: float = 0.99,
    seed: int | None = None,
) -> float:
    """Return the largest epsilon that `draws` releases of each of two neighbouring exact values prove, at `delta`.

    Released values are projected on b - a. The best threshold, in either tail and as a sign of either value, is chosen
    on other draws: as many again, up to `MAX_PILOT_DRAWS` of each value. 0 means nothing is proved.

    Formal guarantee: for any `release` with independent draws, the result exceeds the eps of `release` at this delta
    with probability at most 1 - confidence: one event is fixed before the draws that are counted (`Event.bound`). It is
    a lower bound: a small one proves nothing.

    Parameters
    ----------
    release
        The mechanism: given a value, a number of draws and a generator, it returns that many noisy values.
    a, b
        The exact values of two neighbours, which it must hide.
    draws
        The number of counted draws of each value.
    delta
        The delta at which epsilon is meant.
    confidence
        The probability that the bound holds.
    seed
        The generators' seed.

    Returns
    -------
    float
        An epsilon that is lost at least, with that confidence.

    Examples
    --------
    >>> def laplace(value, size, rng):
    ...     return value + rng.laplace(size=(size, *value.shape))
    >>> 0.8 < lower_bound(laplace, 0.0, 1.0, 20_000, seed=1) < 1
    True
    """
    value_a, value_b = finite(a, "a"), finite(b, "b")
    if value_a.shape != value_b.shape:
        raise SettingError(
            f"a, b: expected exact values of the same shape, found shapes {value_a.shape} and {value_b.shape}"
        )
    draws = whole(draws, "draws")
    check_confidence(delta, confidence)
    direction = value_b - value_a
    generators = np.random.default_rng(seed).spawn(4)
    pilot_a, pilot_b = (
        np.concatenate(list(_projected(release, value, direction, min(draws, MAX_PILOT_DRAWS), rng)))
        for value, rng in zip((value_a, value_b), generators[:2], strict=True)
    )
    event = best_event(pilot_a, pilot_b, delta, confidence)
    hits_a, hits_b = (
        _count_hits(event, release, value, direction, draws, rng)
        for value, rng in zip((value_a, value_b), generators[2:], strict=True)
    )
    return event.bound(hits_a, hits_b, draws, delta, confidence)


def check_confidence(delta: float, confidence: float) -> None:
    """Refuse a delta or a confidence that is no probability."""
    if not non_negative(delta, "delta") < 1:
        raise SettingError(f"delta = {delta:g}: expected a number of at least 0 and below 1")
    if not 0 < confidence < 1:
        raise SettingError(f"confidence = {confidence!r}: expected a number between 0 and 1")


def release_of(mechanism: Mechanism | Geometric | Stable | Exponential | SharedNoise, safe: bool = False) -> Release:
    """Return any mechanism as a `release` for `lower_bound`: from a value [d] to many noisy ones [size, d].

    Choices among candidates become rows that are 1 at the chosen one. `safe` uses the samplers that owners release with
    (tens of microseconds each, no seed), else NumPy's. One noise for all is drawn as studies draw it, once: of two
    hosts one knows its own and takes it off. Tests of `sharing` show that three hosts draw the same.
    """
    if isinstance(mechanism, Exponential):
        return _choices(mechanism, safe)
    if isinstance(mechanism, SharedNoise):
        if safe:
            raise GuaranteeError(
                "safe: only hosts can draw safe shared noise; set safe to False for the fast noise of simulations"
            )
        return _sums(mechanism)
    kind = mechanism

    def exact(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        noise, bounded = SafeNoise(), Bounded(value, kind.sensitivity, kind.norm)
        return np.array([kind.release(bounded, noise) for _ in range(size)], dtype=np.float64)

    def fast(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        many = np.broadcast_to(value, (size, *value.shape))
        return np.asarray(kind.release(Bounded(many, kind.sensitivity, kind.norm), FastNoise(rng)), dtype=np.float64)

    return exact if safe else fast


def _count_hits(
    event: Event, release: Release, value: Floats, direction: Floats, draws: int, rng: np.random.Generator
) -> int:
    return sum(event.hits(chunk) for chunk in _projected(release, value, direction, draws, rng))


def _projected(
    release: Release, value: Floats, direction: Floats, draws: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield the statistic of the releases of a value, chunk by chunk."""
    draws_at_once = max(1, NUMBERS_PER_CHUNK // max(value.size, 1))
    for start in range(0, draws, draws_at_once):
        size = min(draws_at_once, draws - start)
        released = np.asarray(release(value, size, rng), dtype=np.float64)
        if released.shape != (size, *value.shape):
            raise SettingError(f"release: expected an array of shape {(size, *value.shape)}, got {released.shape}")
        yield released.reshape(size, -1) @ direction.reshape(-1)


def _choices(mechanism: Exponential, safe: bool) -> Release:
    def release(scores: Floats, size: int, rng: np.random.Generator) -> Floats:
        noise = SafeNoise() if safe else FastNoise(rng)
        chosen = np.array([mechanism.choose(scores, noise) for _ in range(size)])
        return np.asarray(np.eye(len(scores))[chosen])

    return release


def _sums(noise: SharedNoise) -> Release:
    def release(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        words = noise.encode(Bounded(np.broadcast_to(value, (size, *value.shape)), noise.sensitivity, noise.norm))
        return noise.decode(words + draw_plainly(noise.recipe, words.shape, rng).view(np.uint64))

    return release
