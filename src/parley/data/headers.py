"""What may be known of a private table before anybody agreed on anything: the names of its columns and how many rows it has.

Formal guarantee: a `Header` depends on the line of names and the number of rows alone, both of which terms state in public. Where people
have several rows, what counts is how many rows are among the first k of their person: that is read off the cells of one column, and
depends on which rows belong together and on nothing else of them (`table.first_rows`). So replacing one person, by somebody who has no
other row, leaves it as it is. Whether a column holds numbers or names can hang on a single cell: `column_kinds` is a function of its own,
and whoever calls it for a private table makes that much public.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from parley.data.cells import TRUTH
from parley.data.parts import example_of, frame_of, parts_of, streams
from parley.data.streamed import open_table
from parley.data.table import Opened, first_rows, is_text, names, numbers, require_columns
from parley.errors import DataError

Kind = Literal["number", "names"]


@dataclass(frozen=True)
class Header:
    """The names of a table's columns, and how many of its rows count."""

    columns: tuple[str, ...]
    rows: int


def read_header(path: Path, person: str | None = None, records_per_person: int = 1) -> Header:
    """Names and rows of a table; with `person` the rows that count, the first `records_per_person` of everybody."""
    _require_once(path)
    table = open_table(path)
    rows = len(table)
    if person is not None:
        if streams(table):
            raise DataError(f"{path}: privacy.person: a folder of files cannot count each person's rows; give one file")
        require_columns(example_of(table), [person], str(path))
        rows = int(first_rows(frame_of(table, [person]), person, records_per_person, str(path)).sum())
    if not rows:
        raise DataError(f"{path}: expected at least one row below the line of names")
    return Header(tuple(str(column) for column in example_of(table).columns), rows)


def _require_once(path: Path) -> None:
    """Refuse a text file whose line of names has one twice: who reads it gives the second another name, and nobody would notice."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
    except (OSError, UnicodeError):  # whoever opens the table says so
        return
    if not head.strip():
        raise DataError(f"{path}: is empty, or its first line is; expected the names of the columns there")
    found = Counter(next(csv.reader([head], delimiter=";" if head.count(";") > head.count(",") else ","), []))
    twice = [name for name, count in found.items() if count > 1 and name]
    if twice:
        raise DataError(f"{path}: column {twice[0]!r} appears more than once; give one of them another name")


def column_kinds(table: Path | pd.DataFrame, columns: Sequence[str], name: str) -> dict[str, Kind]:
    """Whether each column holds numbers or names, gaps apart. It looks at cells of columns that are not declared to hold numbers."""
    found = table if isinstance(table, pd.DataFrame) else open_table(table)
    example = example_of(found)
    require_columns(example, columns, name)
    return {column: _kind(found, example, column, name) for column in columns}


def _kind(table: Opened, example: pd.DataFrame, column: str, name: str) -> Kind:
    if not is_text(example[column]):
        return "number"
    for _, rows in parts_of(table, [column]):
        try:
            numbers(rows, column, name, gaps=True)
        except DataError:
            return "names"
        if TRUTH.keys() & {*names(rows, column, name, gaps=True)}:
            return "names"
    return "number"
