"""Exact discrete Laplace noise for long vectors: the law OpenDP samples, two orders of magnitude faster.

Canonne, Kamath and Steinke (2020), algorithms 1 and 2, on whole arrays: every comparison is between whole numbers made
of 64-bit words of the operating system's cryptographic generator, so the sampled law is exactly P(k) proportional to
exp(-|k|/scale). No floating-point number is involved before the result.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.errors import SettingError
from parley.privacy.mechanisms.random_words import Integers, Words, random_words
from parley.validate import Floats

BITS = 46  # of the noise scale in grid units: its multiples up to 127 are exact floats


def add_laplace(value: Floats, scale: float, sensitivity: float) -> Floats:
    """`value` plus Laplace noise of at least this scale, on a grid of scale/2^46.

    Formal guarantee: (sensitivity/scale)-DP for values of this L1 sensitivity, floating point included. Rounding d
    coordinates to the grid g moves two values apart by at most d g more, so the noise is scaled up by (sensitivity + d
    g)/sensitivity. Rounded value and noise are whole multiples of g, exact as floats; their correctly rounded sum
    depends on their exact sum only.
    """
    steps, exponent = widened(scale, sensitivity, value.size)
    grid = Fraction(2) ** exponent
    unit = math.ldexp(1.0, exponent)
    noise = discrete_laplace(steps, value.size)
    if np.abs(noise).max(initial=0) >= 2**53:  # beyond 63 scales: once in 10^27 draws; then add as integers of any size
        exact = [Fraction(float(v)) / grid for v in np.rint(value.reshape(-1) / unit) * unit]
        summed = [float((v + int(k)) * grid) for v, k in zip(exact, noise, strict=True)]
        return np.array(summed).reshape(value.shape)
    return np.asarray((np.rint(value / unit) + noise.reshape(value.shape)) * unit)


def widened(scale: float, sensitivity: float, size: int) -> tuple[int, int]:
    """(k, e): the noise on `size` coordinates has the scale k
    2^e, on a grid of 2^e; refused where that cannot be drawn."""
    exponent = math.frexp(scale)[1] - BITS
    grid = Fraction(2) ** exponent
    steps = math.ceil(Fraction(scale) * (1 + size * grid / Fraction(sensitivity)) / grid)
    if not -1000 < exponent < 900 or steps >= 2 ** (BITS + 1):
        raise SettingError(
            "noise: the scale is too extreme, or too small for this many coordinates; use fewer rounds or coordinates"
        )
    return steps, exponent


def discrete_laplace(scale: int, size: int) -> Integers:
    """`size` independent whole numbers with P(k) = (e^(1/scale) - 1)/(e^(1/scale) + 1) e^(-|k|/scale), exactly.

    >>> bool(np.abs(discrete_laplace(3, 1000)).mean() < 10)
    True
    """
    if not 1 <= scale < 2 ** (BITS + 1):
        raise SettingError(f"scale: expected a whole number from 1 to 2^{BITS + 1}")
    drawn, missing = [], size
    while missing > 0:
        rest = _below(scale, _enough(missing))
        rest = rest[_bernoulli_exp(rest, scale)]
        size_of = rest.astype(np.int64) + scale * _geometric(rest.size)
        negative = _below(2, rest.size) == 1
        # zero must not be drawn twice
        drawn.append(np.where(negative, -size_of, size_of)[~(negative & (size_of == 0))])
        missing -= drawn[-1].size
    return np.concatenate(drawn)[:size] if drawn else np.empty(0, dtype=np.int64)


def _enough(wanted: int) -> int:
    """So many trials that succeed with probability 1 - 1/e nearly always bring `wanted` successes."""
    return wanted + 3 * wanted // 4 + 32


def _geometric(size: int) -> Integers:
    """How often Bernoulli(1/e) succeeds in a row: the runs between failures in one long series of trials."""
    trials = np.empty(0, dtype=np.bool_)
    while (ends := np.flatnonzero(~trials)).size < size:
        more = np.ones(_enough(size - ends.size), dtype=np.uint64)
        trials = np.concatenate([trials, _bernoulli_exp(more, 1)])
    return np.diff(ends[:size], prepend=-1) - 1


def _bernoulli_exp(numerator: Words, denominator: int) -> NDArray[np.bool_]:
    """Independent Bernoulli(exp(-numerator/denominator)), numerator at most denominator.

    The run of successes of Bernoulli(x/1), Bernoulli(x/2), ... has an even length with probability exp(-x).
    """
    odd = np.zeros(len(numerator), dtype=np.bool_)
    going, k = np.arange(len(numerator)), 1
    while going.size:
        success = _below(denominator * k, going.size) < numerator[going]
        odd[going[~success]] = k % 2 == 1
        going, k = going[success], k + 1
    return odd


def _below(limit: int, size: int) -> Words:
    """`size` independent uniform whole numbers from 0 to limit - 1: 64-bit words by their remainder, those of the
    last, incomplete round of remainders drawn again."""
    if limit == 1:
        return np.zeros(size, dtype=np.uint64)
    words = random_words(size)
    incomplete = 2**64 % limit
    if incomplete:
        while (over := np.flatnonzero(words >= np.uint64(2**64 - incomplete))).size:
            words = words.copy()
            words[over] = random_words(over.size)
    return words % np.uint64(limit)
