"""Which source reads what is given as a table: one line each. A program adds its own kind by adding a line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from parley.data.sources.csv_file import CsvFile
from parley.data.sources.dat_file import DatFile
from parley.data.sources.data_frame import FrameTable
from parley.data.sources.parquet_file import ParquetFile
from parley.data.sources.parquet_folder import ParquetFolder
from parley.data.sources.source import TableSource
from parley.errors import DataError

Table: TypeAlias = pd.DataFrame | str | Path | TableSource  # what people give

FOLDER = "a folder"

# By the ending of a file's name, for any folder, or by the type of what is held in memory.
SOURCES: dict[str | type, Callable[[Any], TableSource]] = {
    ".csv": CsvFile,
    ".dat": DatFile,
    ".parquet": ParquetFile,
    FOLDER: ParquetFolder,
    pd.DataFrame: FrameTable,
}


def find_source(table: Table) -> TableSource:
    """The source of what is given as a table; no row is read yet."""
    if isinstance(table, TableSource):
        return table
    if not isinstance(table, str | Path):
        kind = next((kind for kind in type(table).__mro__ if kind in SOURCES), None)
        if kind is None:
            raise DataError(
                f"a table of type {type(table).__name__}: expected a data frame, or the path of a .csv or .parquet file"
            )
        return SOURCES[kind](table)
    path = Path(table)
    if path.is_dir():
        return SOURCES[FOLDER](path)
    if path.suffix.lower() not in SOURCES:
        raise DataError(f"{path}: expected a .csv or .parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    return SOURCES[path.suffix.lower()](path)


def open_table(table: Table) -> TableSource:
    """The same, looked at, so that what cannot be read at all is refused now: all of it, but for what is streamed."""
    source = find_source(table)
    if not source.streams:
        len(source)
    return source


def held_table(table: Table) -> TableSource:
    """The same with all rows in memory, also of what would be streamed: for an owner's own look at its rows."""
    source = find_source(table)
    return FrameTable(source.frame()) if source.streams else source


def read_table(table: Table) -> pd.DataFrame:
    """All rows at once: of a data frame, a file, or whatever else has a source that does not stream."""
    source = find_source(table)
    if source.streams:
        raise DataError(f"{source.where}: expected a .csv or .parquet file")
    return source.frame()
