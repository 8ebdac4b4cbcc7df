"""Columns of a public sample that are nearly numbers, and what to do about them. Only public cells are looked at, and
may be shown."""

import math
import re
from collections.abc import Sequence

import pandas as pd

from parley.data.cells import TRUTH, cell_number
from parley.data.table import names
from parley.validate import printable

MOST = 0.5  # share of a column's different cells from which on it looks like numbers, with others among them
NEARLY_ALL = 0.9
SIGNS = re.compile(r"[$€£¥%\s]|(?<=\d)[,'](?=\d)")
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")


def odd_columns(public: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """A sentence for each of these columns of names whose cells look like numbers or dates."""
    return [said for column in columns if (said := _odd(column, names(public, column, "public sample", gaps=True)))]


def _odd(column: str, cells: Sequence[str]) -> str | None:
    """What looks odd about a column with these different cells.

    >>> _odd("paid", ["$1,200.50", "$90.00"])[:43]
    "paid holds numbers with signs ('$1,200.50')"
    """
    called = printable(column, 60)
    words = [cell for cell in cells if not _is_number(cell)]
    if sum(DATE.fullmatch(cell) is not None for cell in words) > NEARLY_ALL * len(cells):
        return f"{called} holds dates: a number instead, such as days since one of them, could be learned from."
    signed = [cell for cell in words if _is_number(SIGNS.sub("", cell))]
    if len(signed) > NEARLY_ALL * len(cells):
        shown = printable(signed[0], 20)
        plain = "plain (1234.5), here and in the private files, it is learned from as a number"
        return f"{called} holds numbers with signs ({shown!r}): {plain}."
    if words and len(words) < (1 - MOST) * len(cells):
        shown = printable(words[0], 20)
        return (
            f"{called} holds numbers, and cells that are none ({shown!r}): with those empty, here and in the private "
            "files, it is learned from as a number."
        )
    return None


def _is_number(cell: str) -> bool:
    return cell not in TRUTH and not math.isnan(cell_number(cell))
