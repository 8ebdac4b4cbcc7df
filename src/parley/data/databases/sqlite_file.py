"""SQLite: a file opened for reading through Python's own module, which sorts in a private folder beside the snapshot.

A column's type is the declared one, or that of a cast in the query, not that of the first rows. A cell of another type
ends the snapshot: SQLite itself allows any cell in any column.
"""

import re
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from types import NoneType
from typing import Any

import pyarrow as pa

from parley.data.databases.database import (
    UNREADABLE_ROWS,
    Address,
    Column,
    Database,
    Plan,
    Request,
    discreet,
    not_as_declared,
    ordered,
    quoted,
)
from parley.durable import sorting_folder
from parley.errors import DatabaseError, DataError

SORT_FOLDER_STATEMENT = "PRAGMA temp_store_directory = '{}'"  # for all of this process, until it is empty again
BATCH_ROWS = 4096  # rows that are held as Python has them
TYPES_VIEW, TYPES_TABLE = 'temp."parley view"', 'temp."parley types"'

# By words in a declared type, as SQLite itself finds a column's affinity; the first that fits.
_ARROW_TYPES: tuple[tuple[str, pa.DataType], ...] = (
    ("BOOL", pa.bool_()),
    ("DATETIME|TIMESTAMP", pa.timestamp("us")),
    ("DATE", pa.date32()),
    ("INT", pa.int64()),
    ("CHAR|CLOB|TEXT", pa.string()),
    ("BLOB", pa.binary()),
    ("REAL|FLOA|DOUB|NUM|DEC", pa.float64()),
)
_PYTHON_TYPES: dict[pa.DataType, tuple[type, ...]] = {
    pa.bool_(): (int,),
    pa.timestamp("us"): (str,),
    pa.date32(): (str,),
    pa.int64(): (int,),
    pa.string(): (str,),
    pa.binary(): (bytes,),
    pa.float64(): (float, int),
}
_TRUTH_VALUES = {0: False, 1: True, None: None}

_TABLE_READ = re.compile("(SCAN|SEARCH|USING ROWID SEARCH) ")
_OPCODE_WORDS = {
    "AggStep": "an aggregate or a window",
    "AggStep1": "an aggregate or a window",
    "AggFinal": "an aggregate or a window",
    "AggValue": "an aggregate or a window",
    "Count": "an aggregate or a window",
    "DecrJumpZero": "a limit",
    "IfNotZero": "a limit",  # within a sort
    "OffsetLimit": "a limit",
}


class Sqlite(Database):
    """A SQLite file."""

    def __init__(self, address: Address, password: str | None = None) -> None:
        file = address.file
        self.server, self.version = f"sqlite:{file}", f"SQLite {sqlite3.sqlite_version}"
        with ExitStack() as ending, discreet(self.server, "it cannot be opened for reading"):
            folder = ending.enter_context(sorting_folder(address.beside or file))
            self._connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
            ending.callback(self._disconnect)
            self._sort_in(folder)
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT name FROM sqlite_schema").fetchone()  # the moment of all that is read
            self._ending = ending.pop_all()

    def close(self) -> None:
        self._ending.close()

    def _disconnect(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()
            self._connection.execute(SORT_FOLDER_STATEMENT.format(""))
        with suppress(sqlite3.Error):
            self._connection.close()

    def _sort_in(self, folder: str) -> None:
        """Sort rows in this folder, not in a shared one; in memory if SQLite ignores the setting."""
        if folder:
            self._connection.execute(SORT_FOLDER_STATEMENT.format(folder.replace("'", "''")))
        if not folder or self._connection.execute("PRAGMA temp_store_directory").fetchall() != [(folder,)]:
            self._connection.execute("PRAGMA temp_store = MEMORY")

    def columns(self, request: Request) -> tuple[Column, ...]:
        """Read declared types from a view of the query, and types of casts from an empty table."""
        self._explained(request)
        declared = self._declared(TYPES_VIEW, "VIEW", f"SELECT * FROM {request.source}")
        cast = self._declared(TYPES_TABLE, "TABLE", f"SELECT * FROM {request.source} LIMIT 0")
        names = [name for name, _ in declared]
        self._require_names(names)
        types = [view_type or cast_type for (_, view_type), (_, cast_type) in zip(declared, cast, strict=True)]
        return tuple(Column(name, kind, _kind(kind)) for name, kind in zip(names, types, strict=True))

    def _require_names(self, names: Sequence[str]) -> None:
        """Refuse two columns of one name: SQLite calls the second of them `name:1`."""
        for name in names:
            stem, _, number = name.rpartition(":")
            if number.isdigit() and stem in names:
                raise DataError(
                    f"{self.server}: the column name {name!r} suggests that two columns of the query are called "
                    f"{stem!r}; rename one of the columns with AS"
                )

    def plan(self, request: Request) -> Plan:
        step_words = {_OPCODE_WORDS[row[1]] for row in self._explained(request) if row[1] in _OPCODE_WORDS}
        lines = [row[3] for row in self._rows(f"EXPLAIN QUERY PLAN SELECT * FROM {request.source}")]
        step_words |= {
            "rows merged into one (DISTINCT or GROUP BY)"
            for line in lines
            if re.search("FOR (DISTINCT|GROUP BY)", line)
        }
        if sum(bool(_TABLE_READ.match(line)) for line in lines) > 1:
            step_words.add("a join, or several tables")
        return Plan(None, tuple(sorted(step_words)))

    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        statement = ordered(request, columns, _cell, _key)
        with discreet(self.server, UNREADABLE_ROWS):
            cursor = self._connection.execute(statement)
            while rows := cursor.fetchmany(BATCH_ROWS):
                cells = [
                    self._cells(column, held) for column, held in zip(columns, zip(*rows, strict=True), strict=True)
                ]
                yield pa.record_batch(cells, [column.name for column in columns])

    def _cells(self, column: Column, cells: Sequence[Any]) -> pa.Array:
        """Return one column's cells, if their Python types match its declared type."""
        try:
            if not {*map(type, cells)} <= {
                *_PYTHON_TYPES[column.kind],
                NoneType,
            }:  # Arrow would cut 1.5 to a whole number
                raise TypeError
            if pa.types.is_boolean(column.kind):
                return pa.array([_TRUTH_VALUES[cell] for cell in cells], column.kind)
            return pa.array(cells, pa.string() if pa.types.is_temporal(column.kind) else column.kind)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError):  # what they say quotes cells
            raise not_as_declared(column, self.server) from None

    def _declared(self, name: str, what: str, statement: str) -> list[tuple[str, str]]:
        """Return (name, type) of every column of a temporary view or table of this statement."""
        self._rows(f"CREATE TEMP {what} {name.partition('.')[2]} AS {statement}")
        columns = self._rows(f"PRAGMA temp.table_info({name.partition('.')[2]})")
        self._rows(f"DROP {what} {name}")
        return [(row[1], row[2]) for row in columns]

    def _explained(self, request: Request) -> list[tuple[Any, ...]]:
        """Return the steps of a query; refuse placeholders."""
        with discreet(self.server):
            try:
                return self._connection.execute(f"EXPLAIN SELECT * FROM {request.source}").fetchall()
            except sqlite3.ProgrammingError as error:
                if "bindings" not in str(error):
                    raise
                raise DatabaseError(
                    f"{self.server}: the query has a placeholder (?, :name, @name, $name); replace the placeholder "
                    "with the value itself, and put text in quotes"
                ) from None

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with discreet(self.server):
            return self._connection.execute(statement).fetchall()


def _kind(declared: str) -> pa.DataType:
    """Return the type of cells in a column declared so; null if nothing was declared."""
    return next((kind for words, kind in _ARROW_TYPES if re.search(words, declared.upper())), pa.null())


def _cell(column: Column) -> str:
    return f"source.{quoted(column.name)}"


def _key(column: Column) -> str:
    return f"source.{quoted(column.name)} COLLATE BINARY"  # by its bytes, whatever its collation
