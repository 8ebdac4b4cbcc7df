"""One Parquet file as a table: read whenever rows are asked for, all at once if need be."""

from pathlib import Path
from typing import ClassVar

from parley.data.sources.parquet_rows import ParquetTable


class ParquetFile(ParquetTable):
    """A table that is one .parquet file."""

    kind: ClassVar[bytes] = b"file"

    def found(self) -> tuple[Path, ...]:
        return (self.path,)
