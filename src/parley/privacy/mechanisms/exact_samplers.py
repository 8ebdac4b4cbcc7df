"""Exact samplers of discrete Laplace and of rounded normal noise, from words of a cryptographic generator.

Laplace noise: Canonne, Kamath and Steinke (2020), algorithms 1 and 2, on whole arrays. Every comparison is between
whole numbers made of 64-bit words of the operating system's cryptographic generator, so the sampled law is exactly P(k)
proportional to exp(-|k|/scale). No floating-point number is involved before the result.

Gaussian noise: the normal law itself, rounded after the noise was added. As many binary digits of a standard normal
number N are drawn as the result depends on, in whole-number arithmetic on such words. The release is a function of
value + sigma N alone, so the analytic delta(eps) of Gaussian noise holds exactly, in any dimension and over any number
of rounds.

Sampling by rejection. Half the line is cut into strips [j, j + 1)/8. A strip is proposed with probability w_j/2^16,
then a place x in [0, 1) in it uniformly. It is kept with probability A e^(-z^2/2)/w_j, z = (j + x)/8. So the density of
what is kept is proportional to e^(-z^2/2) for any weights, as long as w_j >= A e^(-(j/8)^2/2) makes that a probability.
The weights are whole numbers, so strips are drawn exactly. From 4.5 on they are 1/2, 1/4, 1/8, ...: a coin is thrown
until it shows heads. (There the condition holds at first, 0.2494 <= 1/2; the quotient of both sides grows for eight
strips, to 0.87, and falls from then on.)

Filter. Nearly always 64 digits of x and 47 of u, the uniform number that decides, are enough, and floats can tell. With
r = 2^-53:

- Kept: u e^y < A e^(-(j/8)^2/2)/w_j, y = x (2 j + x)/128 <= 71/128. A polynomial of degree 3 is below e^y by less than
  y^4/4!/(1 - y/5) < 2^-7 and decides all but two in a hundred. For these e^y is a polynomial of degree 12 in positive
  terms, cut off at y^13/13! (1 + y/14 + ...) < 2^-43. Its relative rounding is at most 25 r for 12 Horner steps and 5 r
  y for y itself. The product and the right-hand side, a number from 0.4 to 1, are rounded by at most 2 r. The digits of
  u not yet drawn count less than 2^-47 e^y, those of x less than 2^-64. In all: less than 1.8 (2^-43 + 30 r + 2^-47) +
  4 r < 2^-41.
- The place of the result, sigma z/g + offset with sigma/g < 2^32: j + x < 37 is off by at most 2^-48 + 2^-53 + 2^-64,
  times 2^29. Product and sum, below 2^35, are rounded by at most 2^-19 each. In all: less than 2^-17.

Only +, - and * of IEEE arithmetic are relied on, no library's exp. About five draws in 100,000 are closer to a decision
than these bounds, or beyond 4.5 sigma: whole numbers settle them, with as many further digits of x and u as it takes.
"""

import hashlib
import math
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.errors import SettingError
from parley.validate import Floats, finite, positive

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
DrawWords = Callable[[int], Words]  # so many words


def random_words(size: int) -> Words:
    """Return `size` independent uniform 64-bit words; there is no seed."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


class SeededWords:
    """The words that follow from a seed: each stretch is SHAKE-256 of the seed and the stretch's number.

    Formal guarantee: independent uniform words for anyone who cannot tell SHAKE-256 of an unknown seed of 32 bytes from
    such.
    """

    def __init__(self, seed: bytes) -> None:
        self._start, self._stretches = len(seed).to_bytes(8, "little") + seed, 0

    def __call__(self, size: int) -> Words:
        self._stretches += 1
        stretch = hashlib.shake_256(self._start + self._stretches.to_bytes(8, "little")).digest(8 * size)
        return np.frombuffer(stretch, dtype="<u8").astype(np.uint64)


LAPLACE_BITS = 46  # of the noise scale in grid units: its multiples up to 127 are exact floats


def add_laplace(value: Floats, scale: float, sensitivity: float) -> Floats:
    """Return `value` plus Laplace noise of at least this scale, on a grid g of about scale/2^46.

    Formal guarantee: (sensitivity/scale)-DP for values of this L1 sensitivity, floating point included. Rounding d
    coordinates to the grid moves two values apart by at most d g more, so the noise is scaled up by (sensitivity + d
    g)/sensitivity. Rounded value and noise are whole multiples of g, exact as floats; their correctly rounded sum
    depends on their exact sum only.
    """
    steps, exponent = widened_scale(scale, sensitivity, value.size)
    grid = Fraction(2) ** exponent
    unit = math.ldexp(1.0, exponent)
    noise = discrete_laplace(steps, value.size)
    if np.abs(noise).max(initial=0) >= 2**53:  # beyond 63 scales: once in 10^27 draws; then add as integers of any size
        exact = [Fraction(float(v)) / grid for v in np.rint(value.reshape(-1) / unit) * unit]
        summed = [float((v + int(k)) * grid) for v, k in zip(exact, noise, strict=True)]
        return np.array(summed).reshape(value.shape)
    return np.asarray((np.rint(value / unit) + noise.reshape(value.shape)) * unit)


def widened_scale(scale: float, sensitivity: float, size: int) -> tuple[int, int]:
    """Return (k, e): noise on `size` coordinates has scale k 2^e on a grid of 2^e; refuse what cannot be drawn."""
    exponent = math.frexp(scale)[1] - LAPLACE_BITS
    grid = Fraction(2) ** exponent
    steps = math.ceil(Fraction(scale) * (1 + size * grid / Fraction(sensitivity)) / grid)
    if not -1000 < exponent < 900 or steps >= 2 ** (LAPLACE_BITS + 1):
        raise SettingError(
            "noise: the scale is out of range for this many coordinates; use fewer rounds or coordinates"
        )
    return steps, exponent


def discrete_laplace(scale: int, size: int) -> Integers:
    """Return `size` independent whole numbers, exactly P(k) = (e^(1/scale) - 1)/(e^(1/scale) + 1) e^(-|k|/scale).

    >>> bool(np.abs(discrete_laplace(3, 1000)).mean() < 10)
    True
    """
    if not 1 <= scale < 2 ** (LAPLACE_BITS + 1):
        raise SettingError(f"scale: expected a whole number from 1 to 2^{LAPLACE_BITS + 1}")
    drawn, missing = [], size
    while missing > 0:
        remainders = _uniform_below(scale, _trials_for(missing))
        remainders = remainders[_bernoulli_exp(remainders, scale)]
        magnitude = remainders.astype(np.int64) + scale * _geometric(remainders.size)
        negative = _uniform_below(2, remainders.size) == 1
        # zero must not be drawn twice
        drawn.append(np.where(negative, -magnitude, magnitude)[~(negative & (magnitude == 0))])
        missing -= drawn[-1].size
    return np.concatenate(drawn)[:size] if drawn else np.empty(0, dtype=np.int64)


def _trials_for(wanted: int) -> int:
    """Return a number of trials of probability 1 - 1/e that nearly always brings `wanted` successes."""
    return wanted + 3 * wanted // 4 + 32


def _geometric(size: int) -> Integers:
    """Return how often Bernoulli(1/e) succeeds in a row: the runs between failures in one series of trials."""
    trials = np.empty(0, dtype=np.bool_)
    while (ends := np.flatnonzero(~trials)).size < size:
        more = np.ones(_trials_for(size - ends.size), dtype=np.uint64)
        trials = np.concatenate([trials, _bernoulli_exp(more, 1)])
    return np.diff(ends[:size], prepend=-1) - 1


def _bernoulli_exp(numerator: Words, denominator: int) -> NDArray[np.bool_]:
    """Draw Bernoulli(exp(-x)), x = numerator/denominator <= 1: the probability that the run of successes of
    Bernoulli(x/1), Bernoulli(x/2), ... has an even length."""
    odd = np.zeros(len(numerator), dtype=np.bool_)
    undecided, k = np.arange(len(numerator)), 1
    while undecided.size:
        success = _uniform_below(denominator * k, undecided.size) < numerator[undecided]
        odd[undecided[~success]] = k % 2 == 1
        undecided, k = undecided[success], k + 1
    return odd


def _uniform_below(limit: int, size: int) -> Words:
    """Draw `size` uniform whole numbers below `limit`: words by their remainder, those of the incomplete last round
    again."""
    if limit == 1:
        return np.zeros(size, dtype=np.uint64)
    words = random_words(size)
    incomplete = 2**64 % limit
    if incomplete:
        while (over := np.flatnonzero(words >= np.uint64(2**64 - incomplete))).size:
            words = words.copy()
            words[over] = random_words(over.size)
    return words % np.uint64(limit)


GRID_BITS = 32  # of sigma in grid units
STRIP_COUNT = 36  # of an eighth of sigma each; beyond lies the tail
DENSITY_HEIGHT = 6224  # A above: the largest with which the weights stay below 2^16
DOUBT_KEPT, DOUBT_PLACE = 2.0**-40, 2.0**-16  # twice the bounds of the filter's errors
BATCH_NUMBERS = 2**13  # numbers at a time: what fits a processor's cache
COARSE_DOUBT = 2.0**-6  # twice the bound of the coarse filter's error

Mask = NDArray[np.bool_]


def add_gaussian(value: Floats, sigma: float) -> Floats:
    """Return `value` plus independent normal noise of deviation `sigma`, on a grid g of about sigma/2^32 (not below
    2^-1074).

    Formal guarantee: the result is a function of the real number value + sigma N alone, N standard normal: its nearest
    multiple of g, rounded to the nearest float. By post-processing it is as private as Gaussian noise in exact
    arithmetic, at any magnitude of the value. Nothing is rounded before the noise, so no floating-point term is left
    over. (Noise beyond 2^53 g, of probability below e^(-2^40), would be rounded on its own.) Timing is not protected:
    it depends on the noise drawn.
    """
    flat = finite(value, "value").reshape(-1)
    exponent = max(math.frexp(positive(sigma, "sigma"))[1] - GRID_BITS, -1074)
    if exponent > 900:
        raise SettingError("sigma: too large, so noise may be infinite; use fewer rounds or a larger epsilon")
    unit = math.ldexp(1.0, exponent)
    small = np.abs(flat) < 2.0**53 * unit  # larger floats are multiples of g already
    if small.all():
        scaled = flat / unit
        whole = np.rint(scaled)
        base = whole * unit
    else:
        scaled = np.where(small, flat, 0.0) / unit
        whole = np.rint(scaled)
        base = np.where(small, whole * unit, flat)

    def offset(place: int) -> Fraction:
        return (Fraction(float(flat[place])) - Fraction(float(base[place]))) / Fraction(unit)

    noise = rounded_normal(sigma / unit, scaled - whole, offset)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(base + noise * unit, -largest, largest)).reshape(np.shape(value))


def rounded_normal(steps: float, offsets: Floats, offset: Callable[[int], Fraction]) -> Integers:
    """Return the whole numbers nearest to steps N + offset(place), N independent standard normal, exactly; 0 < steps <
    2^32. `offsets` are the numbers offset(place), at most 1/2 in size, as floats that are right to 2^-60."""
    drawn, missing = np.empty(offsets.size, dtype=np.int64), np.arange(offsets.size)
    while missing.size:
        batches = [missing[start : start + BATCH_NUMBERS] for start in range(0, missing.size, BATCH_NUMBERS)]
        missing = np.concatenate([_propose(drawn, steps, offsets, offset, places) for places in batches])
    return drawn


def _propose(
    drawn: Integers, steps: float, offsets: Floats, offset: Callable[[int], Fraction], places: Integers
) -> Integers:
    """Write one proposal into each of these places of `drawn`; return the places whose proposals are not kept."""
    first, second = random_words(2 * places.size).reshape(2, -1)
    nearest, kept, doubtful = _decide_by_floats(first, second, steps, offsets[places])
    for i in np.flatnonzero(doubtful):
        settled = _decide_exactly(int(first[i]), int(second[i]), Fraction(steps), offset(int(places[i])))
        kept[i], nearest[i] = settled is not None, settled or 0
    drawn[places] = nearest
    return places[~kept]


def near_normal(size: int, draw: DrawWords) -> Floats:
    """Return floats near independent standard normal numbers N: |float - N| <= 2^-66 + 2^-51 |N|, always.

    Formal guarantee: the numbers N are exactly normal, drawn as above to 64 digits or more of their place in a strip. A
    number settled in whole numbers has 2^-80 as its last digit. Rounding adds a few units of 2^-53 |N|.
    """
    drawn = np.empty(size)
    missing = np.arange(size)
    while missing.size:
        first, second = draw(2 * missing.size).reshape(2, -1)
        # steps so small that no place is in doubt
        _, kept, doubtful = _decide_by_floats(first, second, 2.0**-20, np.zeros(missing.size))
        sign = 1.0 - 2.0 * ((first >> np.uint64(16)) & np.uint64(1))
        number = sign * (_STRIP_OF[(first & np.uint64(0xFFFF)).astype(np.intp)] + second * 2.0**-64) / 8
        for i in np.flatnonzero(doubtful):
            settled = _decide_exactly(int(first[i]), int(second[i]), Fraction(2**80), Fraction(0), draw)
            kept[i], number[i] = settled is not None, math.ldexp(settled or 0, -80)
        drawn[missing[kept]] = number[kept]
        missing = missing[~kept]
    return drawn


def _decide_by_floats(first: Words, second: Words, steps: float, offsets: Floats) -> tuple[Integers, Mask, Mask]:
    """Return (result, kept, doubtful) of proposals; where not doubtful, exact arithmetic gives the same. The first word
    holds 16 bits for the strip, one for the sign and 47 digits of u, the second 64 digits of x."""
    strip = _STRIP_OF.take(first.astype(np.uint16))
    share = _PEAK_SHARES.take(strip)
    u = (first >> np.uint64(17)).view(np.int64) * 2.0**-47
    x = _unit_floats(second)
    place = strip.astype(np.float64)
    y = _strip_excess(place, x)
    place += x
    excess = _taylor(y, _COARSE_COEFFICIENTS)
    excess *= u
    excess -= share
    close = np.flatnonzero(np.abs(excess) <= COARSE_DOUBT)
    excess[close] = u[close] * _taylor(y[close], _EXP_COEFFICIENTS) - share[close]
    place *= steps / 8
    signs = (first << np.uint64(47)) & np.uint64(1 << 63)
    place.view(np.uint64)[:] ^= signs
    place += offsets
    nearest = np.rint(place)
    place -= nearest
    kept = excess < 0
    doubtful = np.abs(place) >= 0.5 - DOUBT_PLACE
    doubtful &= kept
    doubtful |= strip == STRIP_COUNT
    doubtful[close] |= np.abs(excess[close]) <= DOUBT_KEPT
    return nearest.astype(np.int64), kept, doubtful


def _unit_floats(words: Words) -> Floats:
    """Return words/2^64, rounded to the nearest float: exact halves, added with one rounding. NumPy's own conversion of
    64 unsigned digits takes twice as long."""
    x: Floats = (words & np.uint64(2**32 - 1)).view(np.int64) * np.float64(2.0**-64)
    x += (words >> np.uint64(32)).view(np.int64) * 2.0**-32
    return x


def _strip_excess(strip: Floats, x: Floats) -> Floats:
    """Return y = x (2 j + x)/128, by which the density falls within strip j."""
    y = strip + strip
    y += x
    y *= x
    y *= 2.0**-7
    return y


def _taylor(y: Floats, coefficients: list[float]) -> Floats:
    """Return the polynomial with these coefficients, by Horner's rule."""
    power = np.full(y.size, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        power *= y
        power += coefficient
    return power


def _decide_exactly(
    first: int, second: int, steps: Fraction, offset: Fraction, draw: DrawWords | None = None
) -> int | None:
    """Return one proposal's result in exact arithmetic, None if not kept; draw digits of x and u while they matter."""
    draw = draw or random_words
    strip = int(_STRIP_OF[first & 0xFFFF])
    weight = Fraction(1, 2) if strip == STRIP_COUNT else Fraction(_STRIP_WEIGHTS[strip])
    while strip >= STRIP_COUNT and int(draw(1)[0]) & 1:
        strip, weight = strip + 1, weight / 2
    sign = -1 if first >> 16 & 1 else 1
    u, width_u = Fraction(first >> 17, 2**47), Fraction(1, 2**47)
    x, width_x = Fraction(second, 2**64), Fraction(1, 2**64)
    while True:
        bits = width_x.denominator.bit_length() + 64
        ends = [(strip + end) / 8 for end in (x, x + width_x)]
        if u * weight >= DENSITY_HEIGHT * exp_bounds(ends[0] ** 2 / 2, bits)[1]:
            return None
        places = [math.floor(end * steps + sign * offset + Fraction(1, 2)) for end in ends]
        if (u + width_u) * weight <= DENSITY_HEIGHT * exp_bounds(ends[1] ** 2 / 2, bits)[0] and places[0] == places[1]:
            return sign * places[0]
        (u, width_u), (x, width_x) = _more_digits(u, width_u, draw), _more_digits(x, width_x, draw)


def _more_digits(number: Fraction, width: Fraction, draw: DrawWords) -> tuple[Fraction, Fraction]:
    """Draw 64 more binary digits of a uniform number known to lie in [number, number + width)."""
    narrow = width / 2**64
    return number + int(draw(1)[0]) * narrow, narrow


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return two fractions around e^-x, x >= 0: the series of e^x in multiples of 2^-bits, rounded down and up.

    >>> low, high = exp_bounds(Fraction(1), 64)
    >>> [round(float(bound), 12) for bound in (low, high)]
    [0.367879441171, 0.367879441171]
    """
    unit = 2**bits
    down, up = math.floor(x * unit), math.ceil(x * unit)
    low = high = below = above = unit
    n = 0
    while above > 1 or n < 2 * x:  # then all further terms together are at most the last one
        n += 1
        below = below * down // (n * unit)
        above = -(-above * up // (n * unit))
        low, high = low + below, high + above
    return Fraction(unit, high + above), Fraction(unit, low)


_EXP_COEFFICIENTS = [1 / math.factorial(n) for n in range(13)]
_COARSE_COEFFICIENTS = _EXP_COEFFICIENTS[:4]
_STRIP_PEAKS = [
    DENSITY_HEIGHT * exp_bounds(Fraction(j, 8) ** 2 / 2, 128)[1] for j in range(STRIP_COUNT)
]  # from above, right to 100 bits
_STRIP_WEIGHTS = [math.ceil(peak) for peak in _STRIP_PEAKS]
_PEAK_SHARES = np.array(
    [float(peak / weight) for peak, weight in zip(_STRIP_PEAKS, _STRIP_WEIGHTS, strict=True)] + [0.0]
)
_STRIP_OF = np.repeat(
    np.arange(STRIP_COUNT + 1, dtype=np.uint8), [*_STRIP_WEIGHTS, 2**16 - sum(_STRIP_WEIGHTS)]
)  # the last slot is the tail's
