"""The formats of columns of dates, and ends of ranges that people give as dates."""

import shlex
from collections.abc import Sequence

from parley.data.dates import ISO_FORMAT, WrittenDates, day_number
from parley.data.headers import written_dates
from parley.data.sources import Table
from parley.errors import SettingError
from parley.numerals import counted
from parley.terms.keys import DATE_FORMAT, date_pattern
from parley.validate import printable


def option_words(option: str, column: str, value: str = "") -> str:
    """Return an option about a column, quoted for a shell.

    >>> option_words("--dates", "seen", "=%d/%m/%Y"), option_words("--merge", "last job")
    ('--dates seen=%d/%m/%Y', "--merge 'last job'")
    """
    argument = f"{printable(column, 60)}{value}"
    return f"{option} {shlex.quote(argument) if ' ' in argument else argument}"


class AmbiguousDatesError(SettingError):
    """Every date of a column can be read in several ways; a person must choose."""

    def __init__(self, column: str, formats: Sequence[str]) -> None:
        self.column, self.formats = column, tuple(formats)
        called = printable(column, 60)
        ways = " or ".join(option_words("--dates", column, f"={each}") for each in formats)
        super().__init__(f"{called}: every date can be read as {' and as '.join(formats)}; say which: {ways}")


def found_format(tables: Sequence[Table], column: str, where: str, public: bool) -> tuple[str, str]:
    """Return (the format of a column of dates, a sentence about it); raise an error if it has several, or is unknown.
    No message holds a cell's value. The sentence goes into the terms, so it counts rows only if the tables are
    `public`."""
    written, called = written_dates(tables, column, where), printable(column, 60)
    if written is None:
        raise SettingError(
            f"{called}: fewer than 90% of the rows in {where} have a date in a usual format; give the date format, "
            f"{option_words('--dates', column, '=%Y-%m-%d')}, or the column's names, "
            f"{option_words('--categories', column, '=A,B,C')}"
        )
    first, *more = written.formats
    if written.others:
        raise SettingError(
            f"{called}: {_rows(written, written.others)} in {where} have dates in a format other than {first}. Write "
            f"all dates in one format, or give {option_words('--dates', column, f'={first}')} to count the other dates "
            "as missing cells"
        )
    if more:
        raise AmbiguousDatesError(column, written.formats)
    gone = (
        f"; {_rows(written, written.words)} in {where} hold none, and count as missing cells"
        if public and written.words
        else ""
    )
    return first, f"{date_words(column, first)}{gone}."


def dates_as_target(target: str) -> SettingError:
    """Return the error for a target that holds dates."""
    return SettingError(
        f"--target {printable(target, 60)}: holds dates; expected a number or classes. Give a column with a number "
        "instead, such as days until then"
    )


def date_words(column: str, written: str) -> str:
    """Say what becomes of a column of dates."""
    return f"{printable(column, 60)} holds dates ({written}), learned as days since 1970-01-01"


def _rows(found: WrittenDates, some: int) -> str:
    return f"{some:,} of {counted(found.rows + found.others + found.words, 'row')}"


def require_format(column: str, written: str) -> str:
    """Return the format that a person gave a column of dates; raise an error if it is invalid."""
    if date_pattern(written) is None:
        raise SettingError(f"--dates {printable(column, 60)}={printable(written, 40)}: expected {DATE_FORMAT}")
    return written


def range_ends(words: Sequence[str]) -> tuple[tuple[float, float], bool] | None:
    """Return (the two ends of a range, whether they were dates); None if they are neither numbers nor dates.

    >>> range_ends(["0", "5.5"]), range_ends(["1970-01-01", "1970-02-01"]), range_ends(["car", "house"])
    (((0.0, 5.5), False), ((0.0, 31.0), True), None)
    """
    dates = [day_number(word, ISO_FORMAT) for word in words]
    if len(words) != 2:
        return None
    try:
        low, high = (float(word) for word in words)
    except ValueError:
        low, high = dates
        return ((low, high), True) if low < high else None
    return (low, high), False
