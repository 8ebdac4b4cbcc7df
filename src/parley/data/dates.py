"""Dates as days since 1970-01-01, by the one format of a column; and the formats of public cells.

Formal guarantee: `day_number` is a function of the cell and the format alone, the same on every machine. Months have
English names, two digits of a year mean 1969 to 2068, and the time of day is ignored.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from parley.data.cells import cell_name, plain_name
from parley.terms.keys import date_pattern

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_MONTH_NAMES = "january,february,march,april,may,june,july,august,september,october,november,december"
_MONTH_NUMBERS = {called: place for place, name in enumerate(_MONTH_NAMES.split(","), 1) for called in (name, name[:3])}
_DAY_FORMATS = ("%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%d-%b-%Y", "%d-%b-%y", "%b-%Y")
_TIME_FORMATS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M:%SZ", " %H:%M:%S.%f", "T%H:%M:%S.%f", "T%H:%M:%S.%fZ")
ISO_FORMAT, AMERICAN_FORMAT = "%Y-%m-%d", "%b %d, %Y"
MAX_CELLS_EXAMINED = 1000  # different cells, for their formats
MIN_DATE_SHARE = 0.9  # share of the rows with a value from which on a column is one of dates


def day_number(cell: Any, written: str) -> float:
    """Return the days from 1970-01-01 to a cell's date; NaN if it is none in this format.

    A cell of a date type is that date, whatever the format of text.

    >>> day_number("24.12.2019", "%d.%m.%Y"), day_number("1-Feb-70", "%d-%b-%y"), day_number(20191224, "%Y%m%d")
    (18254.0, 31.0, 18254.0)
    >>> day_number("24.12.2019", "%m.%d.%Y"), day_number(date(1970, 1, 2), "%m.%d.%Y")
    (nan, 1.0)
    """
    try:
        if isinstance(cell, np.datetime64):
            cell = pd.Timestamp(cell)
        if isinstance(cell, date):  # a datetime is one, too
            return float(cell.toordinal() - EPOCH_ORDINAL)
    except (ValueError, OverflowError, NotImplementedError):  # beyond what calendars hold
        return math.nan
    pattern, text = date_pattern(written), cell_name(cell)
    if text is None or pattern is None:
        return math.nan
    # "20191224.0", as tools write whole numbers in a column with gaps
    matched = pattern.fullmatch(text.strip()) or pattern.fullmatch(plain_name(text.strip()))
    return math.nan if matched is None else _days(matched.groupdict())


def _days(parts: Mapping[str, str]) -> float:
    year = int(parts["Y"]) if "Y" in parts else (int(parts["y"]) + 31) % 100 + 1969
    month = int(parts["m"]) if "m" in parts else _MONTH_NUMBERS.get(parts.get("b", parts.get("B", "")).lower())
    day = int(parts.get("d", 1))
    times = (("H", 23), ("M", 59), ("S", 60))
    if month is None or any(int(parts.get(part, 0)) > most for part, most in times):
        return math.nan
    try:
        return float(date(year, month, day).toordinal() - EPOCH_ORDINAL)
    except ValueError:  # no such day
        return math.nan


def date_of(days: float) -> date:
    """Return the date `days` after 1970-01-01, or the nearest that exists.

    >>> date_of(18254.0), date_of(-1e300)
    (datetime.date(2019, 12, 24), datetime.date(1, 1, 1))
    """
    return date.fromordinal(int(min(max(days + EPOCH_ORDINAL, 1), date.max.toordinal())))


@dataclass(frozen=True)
class WrittenDates:
    """The formats of a column's dates, with numbers of rows."""

    formats: tuple[str, ...]  # those that read most rows; one, unless day and month cannot be told apart
    rows: int  # that they read
    others: int  # dates in another format
    words: int  # with a value that is no date

    @classmethod
    def from_cells(cls, cells: Mapping[str | date, int]) -> "WrittenDates | None":
        """Find the formats from different cells and their counts; None if fewer than nine rows in ten are dates.

        >>> WrittenDates.from_cells({"1/2/2020": 3, "25/2/2020": 97})
        WrittenDates(formats=('%d/%m/%Y',), rows=100, others=0, words=0)
        """
        usual = [each for cell in islice(cells, MAX_CELLS_EXAMINED) for each in _formats_of(cell)]
        if not usual:
            return None
        counts, total = list(cells.values()), sum(cells.values())
        fits = {each: np.array([not math.isnan(day_number(cell, each)) for cell in cells]) for each in sorted({*usual})}
        rows = {each: int(np.dot(is_date, counts)) for each, is_date in fits.items()}
        dates, best = int(np.dot(np.any(list(fits.values()), axis=0), counts)), max(rows.values())
        if dates < MIN_DATE_SHARE * total:
            return None
        return cls(tuple(each for each in rows if rows[each] == best), best, dates - best, total - dates)


def _formats_of(cell: str | date) -> Iterator[str]:
    """Yield the usual formats in which a cell can be read."""
    if isinstance(cell, date):
        yield ISO_FORMAT
        return
    text = cell.strip()
    if not (6 <= len(text) <= 40 and {*text} & {*"0123456789"}):
        return
    for mark in {*text} & {*"-/. "}:
        for days in _DAY_FORMATS:
            for times in _TIME_FORMATS:
                written = days.replace("-", mark) + times
                if not math.isnan(day_number(text, written)):
                    yield written
    if not math.isnan(day_number(text, AMERICAN_FORMAT)):
        yield AMERICAN_FORMAT
