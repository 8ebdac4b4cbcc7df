"""Tables that lie in a database: one query becomes a folder of Parquet files, and that folder is the table.

Nobody answers questions from a database itself: it changes, and a ledger speaks of rows that stay as they are. Which
database a URI means is one line of `DATABASES`; a program adds its own kind by adding a line.
"""

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
    """The database of a URI, within a transaction that ends with this block; `beside`: the folder that will hold rows,
    beside which some may lie while they are sorted."""
    address = parse_uri(uri, beside)
    if address.scheme not in DATABASES:
        raise SettingError(f"--uri: its scheme is not supported; use one of {', '.join(DATABASES)}")
    database = DATABASES[address.scheme](address, password)
    try:
        yield database
    finally:
        database.close()
