"""Numbers for readers: no false precision, and bounds rounded to the side on which they still hold."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Literal

Side = Literal["nearest", "above", "below"]
ROUNDINGS = {"above": ROUND_CEILING, "below": ROUND_FLOOR}


def number(value: float | Fraction | None, digits: int = 4, side: Side = "nearest") -> str:
    """Format a number with `digits` significant digits, None as a dash. A bound is rounded to the side on which it
    still holds: an epsilon "above", what is left of it "below".

    >>> number(0.0123456), number(None), number(250000.0), number(1.00001, side="above"), number(0.1, side="above")
    ('0.01235', '–', '250,000', '1.001', '0.1')
    """
    if value is None:
        return "–"
    if side != "nearest":
        value = _on_side(value, digits, side)
    if abs(value) >= 10**digits:
        return f"{float(value):,.0f}"
    return f"{float(value):.{digits}g}"


def interval_text(low: float | None, high: float | None, digits: int = 4) -> str:
    """Format an interval, rounded outwards; it contains its centre printed to at least as many digits.

    >>> number(1.1297, 5), interval_text(1.12965, 1.1364, 3)
    ('1.1297', '1.12 to 1.14')
    """
    return f"{number(low, digits, 'below')} to {number(high, digits, 'above')}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, plural only when plural.

    >>> counted(1, "round"), counted(1200, "answer"), counted(2, "entry", "entries")
    ('1 round', '1,200 answers', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def percent(share: float | None, side: Side = "nearest") -> str:
    """Format a share as a percentage, None as a dash.

    >>> percent(0.73106), percent(0.73106, "above"), percent(0.26894, "below")
    ('73.1%', '73.2%', '26.8%')
    """
    if share is None:
        return "–"
    if side == "nearest" or not math.isfinite(share):
        return f"{share:.1%}"
    return f"{Decimal(repr(float(share))).quantize(Decimal('0.001'), ROUNDINGS[side]):.1%}"


def _on_side(value: float | Fraction, digits: int, side: Literal["above", "below"]) -> float:
    """Round up or down to `digits` digits; a float stands for the decimal that it prints as."""
    if not math.isfinite(value):
        return float(value)
    exact = value if isinstance(value, Fraction) else Fraction(repr(float(value)))
    last = min(0, math.floor(math.log10(abs(exact))) + 1 - digits) if exact else 0
    unit = Fraction(10) ** last
    return float((math.ceil if side == "above" else math.floor)(exact / unit) * unit)
