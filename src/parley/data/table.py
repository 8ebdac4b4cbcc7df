"""Reading tables and checking their cells. A message names column and row (the first row of data is 1), never a cell's value."""

import difflib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from parley.errors import DataError
from parley.validate import Floats

Table = pd.DataFrame | str | Path
Rows: TypeAlias = "pd.DataFrame | pa.RecordBatch"  # in memory, or some rows of a Parquet file as they come


def read_table(table: Table) -> pd.DataFrame:
    """A CSV or Parquet file, or a data frame as it is."""
    if isinstance(table, pd.DataFrame):
        frame = table.reset_index(drop=True)
        frame.columns = frame.columns.map(str)
        return frame
    if not isinstance(table, str | Path):
        raise DataError(f"a table of type {type(table).__name__}: expected a data frame, or the path of a .csv or .parquet file")
    path = Path(table)
    if path.suffix.lower() not in {".csv", ".parquet"}:
        raise DataError(f"{path}: expected a .csv or .parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        # Text cells, converted one by one later: guessing a column's type would let one cell change how all others are read.
        return pd.read_csv(path, dtype=str, index_col=False) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except Exception as error:  # pandas and pyarrow raise many kinds, and their texts may quote cells
        raise DataError(f"{path}: cannot be read as {path.suffix[1:]} ({type(error).__name__})") from None


def require_columns(frame: Rows, columns: Sequence[str], name: str) -> None:
    """Refuse a table that lacks one of `columns`, with a suggestion where one is close."""
    present = Counter(str(c) for c in (frame.columns if isinstance(frame, pd.DataFrame) else frame.schema.names))
    for column in columns:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "is its first row the names of the columns?"
            raise DataError(f"{name}: column {column!r} is missing; {hint}")
        if present[column] > 1:
            raise DataError(f"{name}: column {column!r} appears more than once; expected each column once")


def is_text(column: "pd.Series[Any]") -> bool:
    """Whether a column holds names rather than numbers."""
    return not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def numbers(frame: Rows, column: str, name: str) -> Floats:
    """A numeric column as float64; text, missing cells and infinities are refused with their row."""
    values = _plain_numbers(frame, column)
    if values is None:
        series = _series(frame, column, name)
        values = _parsed(frame, column, name) if is_text(series) else series.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = np.isfinite(values)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        what = "a missing value" if np.isnan(values[bad[0]]) else "an infinity"
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise DataError(f"{name}: column {column!r}, row {bad[0] + 1}: {what}{more}; expected finite numbers")
    return np.ascontiguousarray(values)


def _plain_numbers(frame: Rows, column: str) -> Floats | None:
    """The numbers of a Parquet column without gaps as they lie in memory; None where pandas has to look at them."""
    if isinstance(frame, pd.DataFrame):
        return None
    cells = frame.column(column)
    kind = cells.type
    if cells.null_count or not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return None
    return np.asarray(cells.to_numpy(zero_copy_only=False), dtype=np.float64)


def _series(frame: Rows, column: str, name: str) -> "pd.Series[Any]":
    """A column as pandas sees it."""
    if isinstance(frame, pd.DataFrame):
        return frame[column]
    try:
        found: pd.Series[Any] = frame.select([column]).to_pandas()[column]
    except Exception as error:  # as in `read_table`
        raise DataError(f"{name}: column {column!r}: its cells cannot be read ({type(error).__name__})") from None
    return found


def _parsed(frame: Rows, column: str, name: str) -> Floats:
    """Text cells as numbers, missing ones as NaN."""
    place, kinds = _kinds(frame, column, name)
    parsed = np.array([*(_number(kind) for kind in kinds), np.nan])  # the last one is for missing cells, place -1
    values: Floats = parsed[place]
    wrong = np.flatnonzero(np.isnan(values) & (place >= 0))
    if wrong.size:
        raise DataError(
            f"{name}: column {column!r}, row {wrong[0] + 1}: expected a number; for a column of names declare "
            f"model.categories.{column} or give a public sample"
        )
    return values


def codes(frame: Rows, column: str, categories: Sequence[str], name: str) -> Floats:
    """A column of names as integers 0, 1, ...: their place in `categories`; any other name gets the number after the last.

    The list comes from the terms or from public data, so a code never depends on the private table.
    """
    place, kinds = _kinds(frame, column, name)
    missing = np.flatnonzero(place < 0)
    if missing.size:
        raise DataError(f"{name}: column {column!r}, row {missing[0] + 1}: a missing value; expected a name")
    number = {category: code for code, category in enumerate(categories)}
    lookup = np.array([number.get(_cell_name(kind), len(categories)) for kind in kinds], dtype=np.float64)
    return np.asarray(lookup[place])


def names(frame: pd.DataFrame, column: str, name: str) -> list[str]:
    """The different names in a column, sorted."""
    return sorted({_cell_name(kind) for kind in _kinds(frame, column, name)[1]})


def _kinds(frame: Rows, column: str, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """(which of the different cells each row holds, -1 for a missing one; the different cells)."""
    if not isinstance(frame, pd.DataFrame) and (found := _words(frame.column(column))) is not None:
        return found
    try:
        place, kinds = pd.factorize(_series(frame, column, name).astype(object))
    except TypeError:
        raise DataError(f"{name}: column {column!r}: expected numbers or names in its cells") from None
    return place, list(kinds)


def _words(cells: pa.Array) -> tuple[NDArray[np.int64], list[Any]] | None:
    """The same for a Parquet column of text, without a Python object for every cell; None for other columns."""
    words = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        return None
    encoded = words.dictionary_encode()
    return encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(), encoded.dictionary.to_pylist()


def _cell_name(cell: Any) -> str:
    """What a cell is called, whatever type its column was given: 1, 1.0 and "1" are the same name.

    A function of the cell alone, so that no record changes how another one is read.
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int | float | np.number | np.bool_) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def keep_per_person(frame: pd.DataFrame, person: str, limit: int, name: str) -> pd.DataFrame:
    """The first `limit` rows of every person, in the table's order."""
    require_columns(frame, [person], name)
    place, kinds = _kinds(frame, person, name)
    missing = np.flatnonzero(place < 0)
    if missing.size:
        raise DataError(f"{name}: column {person!r}, row {missing[0] + 1}: a missing value; every row needs its person")
    people = pd.factorize(np.array([_cell_name(kind) for kind in kinds], dtype=object))[0][place]
    kept = pd.Series(people).groupby(people).cumcount() < limit
    return frame[kept.to_numpy()].reset_index(drop=True)
