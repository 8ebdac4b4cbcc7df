"""The same rows wherever tables lie: written as every kind of source that is registered, and in the ways in which one
kind can hold them."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley.data.sources import Table
from parley.data.sources.catalogue import FOLDER
from parley.errors import DataError

DAT = ("user", "item", "rating")  # columns of a .dat file
# what writing says of cells that a form cannot hold
UNWRITABLE = (pa.ArrowException, ValueError, OverflowError, TypeError, DataError)


@dataclass(frozen=True)
class Form:
    """How rows are written: `source` is what reads them (`data.sources.SOURCES`); `declares`: whether it keeps the
    types that columns are declared to have."""

    name: str
    source: str | type
    write: Callable[[pa.Table, Path], Table]
    declares: bool = True


def _frame(rows: pa.Table, folder: Path) -> Table:
    frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def _objects(rows: pa.Table, folder: Path) -> Table:
    return pd.DataFrame({name: pd.Series(_loose(rows[name]), dtype=object) for name in rows.column_names})


def _numpy(rows: pa.Table, folder: Path) -> Table:
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
    return frame


def _csv(rows: pa.Table, folder: Path) -> Table:
    columns = [_loose(rows[name]) for name in rows.column_names]
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows.column_names)
        writer.writerows([["" if cell is None else cell for cell in row] for row in zip(*columns, strict=True)])
    return folder / "t.csv"


def _dat(rows: pa.Table, folder: Path) -> Table:
    if set(rows.column_names) != set(DAT):
        raise DataError(f"columns: expected {', '.join(DAT)}")
    columns = [_loose(rows[name]) for name in DAT]
    lines = ["::".join("" if cell is None else str(cell) for cell in row) for row in zip(*columns, strict=True)]
    (folder / "t.dat").write_text("\n".join(lines), encoding="latin-1")
    return folder / "t.dat"


def _parquet(rows: pa.Table, folder: Path) -> Table:
    pq.write_table(rows, folder / "t.parquet", row_group_size=4)
    return folder / "t.parquet"


def _arrow(rows: pa.Table, folder: Path) -> Table:
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, rows.schema) as written:
        written.write_table(rows.unify_dictionaries(), max_chunksize=4)
    return folder / "t.arrow"


def _parquet_folder(rows: pa.Table, folder: Path) -> Table:
    place = folder / "parts"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    for number, start in enumerate(range(0, len(rows), 3)):
        pq.write_table(rows.slice(start, 3), place / f"{number:04}.parquet", row_group_size=2)
    return place


FORMS: Sequence[Form] = (
    Form("Parquet file", ".parquet", _parquet),
    Form("Parquet folder", FOLDER, _parquet_folder),
    Form("Arrow file", ".arrow", _arrow),
    Form("declared frame", pd.DataFrame, _frame),
    Form("object frame", pd.DataFrame, _objects, declares=False),
    Form("NumPy frame", pd.DataFrame, _numpy),
    Form("CSV", ".csv", _csv, declares=False),
    Form("dat", ".dat", _dat, declares=False),
)

FRAME = next(form for form in FORMS if form.name == "declared frame")


def _loose(column: pa.ChunkedArray) -> Any:
    """Cells as Python holds them [n]."""
    cells = column.combine_chunks()
    held = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    loose = np.empty(len(held), dtype=object)
    loose[:] = [*held.to_pylist(), None][:-1]
    return loose
