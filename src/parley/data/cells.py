"""What one cell means: its name, its number. Functions of that cell alone, so that no record changes how another one is
read.

Which type carries a cell may hang on other records: one gap, and a column's whole numbers come as floats; one word, and
its decimals come as they were written. So a cell is named by its value, not by its type: 1, 1.0, True, Decimal("1.00")
and "1" are one name.

Formal guarantee: `cell_name` and `cell_number` give the same for a cell and for what a wider column type makes of it,
or nothing: a float from 2^53 on may stand for several whole numbers, so it has no name.
"""

import math
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# characters of a cell that are looked at: a longer one is cut, or one record could slow down every round
LONGEST = 1000
EXACT = 2**53  # from here on floats skip whole numbers
LARGEST_WHOLE = 10**100  # whole numbers have names below

# What pandas takes for a gap when it reads a CSV file.
MISSING_WORDS = frozenset(
    [
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
TRUTH = {"False": 0.0, "false": 0.0, "FALSE": 0.0, "True": 1.0, "true": 1.0, "TRUE": 1.0}

_DECIMALS = re.compile(r"(-?[0-9]+)\.0+")
_COMMON = (int, float, Decimal)
_OTHERS = (np.number, np.bool_, complex, Fraction)


def cell_name(cell: Any) -> str | None:
    """What a cell is called; None if it has no name.

    >>> cell_name(1), cell_name(1.0), cell_name(Decimal("1.00")), cell_name("1"), cell_name(0.5), cell_name(2.0**53)
    ('1', '1', '1', '1', '0.5', None)
    """
    if isinstance(cell, str):
        return str.__str__(cell)[:LONGEST]  # not what a subclass of it prints
    if isinstance(cell, _COMMON):
        return _number_name(cell)
    if isinstance(cell, timedelta | np.timedelta64 | np.datetime64):
        return _time_name(cell)
    if isinstance(cell, _OTHERS):
        return _number_name(cell)
    if isinstance(cell, pd.Interval):
        ends = [cell_name(cell.left), cell_name(cell.right)]
        brackets = "[" if cell.closed_left else "(", "]" if cell.closed_right else ")"
        return None if None in ends else f"{brackets[0]}{ends[0]}, {ends[1]}{brackets[1]}"
    if isinstance(cell, bytes):
        return str(cell[:LONGEST])[:LONGEST]
    return str(cell)[:LONGEST] if _prints(type(cell)) else None


def plain_name(name: str) -> str:
    """The digits of a whole number that is written with decimals, as tools write codes in a column with gaps; other
    names as they are.

    >>> plain_name("1.0"), plain_name("-3.00"), plain_name("1.5"), plain_name("v1.0"), plain_name("1.")
    ('1', '-3', '1.5', 'v1.0', '1.')
    """
    whole = _DECIMALS.fullmatch(name)
    return name if whole is None else whole[1]


def cell_number(cell: Any) -> float:
    """The number that a cell stands for, 1 for True and 0 for False; NaN if none."""
    try:
        if isinstance(cell, _COMMON):
            return float(cell)
        if isinstance(cell, str):
            text = str.__str__(cell)[:LONGEST]
            return TRUTH[text] if text in TRUTH else float(text)
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else math.nan
        if isinstance(cell, bytes):
            return float(cell[:LONGEST])
        return math.nan if isinstance(cell, np.timedelta64 | np.datetime64) else float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def missing_cells(cells: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Which cells are gaps, of whatever kind: None, NaN, NA, NaT, a decimal NaN."""
    try:
        return np.asarray(pd.isna(cells))
    except ArithmeticError:  # a signalling NaN among decimals
        quiet = cells.copy()
        for place, cell in enumerate(cells):
            if isinstance(cell, Decimal) and cell.is_nan():
                quiet[place] = None
        return np.asarray(pd.isna(quiet))


def is_missing_word(cell: Any) -> bool:
    """Whether a cell is text that stands for a gap, blanks around it or not.

    >>> is_missing_word(" n/a "), is_missing_word("no"), is_missing_word(0)
    (True, False, False)
    """
    return isinstance(cell, str) and str.__str__(cell)[:LONGEST].strip() in MISSING_WORDS


def _number_name(cell: Any) -> str | None:
    """Whole numbers in digits, others as the float nearest to them prints."""
    value = cell_number(cell)
    if abs(value) < EXACT:
        return str(int(value)) if value.is_integer() else repr(value)
    if math.isnan(value):
        return str(cell)  # a complex number: gaps are not asked for
    whole = _whole(cell)
    return str(whole) if whole is not None else repr(value) if math.isinf(value) else None


def _whole(cell: Any) -> int | None:
    """The whole number that a cell of an exact type is, if it has at most a hundred digits; None for other cells."""
    if isinstance(cell, int | np.integer):
        return int(cell) if abs(int(cell)) < LARGEST_WHOLE else None
    if isinstance(cell, Decimal) and cell.is_finite() and cell.adjusted() < 100 and cell == cell.to_integral_value():
        return int(cell)
    return None


def _prints(kind: Any) -> bool:
    """Whether cells of this kind print as what they are: not lists and the like, nor what prints as its place in
    memory."""
    return kind.__hash__ is not None and (kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__)


def _time_name(cell: Any) -> str | None:
    """As pandas prints it, because a column of nothing but times is pandas' own."""
    try:
        return str(pd.Timestamp(cell) if isinstance(cell, np.datetime64) else pd.Timedelta(cell))
    except (ValueError, OverflowError):  # further away than pandas counts
        return None
