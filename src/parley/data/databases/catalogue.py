"""Which database is meant by a URI: one line each. A program adds its own kind by adding a line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.data.databases.adbc import DRIVERS, Untried
from parley.data.databases.database import Address, Database, parse_uri
from parley.data.databases.duckdb_file import DuckDb
from parley.data.databases.postgres import Postgres
from parley.data.databases.sqlite_file import Sqlite
from parley.errors import SettingError

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
        raise SettingError(f"--uri: no database is known by its beginning; expected one of {', '.join(DATABASES)}")
    database = DATABASES[address.scheme](address, password)
    try:
        yield database
    finally:
        database.close()
