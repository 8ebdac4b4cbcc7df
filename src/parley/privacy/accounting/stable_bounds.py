"""What stable noise costs when vectors are bounded in L2: an honest interval (erratum d of Z).

Z accounts for one dimension and adds noise to many. A difference of L2 length D spread equally over m coordinates is m
releases of shift D/sqrt(m); for the Gaussian that is the same, for alpha < 2 it leaks more. The truth for the worst
direction lies in (low, high).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from parley.errors import SettingError
from parley.privacy.accounting.compose import multiplier_for, renyi_epsilon
from parley.privacy.accounting.pairs import Pair, epsilon_at, from_curve, stable_law
from parley.privacy.accounting.releases import ROUNDING, fisher_information
from parley.privacy.events import Adjacency, GaussianEvent, StableEvent
from parley.privacy.mechanisms.gaussian import probability
from parley.privacy.mechanisms.stable import pure_epsilon
from parley.privacy.mechanisms.stable_law import check_alpha
from parley.validate import positive, whole

SPREADS = (1, 2, 4, 16, 64, 256)
SLACK = 1e-4  # relative: what a divergence is rounded up by, and the steps of a ratio


@dataclass(frozen=True)
class StableBound:
    """eps at delta lies in [low, high] for the worst direction; guarantees use `high`."""

    low: float
    high: float
    one_dimensional: float  # Z's figure: for differences that sit in a single coordinate, and only for those
    delta: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE


def stable_epsilon(
    alpha: float,
    scale: float,
    delta: float,
    l2_sensitivity: float = 1.0,
    spread: int | None = None,
    compositions: int = 1,
    sampling: float = 1.0,
) -> StableBound:
    """eps of `compositions` releases with i.i.d. SaS noise on vectors
    of this L2 sensitivity, Poisson-sampled at rate `sampling`.

    Formal guarantee: `high` is an upper bound for every direction and dimension, replace-one adjacency (l2_sensitivity
    is how far replacing one record moves the value; sampled, a record moves it by at most half of that to its side),
    for exactly sampled noise. `low` is reached by a difference spread equally over some number of coordinates. With
    `spread=m` both are the figure for an equal spread over m coordinates: low = high up to discretisation.

    >>> bound = stable_epsilon(1.9, 1.0, 1e-5, spread=4)
    >>> round(bound.low, 2), round(bound.high, 2)
    (2.47, 2.47)
    """
    alpha, scale, delta = check_alpha(alpha), positive(scale, "scale"), probability(delta)
    distance = positive(l2_sensitivity, "l2_sensitivity") / scale
    compositions, sampling = whole(compositions, "compositions"), sampling_rate(sampling)
    if spread is not None and whole(spread, "spread") > 1 and sampling < 1:
        raise SettingError("spread: with sampling only spread=1 has a figure of its own; leave it out for the interval")

    def figure(m: int) -> tuple[float, float]:
        """(below, above) the eps of an equal spread over m coordinates."""
        return spread_epsilon(alpha, distance / math.sqrt(m), delta, m * compositions, sampling)

    alone = figure(1)
    if spread is not None or alpha == 2:  # the Gaussian looks the same in every direction
        low, high = alone if spread in (None, 1) else figure(spread)
        return StableBound(low, high, alone[1], delta)
    # many coordinates: a Gaussian with the same information
    limit = distance * math.sqrt(2 * fisher_information(alpha))
    lows = [alone[0], spread_epsilon(2.0, limit, delta, compositions, sampling)[0]]
    if sampling == 1 and alpha < 2:
        lows += [figure(m)[0] for m in SPREADS[1:]]
    event = StableEvent(1 / distance, sampling, compositions, alpha=alpha, norm="l2")
    return StableBound(max(lows), max(renyi_epsilon([event], delta), *lows), alone[1], delta)


@lru_cache(maxsize=256)
def stable_ratio(alpha: float, epsilon: float, delta: float, count: int) -> float:
    """The least scale/sensitivity with which `count` releases on vectors bounded in L2 are (epsilon, delta)-DP, by
    Renyi divergences.

    Formal guarantee: what is returned suffices in every direction (`renyi_epsilon`, the `high` of `stable_epsilon`).
    The search begins where it would end if small shifts in many coordinates were the worst, as they were wherever we
    looked: at the Gaussian with this law's Fisher information.

    >>> round(stable_ratio(1.9, 3.0971, 1e-5, 1), 3)
    1.0
    """

    def fits(ratio: float) -> bool:
        event = StableEvent(ratio, count=count, alpha=alpha, norm="l2")
        return renyi_epsilon([event], delta) * (1 + ROUNDING) <= epsilon

    normal = multiplier_for(lambda multiplier: GaussianEvent(multiplier, count=count), epsilon, delta, "rdp")
    ratio = normal * math.sqrt(fisher_information(check_alpha(alpha)) * (1 + SLACK))
    while not fits(ratio):
        ratio *= 1 + SLACK
    return ratio


def sampling_rate(rate: float) -> float:
    """A Poisson sampling rate as a float in (0, 1]."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise SettingError(f"sampling = {rate!r}: expected a rate above 0 and at most 1")
    return float(rate)


@lru_cache(maxsize=1024)
def spread_epsilon(alpha: float, shift: float, delta: float, count: int, sampling: float) -> tuple[float, float]:
    """(low, high) eps of `count` one-dimensional releases with this shift, by loss distributions.

    `high` is pessimistic on its grid. Halving the grid moves it by about three quarters of its distance to the truth
    (the error is quadratic in the interval), so `low` is the finer value less twice that move.
    """
    curve, largest = Pair(stable_law(alpha), shift / 2, sampling).curve()
    if count == 1 and largest * count <= 1e-12:
        return 0.0, 0.0
    interval = grid_interval(largest, count)
    coarse, fine = (
        epsilon_at(from_curve(curve, largest, h).self_compose(count), delta, count) for h in (2 * interval, interval)
    )
    ceiling = pure_epsilon(alpha, 1.0, shift) * count if alpha < 2 else math.inf
    high = min(fine, ceiling)
    return max(0.0, min(fine, ceiling) - 2 * abs(coarse - fine)), high


def grid_interval(largest: float, count: int) -> float:
    """A grid for the loss distribution of `count` releases of at
    most this loss each: fine, but of at most ten million points."""
    return max(min(1e-3, max(largest / 200, 1e-6)), count * min(largest, 60.0) / 1e7)
