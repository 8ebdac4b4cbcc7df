"""The cells of a column as checked numbers, names and gaps. Messages name column and row, from 1, never a cell."""

import difflib
from collections import Counter
from collections.abc import Sequence, Set
from datetime import date
from types import NoneType
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from parley.data import cells as arrow_cells
from parley.data.cells import (
    TRUTH_VALUES,
    cell_name,
    cell_number,
    is_missing_word,
    missing_cells,
    plain_name,
    require_readable,
)
from parley.data.dates import day_number
from parley.data.sources.source import Rows, column_names, declared_cells, declared_column, declared_types
from parley.errors import DataError
from parley.terms.keys import fold_name
from parley.validate import Floats

PERSON_NAME = "its person"  # what every row needs where people are told apart


def require_columns(frame: Rows, columns: Sequence[str], name: str) -> None:
    """Refuse a table without one of `columns`, with a suggestion, or with a type that has no meaning here."""
    present = Counter(column_names(frame))
    for column in columns:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "does its first row hold the column names?"
            raise DataError(f"{name}: column {column!r} is missing; {hint}")
        if present[column] > 1:
            raise DataError(f"{name}: column {column!r} appears more than once; rename one of the columns")
    for column, kind in zip(columns, declared_types(frame, columns), strict=True):
        require_readable(kind, column, name)


def is_text(column: "pd.Series[Any]") -> bool:
    """Whether a column holds names rather than numbers."""
    return not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def numbers(frame: Rows, column: str, name: str, gaps: bool = False, hint: str | None = None) -> Floats:
    """Return a numeric column as float64; text, infinities and gaps are refused by row number. With `gaps`, missing
    cells become NaN. `hint`: what to do if the column holds names."""
    values = _declared_numbers(frame, column, name)
    if values is None:
        values = _parsed(frame, column, name, gaps, hint)
    fine = ~np.isinf(values) if gaps else np.isfinite(values)
    if not fine.all():
        bad = np.flatnonzero(~fine)
        what = "the value is missing" if np.isnan(values[bad[0]]) else "the value is infinite"
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise DataError(
            f"{name}: column {column!r}, row {bad[0] + 1}: {what}{more}; expected finite numbers. Fix the file, or set "
            "model.missing"
        )
    return np.ascontiguousarray(values)


def _declared_numbers(frame: Rows, column: str, name: str) -> Floats | None:
    """Return the cells of a column that is declared numeric, NaN for gaps; None for other columns."""
    cells = _declared(frame, column, name)
    if isinstance(cells, pa.Array):
        return arrow_cells.floats(cells)
    return cells.to_numpy(dtype=np.float64, na_value=np.nan) if cells.dtype.kind in "biuf" else None


def _declared(frame: Rows, column: str, name: str) -> "pa.Array | pd.Series[Any]":
    """Return a column as its table declares it; refuse types without a meaning."""
    kind, held = declared_column(frame, column)
    require_readable(kind, column, name)
    return declared_cells(held)


def _parsed(frame: Rows, column: str, name: str, gaps: bool, hint: str | None) -> Floats:
    """Return cells as numbers one by one, missing ones as NaN."""
    words = _as_arrow(frame, column, name)
    plain = None if words is None else arrow_cells.plain_decimals(words)
    if plain is not None:
        return plain
    place, cells = _cells(frame, column, name, gaps)
    parsed = np.array([*map(cell_number, cells), np.nan])  # the last one is for missing cells, place -1
    values: Floats = parsed[place]
    wrong = np.flatnonzero(np.isnan(values) & (place >= 0))
    if wrong.size:
        otherwise = hint or f"for a column of names, declare model.categories.{column} or give a public sample"
        raise DataError(f"{name}: column {column!r}, row {wrong[0] + 1}: expected a number; {otherwise}")
    return values


def days(frame: Rows, column: str, written: str, name: str, gaps: bool = False) -> Floats:
    """Return dates as days since 1970-01-01; a cell that is no date in this format is refused by row, or NaN with
    `gaps`."""
    place, cells = _cells(frame, column, name, gaps=True)
    values: Floats = np.array([*(day_number(cell, written) for cell in cells), np.nan])[place]
    if not gaps and (bad := np.flatnonzero(np.isnan(values))).size:
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise DataError(
            f"{name}: column {column!r}, row {bad[0] + 1}{more}: the value is missing or not a date in the format "
            f"{written} of model.dates; fix the value, or set model.missing"
        )
    return values


def cell_counts(frame: Rows, column: str, name: str) -> Counter[str | date]:
    """Count each date and each name in a column, without gaps."""
    place, cells = _cells(frame, column, name, gaps=True)
    counts = Counter[str | date]()
    for cell, count in zip(cells, np.bincount(place[place >= 0], minlength=len(cells)).tolist(), strict=True):
        counts[cell if isinstance(cell, date) else cell_name(cell) or ""] += count
    return counts


def codes(
    frame: Rows,
    column: str,
    categories: Sequence[str],
    name: str,
    gaps: bool = False,
    listed: Set[str] = frozenset(),
    merged: bool = False,
) -> Floats:
    """Return names as their places in `categories`, 0, 1, ...; any other name gets the number after the last.

    The list comes from the terms or from public data, so a code never depends on the private table. A missing cell is
    refused by row number; with `gaps` it gets the number after that, and so do words for a missing cell, except names
    that are `listed`. "1.0" matches a listed "1", and the reverse. `merged`: ignore capitals and spaces.
    """
    place, called = _names_by_row(frame, column, name, gaps, listed)
    if merged:
        categories, called = [*map(fold_name, categories)], [*map(fold_name, called)]
    if not gaps:
        _require_all(place, column, name, "a name")
    number = _numbered(categories)
    digits = {plain_name(listed): code for listed, code in reversed(number.items())}  # as listed first, then by value
    known = (number.get(text, digits.get(plain_name(text), len(categories))) for text in called)
    lookup = np.array([*known, len(categories) + 1], dtype=np.float64)
    return np.asarray(lookup[place])


def _numbered(categories: Sequence[str]) -> dict[str, int]:
    """Map every name to its place. If only truth values are listed, "True", "true" and "1" are one name."""
    number = {category: code for code, category in enumerate(categories)}
    if not {*categories} <= TRUTH_VALUES.keys():
        return number
    places = {TRUTH_VALUES[category]: code for category, code in reversed(number.items())}
    words = {**TRUTH_VALUES, "0": 0.0, "1": 1.0}
    return {word: places[value] for word, value in words.items() if value in places} | number


def names(frame: Rows, column: str, name: str, gaps: bool = False) -> list[str]:
    """Return the different names in a column, sorted, without gaps; with `gaps`, also without words for them."""
    return sorted({text for text in _names_by_row(frame, column, name)[1] if not (gaps and is_missing_word(text))})


def is_gap(frame: Rows, column: str, name: str, listed: Set[str] = frozenset()) -> NDArray[np.bool_]:
    """Mark the cells that are missing or hold words for that, except names that are `listed` [n]."""
    values = _declared_numbers(frame, column, name)
    if values is not None:
        return np.isnan(values)
    place, cells = _listed_cells(frame, column, name)
    gap = np.array([*_gap_words(cells, listed), True])  # the last is for gaps
    return np.asarray(gap[place])


def _gap_words(cells: Sequence[Any], listed: Set[str]) -> list[bool]:
    """Mark the cells that hold words for a gap, except names that are listed."""
    return [is_missing_word(cell) and cell_name(cell) not in listed for cell in cells]


def raw_cells(
    frame: Rows, column: str, name: str, written: str | None = None
) -> tuple[NDArray[np.int64], list[float], list[str | None]]:
    """Return (the listed cell of each row, -1 for a gap; the cells' numbers or NaN; their names or None); dates as
    days."""
    if written is not None:
        frame = pd.DataFrame({column: days(frame, column, written, name, gaps=True)})
    place, cells = _cells(frame, column, name, gaps=True)
    return place, [cell_number(cell) for cell in cells], [cell_name(cell) for cell in cells]


def keep_per_person(frame: pd.DataFrame, person: str, limit: int, name: str) -> pd.DataFrame:
    """Return the first `limit` rows of every person, in order. One name in the column `person` is one person."""
    return frame[first_rows(frame, person, limit, name)].reset_index(drop=True)


def first_rows(frame: Rows, person: str, limit: int, name: str) -> NDArray[np.bool_]:
    """Mark the rows that are among the first `limit` of their person [n].

    Formal guarantee: if all rows of one person become rows of another, who had none, this stays the same to the row. It
    is a function of which rows belong together, not of people's names or any other cell.
    """
    people = groups(frame, person, name, PERSON_NAME)
    return np.asarray(pd.Series(people).groupby(people).cumcount() < limit)


def groups(frame: Rows, column: str, name: str, what: str) -> NDArray[np.int64]:
    """Number the rows [n] by their name in this column, in order of first appearance; refuse rows without a name."""
    place, called = names_of(frame, column, name, what)
    known: dict[str, int] = {}
    listed = np.array([known.setdefault(text, len(known)) for text in called], dtype=np.int64)[place]
    first: dict[int, int] = {}
    return np.array([first.setdefault(group, len(first)) for group in listed.tolist()], dtype=np.int64)


def names_of(frame: Rows, column: str, name: str, what: str) -> tuple[NDArray[np.int64], list[str]]:
    """Return (the listed name of each row [n]; the list, which may repeat a name); refuse rows without a name.

    Formal guarantee: a row's name follows from its own cell (`cell_name`).
    """
    require_columns(frame, [column], name)
    place, called = _names_by_row(frame, column, name)
    _require_all(place, column, name, what)
    return place, called


def _require_all(place: NDArray[np.int64], column: str, name: str, what: str) -> None:
    missing = np.flatnonzero(place < 0)
    if missing.size:
        raise DataError(
            f"{name}: column {column!r}, row {missing[0] + 1}: the value is missing; every row needs {what}"
        )


def _names_by_row(
    frame: Rows, column: str, name: str, gaps: bool = False, listed: Set[str] = frozenset()
) -> tuple[NDArray[np.int64], list[str]]:
    """Return (the listed name of each row, -1 for a gap; the list, which may repeat a name)."""
    place, cells = _cells(frame, column, name, gaps, listed)
    called = [cell_name(cell) for cell in cells]
    known = [text for text in called if text is not None]
    if len(known) < len(called):
        none = np.array([*(text is None for text in called), False])  # the last one is for gaps, place -1
        raise nameless_cell_error(name, column, int(np.flatnonzero(none[place])[0]) + 1)
    return place, known


def nameless_cell_error(name: str, column: str, row: int, why: str = "") -> DataError:
    """Return the error for a cell that has no name."""
    return DataError(
        f"{name}: column {column!r}, row {row}: expected a name: text, an integer, or a float below 2^53{why}; "
        "write larger numbers as integers, decimals or text"
    )


def _cells(
    frame: Rows, column: str, name: str, gaps: bool = False, listed: Set[str] = frozenset()
) -> tuple[NDArray[np.int64], list[Any]]:
    """Like `_listed_cells`; with `gaps`, words for a missing cell count as one, except names that are `listed`."""
    place, cells = _listed_cells(frame, column, name)
    if not gaps:
        return place, cells
    words = np.array([*_gap_words(cells, listed), False])  # the last one is for gaps, place -1
    return np.where(words[place], -1, place), cells


def _listed_cells(frame: Rows, column: str, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Return (the listed cell of each row, -1 for a missing one; the list). Cells share an entry only if the column's
    type ensures one name and one number: equal cells of mixed types may be written differently."""
    words = _as_arrow(frame, column, name)
    try:
        if words is not None:
            return arrow_cells.distinct_cells(words)
    except UnicodeError:
        raise DataError(f"{name}: column {column!r}: the text is not UTF-8; convert the file to UTF-8") from None
    except pa.ArrowException as error:  # its text may quote cells
        raise DataError(f"{name}: column {column!r}: the cells cannot be read ({type(error).__name__})") from None
    series = cast("pd.Series[Any]", _declared(frame, column, name))
    if isinstance(series.dtype, pd.CategoricalDtype):
        return np.asarray(series.cat.codes, dtype=np.int64), list(series.cat.categories.astype(object))
    if series.dtype.kind in "biufmM":
        place, kinds = pd.factorize(series)
        try:
            return np.asarray(place, dtype=np.int64), list(kinds)
        except (NotImplementedError, ValueError, OverflowError) as error:  # a time in no calendar: the text quotes it
            raise DataError(f"{name}: column {column!r}: the cells cannot be read ({type(error).__name__})") from None
    cells = series.to_numpy(dtype=object)
    present = ~missing_cells(cells)
    return np.where(present, np.cumsum(present) - 1, -1), cells[present].tolist()


def _as_arrow(frame: Rows, column: str, name: str) -> pa.Array | None:
    """Return an Arrow or text column as Arrow holds it; None for others."""
    series = _declared(frame, column, name)
    return series if isinstance(series, pa.Array) else _text_as_arrow(series)


def _text_as_arrow(series: "pd.Series[Any]") -> pa.Array | None:
    """Return a column of text and gaps alone as an Arrow array, which means the same; None for other columns."""
    if series.dtype != object or not set(map(type, cells := series.to_numpy())) <= {str, NoneType}:
        return None
    try:
        return pa.array(cells, pa.large_string(), from_pandas=True)
    except UnicodeError:  # half a character, which Python holds and Arrow does not
        return None
