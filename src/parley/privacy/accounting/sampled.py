"""Cost of releases about records drawn in secret: Poisson sampling, replace-one adjacency."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from parley.errors import SettingError
from parley.privacy.accounting.compose import renyi_epsilon
from parley.privacy.accounting.pairs import Curve, delta_at, epsilon_at, from_curve, gaussian_pair
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_ratio

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

LOG_STEP = math.log1p(1e-4)  # multipliers are powers of 1.0001: machines that differ in last digits agree on one
ROUNDING_MARGIN = 1e-12  # relative: more than the roundings of a logarithm
COUNT_RISE = 1e-4  # relative: what the last of answers that have one bound costs more than none of them
ONE_HALF = Fraction(1, 2)

FINE_PARTS, COARSE_PARTS = (
    20.0,
    3.0,
)  # parts of a loss's deviation that a grid resolves: within 0.03 % of the limit, and 1 %
MAX_PARTS = 1e4  # deviations of all losses together that it may have in such parts
MIN_STEP, MAX_STEP, MAX_POINTS = (
    1e-5,
    0.1,
    1e5,
)  # of a grid: below, deltas are not computed exactly enough; beyond, it takes long
MAX_ROUNDS = 10**7
MIN_POWER = -100_000  # a ratio of 4.5e-5: no epsilon that is allowed needs so little noise


def base_epsilon(epsilon: Fraction, rate: float, share: Fraction = ONE_HALF) -> Fraction:
    """Return the most that a pure release may cost the records it is about so that, drawn at this rate, it costs
    `epsilon`. A record that is drawn or not costs at most `share` of it, as its value lies midway (1/2, and what a grid
    adds).

    Formal guarantee: let f, g, h be the densities without the record, with it and with its replacement, b the result
    and s = share b. Then g <= e^s f and h >= e^-s f, so ((1 - q) f + q g)/((1 - q) f + q h) <= ((1 - q) + q e^s)/((1 -
    q) + q e^-s), which is e^eps at s = eps/2 + asinh(sinh(eps/2) (1 - q)/q). If all three are only known to be within b
    of each other, the ratio is at most 1 + q (e^b - 1), and e^b. All these bounds hold, so the largest b suffices. A
    smaller rate costs less: it draws among the drawn. Rounded down.

    >>> float(base_epsilon(Fraction(1, 10), 0.1)) > 0.95
    True
    """
    small = float(epsilon)
    if rate == 1 or small > 600:
        return epsilon
    midway = small / 2 + math.asinh(math.sinh(small / 2) * (1 - rate) / rate)
    plain = 0.0 if small > 30 else math.log1p(math.expm1(small) / rate)
    return max(epsilon, max(Fraction(midway) / share, Fraction(plain)) * (1 - Fraction(ROUNDING_MARGIN)))


def sampled_epsilon(multiplier: float, rate: float, delta: float, count: int) -> float:
    """Return an upper bound on eps at delta of `count` Gaussian releases about records drawn at this rate: by Renyi
    divergences, or by the loss distribution for the next power of two. It rises with the count by more than machines
    differ in last digits, so that a ledger goes on where another stopped."""
    event = GaussianEvent(multiplier, rate)
    by_renyi = renyi_epsilon([event.times(count)], delta) * (1 + ROUNDING_MARGIN)
    doublings = (count - 1).bit_length()
    return min(
        by_renyi, _epsilon_of_power_of_two(event, delta, doublings) * (1 + COUNT_RISE * count / (1 << doublings))
    )


@lru_cache(maxsize=1024)
def _epsilon_of_power_of_two(event: GaussianEvent, delta: float, doublings: int) -> float:
    """Bound eps of 2^doublings releases by loss distribution, no less than for half; infinite beyond any grid."""
    fewer = 0.0 if doublings == 0 else _epsilon_of_power_of_two(event, delta, doublings - 1)
    count = 1 << doublings
    try:
        return max(
            fewer * (1 + COUNT_RISE),
            epsilon_at(_composed_losses(event, count, delta, _grid_step(event, count, delta, FINE_PARTS)), delta, count)
            * (1 + ROUNDING_MARGIN),
        )
    except SettingError:
        return math.inf


@lru_cache(maxsize=1024)
def sampled_ratio(epsilon: float, delta: float, count: int, rate: float) -> float:
    """Return the least power of 1.0001 as sigma/sensitivity with which `count` Gaussian releases at this rate are
    (epsilon, delta)-DP.

    Formal guarantee: the result suffices by the closed form without sampling, by Renyi divergences or by a loss
    distribution on some grid; each is an upper bound. A coarse grid says where to look, a fine one decides. Grids have
    limited sizes; where none is fine enough (many rounds, tiny losses) Renyi divergences decide.
    """
    if not 1e-9 <= epsilon <= 1e6:
        raise SettingError(f"epsilon = {epsilon:g}: expected a number from 1e-9 to 1e6")

    def event(power: int) -> GaussianEvent:
        return GaussianEvent(math.exp(power * LOG_STEP), rate)

    def by_renyi(power: int) -> float:
        return _log_ratio(renyi_epsilon([event(power).times(count)], delta) * (1 + ROUNDING_MARGIN), epsilon)

    def by_losses(power: int) -> float:
        try:
            return _log_ratio(
                float(
                    delta_at(_composed_losses(event(power), count, delta, step), epsilon * (1 - ROUNDING_MARGIN), count)
                ),
                delta,
            )
        except SettingError:
            return math.inf

    # enough without sampling
    unsampled_power = math.ceil((math.log(gaussian_ratio(epsilon, delta)) + 0.5 * math.log(count)) / LOG_STEP + 1e-3)
    power = _smallest_within(by_renyi, unsampled_power, 1_000)
    guessed_power = unsampled_power + math.ceil(
        math.log(rate) / LOG_STEP
    )  # about enough for many rounds, where losses are nearly normal
    for parts, stride in ((COARSE_PARTS, 1_000), (FINE_PARTS, 100)):
        try:
            step = _grid_step(event(guessed_power if power == unsampled_power else power), count, delta, parts)
        except SettingError:
            break
        power = next(
            (p for p in (guessed_power + 300, guessed_power + 3_000) if power == unsampled_power and by_losses(p) <= 0),
            power,
        )
        power = _smallest_within(by_losses, power, stride)
    return math.exp(power * LOG_STEP)


def _log_ratio(value: float, allowed: float) -> float:
    return math.log(max(value, 1e-300) / allowed)


def _smallest_within(excess: Callable[[int], float], enough: int, stride: int) -> int:
    """Return the least whole number up to `enough` whose excess, which falls, is not above 0; by secants."""
    high, above = enough, excess(enough)
    if not above <= 0:
        return enough  # by another rule
    low, below = high - stride, excess(high - stride)
    while below <= 0:
        stride *= 2
        if low - stride < MIN_POWER:
            return low
        high, above, low, below = low, below, low - stride, excess(low - stride)
    kept = 0  # which end stayed last; one that stays twice counts half, so that it moves too
    while high - low > 1:
        share = above / (above - below) if above < 0 and math.isfinite(below) else 0.5
        middle = min(max(high - round((high - low) * share), low + 1), high - 1)
        value = excess(middle)
        if value <= 0:
            high, above, below, kept = middle, value, below / (2 if kept < 0 else 1), -1
        else:
            low, below, above, kept = middle, value, above / (2 if kept > 0 else 1), 1
    return high


def _loss_cutoff(curve: Curve, top: float, count: int, delta: float) -> float:
    """Return the loss that all releases together hardly ever exceed; beyond it, losses count as infinite."""
    losses = min(top, 60.0) * np.geomspace(1e-4, 1, 300)
    rare = curve(losses) * count <= 1e-5 * delta
    return float(losses[int(np.argmax(rare))]) if rare.any() else float(losses[-1])


def _grid_step(event: GaussianEvent, count: int, delta: float, parts: float) -> float:
    """Return the grid step that resolves this many parts of the deviation of one release's loss."""
    pair = gaussian_pair(event.multiplier, event.sampling)
    z = np.linspace(-pair.law.reach, pair.law.reach, 4_001)
    weight, loss = np.exp(pair.law.log_pdf(z)), pair.loss(z)
    deviation = math.sqrt(float(np.sum(weight * loss**2) / np.sum(weight)))  # without the record: nearly the same
    parts = min(parts, MAX_PARTS / math.sqrt(count))
    step = max(min(deviation / parts, MAX_STEP), _loss_cutoff(*pair.curve(), count, delta) / MAX_POINTS, MIN_STEP)
    if not step <= deviation or count > MAX_ROUNDS:
        raise SettingError("pld: this method cannot handle so many releases or so small a privacy loss; use method rdp")
    return step


def _composed_losses(event: GaussianEvent, count: int, delta: float, step: float) -> "PrivacyLossDistribution":
    """Return the loss distribution of `count` releases, pessimistic on a grid of this step."""
    curve, top = gaussian_pair(event.multiplier, event.sampling).curve()
    # so much room makes the library's bounds of the sum's tails tight
    wide = 0.5 * step * min(FINE_PARTS * math.sqrt(count), MAX_PARTS)
    return from_curve(curve, max(_loss_cutoff(curve, top, count, delta), wide), step).self_compose(count)
