"""A table in Parquet: one file, or a folder of files as one table. Nothing of it is held: rows are read when they are asked for, in order.

What a file declares is what its cells are read by (`arrow_cells`): types are never guessed from cells, and all files of a folder declare
the same.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley.data.arrow_cells import usual
from parley.data.schema import Schema, declared_by_arrow
from parley.errors import DataError

BUFFERS = 32 << 20  # bytes read at a time for each core, shared out among the columns, where a folder is read again and again
FEW_BUFFERS = 4 << 20  # where a table is gone through once
AT_ONCE = 16384  # rows in memory then

Group = tuple[Path, int, int]  # file, row group, rows


@dataclass(frozen=True)
class ParquetTable:
    """One .parquet file, or those of a folder in the order of their names."""

    path: Path

    @cached_property
    def streams(self) -> bool:
        """Whether its rows are never held all at once: those of a folder."""
        return self.path.is_dir()

    @cached_property
    def files(self) -> tuple[Path, ...]:
        found = self._found()
        if not found:
            raise DataError(f"{self.path}: expected .parquet files in this folder")
        return found

    def _found(self) -> tuple[Path, ...]:
        return tuple(sorted(self.path.glob("*.parquet"))) if self.streams else (self.path,)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns as the first file declares them, but for those in which pandas keeps an index."""
        with discreet(self.files[0]):
            return _without_index(pq.read_schema(self.files[0]))

    @property
    def schema(self) -> Schema:
        return declared_by_arrow(self.arrow_schema)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All row groups. Files that declare other columns, or other types of them, are refused by that alone."""
        found: list[Group] = []
        self.require_unchanged()
        for file in self.files:
            with discreet(file):
                about = pq.read_metadata(file)
                alike = _without_index(pq.read_schema(file)).equals(self.arrow_schema)
            if not alike:
                raise DataError(
                    f"{file}: its columns or their types differ from those of {self.files[0].name}; write all files alike"
                )
            found += [(file, g, about.row_group(g).num_rows) for g in range(about.num_row_groups)]
        self.require_unchanged()
        return tuple(found)

    @cached_property
    def _stamps(self) -> tuple[tuple[str, int, int, int], ...]:
        return _stamped(self.files)

    def require_unchanged(self) -> None:
        """Refuse if a file was changed, added or taken away since the table was first looked at: places and sizes are promises."""
        if self._found() != self.files or _stamped(self.files) != self._stamps:
            raise DataError(
                f"{self.path}: its files changed since the table was opened; put them back, or open a table that stays as it is"
            )

    def __len__(self) -> int:
        return sum(rows for _, _, rows in self.groups)

    def example(self) -> pd.DataFrame:
        """No rows: the names and declared types of the columns."""
        return _to_pandas(_usual(self.arrow_schema).empty_table())

    def batches(
        self, groups: Sequence[Group], columns: Sequence[str], rows: int = AT_ONCE, each: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups in order, at most so many at a time; each group whole, or an error: sensitivities count on it.
        `each`: bytes of a column that are read at a time."""
        each, wanted = each or buffer_size(len(columns), FEW_BUFFERS), list(dict.fromkeys(columns))
        for file, some in groupby(groups, key=itemgetter(0)):
            with discreet(file), pq.ParquetFile(file, pre_buffer=False, buffer_size=each) as source:
                for _, group, expected in some:
                    seen = 0
                    for batch in source.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False):
                        seen += len(batch)
                        if seen > expected:
                            raise DataError(f"{file}: it holds more rows than when the table was opened")
                        yield batch.cast(_usual(batch.schema))
                    if seen != expected:
                        raise DataError(f"{file}: it holds fewer rows than when the table was opened")

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """All rows of these columns at once, as they are declared."""
        wanted = self.arrow_schema.names if columns is None else list(dict.fromkeys(columns))
        self.require_unchanged()
        parts = []
        for file in self.files:
            with discreet(file), pq.ParquetFile(file) as source:
                parts.append(source.read(columns=wanted, use_pandas_metadata=False).replace_schema_metadata(None))
        self.require_unchanged()
        return as_frame(pa.concat_tables(parts))


def as_frame(table: pa.Table) -> pd.DataFrame:
    """The same columns in a data frame, each of its declared type. Dictionaries of text are categories, of anything else its cells."""
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


def _stamped(files: tuple[Path, ...]) -> tuple[tuple[str, int, int, int], ...]:
    """Name, size, time of change and place on the disk of every file."""
    try:
        facts = [(file.name, file.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{files[0].parent}: its files cannot be looked at ({type(error).__name__})") from None
    return tuple((name, about.st_size, about.st_mtime_ns, about.st_ino) for name, about in facts)


def buffer_size(columns: int, buffers: int = BUFFERS) -> int:
    """Bytes of one column read at a time: few long reads for a disk, yet no more memory where there are many columns."""
    return max(buffers // max(columns, 1), 1 << 16)


@contextmanager
def discreet(file: Path) -> Iterator[None]:
    """What pyarrow says about a file may quote its cells."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{file}: cannot be read as parquet ({type(error).__name__})") from None
