"""What releases about records drawn in secret cost: Poisson sampling, replace-one adjacency."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from parley.accounting.compose import compose
from parley.accounting.renyi import renyi_epsilon
from parley.errors import SettingError
from parley.mechanisms import Event

STEP = math.log1p(1e-4)  # multipliers are powers of 1.0001: machines that differ in last digits agree on one
MARGIN = 1e-12  # relative: more than the roundings of a logarithm


def base_epsilon(epsilon: Fraction, rate: float) -> Fraction:
    """The most that a pure release may cost the records it is about so that, drawn at this rate, it costs `epsilon`.

    Formal guarantee: for f, g, h the densities without the record, with it and with its replacement, g <= e^b h and all three within b
    of each other, (1 - q) f + q g <= (1 + q (e^b - 1)) ((1 - q) f + q h). At b = ln(1 + (e^eps - 1)/q) that factor is e^eps; rounded down.

    >>> float(base_epsilon(Fraction(1, 10), 0.1)) > 0.7
    True
    """
    if rate == 1:
        return epsilon
    small = float(epsilon)
    if small > 30:
        return epsilon
    return Fraction(math.log1p(math.expm1(small) / rate) * (1 - MARGIN))


def sampled_epsilon(event: Event, delta: float, count: int) -> float:
    """An upper bound on eps of so many such releases at delta: of one by the best rule, of more by Renyi divergences, which are quick."""
    if count == 1:
        return _single(event, delta)
    return renyi_epsilon([Event(event.mechanism, event.multiplier, event.norm, None, event.sampling, count)], delta) * (1 + MARGIN)


@lru_cache(maxsize=64)
def _single(event: Event, delta: float) -> float:
    return compose([event], delta).high


@lru_cache(maxsize=256)
def sampled_ratio(epsilon: float, delta: float, count: int, rate: float) -> float:
    """The least power of 1.0001 as sigma/sensitivity with which `count` Gaussian releases at this rate are (epsilon, delta)-DP.

    Renyi divergences find one that suffices; loss distributions, where their grid reaches, a smaller one.
    """

    def event(power: int) -> Event:
        return Event("gaussian", math.exp(power * STEP), "l2", None, rate, count)

    def by_renyi(power: int) -> bool:
        return renyi_epsilon([event(power)], delta) * (1 + MARGIN) <= epsilon

    def by_best(power: int) -> bool:
        return compose([event(power)], delta).high <= epsilon

    if not 1e-9 <= epsilon <= 1e6:
        raise SettingError(f"epsilon = {epsilon:g}: expected a number from 1e-9 to 1e6")
    high = _first(by_renyi, int(math.log(1e-3) / STEP), int(math.log(1e12) / STEP))
    low = high - int(math.log(1.1) / STEP)
    while by_best(low):
        low, high = low - int(math.log(1.5) / STEP), low
    return math.exp(_first(by_best, low, high) * STEP)


def _first(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The least whole number above `low` that fits, where all above one that fits do."""
    if not fits(high):
        raise SettingError("epsilon: no noise of this kind reaches it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
