"""PostgreSQL: one transaction at the isolation level REPEATABLE READ, read only."""

import json
from typing import Any

import pyarrow as pa

from parley.data.databases.adbc import AdbcDatabase
from parley.data.databases.database import (
    Address,
    Column,
    Plan,
    Request,
    decimal_type,
    discreet,
    plain_type,
    quoted,
    with_password,
)
from parley.errors import DatabaseError, SettingError

WITHOUT_COPY = {"adbc.postgresql.use_copy": "false"}  # for statements that COPY does not know
SETTINGS = {  # what cells are printed and computed by, whatever this account and machine would have
    "client_encoding": "'UTF8'",
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, YMD'",
    "IntervalStyle": "'iso_8601'",
    "extra_float_digits": "3",
    "bytea_output": "'hex'",
}
_TEXT_TYPES = {"text", "varchar", "bpchar", "name", "char"}
_BYTES_ORDER = {'"C"', '"POSIX"', "ucs_basic"}
_MONEY_TYPE = "money"  # whole numbers of a unit that depends on the server's language

# Steps of a plan that take every row of a table for itself; words for some that do not, the name for all others.
_ROW_BY_ROW_STEPS = {"Sort", "Incremental Sort", "Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan"} | {
    "Bitmap Index Scan", "Gather", "Gather Merge", "Result", "Subquery Scan", "Tid Scan", "Hash", "Materialize",
}  # fmt: skip
_STEP_WORDS = {
    "Hash Join": "a join",
    "Merge Join": "a join",
    "Nested Loop": "a join",
    "Aggregate": "an aggregate",
    "Group": "an aggregate",
    "WindowAgg": "a window",
    "Unique": "rows merged into one (DISTINCT)",
    "Limit": "a limit",
    "Append": "several tables or parts of one",
    "Merge Append": "several tables or parts of one",
    "Function Scan": "a function that returns rows",
}


class Postgres(AdbcDatabase):
    """A PostgreSQL server, or a compatible one."""

    def __init__(self, address: Address, password: str | None = None) -> None:
        from adbc_driver_postgresql import dbapi

        place = f"postgresql://{address.host}"
        with discreet(place, _unreachable(password)):
            connection = dbapi.connect(with_password(address.uri, password), autocommit=False)
        super().__init__(place, connection)
        try:
            number = self._number()
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for setting, value in SETTINGS.items():
                self.run(f"SET {setting} TO {value}")
            facts = "current_database(), current_setting('server_version'), current_setting('transaction_isolation')"
            ((name, version, level),) = self.rows(f"SELECT {facts}")
            if level != "repeatable read":
                raise DatabaseError(
                    f"{place}: the server offers no transaction at isolation level REPEATABLE READ; use a server that "
                    "supports this level"
                )
        except BaseException:
            self.close()
            raise
        self.server, self.version = f"{place}/{name}", f"PostgreSQL {version}"
        self.identity = number and f"postgresql:{number}/{name}"

    def _number(self) -> str:
        """Return the server's own number, which its replicas share, or ""; a failed question ends its transaction."""
        try:
            ((number,),) = self.rows("SELECT system_identifier::text FROM pg_control_system()")
        except DatabaseError:
            return ""
        finally:
            with discreet(self.server):
                self._connection.rollback()
        return str(number)

    def column(self, field: pa.Field) -> Column:
        about = field.metadata or {}
        declared = about.get(b"POSTGRESQL:type", b"").decode() or str(field.type)
        if declared == "numeric":
            kind = _numeric(int(about.get(b"POSTGRESQL:typmod", b"-1")))
            return Column(field.name, declared, kind)
        if declared == _MONEY_TYPE:
            return Column(field.name, declared, pa.null())
        # enums, networks, ranges: nothing that Arrow has a type for; an oid would be cut to 31 bits
        opaque = isinstance(field.type, pa.OpaqueType) or declared == "oid"
        return Column(field.name, declared, pa.string() if opaque else plain_type(field.type), printed=opaque)

    def selected(self, column: Column) -> str:
        cell = f"source.{quoted(column.name)}"
        return f"{cell}::text AS {quoted(column.name)}" if column.printed else cell

    def collation(self, request: Request, column: Column) -> str | None:
        if not pa.types.is_string(column.kind):
            return None
        if column.declared == "numeric":
            raise SettingError(
                f"--order-by {column.name}: the column is numeric without a precision, so it becomes text in the "
                f"table; write {column.name}::bigint AS {column.name}, or ::numeric(38, 0), in the query"
            )
        if column.declared not in _TEXT_TYPES:
            return f"of {column.declared}"
        cell = f"SELECT {quoted(column.name)} FROM {request.source} AS source LIMIT 0"  # its type alone: no row is read
        ((name,),) = self.rows(f"SELECT pg_collation_for(({cell}))")
        if name == '"default"':
            ((text,),) = self.rows("SELECT to_jsonb(d) FROM pg_database AS d WHERE datname = current_database()")
            name = _default_collation(json.loads(text))
        return None if name in _BYTES_ORDER else str(name)

    def plan(self, request: Request) -> Plan:
        ((text,),) = self.rows(f"EXPLAIN (FORMAT JSON) SELECT * FROM {request.source} AS source", **WITHOUT_COPY)
        top = json.loads(text)[0]["Plan"]
        steps = list(_steps(top))
        step_words = {_STEP_WORDS.get(step["Node Type"], step["Node Type"]) for step in steps} - _ROW_BY_ROW_STEPS
        if any(step.get("Parent Relationship") in ("SubPlan", "InitPlan") for step in steps):
            step_words.add("a query within the query")
        return Plan(int(top["Plan Rows"]), tuple(sorted(step_words)))


def _steps(step: dict[str, Any]) -> "list[dict[str, Any]]":
    return [step, *(each for below in step.get("Plans", ()) for each in _steps(below))]


def _default_collation(database: dict[str, Any]) -> str:
    """Return a database's collation from its row in the server's catalogue; older servers know only the C library's."""
    provider = database.get("datlocprovider", "c")
    return f'"{database["datcollate"]}"' if provider == "c" else f"of a database with the provider {provider!r}"


def _numeric(modifier: int) -> pa.DataType:
    """Return the type of NUMERIC(digits, scale), which the server packs into one number; text without either."""
    if modifier < 4:
        return pa.string()
    packed = modifier - 4
    return decimal_type(packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 0x400) - 0x400)


def _unreachable(password: str | None) -> str:
    hint = "" if password is not None else "; pass a password by PGPASSFILE, PGPASSWORD or --ask-password"
    return f"it cannot be reached, or refuses the login{hint}"
