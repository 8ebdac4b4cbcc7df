"""SQLite: a file, opened to read, through Python's own module.

Its ADBC driver takes a column's type from the first rows. Here it is the declared one, or that of a cast in the query,
and a cell that is not of it ends the snapshot: SQLite itself lets any cell into any column.
"""

import re
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from parley.data.databases.database import Column, Database, Plan, Request, discreet, ordered, quoted
from parley.data.databases.uri import Address
from parley.errors import DataError

AT_ONCE = 16384  # rows that are held as Python has them
VIEW, EMPTY = 'temp."parley view"', 'temp."parley types"'

# By words in a declared type, as SQLite itself finds a column's affinity; the first that fits.
_KINDS: tuple[tuple[str, pa.DataType], ...] = (
    ("BOOL", pa.bool_()),
    ("DATETIME|TIMESTAMP", pa.timestamp("us")),
    ("DATE", pa.date32()),
    ("INT", pa.int64()),
    ("CHAR|CLOB|TEXT", pa.string()),
    ("BLOB", pa.binary()),
    ("REAL|FLOA|DOUB|NUM|DEC", pa.float64()),
)
_TRUTH = {0: False, 1: True, None: None}

_READS = re.compile("(SCAN|SEARCH|USING ROWID SEARCH) ")
_TOGETHER = {
    "AggStep": "an aggregate or a window",
    "AggStep1": "an aggregate or a window",
    "AggFinal": "an aggregate or a window",
    "AggValue": "an aggregate or a window",
    "Count": "an aggregate or a window",
    "DecrJumpZero": "a limit",
}


class Sqlite(Database):
    """A SQLite file."""

    def __init__(self, address: Address, password: str | None = None) -> None:
        file = address.file
        self.server, self.version = f"sqlite:{file}", f"SQLite {sqlite3.sqlite_version}"
        with discreet(self.server, "it cannot be opened to read"):
            self._connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
            self._connection.execute("BEGIN")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def columns(self, request: Request) -> tuple[Column, ...]:
        """A view of the query tells what its columns are declared as, a table of no rows what its casts are."""
        declared = self._declared(VIEW, "VIEW", f"SELECT * FROM {request.source}")
        cast = self._declared(EMPTY, "TABLE", f"SELECT * FROM {request.source} LIMIT 0")
        return tuple(
            Column(name, said, _kind(said))
            for (name, told), (_, made) in zip(declared, cast, strict=True)
            for said in [told or made]
        )

    def plan(self, request: Request) -> Plan:
        statement = f"SELECT * FROM {request.source}"
        lines = [row[3] for row in self._rows(f"EXPLAIN QUERY PLAN {statement}")]
        found = {_TOGETHER[row[1]] for row in self._rows(f"EXPLAIN {statement}") if row[1] in _TOGETHER}
        found |= {
            "rows made one (DISTINCT or GROUP BY)" for line in lines if re.search("FOR (DISTINCT|GROUP BY)", line)
        }
        if sum(bool(_READS.match(line)) for line in lines) > 1:
            found.add("a join, or several tables")
        return Plan(None, tuple(sorted(found)))

    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        statement = ordered(request, columns, _cell, _key)
        with discreet(self.server):
            cursor = self._connection.execute(statement)
            while rows := cursor.fetchmany(AT_ONCE):
                cells = [
                    self._cells(column, held) for column, held in zip(columns, zip(*rows, strict=True), strict=True)
                ]
                yield pa.record_batch(cells, [column.name for column in columns])

    def _cells(self, column: Column, cells: Sequence[Any]) -> pa.Array:
        try:
            reader = _READERS.get(column.kind)
            return pa.array(cells, column.kind) if reader is None else reader(cells)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError):  # what they say quotes cells
            raise DataError(
                f"{self.server}: column {column.name!r}, declared as {column.declared}, holds a cell that is not; cast "
                "it in the query as it is meant"
            ) from None

    def _declared(self, name: str, what: str, statement: str) -> list[tuple[str, str]]:
        """(name, type) of every column of a view or table of this statement, which is gone afterwards."""
        self._rows(f"CREATE TEMP {what} {name.partition('.')[2]} AS {statement}")
        found = self._rows(f"PRAGMA temp.table_info({name.partition('.')[2]})")
        self._rows(f"DROP {what} {name}")
        return [(row[1], row[2]) for row in found]

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with discreet(self.server):
            return self._connection.execute(statement).fetchall()


def _kind(declared: str) -> pa.DataType:
    """The type of cells in a column that is declared so; none where nothing was declared."""
    return next((kind for words, kind in _KINDS if re.search(words, declared.upper())), pa.null())


def _cell(column: Column) -> str:
    return f"source.{quoted(column.name)}"


def _key(column: Column) -> str:
    return f"source.{quoted(column.name)} COLLATE BINARY"  # by its bytes, whatever its collation


def _truth_values(cells: Sequence[Any]) -> pa.Array:
    return pa.array([_TRUTH[cell] for cell in cells], pa.bool_())


def _written(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """A reader of days and times as SQLite writes them: text, year first."""
    return lambda cells: pa.array(cells, pa.string()).cast(kind)


_READERS: dict[pa.DataType, Callable[[Sequence[Any]], pa.Array]] = {
    pa.bool_(): _truth_values,
    pa.date32(): _written(pa.date32()),
    pa.timestamp("us"): _written(pa.timestamp("us")),
}
