"""Arithmetic in which no row depends on another, for rows that were drawn in secret.

A matrix product does not have this property: the order in which it adds a row's terms, and so the row's last digit,
depends on how many rows there are and where the row stands. Large entries of theta that cancel, or a hinge's corner,
turn that digit into another sign. So these functions use only additions, subtractions, multiplications, divisions,
roundings to whole numbers and comparisons of single elements.

Formal guarantee: the result for a row is a function of that row's numbers, of the parameters and of how many there are
of each. It is the same to the bit whatever other rows there are, wherever the row stands, on every processor. IEEE 754
fixes each operation's result for one element, and the order of a row's operations follows from the width alone
(`halving_sum`).
"""

import math

import numpy as np

from parley.validate import LARGEST, Floats

BATCH_NUMBERS = 1 << 16  # numbers multiplied at a time: they fit a core's own memory
MAX_EXPONENT = 700.0  # beyond it, exponentials are taken to be those of its ends: 1e-304 and 1e304
INVERSE_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 2977044471 * 2.0**-32, 1.9082149292705877e-10  # of the first every multiple up to 2^21 is exact
# r coth(r/2) = 2 + r^2/6 - ...: in powers of r^2 by Bernoulli's numbers; for |r| <= ln(2)/2 what is left out is below
# 1e-17
COTH_SERIES = (1 / 6, -1 / 360, 1 / 15120, -1 / 604800, 1 / 23950080, -691 / 653837184000)

TURN_HIGH, TURN_LOW = (
    1686629713 * 2.0**-28,
    2.430840202602477e-10,
)  # 2 pi: of the first every multiple up to 2^22 is exact
COSINE_SERIES = tuple((-1) ** k / math.factorial(2 * k) for k in range(1, 16))  # in powers of r^2; for |r| <= pi enough


def halving_sum(terms: Floats) -> Floats:
    """Sum over the first axis, adding its second half to its first again and again. Overwrites `terms`.

    >>> halving_sum(np.array([[1.0], [2.0], [4.0], [8.0], [16.0]]))
    array([31.])
    """
    width = len(terms)
    if not width:
        return np.zeros(terms.shape[1:])
    while width > 1:
        half = width // 2
        terms[:half] += terms[width - half : width]
        width -= half
    return np.asarray(terms[0])


def products(X: Floats, flat: Floats) -> Floats:
    """Return every row's products with every parameter: [n, p] and [R, p] give [R, n].

    >>> products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[10.0, 1.0]]))
    array([[12., 34.]])
    """
    rows, width = X.shape
    result = np.empty((len(flat), rows))
    step = max(BATCH_NUMBERS // max(width, 1), 1)
    for start in range(0, rows, step):
        columns = np.ascontiguousarray(X[start : start + step].T)
        terms = np.empty_like(columns)
        for row, theta in zip(result, flat, strict=True):
            row[start : start + step] = halving_sum(np.multiply(columns, theta[:, None], out=terms))
    return result


def absolute_sums(X: Floats) -> Floats:
    """Return the sum of each row's absolute values [n]."""
    return halving_sum(np.ascontiguousarray(np.abs(X).T))


def square_sums(X: Floats) -> Floats:
    """Return the sum of each row's squares [n]."""
    return halving_sum(np.ascontiguousarray(np.square(X).T))


def exp(values: Floats) -> Floats:
    """Return e^x within a few units of rounding; x is first clipped to [-700, 700].

    >>> exp(np.array([0.0, -1.0]))
    array([1.        , 0.36787944])
    """
    above, below = _exp_as_ratio(values)
    return np.divide(above, below, out=above)


def logistic(values: Floats) -> Floats:
    """Return 1/(1 + e^-x), between 0 and 1, within a few units of rounding.

    >>> logistic(np.array([0.0, 800.0]))
    array([0.5, 1. ])
    """
    above, below = _exp_as_ratio(values)
    below += above
    return np.divide(above, below, out=above)


def cosine(values: Floats) -> Floats:
    """Return cos x, in [-1, 1], within 1e-13 for |x| up to 1e6; beyond, ever less exact, yet a function of x alone.

    >>> cosine(np.array([0.0, 1.0, -1e300]))[:2]
    array([1.        , 0.54030231])
    """
    turns = np.rint(values / (TURN_HIGH + TURN_LOW))
    r: Floats = values - turns * TURN_HIGH
    r -= turns * TURN_LOW
    square = np.square(np.clip(r, -math.pi, math.pi))
    result: Floats = square * COSINE_SERIES[-1]
    for term in COSINE_SERIES[-2::-1]:
        result += term
        result *= square
    result += 1.0
    return np.clip(result, -1.0, 1.0, out=result)


def _exp_as_ratio(values: Floats) -> tuple[Floats, Floats]:
    """Return (a, b), both positive, with e^x = a/b: x = k ln 2 + r with |r| <= ln(2)/2, and e^r = (c + r)/(c - r) with
    c = r coth(r/2)."""
    r: Floats = np.clip(values, -MAX_EXPONENT, MAX_EXPONENT)
    k = np.rint(r * INVERSE_LN2)
    r -= k * LN2_HIGH
    r -= k * LN2_LOW
    square = r * r
    c = square * COTH_SERIES[-1]
    for term in COTH_SERIES[-2::-1]:
        c += term
        c *= square
    c += 2.0
    above, below = c + r, np.subtract(c, r, out=c)
    above *= ((k.astype(np.int64) + 1023) << 52).view(np.float64)  # 2^k, by its digits
    return above, below


SETTLE_GRID = 2.0**-166  # the least power of two above SMALLEST
# around it neighbouring floats lie SETTLE_GRID apart, so adding and subtracting it rounds to the grid
SETTLE_SHIFT = 1.5 * 2**52 * SETTLE_GRID


def clip_to_grid(values: Floats, low: Floats | float, high: Floats | float, out: Floats | None = None) -> Floats:
    """Clip values to [low, high], and round small ones to the grid of `SETTLE_GRID`.

    Formal guarantee: for limits within +-LARGEST the result is 0 or from SMALLEST to LARGEST in size, and larger values
    never become smaller ones. With S = `SETTLE_SHIFT`, v + S - S is a multiple of SETTLE_GRID for |v| <= 2^51
    SETTLE_GRID: v + S lies where floats are SETTLE_GRID apart, and the subtraction is exact. Beyond, all floats in play
    are multiples of SETTLE_GRID/2 or coarser, and only |v| <= SETTLE_GRID/2 comes back as 0. From 2^-59 on, 2e-18, a
    value returns as it was.

    >>> clip_to_grid(np.array([0.1, -3e-51, 1e-300, -1e300]), -1e50, 1e50)
    array([ 1.e-01,  0.e+00,  0.e+00, -1.e+50])
    """
    settled: Floats = np.clip(values, low, high, out=out)
    settled += SETTLE_SHIFT
    settled -= SETTLE_SHIFT
    return settled


def sizes(low: Floats, high: Floats) -> Floats:
    """Return the largest absolute value within each pair of ends."""
    found: Floats = np.abs(clip_to_grid(np.array([low, high]), -LARGEST, LARGEST)).max(axis=0)
    return found


def standardised_ends(ends: Floats, centre: Floats | float, scale: Floats | float) -> Floats:
    """Centre and scale ends, and clip them to what can be computed with."""
    with np.errstate(over="ignore"):  # clipped next
        return np.clip((ends - centre) / scale, -LARGEST, LARGEST)
