"""Tables in a database: one query becomes a folder of Parquet files, and that folder is the table, because ledgers need
rows that do not change. To support another database, add a line to `DATABASES`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.data.databases.adbc import DRIVERS, Untried
from parley.data.databases.database import Address, Database, Request, parse_uri
from parley.data.databases.duckdb_file import DuckDb
from parley.data.databases.postgres import Postgres
from parley.data.databases.snapshot import take_snapshot
from parley.data.databases.sqlite_file import Sqlite
from parley.errors import SettingError

__all__ = ["Database", "Request", "open_database", "take_snapshot"]

# By the beginning of a URI.
DATABASES: dict[str, Callable[[Address, str | None], Database]] = {
    "postgresql": Postgres,
    "postgres": Postgres,
    "sqlite": Sqlite,
    "duckdb": DuckDb,
    **dict.fromkeys(DRIVERS, Untried),
}


@contextmanager
def open_database(uri: str, password: str | None = None, beside: Path | None = None) -> Iterator[Database]:
    """Open a URI's database in a transaction that ends with this block; rows may be sorted on disk near `beside`."""
    address = parse_uri(uri, beside)
    if address.scheme not in DATABASES:
        raise SettingError(f"--uri: the scheme of the address is not supported; use one of {', '.join(DATABASES)}")
    database = DATABASES[address.scheme](address, password)
    try:
        yield database
    finally:
        database.close()
