"""The rows of a table, part by part in one fixed order, whatever it lies in; and which of them count where people have several."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from parley.data.parquet import AT_ONCE, ParquetTable
from parley.data.table import Opened, Rows, first_rows, require_columns
from parley.errors import DataError
from parley.terms import Privacy

Kept = NDArray[np.bool_] | None  # which rows count; None: all


def parts_of(table: Opened, columns: Sequence[str], kept: Kept = None) -> Iterator[tuple[int, Rows]]:
    """(how many counted rows come before, some rows of these columns), every row that counts once, or an error."""
    place = counted = 0
    for rows in _batches(table, columns):
        here = None if kept is None else kept[place : place + len(rows)]
        place += len(rows)
        if here is not None and not here.all():
            rows = rows[here] if isinstance(rows, pd.DataFrame) else rows.filter(pa.array(here))
        yield counted, rows
        counted += len(rows)


def _batches(table: Opened, columns: Sequence[str]) -> Iterator[Rows]:
    if isinstance(table, ParquetTable):
        table.require_unchanged()
        yield from table.batches(table.groups, columns)
        table.require_unchanged()
    elif len(table) <= AT_ONCE:
        yield table
    else:
        yield from (table.iloc[start : start + AT_ONCE] for start in range(0, len(table), AT_ONCE))


def example_of(table: Opened) -> pd.DataFrame:
    """The names and declared types of a table's columns; how many rows come with them says nothing."""
    return table.example() if isinstance(table, ParquetTable) else table


def frame_of(table: Opened, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """All rows at once, of these columns at least."""
    return table.frame(columns) if isinstance(table, ParquetTable) else table


def streams(table: Opened) -> bool:
    """Whether its rows are never held all at once."""
    return isinstance(table, ParquetTable) and table.streams


def counted_rows(table: Opened, privacy: Privacy, name: str) -> Kept:
    """Of every person the first `privacy.records_per_person` rows count; without `privacy.person` all do."""
    if privacy.person is None:
        return None
    if streams(table):
        raise DataError(
            f"{name}: privacy.person: a streamed table cannot count each person's rows; give one file, or one row a person"
        )
    require_columns(example_of(table), [privacy.person], name)
    return first_rows(frame_of(table, [privacy.person]), privacy.person, privacy.records_per_person, name)


def how_many(table: Opened, kept: Kept) -> int:
    """The rows that count."""
    return len(table) if kept is None else int(np.count_nonzero(kept))
