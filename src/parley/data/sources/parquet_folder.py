"""A folder of Parquet files as one table, larger than memory. A cluster may sum over its rows (`blocks.joined`)."""

from functools import cached_property
from pathlib import Path
from typing import ClassVar

from parley.data.sources.manifest import MANIFEST, Manifest, read_manifest
from parley.data.sources.parquet_rows import ParquetTable
from parley.data.sources.source import Origin
from parley.errors import DataError


class ParquetFolder(ParquetTable):
    """The .parquet files of a folder in the order of their names. Its rows are never held all at once.

    A folder that was taken from a database says so (`manifest`), and is refused if it holds other files than it did.
    """

    kind: ClassVar[bytes] = b"folder"
    streams: ClassVar[bool] = True

    def found(self) -> tuple[Path, ...]:
        return tuple(sorted(self.path.glob("*.parquet")))

    @cached_property
    def manifest(self) -> Manifest | None:
        """Where its rows were taken from, if that was a database."""
        return read_manifest(self.path)

    @cached_property
    def files(self) -> tuple[Path, ...]:
        files = super().files
        self._require(self.manifest is None or tuple(file.name for file in files) == self.manifest.files)
        return files

    @property
    def origin(self) -> Origin | None:
        return None if self.manifest is None else self.manifest.origin

    @property
    def remarks(self) -> tuple[str, ...]:
        return () if self.manifest is None else (self.manifest.sentence(),)

    def digest(self) -> bytes:
        found = super().digest()
        self._require(self.manifest is None or found.hex() == self.manifest.digest)
        return found

    def _require(self, fits: bool) -> None:
        if not fits:
            raise DataError(f"{self.path}: its files are not those that its {MANIFEST} lists; take a new snapshot")
