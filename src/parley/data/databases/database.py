"""What a database is to a snapshot: columns that are declared before a row is read, a plan, and rows in an order.

Formal guarantee: the type of a column is what the database declares, or what a cast in the query says, never what rows
hold. No message quotes a cell: what a driver says is not passed on, only its code (`discreet`).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parley.data.sources.manifest import statement, without_literals
from parley.errors import DatabaseError, ParleyError

# What a person has to know of an error, by the first characters of an SQLSTATE; the longest that fits.
_STATES = {
    "08": "the connection broke off",
    "22": "a cell cannot be computed or converted as the query asks",
    "25006": "the query would change something; expected one that reads",
    "28": "it lets nobody in by this name and password",
    "40": "it broke the transaction off; repeat the command",
    "42501": "this account may not read what the query reads",
    "42601": "the query has a mistake of syntax",
    "42703": "the query names a column that is not there",
    "42P01": "the query names a table that is not there",
    "42": "the query names or does something that it does not know",
    "53": "it has no room or memory left",
    "57": "it was stopped, or stopped the query",
}


# Functions of which a key would have another value in the next snapshot.
_UNSTABLE = re.compile(
    r"\b(random\w*|rand|gen_random_uuid|uuid|uuidv\d|uuid_generate_v\w+|newid|nextval|clock_timestamp|row_number)\s*\(",
    re.IGNORECASE,
)

UNREAD = "not all rows of the query can be read; does it end well in the database's own shell?"


@dataclass(frozen=True)
class Request:
    """What is taken from a database: the rows of a query, in the order of some of its columns."""

    query: str
    keys: tuple[str, ...]

    @property
    def source(self) -> str:
        """The query as a part of another one."""
        return f"(\n{statement(self.query)}\n)"

    @property
    def unstable(self) -> tuple[str, ...]:
        """Functions that the query calls and that may say something else next time; it does not look into views."""
        return tuple(sorted({name.lower() for name in _UNSTABLE.findall(without_literals(self.query))}))


@dataclass(frozen=True)
class Column:
    """A column of a query: its name, its type as the database calls it, and the type of its cells in a snapshot."""

    name: str
    declared: str
    kind: pa.DataType
    printed: bool = False  # whether the database writes its cells out as text


@dataclass(frozen=True)
class Plan:
    """How a database would go about a query: the rows that it expects, and what in it brings people's rows together."""

    rows: int | None
    spreads: tuple[str, ...]


class OutOfMemoryError(DatabaseError):
    """A database has too little memory for the query."""


class Database(ABC):
    """A database within one transaction that changes nothing, and in which all rows are of one moment."""

    server: str  # where it is, without account and password
    version: str
    identity: str = ""  # what it calls itself, by whatever address it is reached; empty where it has no such name
    tried: ClassVar[bool] = True  # whether this kind is part of Parley's own tests

    @abstractmethod
    def columns(self, request: Request) -> tuple[Column, ...]:
        """The columns of the query as they are declared; no row is read."""

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """What the database says about the query; no row is read."""

    @abstractmethod
    def batches(self, request: Request, columns: Sequence[Column]) -> Generator[pa.RecordBatch]:
        """All rows in the order of the keys, some at a time, as the driver hands them out."""

    @abstractmethod
    def close(self) -> None:
        """End the transaction and the connection."""

    def collation(self, request: Request, column: Column) -> str | None:
        """The order of words by which a key of text would be sorted, if it is not the order of its bytes."""
        return None


@contextmanager
def discreet(server: str, trouble: str = "the query cannot be answered") -> Iterator[None]:
    """What a driver raises becomes one sentence of ours: its own would quote cells, or how somebody logs in."""
    try:
        yield
    except (ParleyError, ModuleNotFoundError):
        raise
    except Exception as error:  # drivers have no common kind of error
        kind = OutOfMemoryError if "Out of Memory Error" in str(error) else DatabaseError
        raise kind(f"{server}: {trouble} ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    """A driver's code for an error, in words where it is known."""
    state = getattr(error, "sqlstate", None) or ""
    code = state or getattr(error, "sqlite_errorname", None) or type(error).__name__
    known = max((start for start in _STATES if state.startswith(start)), key=len, default=None)
    return code if known is None else f"{code}: {_STATES[known]}"


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever it holds.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def ordered(
    request: Request, columns: Sequence[Column], selected: Callable[[Column], str], key: Callable[[Column], str]
) -> str:
    """The rows of a request in SQL, its columns written by `selected` and those that it is sorted by, by `key`."""
    named = {column.name: column for column in columns}
    order = ", ".join(key(named[name]) for name in request.keys)
    return f"SELECT {', '.join(map(selected, columns))} FROM {request.source} AS source ORDER BY {order}"
