"""Checks of arguments, written once. Comparisons are `not x > 0`, so that NaN fails them."""

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
    """Whether arithmetic can bear a number of this size."""
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
    """The budget that a person meant by writing this number: 0.1 is one tenth, not the nearest binary number.

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
    """The least float that is not below an exact number, read as the decimal that it prints as and as the binary number
    that it is.

    A number that is written in few digits stays what people wrote, though the binary number may lie half a unit below:
    0.3 is three tenths.

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
    """Return `values` as a float64 array if every entry is finite. The message never holds an entry."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"{name}: expected an array of numbers") from None
    if not np.isfinite(array).all():
        raise SettingError(f"{name}: expected finite numbers, found NaN or infinity")
    return array


def printable(text: str, longest: int = 500) -> str:
    """Somebody else's text, fit for a terminal and a log.

    >>> printable("red" + chr(27) + "[31m")
    'red [31m'
    """
    return "".join(c if c.isprintable() else " " for c in text[:longest])


def few_names(names: Sequence[str], most: int = 12) -> str:
    """Public names in words, the first of many.

    >>> few_names(["car", "house"]), few_names(["a", "b", "c"], 2)
    ('car, house', 'a, b and 1 more')
    """
    shown = ", ".join(printable(name, 40) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def below(exact: Fraction) -> float:
    """The largest number that, as it is written, is not above the exact one.

    >>> below(Fraction("1.0") - Fraction("0.7"))
    0.3
    """
    found = float(exact)
    while Fraction(str(found)) > exact:
        found = math.nextafter(found, 0.0)
    return found
