"""A folder of Parquet files as one table, larger than memory. A cluster may sum over its rows (`blocks.joined`)."""

from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq

from parley.data.sources.files import discreet
from parley.data.sources.manifest import MANIFEST, Manifest, read_manifest
from parley.data.sources.parquet_rows import FORM, ParquetTable
from parley.data.sources.source import Origin
from parley.errors import DataError


def _declared(file: Path) -> tuple[int, tuple[str, ...]]:
    """(rows, names of the columns) of a file, as it says itself."""
    with discreet(file, FORM):
        about = pq.read_metadata(file)
        return about.num_rows, tuple(about.schema.to_arrow_schema().names)


class ParquetFolder(ParquetTable):
    """The .parquet files of a folder in the order of their names. Its rows are never held all at once.

    A folder that was taken from a database says so (`manifest`), and is refused if it holds other files, rows
    or columns than it did; other bytes are found by its digest, when terms are accepted.
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
        if self.manifest is not None:
            self._require(tuple(file.name for file in files) == self.manifest.files)
            held = [_declared(file) for file in files]
            self._require(sum(rows for rows, _ in held) == self.manifest.rows)
            self._require({names for _, names in held} == {tuple(name for name, _, _ in self.manifest.columns)})
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
