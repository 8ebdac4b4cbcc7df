"""Connections to a ledger's file: they survive forks, and the lock under which noise is drawn."""

import fcntl
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from parley.durable import PRIVATE
from parley.errors import LedgerError
from parley.owner.ledger.account import Head

PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",
    # KiB: the answers that are kept (`transactions.KEPT`), so that the oldest is let go without reading it
    "cache_size=-12000",
    # an answer that is let go was sent long ago: to write zeros over it doubles what a commit writes
    "secure_delete=OFF",
)


class Place:
    """Which file lies at a path: a connection would go on writing to one that was moved away."""

    def __init__(self, path: Path, kind: str = "ledger") -> None:
        self.path, self.kind = path, kind
        self._file = self._found()

    def require_same(self) -> None:
        if self._file is None or self._found() != self._file:
            raise LedgerError(
                f"{self.path}: the {self.kind} was moved or replaced while it was in use; nothing was released"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            about = os.stat(self.path)  # noqa: PTH116 - for every message, and pathlib is slower
        except FileNotFoundError:
            return None
        return about.st_dev, about.st_ino


@contextmanager
def looking(path: Path) -> Iterator[sqlite3.Connection]:
    """For who only looks: nothing is changed, and no file made (`sqlite3.Error` where there is none)."""
    place = f"{path.resolve().as_uri()}?mode=rw"  # so that what waits in a -wal file is seen
    with closing(sqlite3.connect(place, uri=True, timeout=5, isolation_level=None)) as db:
        db.execute("PRAGMA query_only=ON")
        yield db


class FileConnection:
    """A connection that one thread uses at a time. Who reads sees one moment and keeps nobody from writing."""

    def __init__(self, place: Place, writes: bool = False) -> None:
        self._place, self._writes = place, writes
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        _CONNECTIONS.add(self)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """For a single statement, which by itself sees one moment."""
        with self.lock:
            self._place.require_same()
            try:
                yield self._opened()
            except sqlite3.Error as error:
                raise LedgerError(
                    f"{self._place.path}: the {self._place.kind} cannot be used ({error}); nothing was released"
                ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything or nothing; one writer at a time, over threads and processes."""
        with self.connection() as db:
            db.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def checkpoint(self) -> None:
        """Bring the file up to date with what waits in its -wal file, as far as nobody is in the way."""
        with self.lock:
            self._place.require_same()
            try:
                self._opened().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error as error:
                raise LedgerError(f"{self._place.path}: the {self._place.kind} cannot be used ({error})") from None

    def close(self) -> None:
        """Close the connection to the file."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self._place.path, timeout=60, isolation_level=None, check_same_thread=False)
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            self._connection = connection
        return self._connection


class Drawing:
    """Held by who draws noise for an answer of this ledger: one at a time, over threads and processes. The kernel ends
    it with a process.

    No SQLite lock is held meanwhile: however long a draw takes, others read, accept and are told what is stored. The
    file that is locked holds where the chain ended with the last answer, so that an older copy of the ledger is
    noticed. It is on the disk when the system gets to it: the death of a process loses nothing, that of the machine
    perhaps the last notes.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.lock = path, threading.RLock()
        self._descriptor: int | None = None
        _DRAWINGS.add(self)

    def __enter__(self) -> Self:
        self.lock.acquire()
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            self.lock.release()
            raise LedgerError(f"{self._path}: cannot be locked ({error.strerror}); nothing was released") from None
        except BaseException:
            self.lock.release()
            raise
        return self

    def note(self, end: Head) -> None:
        """Write down where the chain ends; for who holds the lock."""
        if self._descriptor is not None:
            with suppress(OSError):  # a full disk: the answer is stored already
                os.pwrite(self._descriptor, f"{end.entries:020d} {end.hash}\n".encode(), 0)

    def noted(self) -> Head | None:
        """What was written down; None if nothing was."""
        try:
            text, before = self._path.read_text(encoding="ascii"), ""
            while text != before:  # somebody may be writing it
                text, before = self._path.read_text(encoding="ascii"), text
        except (OSError, ValueError):
            return None
        found = re.fullmatch(r"(\d{20}) ([0-9a-f]{64})\n", text)
        return None if found is None else Head(int(found[1]), found[2])

    def __exit__(self, *exception: object) -> None:
        try:
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self.lock.release()

    def close(self) -> None:
        """Let go of the file, which stays: to remove it would let two processes hold two files of the same name."""
        with self.lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def _before_fork() -> None:
    """Locks belong to a process: nothing open may live through a fork, in the parent or in the child.

    Who draws may wait for a connection, never the other way round: so drawings come first.
    """
    everything: list[FileConnection | Drawing] = [*sorted(_DRAWINGS, key=id), *sorted(_CONNECTIONS, key=id)]
    for held in everything:
        held.lock.acquire()
        held.close()
        _HELD.append(held)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().lock.release()


_CONNECTIONS: "weakref.WeakSet[FileConnection]" = weakref.WeakSet()
_DRAWINGS: "weakref.WeakSet[Drawing]" = weakref.WeakSet()
_HELD: list[FileConnection | Drawing] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
