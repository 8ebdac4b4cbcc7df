"""What may be known of a private table before anybody agreed on anything: the names of its columns and how many rows it
has.

Formal guarantee: a `Header` depends on the line of names and the number of rows alone, both of which terms state in
public. Where people have several rows, what counts is how many rows are among the first k of their person: that is read
off the cells of one column, and depends on which rows belong together and on nothing else of them (`table.first_rows`).
So replacing one person, by somebody who has no other row, leaves it as it is. Whether a column holds numbers, names or
dates, and how dates are written, can hang on a single cell: `column_kinds` and `written_dates` are functions of their
own, and whoever calls them for a private table makes that much public.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Literal

import pandas as pd

from parley.data.cells import TRUTH
from parley.data.dates import WrittenDates
from parley.data.holdout import parts_of
from parley.data.sources import Table, TableSource, find_source, open_table
from parley.data.table import cell_counts, first_rows, is_text, names, numbers, require_columns
from parley.errors import DataError

Kind = Literal["number", "names", "dates"]


@dataclass(frozen=True)
class Header:
    """The names of a table's columns, and how many of its rows count."""

    columns: tuple[str, ...]
    rows: int


def read_header(path: Path, person: str | None = None, records_per_person: int = 1) -> Header:
    """Names and rows of a table; with `person` the rows that count, the first `records_per_person` of everybody."""
    table = find_source(path)
    table.require_header()
    rows = len(table)
    if person is not None:
        if table.streams:
            raise DataError(f"{path}: privacy.person: a folder of files cannot count each person's rows; give one file")
        require_columns(table.example, [person], str(path))
        rows = int(first_rows(table.frame([person]), person, records_per_person, str(path)).sum())
    if not rows:
        raise DataError(f"{path}: expected at least one row below the line of names")
    return Header(tuple(str(column) for column in table.example.columns), rows)


def column_kinds(table: Table, columns: Sequence[str], name: str) -> dict[str, Kind]:
    """Whether each column holds numbers, names or dates, gaps apart. It looks at cells of columns that are not declared
    to hold numbers."""
    found = open_table(table)
    example = found.example
    require_columns(example, columns, name)
    return {column: _kind(found, example, column, name) for column in columns}


def _kind(table: TableSource, example: pd.DataFrame, column: str, name: str) -> Kind:
    if not is_text(example[column]):
        return "number"
    for _, rows in parts_of(table, [column]):
        try:
            numbers(rows, column, name, gaps=True)
        except DataError:
            return "names" if written_dates([table], column, name) is None else "dates"
        if TRUTH.keys() & {*names(rows, column, name, gaps=True)}:
            return "names"
    return "number"


def written_dates(tables: Sequence[Table], column: str, name: str) -> WrittenDates | None:
    """How a column's dates are written; None for a column of something else. Like `column_kinds` it looks at cells."""
    cells = Counter[str | date]()
    for _, rows in chain.from_iterable(parts_of(open_table(table), [column]) for table in tables):
        cells += cell_counts(rows, column, name)
    return WrittenDates.of(cells)
