"""CSV files: a line of names, then rows; packed or not (.csv.gz, .csv.zst)."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pyarrow as pa

from parley.data.sources.csv_rows import AS_WRITTEN, FORMAT_NAME, PACKINGS, CsvRows, CsvWays
from parley.data.sources.files import DataFile, LocalFile
from parley.data.sources.held import TextFile
from parley.data.sources.source import TableSource
from parley.errors import DataError

MAX_HELD_BYTES = 32 << 20  # bytes of a file that is held once it was read
UNPACKED_RATIO = 8  # times as many bytes as a packed file has, about


class CsvFile(TextFile):
    """A CSV file held in memory, with commas, or with semicolons, tabs or bars if its line of names has more."""

    form: ClassVar[str] = FORMAT_NAME
    drops_words: ClassVar[bool] = True

    def __init__(self, path: Path, separator: str | None = None, encoding: str | None = None) -> None:
        super().__init__(path)
        self._ways = CsvWays(separator, encoding)

    def parsed(self) -> pd.DataFrame:
        return CsvRows(LocalFile(self.path), self._ways, block=UNPACKED_RATIO * MAX_HELD_BYTES).frame()

    def require_header(self) -> None:
        _require_names(CsvRows(LocalFile(self.path), self._ways))

    def digest(self) -> bytes:
        return _digest(super().digest(), self._ways)


class LongCsvFile(TableSource):
    """A CSV file that is not held: rows are read whenever they are asked for, and changes are refused."""

    long: ClassVar[bool] = True
    drops_words: ClassVar[bool] = True

    def __init__(self, file: DataFile, separator: str | None = None, encoding: str | None = None) -> None:
        super().__init__(file.path if isinstance(file, LocalFile) else None)
        self._file, self._ways = file, CsvWays(separator, encoding)
        self._rows, self._stamp = CsvRows(file, self._ways), file.stamp()

    @property
    def where(self) -> str:
        return self._file.where

    @property
    def parts(self) -> tuple[DataFile, ...]:
        return (self._file,)

    @property
    def example(self) -> pd.DataFrame:
        return self._rows.head.example

    @cached_property
    def _count(self) -> int:
        return self._rows.count()

    def __len__(self) -> int:
        return self._count

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        self.require_unchanged()
        rows = self._rows.frame(columns)
        self.require_unchanged()
        return rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._rows.batches(columns)

    def digest(self) -> bytes:
        """Return a digest of its file's bytes; from then on changes are refused."""
        self.require_unchanged()
        file_hash = self._file.digest()
        self.require_unchanged()
        return _digest(hashlib.sha256(b"file" + file_hash).digest(), self._ways)

    def require_unchanged(self) -> None:
        if self._file.stamp() != self._stamp:
            raise DataError(
                f"{self.where}: the file changed since the table was opened; restore the file, or open the table again"
            )

    def require_header(self) -> None:
        _require_names(self._rows)


def csv_file(place: Path | DataFile, separator: str | None = None, encoding: str | None = None) -> TableSource:
    """Open a CSV file, held if small and local; the line of names shows separator and encoding by default."""
    if isinstance(place, DataFile):
        return LongCsvFile(place, separator, encoding)
    packed = place.suffix.lower() in PACKINGS
    if place.stat().st_size * (UNPACKED_RATIO if packed else 1) <= MAX_HELD_BYTES:
        return CsvFile(place, separator, encoding)
    return LongCsvFile(LocalFile(place), separator, encoding)


def _digest(cells: bytes, ways: CsvWays) -> bytes:
    """Return the digest of bytes together with a requested reading: it gives other cells."""
    return cells if ways == AS_WRITTEN else hashlib.sha256(cells + repr(ways).encode()).digest()


def _require_names(rows: CsvRows) -> None:
    """Refuse a repeated name: the second would silently get another name."""
    where, head = rows.file.where, rows.head
    if not head.text.partition("\n")[0].strip():
        raise DataError(f"{where}: the file or its first line is empty; put the column names in the first line")
    twice = [name for name, count in Counter(head.written).items() if count > 1 and name]
    if twice:
        raise DataError(f"{where}: column {twice[0]!r} appears more than once; rename one of the columns")
