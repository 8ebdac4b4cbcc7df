"""Tables on the terminal, and numbers as people read them."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Literal

from rich.table import Table

Side = Literal["nearest", "above", "below"]
ROUNDINGS = {"above": ROUND_CEILING, "below": ROUND_FLOOR}


def terminal_table(rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """A table whose first row is its head; the first column holds names, the others numbers."""
    head, *body = rows
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right")
    for row in body:
        table.add_row(*row)
    return table


def number(value: float | Fraction | None, digits: int = 4, side: Side = "nearest") -> str:
    """Four significant digits, no false precision; a dash for what is not known.

    A bound is rounded to the side on which it still holds: an epsilon "above", what is left of it "below".

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


def percent(share: float | None, side: Side = "nearest") -> str:
    """A share as a percentage; a dash for what is not known.

    >>> percent(0.73106), percent(0.73106, "above"), percent(0.26894, "below")
    ('73.1%', '73.2%', '26.8%')
    """
    if share is None:
        return "–"
    if side == "nearest" or not math.isfinite(share):
        return f"{share:.1%}"
    return f"{Decimal(repr(float(share))).quantize(Decimal('0.001'), ROUNDINGS[side]):.1%}"


def _on_side(value: float | Fraction, digits: int, side: Literal["above", "below"]) -> float:
    """The next number above or below that has as many digits as are printed; a float stands for the decimal that it prints as."""
    if not math.isfinite(value):
        return float(value)
    exact = value if isinstance(value, Fraction) else Fraction(repr(float(value)))
    last = min(0, math.floor(math.log10(abs(exact))) + 1 - digits) if exact else 0
    unit = Fraction(10) ** last
    return float((math.ceil if side == "above" else math.floor)(exact / unit) * unit)
