"""A database as a snapshot sees it: columns declared before a row is read, a plan, and ordered rows.

Formal guarantee: the type of a column is what the database declares, or what a cast in the query says, never what rows
hold. No message quotes a cell: a driver's message is not passed on, only its code (`discreet`).

Formal guarantee: a cell of a snapshot is a function of that cell in the database and of its column's declared type; a
cell that is not of that type ends the snapshot.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from parley.data.cells import decoded
from parley.data.sources.manifest import statement, without_literals
from parley.errors import DatabaseError, DataError, ParleyError, SettingError

_SECRET_WORDS = re.compile("password|passwd|passcode|secret|token|credential|private_?key|api_?key|authori[sz]ation")
_POSTGRES_PARAMETERS = """host hostaddr port dbname user passfile service servicefile options application_name
    fallback_application_name client_encoding connect_timeout tcp_user_timeout keepalives keepalives_idle
    keepalives_interval keepalives_count sslmode sslnegotiation sslcert sslkey sslrootcert sslcrl sslcrldir sslsni
    sslcertmode sslcompression ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
    max_protocol_version requiressl requirepeer require_auth channel_binding gssencmode krbsrvname gsslib
    gssdelegation target_session_attrs load_balance_hosts replication"""
_WAREHOUSE_PARAMETERS = "account database schema warehouse role region protocol host port user authenticator datasetid"
# What may stand behind ? in a URI, by its beginning; a file has no such things.
URI_PARAMETERS = {
    **dict.fromkeys(("postgresql", "postgres"), frozenset(_POSTGRES_PARAMETERS.split())),
    **dict.fromkeys(("snowflake", "bigquery", "grpc", "grpc+tls"), frozenset(_WAREHOUSE_PARAMETERS.split())),
}
_PORT = re.compile(r":\d+$")
_HOST = r"(\[[0-9a-fA-F:.]+\]|[^:/@,]*)(:\d+)?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")


@dataclass(frozen=True)
class Address:
    """A URI without a password. `beside`: the path next to which rows may be sorted; None: the database's own file."""

    uri: str
    scheme: str
    beside: Path | None = None

    @property
    def host(self) -> str:
        """The machine, by name and port, or a socket's folder there."""
        parts = urlsplit(self.uri)
        given = dict(parse_qsl(parts.query))
        host = given.get("host") or parts.netloc.rpartition("@")[2] or given.get("service")
        host = host or os.environ.get("PGHOST") or os.environ.get("PGSERVICE") or "localhost"
        port = given.get("port") or os.environ.get("PGPORT") or "5432"
        return host if _PORT.search(host) else f"{host}:{port}"

    @property
    def file(self) -> Path:
        """The file of a database in a file: sqlite:loans.db, sqlite:/data/loans.db, sqlite:///data/loans.db."""
        path = Path(self.uri.partition(":")[2].removeprefix("//"))
        if not path.is_file():
            raise SettingError(f"{path}: no such database file; check the name")
        return path.resolve()


def parse_uri(uri: str, beside: Path | None = None) -> Address:
    """Parse a URI; refuse one that holds a password."""
    require_no_password(uri)
    scheme, _, rest = uri.partition(":")
    try:
        host = urlsplit(uri).netloc.rpartition("@")[2]
    except ValueError:
        host = ":"
    if not (rest and re.fullmatch("[a-zA-Z][a-zA-Z0-9+.-]*", scheme) and _HOSTS.fullmatch(host)):
        raise SettingError(
            "--uri: expected a database address, for example postgresql://user@host:5432/database, sqlite:FILE or "
            "duckdb:FILE"
        )
    return Address(uri, scheme.lower(), beside)


def require_no_password(uri: str) -> None:
    """Refuse a URI that may hold a password anywhere: other accounts see command lines, and shells keep them."""
    place, _, behind = uri.partition("?")
    before, at, _ = place.partition("://")[2].rpartition("@")
    names = [name.casefold() for name, _ in parse_qsl(behind, keep_blank_values=True)]  # decoded, as drivers do it
    named = any(map(_SECRET_WORDS.search, names)) or re.search(r"\bpass(word|wd)?\s*=", uri, re.IGNORECASE)
    if (at and ":" in before) or named:
        raise SettingError(
            "--uri: the address contains a password, which other accounts can see in the process list. Change the "
            "password, and pass the new password through PGPASSFILE, PGPASSWORD or --ask-password"
        )
    allowed = URI_PARAMETERS.get(place.partition(":")[0].lower())
    if allowed is not None and not allowed.issuperset(names):
        raise SettingError(
            "--uri: the address has an unknown parameter, which might be a password; remove the parameter. Known "
            f"parameters: {', '.join(sorted(allowed))}"
        )


def with_password(uri: str, password: str | None) -> str:
    """Return the URI that a driver gets, in memory.

    >>> with_password("postgresql://anna@db/loans?sslmode=require", "x y")
    'postgresql://anna@db/loans?sslmode=require&password=x%20y'
    """
    if password is None:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}password={quote(password, safe='')}"


# What a person has to know of an error, by the first characters of an SQLSTATE; the longest that fits.
_ERROR_WORDS = {
    "08": "the connection was lost",
    "22": "a cell cannot be computed or converted as the query says",
    "25006": "the query would change data; use one that only reads",
    "28": "it refuses this name and password",
    "40": "it cancelled the transaction; run the command again",
    "42501": "this account may not read what the query reads",
    "42601": "the query has a syntax error",
    "42703": "the query names a column that does not exist",
    "42P01": "the query names a table that does not exist",
    "42": "the query uses something that the database does not know",
    "53": "it has no disk space or memory left",
    "57": "it was stopped, or it cancelled the query",
}


# Functions of which a key would have another value in the next snapshot.
_UNSTABLE_CALL = re.compile(
    r"\b(random\w*|rand|gen_random_uuid|uuid|uuidv\d|uuid_generate_v\w+|newid|nextval|clock_timestamp|row_number)\s*\(",
    re.IGNORECASE,
)

UNREADABLE_ROWS = "not all rows of the query can be read; run the query in the database's own shell to see why"


@dataclass(frozen=True)
class Request:
    """The rows to take from a database: a query, ordered by some of its columns."""

    query: str
    keys: tuple[str, ...]

    @property
    def source(self) -> str:
        """The query as a subquery."""
        return f"(\n{statement(self.query)}\n)"

    @property
    def unstable(self) -> tuple[str, ...]:
        """Functions in the query whose values may change next time; views are not examined."""
        return tuple(sorted({name.lower() for name in _UNSTABLE_CALL.findall(without_literals(self.query))}))


@dataclass(frozen=True)
class Column:
    """A column of a query: its name, its type in the database, and the type of its cells in a snapshot."""

    name: str
    declared: str
    kind: pa.DataType
    printed: bool = False  # whether the database writes its cells out as text


@dataclass(frozen=True)
class Plan:
    """A database's plan for a query: the expected rows, and the steps that combine people's rows."""

    rows: int | None
    spreads: tuple[str, ...]


class OutOfMemoryError(DatabaseError):
    """The database has too little memory for the query."""


class Database(ABC):
    """A database within one transaction that changes nothing and sees all rows as of one moment."""

    server: str  # where it is, without account and password
    version: str
    identity: str = ""  # what it calls itself, by whatever address it is reached; empty where it has no such name
    tried: ClassVar[bool] = True  # whether this kind is part of Parley's own tests

    @abstractmethod
    def columns(self, request: Request) -> tuple[Column, ...]:
        """Return the query's columns as declared; no row is read."""

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """Return what the database says about the query; no row is read."""

    @abstractmethod
    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        """Yield all rows in the order of the keys, in batches as the driver returns them."""

    @abstractmethod
    def close(self) -> None:
        """End the transaction and the connection."""

    def collation(self, request: Request, column: Column) -> str | None:
        """Return the collation that would sort a text key, unless it is the order of its bytes."""
        return None


@contextmanager
def discreet(server: str, trouble: str = "the query failed") -> Iterator[None]:
    """Replace a driver's error by one sentence of ours: its own could quote cells or credentials."""
    try:
        yield
    except (ParleyError, ModuleNotFoundError):
        raise
    except Exception as error:  # drivers have no common kind of error
        kind = OutOfMemoryError if "Out of Memory Error" in str(error) else DatabaseError
        raise kind(f"{server}: {trouble} ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    """Return a driver's error code, in words if known."""
    state = getattr(error, "sqlstate", None) or ""
    code = state or getattr(error, "sqlite_errorname", None) or type(error).__name__
    known = max((start for start in _ERROR_WORDS if state.startswith(start)), key=len, default=None)
    return code if known is None else f"{code}: {_ERROR_WORDS[known]}"


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever it holds.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def ordered(
    request: Request, columns: Sequence[Column], selected: Callable[[Column], str], key: Callable[[Column], str]
) -> str:
    """Return the SQL of a request; `selected` writes its columns, `key` those that order it."""
    named = {column.name: column for column in columns}
    order = ", ".join(key(named[name]) for name in request.keys)
    return f"SELECT {', '.join(map(selected, columns))} FROM {request.source} AS source ORDER BY {order}"


MAX_DECIMAL_DIGITS = 76  # of decimals that Arrow and Parquet hold
FIRST_DAY, LAST_DAY = -719162, 2932896  # of the years 1 to 9999, counted from 1970
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells themselves, without a driver's extension or a dictionary."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decimal_type(digits: int, scale: int) -> pa.DataType:
    """Return the type of numbers with this many digits in all and after the point; text if none is large enough.

    >>> decimal_type(12, 2), decimal_type(50, 0), decimal_type(80, 2)
    (Decimal128Type(decimal128(12, 2)), Decimal256Type(decimal256(50, 0)), DataType(string))
    """
    if not 0 <= scale <= digits or not 1 <= digits <= MAX_DECIMAL_DIGITS:
        return pa.string()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def plain_batch(batch: pa.RecordBatch, columns: Sequence[Column], where: str) -> pa.RecordBatch:
    """Return the same rows, each column in its declared type."""
    cells = []
    for place, column in enumerate(columns):
        try:
            cells.append(_plain_cells(batch.column(place), column.kind))
        except (pa.ArrowException, UnicodeError, OverflowError):  # what they say quotes cells
            raise not_as_declared(column, where) from None
        if not _in_calendar(cells[-1]):
            raise DataError(
                f"{where}: column {column.name!r} contains a date outside the years 1 to 9999 or a time past 23:59:59; "
                "replace the value in the query"
            )
    return pa.record_batch(cells, plain_schema(columns))


def not_as_declared(column: Column, where: str) -> DataError:
    """Return the error for a cell that does not match its column's declared type."""
    declared = f"column {column.name!r}, declared as {column.declared}, holds a cell of another type"
    return DataError(f"{where}: {declared}; cast it in the query to the type you mean")


def plain_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the columns as Parquet files declare them."""
    return pa.schema([pa.field(column.name, column.kind) for column in columns])


def _plain_cells(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    cells = decoded(cells.storage if isinstance(cells, pa.ExtensionArray) else cells)
    if pa.types.is_decimal(kind) and pa.types.is_string(cells.type):  # numbers as digits; one that is none is a gap
        cells = pc.if_else(pc.equal(cells, "nan"), pa.scalar(None, cells.type), cells)
    cells = cells.cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        cells.validate(full=True)
    return cells


def _in_calendar(cells: pa.Array) -> bool:
    """Whether all days and times lie in the years 1 to 9999, and times of day within a day."""
    if pa.types.is_date32(cells.type):
        first, last = FIRST_DAY, LAST_DAY
    elif pa.types.is_timestamp(cells.type):
        day = 86400 * _TICKS_PER_SECOND[cells.type.unit]
        first, last = FIRST_DAY * day, (LAST_DAY + 1) * day - 1
    elif pa.types.is_time(cells.type):
        first, last = 0, 86400 * _TICKS_PER_SECOND[cells.type.unit] - 1
    else:
        return True
    ends = pc.min_max(cells.view(pa.int32() if cells.type.bit_width == 32 else pa.int64())).as_py()
    return ends["min"] is None or (first <= ends["min"] and ends["max"] <= last)
