"""A table for all other code: columns of declared types, and rows in one fixed order.

Formal guarantee: a cell is read by its own value and by what its source declares of its column (`cells`), never by what
other cells hold. A pass over the rows has every row once, at its place, or ends in an error: sensitivities depend on
it. No error of a source quotes a cell (`files.discreet`).
"""

import filecmp
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.core.arrays.masked import BaseMaskedArray  # nullable numbers and truth values: no public name

from parley.data.cells import Schema, declared_by_frame
from parley.data.sources.files import DataFile, LocalFile
from parley.errors import DataError

Rows: TypeAlias = "pd.DataFrame | pa.RecordBatch"


def column_names(rows: Rows) -> list[str]:
    """Return the names of the columns, in order."""
    return [str(name) for name in (rows.columns if isinstance(rows, pd.DataFrame) else rows.schema.names)]


def declared_types(rows: Rows, columns: Sequence[str]) -> list[Any]:
    """Return the declared types of columns, in pandas or Arrow."""
    if not isinstance(rows, pd.DataFrame):
        return [rows.schema.field(column).type for column in columns]
    types = rows.dtypes.to_numpy()  # of all at once: it takes longer to take a column out of its frame
    return [types[rows.columns.get_loc(column)] for column in columns]


def declared_column(rows: Rows, column: str) -> "tuple[Any, pa.Array | pd.Series[Any]]":
    """Return (a column's declared type, the column as it is held)."""
    if not isinstance(rows, pd.DataFrame):
        return rows.schema.field(column).type, rows.column(column)
    series = rows[column]
    return series.dtype, series


def declared_cells(series: "pa.Array | pd.Series[Any]") -> "pa.Array | pd.Series[Any]":
    """Return a column in its declared form: an Arrow array, or as pandas holds it otherwise."""
    if not isinstance(series, pd.Series):
        return series
    if not isinstance(series.dtype, pd.StringDtype | pd.ArrowDtype) and not isinstance(series.array, BaseMaskedArray):
        return series
    cells = pa.array(series.array, from_pandas=True)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def chosen_rows(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """Return the marked rows, in order."""
    return rows[chosen] if isinstance(rows, pd.DataFrame) else rows.filter(pa.array(chosen))


BATCH_ROWS = 16384  # rows in memory where a table is gone through once


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows that can be read by themselves: their number, and their place in the source."""

    rows: int
    place: Any = None


@dataclass(frozen=True)
class Origin:
    """The origin of rows, as digests: `queries`, of the query with each server name; `columns`, of its keys and
    columns."""

    queries: frozenset[str]
    columns: str

    def same_query(self, other: "Origin") -> bool:
        """Whether both come from one query to one server, by any of its names."""
        return not self.queries.isdisjoint(other.queries)


class TableSource(ABC):
    """A table. Subclasses define `example`, length, `frame`, `digest` and `require_unchanged`; `SOURCES` lists them."""

    streams: ClassVar[bool] = False  # whether its rows are never held all at once
    long: ClassVar[bool] = False  # whether its cells may be too many to be held all at once, though its rows are not
    drops_words: ClassVar[bool] = False  # whether words for a missing cell ("NA") come as gaps, whatever was meant
    named: ClassVar[bool] = True  # whether its columns have names of their own, else those that are usual there

    def __init__(self, path: Path | None = None) -> None:
        """`path`: the table's file or folder; None if there is none."""
        self.path = path
        self._place = None if path is None else path.resolve()

    @property
    @abstractmethod
    def example(self) -> pd.DataFrame:
        """A frame without rows: the names and declared types of the columns."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return all rows at once, with at least these columns, as declared."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a digest of all cells in order, which ledgers keep: from then on other rows are refused."""

    @property
    def schema(self) -> Schema:
        """The names and declared types of the columns, which terms fix when they are accepted."""
        return declared_by_frame(self.example)

    def batches(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield all rows of these columns in order, in batches."""
        frame = self.frame(columns)
        if len(frame) <= BATCH_ROWS:
            yield frame
        else:
            yield from (frame.iloc[start : start + BATCH_ROWS] for start in range(0, len(frame), BATCH_ROWS))

    @property
    def chunks(self) -> Sequence[Chunk]:
        """All rows in chunks that several machines can read apart; one chunk if that is impossible."""
        return (Chunk(len(self)),)

    def chunk_batches(self, chunks: Sequence[Chunk], columns: Sequence[str], at_once: int) -> Iterator[Rows]:
        """Yield the rows of these chunks in order, at most `at_once` at a time if the source can choose."""
        return self.batches(columns)

    @abstractmethod
    def require_unchanged(self) -> None:
        """Refuse to read what changed since the table was first read: places and sizes are promises."""

    def unchanged(self) -> bool:
        """Whether its files are as they were when it was opened."""
        try:
            self.require_unchanged()
        except (DataError, OSError):
            return False
        return True

    def gathered(self) -> "TableSource":
        """Return the same table with prepared rows held in memory; itself if they are anyway."""
        return self

    def require_header(self) -> None:
        """Refuse column names that would not be found as written."""
        return

    @property
    def parts(self) -> Sequence[DataFile]:
        """The table's files, here or in an object store."""
        return () if self.path is None else (LocalFile(self.path),)

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files on this machine."""
        return tuple(part.path for part in self.parts if isinstance(part, LocalFile))

    @property
    def placed_by(self) -> tuple[str, ...]:
        """Columns whose cells decide a row's place; they count as public, as places do."""
        return ()

    @property
    def where(self) -> str:
        """The table's name in messages."""
        return "table" if self.path is None else str(self.path)

    @property
    def origin(self) -> Origin | None:
        """Where its rows were taken from, the same for later tables of the same query; None if unknown."""
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about its origin and place that whoever accepts terms should read."""
        return tuple(remark for part in self.parts[:1] for remark in part.remarks)

    @property
    def likeness(self) -> Hashable | None:
        """What copies of this table share: a file's size, a folder, or objects' sizes and ETags; None if unknown."""
        if self._place is None:
            return tuple(part.stamp()[1:] for part in self.parts) or None
        if not self._place.exists():
            return None
        return self._place.stat().st_size if self._place.is_file() else self._place

    def same_as(self, other: "TableSource") -> bool:
        """Whether another table of the same `likeness` is this one: a file under two names, a copy, or one folder."""
        own_place, other_place = self._place, other._place
        if own_place is None or other_place is None:
            return own_place is other_place and bool(self.parts) and bool(other.parts)
        return own_place == other_place or (
            own_place.is_file() and other_place.is_file() and _same_bytes(own_place, other_place)
        )

    def holds(self, file: Path) -> bool:
        """Whether `file` is one of its files (under any name), lies in its folder, or is a copy of one."""
        table = self._place
        if not file.is_file():
            return False
        if table is None:
            size, digest = file.stat().st_size, LocalFile(file).digest()
            return any(part.size() == size and part.digest() == digest for part in self.parts)
        if not table.exists():
            return False
        if table.is_dir() and file.resolve().is_relative_to(table):
            return True
        beside = [table] if table.is_file() else [part for part in table.iterdir() if part.is_file()]
        own = {*beside, *self.files}
        return any(file.samefile(part) or _same_bytes(file, part) for part in own)


def _same_bytes(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and filecmp.cmp(one, other, shallow=False)


def same_table(tables: Mapping[str, TableSource]) -> tuple[str, str] | None:
    """Return two names of one table; None if all tables differ."""
    alike: dict[Hashable, list[tuple[str, TableSource]]] = {}
    for name, table in tables.items():
        likeness = table.likeness
        if likeness is None:
            continue
        group = alike.setdefault(likeness, [])
        for other, known in group:
            if known.same_as(table):
                return other, name
        group.append((name, table))
    return None
