"""A folder of Parquet files as one table, larger than memory. A cluster may sum over its rows (`cluster.joined`)."""

from pathlib import Path
from typing import ClassVar

from parley.data.sources.parquet_rows import ParquetTable


class ParquetFolder(ParquetTable):
    """The .parquet files of a folder in the order of their names. Its rows are never held all at once."""

    kind: ClassVar[bytes] = b"folder"
    streams: ClassVar[bool] = True

    def found(self) -> tuple[Path, ...]:
        return tuple(sorted(self.path.glob("*.parquet")))
