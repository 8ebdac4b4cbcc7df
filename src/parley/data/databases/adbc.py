"""Databases with an Arrow driver (ADBC): rows come as Arrow columns."""

import warnings
from collections.abc import Generator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from parley.data.databases.database import (
    UNREADABLE_ROWS,
    Address,
    Column,
    Database,
    Plan,
    Request,
    discreet,
    ordered,
    plain_type,
    quoted,
)
from parley.errors import SettingError

# By the beginning of a URI.
DRIVERS = {"snowflake": "snowflake", "bigquery": "bigquery", "grpc": "flightsql", "grpc+tls": "flightsql"}


class AdbcDatabase(Database):
    """A database behind an ADBC connection; subclasses add what is special."""

    def __init__(self, server: str, connection: Any) -> None:
        """`connection`: of the driver's `dbapi`, without autocommit."""
        self.server, self.version = server, "unknown"
        self._connection = connection

    def close(self) -> None:
        """Close without a rollback, which would wait for rows that nobody needs."""
        with suppress(Exception), warnings.catch_warnings():  # nothing is lost, and what is said may quote cells
            warnings.simplefilter("ignore")
            self._connection.close()

    def columns(self, request: Request) -> tuple[Column, ...]:
        fields = self.declared(f"SELECT * FROM {request.source} AS source")
        return tuple(self.column(field) for field in fields)

    def column(self, field: pa.Field) -> Column:
        """Describe a column by what the driver declares."""
        return Column(field.name, str(field.type), plain_type(field.type))

    def plan(self, request: Request) -> Plan:
        return Plan(None, ())

    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        statement = ordered(request, columns, self.selected, self.sorted)
        with discreet(self.server, UNREADABLE_ROWS), self._connection.cursor() as cursor:
            cursor.execute(statement)
            yield from cursor._results.reader  # the driver's own: pyarrow's loses the codes of errors

    def selected(self, column: Column) -> str:
        """Return a column for the list after SELECT."""
        return f"source.{quoted(column.name)}"

    def sorted(self, key: Column) -> str:
        """Return a key for the list after ORDER BY."""
        return f"source.{quoted(key.name)}"

    def declared(self, statement: str) -> pa.Schema:
        """Return the columns of a statement as the driver declares them; no row is read."""
        with discreet(self.server), self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(statement)

    def rows(self, statement: str, **options: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the database itself, not its contents."""
        with discreet(self.server), self._connection.cursor(adbc_stmt_kwargs=options) as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def run(self, statement: str) -> None:
        """Run a statement without a result."""
        with discreet(self.server), self._connection.cursor() as cursor:
            cursor.execute(statement)


class Untried(AdbcDatabase):
    """Databases with an ADBC driver that nobody has tried here: Snowflake, BigQuery, Flight SQL. All rows come from one
    statement, which these servers answer as of one moment."""

    tried: ClassVar[bool] = False

    def __init__(self, address: Address, password: str | None = None) -> None:
        name = f"adbc_driver_{DRIVERS[address.scheme]}"
        try:
            dbapi = import_module(f"{name}.dbapi")
        except ModuleNotFoundError:
            raise SettingError(
                f"--uri: this database requires the driver {name}; run pip install {name.replace('_', '-')}"
            ) from None
        server = f"{address.scheme}://{address.host}"
        options = {} if password is None else {"password": password}
        with discreet(server, "it cannot be reached, or refuses the login"):
            connection = dbapi.connect(address.uri, db_kwargs=options, autocommit=False)
        super().__init__(server, connection)
