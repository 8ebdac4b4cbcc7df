"""Columns not learned from as they are: those that identify people, and names that look like numbers. Only names of
columns and public cells are read, and public cells may be shown."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from parley.data.cells import TRUTH_VALUES, cell_number
from parley.data.table import cell_counts, names, numbers
from parley.terms.keys import fold_name
from parley.validate import printable

# who somebody is
IDENTIFYING_NAME = re.compile(
    r"(^|[^a-z])(id|ids|pid|uid|uuid|guid|ssn|email|e-mail|name|surname|phone|iban|imei|imsi|msisdn)$"
)
NUMBERING_NAME = re.compile(r"(^|[^a-z])(no|nr|num|number|key|ref|code)$")  # of people, if no two rows have the same
CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")  # customerID
MIN_SERIAL_NUMBER = 1e9  # numbers of people, accounts, telephones have at least so many digits
UNIQUE_SHARE = 0.95  # share of rows with a value of their own, from which on a column tells people apart
MIN_JUDGED_ROWS = 20  # that tell so
ID_DIGITS = 6  # digits, as many in every row: numbers of accounts or cards
NUMERIC_SHARE = 0.5  # share of a column's different cells from which on it looks like numbers, with others among them
SIGNED_SHARE = 0.9
NUMBER_SIGNS = re.compile(r"[$€£¥%\s]|(?<=\d)[,'](?=\d)")


def has_identifying_name(column: str) -> bool:
    """Return whether a column's name says that it identifies people."""
    return IDENTIFYING_NAME.search(_spaced(column)) is not None


def _spaced(column: str) -> str:
    return CAMEL_CASE_BOUNDARY.sub("_", column).lower()


def identifies_people(public: pd.DataFrame, column: str, numeric: bool) -> bool:
    """Return whether nearly every public row has its own value there: a name, or a whole number that counts rows.
    Amounts may differ, too; identifiers have a telling name, equal lengths, or hardly a gap."""
    count = cell_counts(public, column, "public sample")
    rows, own = sum(count.values()), sum(times == 1 for times in count.values())
    if not numeric:
        return rows >= MIN_JUDGED_ROWS and own >= UNIQUE_SHARE * rows
    values = numbers(public, column, "public sample", gaps=True)
    values = values[~np.isnan(values)]
    if own < UNIQUE_SHARE * rows or rows < 2 or not np.all((values % 1 == 0) & (values >= 0)):
        return False
    low, high = float(values.min()), float(values.max())
    if rows < MIN_JUDGED_ROWS:
        return low >= MIN_SERIAL_NUMBER
    alike = low >= 10 ** (ID_DIGITS - 1) and len(f"{low:.0f}") == len(f"{high:.0f}")
    return (
        low >= MIN_SERIAL_NUMBER or alike or high - low < 2 * rows or NUMBERING_NAME.search(_spaced(column)) is not None
    )


def spelled_alike(public: pd.DataFrame, column: str) -> list[list[str]]:
    """Group the names of a public column that differ only in capitalisation or spaces."""
    groups: dict[str, list[str]] = {}
    for name in names(public, column, "public sample", gaps=True):
        groups.setdefault(fold_name(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def alike_words(column: str, groups: Sequence[Sequence[str]]) -> str:
    """Show a few of these names, so that somebody can decide whether they are one."""
    shown = "; ".join(" and ".join(repr(printable(name, 30)) for name in group) for group in groups[:3])
    more = f"; {len(groups) - 3} more" if len(groups) > 3 else ""
    return f"{printable(column, 60)} has names that differ only in capitalisation or spaces ({shown}{more})"


def odd_columns(public: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return a sentence for each column of names whose cells look like numbers."""
    return [said for column in columns if (said := _odd(column, names(public, column, "public sample", gaps=True)))]


def _odd(column: str, cells: Sequence[str]) -> str | None:
    """Say what looks odd about a column with these different cells.

    >>> _odd("paid", ["$1,200.50", "$90.00"])[:43]
    "paid holds numbers with signs ('$1,200.50')"
    """
    called = printable(column, 60)
    words = [cell for cell in cells if not _is_number(cell)]
    signed = [cell for cell in words if _is_number(NUMBER_SIGNS.sub("", cell))]
    if len(signed) > SIGNED_SHARE * len(cells):
        shown = printable(signed[0], 20)
        plain = "plain (1234.5), here and in the private files, it is learned from as a number"
        return f"{called} holds numbers with signs ({shown!r}): {plain}."
    if words and len(words) < (1 - NUMERIC_SHARE) * len(cells):
        shown = printable(words[0], 20)
        return (
            f"{called} holds numbers, and cells that are none ({shown!r}): with those empty, here and in the private "
            "files, it is learned from as a number."
        )
    return None


def _is_number(cell: str) -> bool:
    return cell not in TRUTH_VALUES and not math.isnan(cell_number(cell))
