"""A table in Parquet: one file, or a folder of files as one table. Nothing of it is held: rows are read when they are
asked for, in order.

What a file declares is what its cells are read by (`arrow_cells`): types are never guessed from cells, and all files of
a folder declare the same.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley.data.arrow_cells import usual
from parley.data.schema import Schema, declared_by_arrow
from parley.data.sources.files import Stamps, discreet, files_digest, stamped
from parley.data.sources.source import AT_ONCE, Chunk, TableSource
from parley.errors import DataError

FORM = "parquet"
# bytes read at a time for each core, shared out among the columns, where a folder is read again and again
BUFFERS = 32 << 20
FEW_BUFFERS = 4 << 20  # where a table is gone through once


class ParquetTable(TableSource):
    """Parquet files as one table. A kind of it says which files those are."""

    path: Path
    kind: ClassVar[bytes]  # what its digest begins with

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    @abstractmethod
    def found(self) -> tuple[Path, ...]:
        """The files that are there now, in their order."""

    @cached_property
    def files(self) -> tuple[Path, ...]:
        files = self.found()
        if not files:
            raise DataError(f"{self.path}: expected .parquet files in this folder")
        return files

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns as the first file declares them, but for those in which pandas keeps an index."""
        with discreet(self.files[0], FORM):
            return _without_index(pq.read_schema(self.files[0]))

    @property
    def schema(self) -> Schema:
        return declared_by_arrow(self.arrow_schema)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All row groups. Files that declare other columns, or other types of them, are refused by that alone."""
        found: list[Chunk] = []
        self.require_unchanged()
        for file in self.files:
            with discreet(file, FORM):
                about = pq.read_metadata(file)
                alike = _without_index(pq.read_schema(file)).equals(self.arrow_schema)
            if not alike:
                raise DataError(
                    f"{file}: its columns or their types differ from those of {self.files[0].name}; write all files "
                    f"alike"
                )
            found += [Chunk(about.row_group(g).num_rows, (file, g)) for g in range(about.num_row_groups)]
        self.require_unchanged()
        return tuple(found)

    @cached_property
    def _stamps(self) -> Stamps:
        return stamped(self.files)

    def require_unchanged(self) -> None:
        """Refuse if a file was changed, added or taken away since the table was first looked at: places and sizes are
        promises."""
        if self.found() != self.files or stamped(self.files) != self._stamps:
            raise DataError(
                f"{self.path}: its files changed since the table was opened; put them back, or open a table that "
                f"stays as it is"
            )

    def __len__(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def example(self) -> pd.DataFrame:
        return _to_pandas(_usual(self.arrow_schema).empty_table())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._batches(self.chunks, columns, AT_ONCE, buffer_size(len(columns), FEW_BUFFERS))

    def chunk_batches(self, chunks: Sequence[Chunk], columns: Sequence[str], at_once: int) -> Iterator[pa.RecordBatch]:
        return self._batches(chunks, columns, at_once, buffer_size(len(columns)))

    def _batches(self, some: Sequence[Chunk], columns: Sequence[str], most: int, each: int) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups in order, at most so many at a time; each group whole, or an error.

        `each`: bytes of a column that are read at a time.
        """
        wanted = list(dict.fromkeys(columns))
        for file, groups in groupby(some, key=lambda chunk: chunk.place[0]):
            with discreet(file, FORM), pq.ParquetFile(file, pre_buffer=False, buffer_size=each) as source:
                for chunk in groups:
                    seen, group = 0, [chunk.place[1]]
                    for batch in source.iter_batches(most, row_groups=group, columns=wanted, use_threads=False):
                        seen += len(batch)
                        if seen > chunk.rows:
                            raise DataError(f"{file}: it holds more rows than when the table was opened")
                        yield batch.cast(_usual(batch.schema))
                    if seen != chunk.rows:
                        raise DataError(f"{file}: it holds fewer rows than when the table was opened")

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        wanted = self.arrow_schema.names if columns is None else list(dict.fromkeys(columns))
        self.require_unchanged()
        parts = []
        for file in self.files:
            with discreet(file, FORM), pq.ParquetFile(file) as source:
                parts.append(source.read(columns=wanted, use_pandas_metadata=False).replace_schema_metadata(None))
        self.require_unchanged()
        return as_frame(pa.concat_tables(parts))

    def digest(self) -> bytes:
        """Of the bytes of its files, in their order; they are watched from then on (`require_unchanged`)."""
        self.require_unchanged()
        found = files_digest(self.kind, self.files)
        self.require_unchanged()
        return found


def as_frame(table: pa.Table) -> pd.DataFrame:
    """The same columns in a data frame, each of its declared type. Dictionaries of text are categories, of anything
    else its cells."""
    table = table.cast(_usual(table.schema))
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            cells = table.column(place).cast(field.type.value_type)
            text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
            table = table.set_column(
                place, field.name, cells.dictionary_encode() if text else cells
            )  # no entry twice, none missing
    return _to_pandas(table)


def _usual(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, usual(field.type)) for field in schema])


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    def dtype(kind: pa.DataType) -> pd.ArrowDtype | None:
        return None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)

    return pd.DataFrame(table.to_pandas(types_mapper=dtype, ignore_metadata=True))


def _without_index(schema: pa.Schema) -> pa.Schema:
    """Without the columns in which pandas keeps a frame's index, as its own reader has it."""
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        listed = []
    index = {name for name in listed if isinstance(name, str)}
    return pa.schema([field for field in schema if field.name not in index])


def buffer_size(columns: int, buffers: int = BUFFERS) -> int:
    """Bytes of one column read at a time: few long reads for a disk, yet no more memory where there are many
    columns."""
    return max(buffers // max(columns, 1), 1 << 16)
