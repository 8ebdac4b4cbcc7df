"""Connections to a ledger's or journal's file: they survive forks, and write only what goes on from its memory."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from parley.errors import LedgerError
from parley.owner.ledger.chain import NOTED_ENDS, Memory, NotedEnd, head

PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",
    # KiB: the answers that are kept (`stored_rows.KEPT`), so that the oldest is let go without reading it
    "cache_size=-12000",
    # an answer that is let go was sent long ago: to write zeros over it doubles what a commit writes
    "secure_delete=OFF",
)


class FileIdentity:
    """The file that lies at a path: a connection would go on writing to one that was moved away."""

    def __init__(self, path: Path, kind: str = "ledger") -> None:
        self.path, self.kind = path, kind
        self._file = self._found()

    def require_same(self) -> None:
        if self._file is None or self._found() != self._file:
            raise LedgerError(
                f"{self.path}: the {self.kind} was moved or replaced while in use; nothing was released. "
                "Put the file back, or restart the program"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            about = os.stat(self.path)  # noqa: PTH116 - for every message, and pathlib is slower
        except FileNotFoundError:
            return None
        return about.st_dev, about.st_ino


@contextmanager
def open_to_look(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that changes nothing and makes no file (`sqlite3.Error` where there is none)."""
    place = f"{path.resolve().as_uri()}?mode=rw"  # so that what waits in a -wal file is seen
    with closing(sqlite3.connect(place, uri=True, timeout=5, isolation_level=None)) as db:
        db.execute("PRAGMA query_only=ON")
        yield db


class FileConnection:
    """A connection that one thread uses at a time; reading sees one moment and keeps nobody from writing. With a
    `memory`, a transaction that commits goes on from the end that is noted there, and notes its own."""

    rank = 2

    def __init__(self, place: FileIdentity, writes: bool = False) -> None:
        self._place, self._writes = place, writes
        self.memory: Memory | None = None
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        _CONNECTIONS.add(self)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for a single statement, which by itself sees one moment."""
        with self.lock:
            self._place.require_same()
            try:
                yield self._opened()
            except sqlite3.Error as error:
                raise LedgerError(
                    f"{self._place.path}: SQLite cannot read or write the {self._place.kind} ({error}); nothing was "
                    "released. Check the file's permissions and the disk"
                ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction: everything or nothing; one writer at a time, over threads and processes."""
        memory = self.memory
        with memory or nullcontext(), self.connection() as db:
            db.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
            try:
                noted = None if memory is None else memory.require_latest(db)
                yield db
                end = None if memory is None else head(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            if memory is not None and end is not None and end != noted:
                memory.note(end)

    def checkpoint(self) -> None:
        """Bring the file up to date with its -wal file, as far as nobody is in the way."""
        with self.lock:
            self._place.require_same()
            try:
                self._opened().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error as error:
                raise LedgerError(
                    f"{self._place.path}: SQLite cannot write the {self._place.kind} ({error}). Check the file's "
                    "permissions and the disk"
                ) from None

    def close(self) -> None:
        """Close the connection to the file."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._place.path, self._writes)
        return self._connection


def connect(path: Path, writes: bool = False) -> sqlite3.Connection:
    """Return a connection; for reading only, also to a file on a disk that cannot be written to."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if writes:
            raise
        wal = Path(f"{path}-wal")
        waiting = wal.exists() and wal.stat().st_size > 0  # rows that SQLite must not pass over
        place = f"{path.resolve().as_uri()}?mode=ro{'' if waiting else '&immutable=1'}"
        connection = sqlite3.connect(place, uri=True, timeout=60, isolation_level=None, check_same_thread=False)
    return connection


def _before_fork() -> None:
    """Close everything: locks belong to a process, and nothing open may live through a fork in parent or child."""
    everything: list[FileConnection | NotedEnd] = [*NOTED_ENDS, *_CONNECTIONS]
    for held in sorted(everything, key=lambda each: (each.rank, id(each))):
        held.lock.acquire()
        held.close()
        _HELD_DURING_FORK.append(held)


def _after_fork() -> None:
    while _HELD_DURING_FORK:
        _HELD_DURING_FORK.pop().lock.release()


_CONNECTIONS: "weakref.WeakSet[FileConnection]" = weakref.WeakSet()
_HELD_DURING_FORK: list[FileConnection | NotedEnd] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
