"""The source for each kind of table. To support another kind, add a line to `SOURCES`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from parley.data.sources.arrow_file import ArrowFile
from parley.data.sources.csv_file import csv_file
from parley.data.sources.files import StoredFile
from parley.data.sources.held import DatFile, FrameTable
from parley.data.sources.parquet import ParquetFile, ParquetFolder
from parley.data.sources.source import TableSource
from parley.durable import store_address
from parley.errors import DataError

Table: TypeAlias = pd.DataFrame | str | Path | TableSource  # what people give

FOLDER_KIND = "a folder"

SUPPORTED_FILES = "give a .csv or .parquet file, or .csv.gz, .csv.zst, .tsv, .arrow or .feather"

# By the ending of a file's name, for any folder, or by the type of what is held in memory. What is given is a path, or
# a `DataFile` where it lies in an object store.
SOURCES: dict[str | type, Callable[..., TableSource]] = {
    ".csv": csv_file,
    ".dat": DatFile,
    ".parquet": ParquetFile,
    ".arrow": ArrowFile,
    FOLDER_KIND: ParquetFolder,
    pd.DataFrame: FrameTable,
}
LOCAL_ENDINGS = (".dat",)  # what is not read from object stores

# Endings of files that are read as those of another ending are.
EQUIVALENT_ENDINGS = {
    ".csv.gz": ".csv",
    ".csv.zst": ".csv",
    ".tsv": ".csv",
    ".tsv.gz": ".csv",
    ".tsv.zst": ".csv",
    ".feather": ".arrow",
}


def find_source(table: Table, separator: str | None = None, encoding: str | None = None) -> TableSource:
    """Return a table's source without reading rows. Only CSV files take a separator and an encoding."""
    if separator is None and encoding is None:
        return _source(table, {})
    return _source(table, {"separator": separator, "encoding": encoding})


def _source(table: Table, options: dict[str, str | None]) -> TableSource:
    if isinstance(table, TableSource):
        return table
    if not isinstance(table, str | Path):
        kind = next((kind for kind in type(table).__mro__ if kind in SOURCES), None)
        if kind is None:
            raise DataError(
                f"a table cannot be a {type(table).__name__}; give a data frame or the path of a .csv or .parquet file"
            )
        return SOURCES[kind](table)
    address = store_address(table)
    if address is not None:
        stored = StoredFile(address)
        return _opened(FOLDER_KIND if stored.is_folder() else _ending(stored.name, address), stored, address, options)
    path = Path(table)
    if path.is_dir():
        return _opened(FOLDER_KIND, path, str(path), options)
    ending = _ending(path.name, str(path))
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the name")
    return _opened(ending, path, str(path), options)


def _opened(kind: str, place: Path | StoredFile, where: str, options: dict[str, str | None]) -> TableSource:
    if isinstance(place, StoredFile) and kind in LOCAL_ENDINGS:
        raise DataError(f"{where}: Parley reads files of this kind only from a local disk; {SUPPORTED_FILES}")
    if options and SOURCES[kind] is not csv_file:
        raise DataError(f"{where}: only CSV files have a separator or an encoding; remove the option")
    return SOURCES[kind](place, **options)


def _ending(name: str, where: str) -> str:
    """Return the longest ending of a file's name that has a source."""
    parts = name.lower().split(".")
    endings = ["." + ".".join(parts[start:]) for start in range(1, len(parts))]
    known = next((ending for ending in endings if ending in SOURCES or ending in EQUIVALENT_ENDINGS), None)
    if known is None:
        raise DataError(f"{where}: {SUPPORTED_FILES}")
    return known if known in SOURCES else EQUIVALENT_ENDINGS[known]


def open_table(table: Table, separator: str | None = None, encoding: str | None = None) -> TableSource:
    """Return a table's source after reading all rows once, to refuse unreadable cells now; streamed tables are not
    read."""
    source = find_source(table, separator, encoding)
    if not source.streams:
        len(source)
    return source


def held_table(table: Table) -> TableSource:
    """Return a source whose prepared rows are always held in memory: for studies, and for an owner's own use."""
    return find_source(table).gathered()


def read_table(table: Table) -> pd.DataFrame:
    """Return all rows at once.

    Parameters
    ----------
    table
        A data frame, a file, or anything else whose source does not stream.

    Returns
    -------
    DataFrame
        Its rows, in their order; cells of a CSV file as they are written.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "bank.csv"
    >>> _ = file.write_text("rate,term\\n7.5,36\\n9.1,60\\n")
    >>> read_table(file)["rate"].tolist()
    ['7.5', '9.1']
    """
    source = find_source(table)
    if source.streams:
        raise DataError(f"{source.where}: {SUPPORTED_FILES}")
    return source.frame()
