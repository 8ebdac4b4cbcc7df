"""A table in files that declare their columns' types: one file, or a folder of files as one table. Nothing of it is
held: rows are read when they are asked for, in order.

What a file declares is what its cells are read by (`cells`): types are never guessed from cells, and all files of
a folder declare the same.
"""

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
    """The same columns in a data frame, each of its declared type. Dictionaries of text are categories, of anything
    else its cells."""
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
    """No rows of these columns."""
    return _to_pandas(usual_schema(schema).empty_table())


def usual_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in types of which Arrow can select rows."""
    return pa.schema([pa.field(field.name, selectable_type(field.type)) for field in schema])


def without_index(schema: pa.Schema) -> pa.Schema:
    """Without the columns in which pandas keeps a frame's index, as its own reader has it."""
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
    """How files hold columns: rows lie in groups that are read apart."""

    form: str  # what messages call it

    def schema(self, file: DataFile) -> pa.Schema:
        """The columns that a file declares."""

    def groups(self, file: DataFile) -> Sequence[int]:
        """How many rows each of its groups has."""

    def batches(
        self, file: DataFile, groups: Sequence[int], columns: Sequence[str], most: int, each: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(a group, some of its rows) of these groups in their order, at most so many rows at a time; `each`: bytes of
        a column that are read at a time."""

    def table(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        """All rows at once."""


class ColumnarTable(TableSource):
    """Files of one format as one table. A kind of it says which files those are."""

    kind: ClassVar[bytes]  # what its digest begins with
    form: ClassVar[Format]

    def __init__(self, place: Path | DataFile) -> None:
        self.place = place if isinstance(place, DataFile) else LocalFile(place)
        super().__init__(self.place.path if isinstance(self.place, LocalFile) else None)

    def __reduce__(self) -> tuple[type["ColumnarTable"], tuple[DataFile]]:
        """What travels to another machine is where it lies: whoever sends it watches its files."""
        return type(self), (self.place,)

    @abstractmethod
    def found(self) -> tuple[DataFile, ...]:
        """The files that are there now, in their order."""

    def cells_of(self, file: DataFile) -> Cells:
        """What all rows of a file have in columns that it does not hold itself."""
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
        """The columns as the first file declares them, except those in which pandas keeps an index; then those of
        folder names, as text."""
        declared = self._declared(self.parts[0])
        folder_cells = [name for name, _ in self.cells_of(self.parts[0])]
        twice = next((name for name in folder_cells if name in declared.names or folder_cells.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                f"{self.where}: column {twice!r} appears more than once, in folder names or in files; rename one"
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
        """All groups of rows. Files that declare other columns, or other types of them, are refused by that alone."""
        found: list[Chunk] = []
        self.require_unchanged()
        for file in self.parts:
            folder_cells = [(name, pa.string()) for name, _ in self.cells_of(file)]
            if not pa.schema([*self._declared(file), *folder_cells]).equals(self.arrow_schema):
                raise DataError(
                    f"{file.where}: its columns or their types differ from those of {self.parts[0].name}; write all "
                    "files with the same schema"
                )
            with discreet(file.where, self.form.form):
                found += [Chunk(rows, (file, group)) for group, rows in enumerate(self.form.groups(file))]
        self.require_unchanged()
        return tuple(found)

    @cached_property
    def _stamps(self) -> tuple[Stamp, ...]:
        return self._look()

    def _look(self) -> tuple[Stamp, ...]:
        if isinstance(self.place, LocalFile):
            return tuple(file.stamp() for file in self.parts)
        with ThreadPoolExecutor(MAX_READERS) as pool:  # a store is asked about every object
            return tuple(pool.map(lambda file: file.stamp(), self.parts))

    def require_unchanged(self) -> None:
        """Refuse if a file was changed, added or taken away since the table was first looked at: places and sizes are
        promises."""
        if self.found() != self.parts or self._look() != self._stamps:
            raise DataError(
                f"{self.where}: its files changed since the table was opened; restore them, or open the table again"
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
        """The rows of these groups in order, at most so many at a time; each group whole, or an error."""
        for file, chunks in groupby(some, key=lambda chunk: chunk.place[0]):
            left = {chunk.place[1]: chunk.rows for chunk in chunks}
            folder_cells = dict(self.cells_of(file))
            with discreet(file.where, self.form.form):
                for group, batch in self.form.batches(file, list(left), self._own(columns, folder_cells), most, each):
                    left[group] -= len(batch)
                    if left[group] < 0:
                        raise DataError(f"{file.where}: it has more rows than when the table was opened; open it again")
                    yield _with_cells(batch.cast(usual_schema(batch.schema)), folder_cells, columns)
            if any(left.values()):
                raise DataError(f"{file.where}: it has fewer rows than when the table was opened; open it again")

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
        """Those of these columns that files hold themselves; where others are beside them one at least, which tells how
        many rows there are."""
        own = [column for column in dict.fromkeys(columns) if column not in folder_cells]
        return own or self.arrow_schema.names[: bool(folder_cells)]

    def digest(self) -> bytes:
        """Of the bytes of its files, in their order, and of what their folders say; they are watched from then on
        (`require_unchanged`)."""
        self.require_unchanged()
        with ThreadPoolExecutor(MAX_READERS) as pool:
            parts = list(pool.map(lambda file: file.digest(), self.parts))
        self.require_unchanged()
        folder_cells = [self.cells_of(file) for file in self.parts]
        folder_text = json.dumps(folder_cells).encode() if any(folder_cells) else b""
        return hashlib.sha256(self.kind + b"".join(parts) + folder_text).digest()


def _with_cells(rows: Any, folder_cells: Mapping[str, str | None], columns: Sequence[str]) -> Any:
    """A batch or a table with those of these columns that are the same in all of its rows."""
    if not folder_cells:
        return rows
    for name, cell in folder_cells.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(cell, pa.string()), rows.num_rows))
    return rows.select([name for name in rows.schema.names if name in columns])


def buffer_size(columns: int, buffers: int = BUFFER_BYTES) -> int:
    """Bytes of one column read at a time: few long reads for a disk, yet no more memory where there are many
    columns."""
    return max(buffers // max(columns, 1), 1 << 16)
