"""What a table shows before any agreement, its column names and number of rows; and its values beside agreed ranges.

Formal guarantee: a `Header` depends on the line of names and the number of rows alone, both of which terms state in
public. If people have several rows, it counts the rows among the first k of their person. That is read from the cells
of one column, and depends only on which rows belong together (`table.first_rows`). So replacing one person by somebody
who has no other row leaves it unchanged. Whether a column holds numbers, names or dates, and how dates are written, can
depend on a single cell: whoever calls `column_kinds` or `written_dates` for a private table makes that much public.
`ranges` is for the owner alone: nothing in it is noised, and nothing of it may leave.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from parley.data.cells import TRUTH_VALUES
from parley.data.dates import WrittenDates
from parley.data.holdout import CountedRows, parts_of
from parley.data.sources import Rows, Table, TableSource, find_source, open_table
from parley.data.table import cell_counts, days, first_rows, is_text, names, numbers, require_columns
from parley.errors import DataError
from parley.validate import Floats

Kind = Literal["number", "names", "dates"]


@dataclass(frozen=True)
class Header:
    """The names of a table's columns, and how many of its rows count."""

    columns: tuple[str, ...]
    rows: int


def read_header(path: Path, person: str | None = None, records_per_person: int = 1) -> Header:
    """Return a table's names and rows; with `person`, the first `records_per_person` rows of every person count."""
    table = find_source(path)
    table.require_header()
    rows = len(table)
    if person is not None:
        if table.streams:
            raise DataError(
                f"{path}: privacy.person: Parley cannot count rows per person in a folder of files; give one file"
            )
        require_columns(table.example, [person], str(path))
        rows = int(first_rows(table.frame([person]), person, records_per_person, str(path)).sum())
    if not rows:
        raise DataError(f"{path}: the table has no rows below its header; expected at least one")
    return Header(tuple(str(column) for column in table.example.columns), rows)


def column_kinds(table: Table, columns: Sequence[str], name: str) -> dict[str, Kind]:
    """Tell whether each column holds numbers, names or dates; this reads cells of columns not declared numeric."""
    source = open_table(table)
    example = source.example
    require_columns(example, columns, name)
    return {column: _kind(source, example, column, name) for column in columns}


def _kind(table: TableSource, example: pd.DataFrame, column: str, name: str) -> Kind:
    if not is_text(example[column]):
        return "number"
    for _, rows in parts_of(table, [column]):
        try:
            numbers(rows, column, name, gaps=True)
        except DataError:
            return "names" if written_dates([table], column, name) is None else "dates"
        if TRUTH_VALUES.keys() & {*names(rows, column, name, gaps=True)}:
            return "names"
    return "number"


def written_dates(tables: Sequence[Table], column: str, name: str) -> WrittenDates | None:
    """Return how a column's dates are written; None for other columns. Like `column_kinds` it reads cells."""
    cells = Counter[str | date]()
    for _, rows in chain.from_iterable(parts_of(open_table(table), [column]) for table in tables):
        cells += cell_counts(rows, column, name)
    return WrittenDates.from_cells(cells)


@dataclass(frozen=True)
class Range:
    """The ends of a column, and the share of its rows outside the agreed ones."""

    low: float
    high: float
    outside: float


def ranges(
    table: Table,
    agreed: Mapping[str, tuple[float, float]],
    name: str,
    kept: CountedRows = None,
    dates: Mapping[str, str] | None = None,
) -> dict[str, Range]:
    """Return the range of every `agreed` column over the rows that count, in one pass; none without rows."""

    def read(part: Rows, column: str) -> Floats:
        written = (dates or {}).get(column)
        return numbers(part, column, name, gaps=True) if written is None else days(part, column, written, name, True)

    if not agreed:
        return {}
    low, high = np.array(list(agreed.values())).T[:, :, None]
    lows, highs, beyond, rows = [], [], np.zeros(len(agreed)), 0
    for _, part in parts_of(open_table(table), list(agreed), kept):
        values: Floats = np.stack([read(part, column) for column in agreed])
        if values.shape[1]:
            lows.append(np.fmin.reduce(values, axis=1))  # a gap is nowhere
            highs.append(np.fmax.reduce(values, axis=1))
            beyond += ((values < low) | (values > high)).sum(axis=1)
            rows += values.shape[1]
    if not rows:
        return {}
    facts_by_column = zip(np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0), beyond / rows, strict=True)
    return {column: Range(*map(float, facts)) for column, facts in zip(agreed, facts_by_column, strict=True)}
