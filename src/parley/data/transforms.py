"""What is done to a feature's numbers before anything else: monotone functions that take every finite number.

Formal guarantee: a transformed number depends on that number alone, not on its place or its neighbours, and is the same
to the bit on every machine. Each function is a series of additions, multiplications, divisions and roots, which IEEE
754 fixes to the last bit, element by element; a library's own logarithm may differ with the vector that a number is
computed in. Below its domain a function stays at the domain's end: bounds clip there anyway (`Preparation`).
"""

from collections.abc import Callable

import numpy as np

from parley.terms.columns import Transform
from parley.validate import SMALLEST, Floats

LN2 = 0.6931471805599453
TERMS = 12  # of a series in at most 0.03: what is left out is below 1e-18


def _log(x: Floats) -> Floats:
    """ln x for x from 2^-1022 on: x = 2^e m with m from 0.7 to 1.42, and ln m = 2 atanh((m - 1)/(m + 1)). Within 1e-15
    of it.

    >>> _log(np.array([1.0, 2.0])).tolist()
    [0.0, 0.6931471805599453]
    """
    m, e = np.frexp(x)
    small = m < 0.7071067811865476
    m, e = np.where(small, 2 * m, m), e - small
    s = (m - 1) / (m + 1)
    z = s * s
    series = np.zeros_like(s)
    for k in range(TERMS, 0, -1):
        series = (series + 1 / (2 * k + 1)) * z
    return np.asarray(e * LN2 + 2 * s * (1 + series))


TRANSFORMS: dict[Transform, Callable[[Floats], Floats]] = {
    "log": lambda x: _log(np.maximum(x, SMALLEST)),
    "log1p": lambda x: _log(np.maximum(1 + x, SMALLEST)),
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "signed-log1p": lambda x: np.copysign(_log(1 + np.abs(x)), x),
}
INVERSES: dict[Transform, Callable[[Floats], Floats]] = {  # for people who want to see their own units
    "log": np.exp,
    "log1p": np.expm1,
    "sqrt": np.square,
    "signed-log1p": lambda x: np.copysign(np.expm1(np.abs(x)), x),
}
