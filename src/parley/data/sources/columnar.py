"""Tables in one file or a folder of files, read in order and never held. Cells are read by declared types (`cells`),
never guessed; all files of a folder declare the same."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pandas as pd
import pyarrow as pa

from parley.data.cells import Schema, declared_by_arrow, selectable_type
from parley.data.sources.files import DataFile, LocalFile, Stamp, discreet
from parley.data.sources.source import BATCH_ROWS, Chunk, TableSource
from parley.errors import DataError


def as_frame(table: pa.Table) -> pd.DataFrame:
    """Return the same columns in a data frame, by declared type; dictionaries of text become categories."""
    table = table.cast(usual_schema(table.schema))
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            cells = table.column(place).cast(field.type.value_type)
            text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
            table = table.set_column(
                place, field.name, cells.dictionary_encode() if text else cells
            )  # no entry twice, none missing
    return _to_pandas(table)


def example_of(schema: pa.Schema) -> pd.DataFrame:
    """Return a data frame of these columns without rows."""
    return _to_pandas(usual_schema(schema).empty_table())


def usual_schema(schema: pa.Schema) -> pa.Schema:
    """Return the same columns in types of which Arrow can select rows."""
    return pa.schema([pa.field(field.name, selectable_type(field.type)) for field in schema])


def without_index(schema: pa.Schema) -> pa.Schema:
    """Drop the columns in which pandas keeps a frame's index, as its own reader does."""
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        listed = []
    index = {name for name in listed if isinstance(name, str)}
    return pa.schema([field for field in schema if field.name not in index])


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    def dtype(kind: pa.DataType) -> pd.ArrowDtype | None:
        return None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)

    return pd.DataFrame(table.to_pandas(types_mapper=dtype, ignore_metadata=True))


MAX_READERS = 4  # files of a folder that are digested or looked at at once
# bytes read at a time for each core, shared out among the columns, where a folder is read again and again
BUFFER_BYTES = 32 << 20
ONE_PASS_BUFFER_BYTES = 4 << 20  # where a table is gone through once

Cells = tuple[tuple[str, str | None], ...]  # (name of a column, the cell that all rows of a file have there)


class Format(Protocol):
    """A file format with columns, whose rows lie in groups that can be read apart."""

    form: str  # what messages call it

    def schema(self, file: DataFile) -> pa.Schema:
        """Return the columns that a file declares."""

    def groups(self, file: DataFile) -> Sequence[int]:
        """Return the number of rows in each group."""

    def batches(
        self, file: DataFile, groups: Sequence[int], columns: Sequence[str], most: int, each: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (group, at most `most` of its rows) in order; `each`: bytes of a column read at a time."""

    def table(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        """Return all rows at once."""


class ColumnarTable(TableSource):
    """Files of one format as one table; subclasses say which files."""

    kind: ClassVar[bytes]  # what its digest begins with
    form: ClassVar[Format]

    def __init__(self, place: Path | DataFile) -> None:
        self.place = place if isinstance(place, DataFile) else LocalFile(place)
        super().__init__(self.place.path if isinstance(self.place, LocalFile) else None)

    def __reduce__(self) -> tuple[type["ColumnarTable"], tuple[DataFile]]:
        """Pickle only the place: whoever sends it watches its files."""
        return type(self), (self.place,)

    @abstractmethod
    def found(self) -> tuple[DataFile, ...]:
        """Return the files that exist now, in order."""

    def cells_of(self, file: DataFile) -> Cells:
        """Return the cells that all rows of a file share in columns outside the file."""
        return ()

    @property
    def where(self) -> str:
        return self.place.where

    @cached_property
    def parts(self) -> tuple[DataFile, ...]:
        return self.found()

    @property
    def placed_by(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.cells_of(self.parts[0]))

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The first file's columns, without a pandas index; then those of folder names, as text."""
        declared = self._declared(self.parts[0])
        folder_cells = [name for name, _ in self.cells_of(self.parts[0])]
        twice = next((name for name in folder_cells if name in declared.names or folder_cells.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                f"{self.where}: column {twice!r} appears more than once, in folder names or in files; rename one of "
                "the columns"
            )
        return pa.schema([*declared, *((name, pa.string()) for name in folder_cells)])

    def _declared(self, file: DataFile) -> pa.Schema:
        with discreet(file.where, self.form.form):
            return without_index(self.form.schema(file))

    @property
    def schema(self) -> Schema:
        return declared_by_arrow(self.arrow_schema)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All groups of rows. Files with other columns or types are refused without reading rows."""
        chunks: list[Chunk] = []
        self.require_unchanged()
        for file in self.parts:
            folder_cells = [(name, pa.string()) for name, _ in self.cells_of(file)]
            if not pa.schema([*self._declared(file), *folder_cells]).equals(self.arrow_schema):
                raise DataError(
                    f"{file.where}: the columns or their types differ from those of {self.parts[0].name}; write all "
                    "files with the same schema"
                )
            with discreet(file.where, self.form.form):
                chunks += [Chunk(rows, (file, group)) for group, rows in enumerate(self.form.groups(file))]
        self.require_unchanged()
        return tuple(chunks)

    @cached_property
    def _stamps(self) -> tuple[Stamp, ...]:
        return self._look()

    def _look(self) -> tuple[Stamp, ...]:
        if isinstance(self.place, LocalFile):
            return tuple(file.stamp() for file in self.parts)
        with ThreadPoolExecutor(MAX_READERS) as pool:  # a store is asked about every object
            return tuple(pool.map(lambda file: file.stamp(), self.parts))

    def require_unchanged(self) -> None:
        """Refuse if a file changed, came or went since the table was first read: places and sizes are promises."""
        if self.found() != self.parts or self._look() != self._stamps:
            raise DataError(
                f"{self.where}: the files changed since the table was opened; restore the files, or open the table "
                "again"
            )

    def __len__(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def example(self) -> pd.DataFrame:
        return example_of(self.arrow_schema)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._batches(self.chunks, columns, BATCH_ROWS, buffer_size(len(columns), ONE_PASS_BUFFER_BYTES))

    def chunk_batches(self, chunks: Sequence[Chunk], columns: Sequence[str], at_once: int) -> Iterator[pa.RecordBatch]:
        return self._batches(chunks, columns, at_once, buffer_size(len(columns)))

    def _batches(self, some: Sequence[Chunk], columns: Sequence[str], most: int, each: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these groups in order, at most `most` at a time; each group whole, or an error."""
        for file, chunks in groupby(some, key=lambda chunk: chunk.place[0]):
            left = {chunk.place[1]: chunk.rows for chunk in chunks}
            folder_cells = dict(self.cells_of(file))
            with discreet(file.where, self.form.form):
                for group, batch in self.form.batches(file, list(left), self._own(columns, folder_cells), most, each):
                    left[group] -= len(batch)
                    if left[group] < 0:
                        raise DataError(
                            f"{file.where}: the file has more rows than when the table was opened; open the table again"
                        )
                    yield _with_cells(batch.cast(usual_schema(batch.schema)), folder_cells, columns)
            if any(left.values()):
                raise DataError(
                    f"{file.where}: the file has fewer rows than when the table was opened; open the table again"
                )

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        wanted = self.arrow_schema.names if columns is None else list(dict.fromkeys(columns))
        self.require_unchanged()
        parts = []
        for file in self.parts:
            folder_cells = dict(self.cells_of(file))
            with discreet(file.where, self.form.form):
                own = self.form.table(file, self._own(wanted, folder_cells))
                parts.append(_with_cells(own.replace_schema_metadata(None), folder_cells, wanted))
        self.require_unchanged()
        return as_frame(pa.concat_tables(parts))

    def _own(self, columns: Sequence[str], folder_cells: Mapping[str, str | None]) -> list[str]:
        """Return the columns that files hold themselves; at least one, to count rows, beside folder columns."""
        own = [column for column in dict.fromkeys(columns) if column not in folder_cells]
        return own or self.arrow_schema.names[: bool(folder_cells)]

    def digest(self) -> bytes:
        """Return a digest of its files' bytes, in order, and of folder names; from then on changes are refused."""
        self.require_unchanged()
        with ThreadPoolExecutor(MAX_READERS) as pool:
            parts = list(pool.map(lambda file: file.digest(), self.parts))
        self.require_unchanged()
        folder_cells = [self.cells_of(file) for file in self.parts]
        folder_text = json.dumps(folder_cells).encode() if any(folder_cells) else b""
        return hashlib.sha256(self.kind + b"".join(parts) + folder_text).digest()


def _with_cells(rows: Any, folder_cells: Mapping[str, str | None], columns: Sequence[str]) -> Any:
    """Add those of these columns that are constant in a batch or table."""
    if not folder_cells:
        return rows
    for name, cell in folder_cells.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(cell, pa.string()), rows.num_rows))
    return rows.select([name for name in rows.schema.names if name in columns])


def buffer_size(columns: int, buffers: int = BUFFER_BYTES) -> int:
    """Return the bytes of one column to read at a time: long reads, without more memory for many columns."""
    return max(buffers // max(columns, 1), 1 << 16)
