"""Numbers brought to where arithmetic can bear them: clipped, and rounded to a grid where they are small."""

import numpy as np

from parley.validate import LARGEST, Floats

GRID = 2.0**-166  # the least power of two above SMALLEST
# around it neighbouring floats lie GRID apart, so adding and subtracting it rounds to the grid
SHIFT = 1.5 * 2**52 * GRID


def settle(values: Floats, low: Floats | float, high: Floats | float, out: Floats | None = None) -> Floats:
    """Values clipped to [low, high], then rounded to the grid of `GRID` where they are small.

    Formal guarantee: for limits within +-LARGEST the result is 0 or from SMALLEST to LARGEST in size, and larger values
    never become smaller ones. With S = `SHIFT`, v + S - S is a multiple of GRID for |v| <= 2^51 GRID: v + S lies where
    floats are GRID apart, and the subtraction is exact. Beyond, all floats in play are multiples of GRID/2 or coarser,
    and only |v| <= GRID/2 comes back as 0. From 2^-60 on, 1e-18, a value returns as it was.

    >>> settle(np.array([0.1, -3e-51, 1e-300, -1e300]), -1e50, 1e50)
    array([ 1.e-01,  0.e+00,  0.e+00, -1.e+50])
    """
    settled: Floats = np.clip(values, low, high, out=out)
    settled += SHIFT
    settled -= SHIFT
    return settled


def sizes(low: Floats, high: Floats) -> Floats:
    """The largest size within each pair of ends."""
    found: Floats = np.abs(settle(np.array([low, high]), -LARGEST, LARGEST)).max(axis=0)
    return found


def standard(ends: Floats, centre: Floats | float, scale: Floats | float) -> Floats:
    """Ends, centred and scaled, where arithmetic can bear them."""
    with np.errstate(over="ignore"):  # clipped next
        return np.clip((ends - centre) / scale, -LARGEST, LARGEST)
