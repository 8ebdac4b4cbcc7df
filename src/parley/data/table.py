"""Reading tables and checking their cells. A message names column and row (the first row of data is 1), never a cell's value."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley.errors import DataError
from parley.validate import Floats

Table = pd.DataFrame | str | Path


def read_table(table: Table) -> pd.DataFrame:
    """A CSV or Parquet file, or a data frame as it is."""
    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True)
    path = Path(table)
    if path.suffix.lower() not in {".csv", ".parquet"}:
        raise DataError(f"{path}: expected a .csv or .parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        return pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except Exception as error:  # pandas and pyarrow raise many kinds, and their texts may quote cells
        raise DataError(f"{path}: cannot be read as {path.suffix[1:]} ({type(error).__name__})") from None


def require_columns(frame: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    """Refuse a table that lacks one of `columns`, with a suggestion where one is close."""
    present = [str(c) for c in frame.columns]
    for column in columns:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(present[:12])}"
            raise DataError(f"{name}: column {column!r} is missing{hint}")
        if present.count(column) > 1:
            raise DataError(f"{name}: column {column!r} appears more than once; expected each column once")


def is_text(column: "pd.Series[Any]") -> bool:
    """Whether a column holds names rather than numbers."""
    return not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def numbers(frame: pd.DataFrame, column: str, name: str) -> Floats:
    """A numeric column as float64; text, missing cells and infinities are refused with their row."""
    series = frame[column]
    if is_text(series):
        converted = pd.to_numeric(series.astype(object), errors="coerce")
        wrong = np.flatnonzero(converted.isna().to_numpy() & series.notna().to_numpy())
        if wrong.size:
            raise DataError(
                f"{name}: column {column!r}, row {wrong[0] + 1}: expected a number; for a column of names declare "
                f"model.categories.{column} or give a public sample"
            )
        series = converted
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "a missing value" if np.isnan(values[bad[0]]) else "an infinity"
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise DataError(f"{name}: column {column!r}, row {bad[0] + 1}: {what}{more}; expected finite numbers")
    return np.ascontiguousarray(values)


def codes(frame: pd.DataFrame, column: str, categories: Sequence[str], name: str) -> Floats:
    """A column of names as integers 0, 1, ...: their place in `categories`; any other name gets the number after the last.

    The list comes from the terms or from public data, so a code never depends on the private table.
    """
    series = frame[column]
    missing = np.flatnonzero(series.isna().to_numpy())
    if missing.size:
        raise DataError(f"{name}: column {column!r}, row {missing[0] + 1}: a missing value; expected a name")
    levels = pd.Categorical(series)
    place = pd.Index(list(categories)).get_indexer(pd.Index(levels.categories.astype(str)))
    lookup = np.where(place < 0, len(categories), place).astype(np.float64)
    return np.asarray(lookup[levels.codes])


def keep_per_person(frame: pd.DataFrame, person: str, limit: int, name: str) -> pd.DataFrame:
    """The first `limit` rows of every person, in the table's order."""
    require_columns(frame, [person], name)
    missing = np.flatnonzero(frame[person].isna().to_numpy())
    if missing.size:
        raise DataError(f"{name}: column {person!r}, row {missing[0] + 1}: a missing value; every row needs its person")
    kept = frame.groupby(person, sort=False, observed=True).cumcount() < limit
    return frame[kept.to_numpy()].reset_index(drop=True)
