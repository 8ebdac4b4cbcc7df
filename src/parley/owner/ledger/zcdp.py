"""A lifetime budget held as zero-concentrated differential privacy (zCDP): agreements cost rho, and rho adds up.

Formal guarantee: let every agreement that is accepted be rho_i-zCDP, each chosen in view of all answers before it, and
let the sum of the rho_i never exceed rho. Then all answers together are rho-zCDP. This is the privacy filter of Feldman
and Zrnic (2021, "Individual privacy accounting via a Renyi filter"), at every order at once; Whitehouse, Ramdas, Rogers
and Wu (2023, "Fully-adaptive composition in differential privacy") prove it for zCDP. And rho-zCDP implies (epsilon,
delta)-DP, for every order a > 1, with

    epsilon = a rho + ln(1 - 1/a) - (ln delta + ln a)/(a - 1)

(Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", Proposition 12). Any order gives a
valid bound, so soundness does not rest on the search for the best one. Numbers are rounded to the private side, by more
than floats can be wrong.

Nothing but `math` is needed: who only looks at books does not wait for statistics libraries.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from parley.errors import LedgerError

SLACK = 1e-12  # of every term of a bound: floats are right to a thousandth of this
_ORDERS = math.log(1e-4), math.log(1e14)  # of a - 1


def epsilon_of(rho: Fraction, delta: Fraction) -> float:
    """The smallest epsilon for which rho-zCDP is known to imply (epsilon, delta)-DP, rounded up.

    >>> round(epsilon_of(Fraction(1, 10), Fraction("1e-6")), 3)
    2.142
    """
    return 0.0 if rho == 0 else max(0.0, -_largest(lambda u: -_epsilon(float(rho), float(delta), u)))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho for which rho-zCDP is known to imply (epsilon, delta)-DP, rounded down.

    >>> round(float(largest_rho(Fraction("2.142"), Fraction("1e-6"))), 4)
    0.1
    """
    if not float(delta) > 0:
        raise LedgerError(
            "lifetime_delta = 0: a lifetime budget that is held as zCDP needs a delta above 0 (--lifetime-delta)"
        )
    rho = _largest(lambda u: _rho(float(epsilon), float(delta), u)) * (1 - 1e-9)
    if not rho > 0 or not holds(Fraction(rho), epsilon, delta):
        raise LedgerError(
            f"lifetime = {float(epsilon):g}: no such budget can be held as zCDP; expected an epsilon from 1e-9 to 1e6"
        )
    return Fraction(rho)


def holds(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether rho-zCDP is known to imply (epsilon, delta)-DP."""
    return rho > 0 and float(delta) > 0 and Fraction(epsilon_of(rho, delta)) <= epsilon


def _epsilon(rho: float, delta: float, u: float) -> float:
    """By the order 1 + e^u, rounded up."""
    a = 1 + math.exp(u)
    terms = a * rho, math.log1p(-1 / a), -math.log(delta) / (a - 1), -math.log(a) / (a - 1)
    return math.fsum(terms) + SLACK * math.fsum(map(abs, terms))


def _rho(epsilon: float, delta: float, u: float) -> float:
    a = 1 + math.exp(u)
    return (epsilon - math.log1p(-1 / a) + (math.log(delta) + math.log(a)) / (a - 1)) / a


def _largest(value: Callable[[float], float]) -> float:
    """The largest value found, by thirds; both bounds have one hill."""
    low, high = _ORDERS
    for _ in range(150):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (first, high) if value(first) < value(second) else (low, second)
    return max(value(low), value(high))
