"""DuckDB: a file opened for reading, which reads no other file and sorts in a private folder beside the snapshot."""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from parley.data.databases.adbc import AdbcDatabase
from parley.data.databases.database import (
    Address,
    Column,
    OutOfMemoryError,
    Plan,
    Request,
    discreet,
    plain_type,
    quoted,
)
from parley.durable import sorting_folder
from parley.errors import DatabaseError, DataError

SETTINGS = {
    "access_mode": "READ_ONLY",
    "enable_external_access": "false",  # other files are no part of the transaction
    "autoinstall_known_extensions": "false",
    "threads": "2",  # each needs memory of its own
}
MEMORY_LIMITS_MB = (128, 256, 512, 1024, 2048)  # MB in which rows are sorted: the more of these, the longer they are
# what Arrow has no type for, rounds, or hands out as something else
_UNSUPPORTED_TYPES = {"HUGEINT", "UHUGEINT", "BIGNUM", '"NULL"', "TIME WITH TIME ZONE", "BIT"}

_ROW_BY_ROW_STEPS = {"PROJECTION", "FILTER", "SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "ORDER_BY"}
_STEP_WORDS = {
    "HASH_JOIN": "a join",
    "NESTED_LOOP_JOIN": "a join",
    "PIECEWISE_MERGE_JOIN": "a join",
    "IE_JOIN": "a join",
    "ASOF_JOIN": "a join",
    "CROSS_PRODUCT": "a join",
    "HASH_GROUP_BY": "an aggregate",
    "PERFECT_HASH_GROUP_BY": "an aggregate",
    "UNGROUPED_AGGREGATE": "an aggregate",
    "COLUMN_DATA_SCAN": "an aggregate",
    "WINDOW": "a window",
    "STREAMING_WINDOW": "a window",
    "LIMIT": "a limit",
    "STREAMING_LIMIT": "a limit",
    "TOP_N": "a limit",
    "UNION": "several tables or parts of one",
}


class DuckDb(AdbcDatabase):
    """A DuckDB file."""

    def __init__(self, address: Address, password: str | None = None) -> None:
        from adbc_driver_duckdb import driver_path
        from adbc_driver_manager import dbapi

        file = address.file
        with ExitStack() as ending:
            options = {
                **SETTINGS,
                "path": str(file),
                "temp_directory": ending.enter_context(sorting_folder(address.beside or file)),
            }
            options["memory_limit"] = f"{MEMORY_LIMITS_MB[0]}MB"
            with discreet(
                f"duckdb:{file}", "it cannot be opened for reading; check that no other program writes to it"
            ):
                connection = dbapi.connect(
                    driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=options, autocommit=False
                )
            super().__init__(f"duckdb:{file}", connection)
            ending.callback(super().close)
            self.run("SET TimeZone = 'UTC'")
            ((version,),) = self.rows("SELECT version()")
            self.version = f"DuckDB {version}"
            self._ending = ending.pop_all()

    def close(self) -> None:
        self._ending.close()

    def columns(self, request: Request) -> tuple[Column, ...]:
        self._require_one_statement(request)
        fields = self.declared(f"SELECT * FROM {request.source} AS source")
        if fields.names != self.declared(request.source).names:  # within another query the second has another name
            raise DataError(
                f"{self.server}: two columns of the query have the same name, ignoring case; rename one of the columns "
                "with AS"
            )
        types = [row[1] for row in self.rows(f"DESCRIBE SELECT * FROM {request.source} AS source")]
        return tuple(_column(field, declared) for field, declared in zip(fields, types, strict=True))

    def selected(self, column: Column) -> str:
        cell = f"source.{quoted(column.name)}"
        return f"CAST({cell} AS VARCHAR) AS {quoted(column.name)}" if column.printed else cell

    def sorted(self, key: Column) -> str:
        cell = f"source.{quoted(key.name)}"
        return f"encode({cell})" if key.declared == "VARCHAR" else cell  # by its bytes, whatever its collation

    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        """Yield rows, with more memory if needed: a file open for reading cannot change in between."""
        for limit in MEMORY_LIMITS_MB:
            self.run(f"SET memory_limit = '{limit}MB'")
            rows = super().batches(request, columns)
            try:
                first = next(rows, None)
            except OutOfMemoryError:
                with discreet(self.server):
                    self._connection.rollback()
                continue
            if first is not None:
                yield first
                yield from rows
            return
        raise DatabaseError(
            f"{self.server}: the query's rows do not fit into {limit} MB for sorting; select fewer columns"
        )

    def plan(self, request: Request) -> Plan:
        self._require_one_statement(request)
        ((_, text),) = self.rows(f"EXPLAIN (FORMAT JSON) SELECT * FROM {request.source} AS source")
        steps = {name for step in json.loads(text) for name in _names(step)}
        return Plan(None, tuple(sorted({_STEP_WORDS.get(name, name) for name in steps - _ROW_BY_ROW_STEPS})))

    def _require_one_statement(self, request: Request) -> None:
        """Refuse a query that would end ours and begin others; DuckDB itself refuses syntax errors."""
        import duckdb

        with discreet(self.server):
            statements = len(duckdb.extract_statements(f"SELECT * FROM {request.source} AS source"))
        if statements != 1:
            raise DatabaseError(f"{self.server}: the query contains several statements; use one SELECT")


def _column(field: pa.Field, declared: str) -> Column:
    printed = declared.startswith("ENUM")
    kind = pa.null() if declared in _UNSUPPORTED_TYPES else pa.string() if printed else plain_type(field.type)
    return Column(field.name, "ENUM" if printed else declared, kind, printed)


def _names(step: dict[str, Any]) -> Iterator[str]:
    """Yield the names of a plan's step and of all steps below it."""
    yield step["name"].strip()
    for below in step.get("children", ()):
        yield from _names(below)
