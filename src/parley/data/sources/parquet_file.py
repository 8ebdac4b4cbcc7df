"""One Parquet file as a table: read whenever rows are asked for, all at once if need be."""

from typing import ClassVar

from parley.data.sources.columnar import ColumnarTable, Format
from parley.data.sources.files import DataFile
from parley.data.sources.parquet_rows import Parquet


class ParquetFile(ColumnarTable):
    """A table that is one .parquet file."""

    kind: ClassVar[bytes] = b"file"
    form: ClassVar[Format] = Parquet()

    def found(self) -> tuple[DataFile, ...]:
        return (self.place,)
