"""Shared checks of arguments. Comparisons are `not x > 0`, so NaN fails them."""

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.errors import SettingError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Whatever enters arithmetic - prepared features and targets, parameters, and every magnitude in the terms - is 0 or
# lies between these in size (a parameter may be smaller). Why no sum of squares, product or quotient of them then
# vanishes or overflows in a way that matters: `data.design`.
SMALLEST, LARGEST = 1e-50, 1e50


def in_range(size: float) -> bool:
    """Whether a number of this size is safe in arithmetic."""
    return size == 0 or SMALLEST <= abs(size) <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def positive(value: Any, name: str) -> float:
    """Return `value` as a float if it is a finite number above zero.

    >>> positive(2, "epsilon")
    2.0
    >>> positive(float("nan"), "epsilon")
    Traceback (most recent call last):
    parley.errors.SettingError: epsilon = nan: expected a finite number > 0
    """
    if not _is_number(value) or not value > 0 or not math.isfinite(value):
        raise SettingError(f"{name} = {value!r}: expected a finite number > 0")
    return float(value)


def non_negative(value: Any, name: str) -> float:
    """Return `value` as a float if it is a finite number, zero or above."""
    if not _is_number(value) or not value >= 0 or not math.isfinite(value):
        raise SettingError(f"{name} = {value!r}: expected a finite number >= 0")
    return float(value)


def whole(value: Any, name: str, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number, `least` or above."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not int(value) >= least:
        raise SettingError(f"{name} = {value!r}: expected a whole number >= {least}")
    return int(value)


def exact(epsilon: float | int | str | Fraction) -> Fraction:
    """Return the budget that a person meant by this number: 0.1 is one tenth, not the nearest binary number.

    >>> exact(0.1) + exact(0.2) == exact(0.3)
    True
    >>> exact(float("inf"))
    Traceback (most recent call last):
    parley.errors.SettingError: epsilon = inf: expected a finite number > 0
    """
    try:
        value = epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))
    except (ValueError, ZeroDivisionError):
        raise SettingError(f"epsilon = {epsilon}: expected a finite number > 0") from None
    if not value > 0 or not math.isfinite(float(value)):
        raise SettingError(f"epsilon = {epsilon}: expected a finite number > 0")
    return value


def upper(budget: Fraction) -> float:
    """Return the least float not below an exact number, both as the decimal that it prints as and as the binary number
    that it is. A number of few digits stays as written, even if the binary number is half a unit below: 0.3 is three
    tenths.

    >>> upper(Fraction(3, 10)), upper(Fraction(1, 3)), float(Fraction(1, 3))
    (0.3, 0.33333333333333337, 0.3333333333333333)
    """
    value = float(budget)
    if Fraction(repr(value)) == budget:
        return value
    while min(Fraction(value), Fraction(repr(value))) < budget:
        value = math.nextafter(value, math.inf)
    return value


def finite(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a float64 array if all are finite. The message never holds an entry."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"{name}: expected an array of numbers") from None
    if not np.isfinite(array).all():
        raise SettingError(f"{name}: expected finite numbers, found NaN or infinity")
    return array


def printable(text: str, longest: int = 500) -> str:
    """Return foreign text made safe for a terminal and a log.

    >>> printable("red" + chr(27) + "[31m")
    'red [31m'
    """
    return "".join(c if c.isprintable() else " " for c in text[:longest])


def few_names(names: Sequence[str], most: int = 12) -> str:
    """List public names in words, only the first of many.

    >>> few_names(["car", "house"]), few_names(["a", "b", "c"], 2)
    ('car, house', 'a, b and 1 more')
    """
    shown = ", ".join(printable(name, 40) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def below(exact: Fraction) -> float:
    """Return the largest float that, as written, is not above the exact number.

    >>> below(Fraction("1.0") - Fraction("0.7"))
    0.3
    """
    candidate = float(exact)
    while Fraction(str(candidate)) > exact:
        candidate = math.nextafter(candidate, 0.0)
    return candidate
