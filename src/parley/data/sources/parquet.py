"""Parquet as a table: one file, or a folder of files, larger than memory, over which a cluster may sum
(`cluster.joined`).

The table is the folder's own files, else those of its subfolders, in the order of their paths, byte by byte. Below a
subfolder named year=2024 all rows have the text 2024 in a column `year`; terms say whether that is a number.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from parley.data.sources.columnar import Cells, ColumnarTable, Format
from parley.data.sources.files import DataFile, LocalFile, discreet
from parley.data.sources.manifest import MANIFEST_NAME, Manifest, read_manifest
from parley.data.sources.source import Origin
from parley.errors import DataError


class Parquet:
    """The Parquet format."""

    form = "parquet"

    def schema(self, file: DataFile) -> pa.Schema:
        with file.opened() as source:
            return pq.read_schema(source)

    def groups(self, file: DataFile) -> Sequence[int]:
        with file.opened() as source:
            about = pq.read_metadata(source)
            return [about.row_group(group).num_rows for group in range(about.num_row_groups)]

    def batches(
        self, file: DataFile, groups: Sequence[int], columns: Sequence[str], most: int, each: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        with file.opened() as opened, pq.ParquetFile(opened, pre_buffer=False, buffer_size=each) as source:
            for group in groups:
                for batch in source.iter_batches(most, row_groups=[group], columns=columns, use_threads=False):
                    yield group, batch

    def table(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        with file.opened() as opened, pq.ParquetFile(opened) as source:
            return source.read(columns=columns, use_pandas_metadata=False)


class ParquetFile(ColumnarTable):
    """A table that is one .parquet file."""

    kind: ClassVar[bytes] = b"file"
    form: ClassVar[Format] = Parquet()

    def found(self) -> tuple[DataFile, ...]:
        return (self.place,)


PARQUET_ENDING = ".parquet"
HIVE_GAP = "__HIVE_DEFAULT_PARTITION__"  # how a gap is written as the name of a folder
TABLE_LOG_PATH = re.compile(
    r"_delta_log/.*\.json|\.hoodie/.*|metadata/.*\.metadata\.json"
)  # it says which other files count


class ParquetFolder(ColumnarTable):
    """The .parquet files of a folder as one table, never held all at once. A folder with a `manifest` is refused if its
    files, rows or columns differ from it; other bytes are found by its digest, when terms are accepted."""

    kind: ClassVar[bytes] = b"folder"
    form: ClassVar[Format] = Parquet()
    streams: ClassVar[bool] = True

    def found(self) -> tuple[DataFile, ...]:
        paths = {self._path(file): file for file in self.place.below()}
        if any(map(TABLE_LOG_PATH.fullmatch, paths)):
            raise DataError(
                f"{self.where}: the folder has a table log (Delta Lake, Hudi or Iceberg), which Parley does not read; "
                "write the table as plain .parquet files"
            )
        top_files = [path for path in paths if path.endswith(PARQUET_ENDING) and "/" not in path]
        deep = [path for path in paths if path.endswith(PARQUET_ENDING) and not any(map(_hidden, path.split("/")))]
        if not top_files and not deep:
            raise DataError(f"{self.where}: the folder contains no .parquet files; give another folder")
        return tuple(paths[path] for path in sorted(top_files or deep, key=str.encode))

    def cells_of(self, file: DataFile) -> Cells:
        """Return the cells that the names of its folders give, in their order."""
        named = [folder.partition("=") for folder in self._path(file).split("/")[:-1] if "=" in folder]
        return tuple((unquote(name), None if cell == HIVE_GAP else unquote(cell)) for name, _, cell in named)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest, if its rows were taken from a database."""
        return read_manifest(self.place.path) if isinstance(self.place, LocalFile) else None

    @cached_property
    def parts(self) -> tuple[DataFile, ...]:
        files = self.found()
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
        return super().remarks if self.manifest is None else (self.manifest.sentence(),)

    def gathered(self) -> "GatheredFolder":
        return GatheredFolder(self.place)

    def digest(self) -> bytes:
        found = super().digest()
        self._require(self.manifest is None or found.hex() == self.manifest.digest)
        return found

    def _require(self, fits: bool) -> None:
        if not fits:
            raise DataError(
                f"{self.where}: the snapshot's files differ from those listed in {MANIFEST_NAME}; take a new snapshot"
            )

    def _path(self, file: DataFile) -> str:
        """Return a file's path within the folder."""
        return file.where[len(self.where.rstrip("/")) :].lstrip("/")


class GatheredFolder(ParquetFolder):
    """The same folder with prepared rows held in memory, where nothing is released."""

    streams: ClassVar[bool] = False


def _declared(file: DataFile) -> tuple[int, tuple[str, ...]]:
    """Return (rows, names of the columns) by a file's own metadata."""
    with discreet(file.where, Parquet.form), file.opened() as source:
        about = pq.read_metadata(source)
        return about.num_rows, tuple(about.schema.to_arrow_schema().names)


def _hidden(name: str) -> bool:
    """Whether a name marks a writer's own files."""
    return name.startswith((".", "_"))
