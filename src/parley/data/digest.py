"""Which table it is: a digest of its contents, so that a ledger notices another one. It is never sent, and kept only sealed."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.streamed import ParquetFolder, open_table
from parley.data.table import Table
from parley.errors import DataError

READERS = 4  # files of a folder that are read at once


def digested_table(table: Table) -> tuple[pd.DataFrame | ParquetFolder, bytes]:
    """The opened table and its digest: of the bytes of its file, of its files in their order, or of a data frame's cells and types.

    A file that changes while it is read is refused; a folder's files are watched from then on (`ParquetFolder.require_unchanged`).
    """
    opened = None if isinstance(table, str | Path) and Path(table).is_file() else open_table(table)
    if isinstance(opened, ParquetFolder):
        opened.require_unchanged()
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(_of_file, opened.files))
        opened.require_unchanged()
        return opened, hashlib.sha256(b"folder" + b"".join(parts)).digest()
    if opened is not None:
        return opened, _of_frame(opened)
    path = Path(str(table))
    before = _of_file(path)
    opened = open_table(path)
    if _of_file(path) != before:
        raise DataError(f"{path}: it changed while it was read; open it when it is complete")
    return opened, hashlib.sha256(b"file" + before).digest()


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
