"""Which table it is: a digest of its contents, so that a ledger notices another one. It is never sent, and kept only sealed."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.parquet import ParquetTable
from parley.data.schema import declared_by_frame, schema_digest
from parley.data.streamed import open_table
from parley.data.table import Opened, Table
from parley.errors import DataError

READERS = 4  # files of a folder that are read at once


@dataclass(frozen=True)
class TableDigest:
    """What a ledger keeps of a table: a digest of its cells, and one of its declared schema, which counts as public."""

    cells: bytes
    schema: str


def digested_table(table: Table | ParquetTable) -> tuple[Opened, TableDigest]:
    """The opened table and its digest: of the bytes of its file, of its files in their order, or of a data frame's cells and types.

    A file that changes while it is read is refused; Parquet files are watched from then on (`ParquetTable.require_unchanged`).
    """
    path = Path(table) if isinstance(table, str | Path) else None
    before = _of_file(path) if path is not None and path.is_file() and path.suffix.lower() != ".parquet" else b""
    opened = open_table(table)
    if isinstance(opened, ParquetTable):
        opened.require_unchanged()
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(_of_file, opened.files))
        opened.require_unchanged()
        kind = b"folder" if opened.streams else b"file"
        return opened, TableDigest(hashlib.sha256(kind + b"".join(parts)).digest(), schema_digest(opened.schema))
    schema = schema_digest(declared_by_frame(opened))
    if path is None:
        return opened, TableDigest(_of_frame(opened), schema)
    if _of_file(path) != before:
        raise DataError(f"{path}: it changed while it was read; open it when it is complete")
    return opened, TableDigest(hashlib.sha256(b"file" + before).digest(), schema)


def _of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__})") from None


def _of_frame(frame: pd.DataFrame) -> bytes:
    names = "\n".join(f"{column!r} {kind}" for column, kind in zip(frame.columns, frame.dtypes, strict=True))
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64)
    return hashlib.sha256(b"frame" + names.encode() + b"\n" + rows.astype("<u8").tobytes()).digest()
