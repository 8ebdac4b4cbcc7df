"""The hash chain: every row holds the hash of the one before it, so a row that was changed, or removed from the middle,
is noticed. Of an answer, or a table, its digest is hashed under a one-time pad: 32 random bytes of the row's own, which
lie in the file, are used for nothing else and never leave.

Formal guarantee: the hashes are independent of the table and of every answer, given what else the rows say (whose
terms, which round, what it cost, when), because a sealed digest is uniform whatever was sealed. So any learner may know
the end of the chain: it says how busy the owner is with others, and nothing about what it told them, nor about a
record.

The chain has no key. It notices accidents, careless hands, and, where somebody else remembers an earlier end, a ledger
that went back in time. Whoever may write to the file can forge all of it: keep it where only the owner's daemon writes.
A small file that is also a lock notes where a chain ended: `Drawing` beside a ledger, `Memory` in the account's state
folder. Without the latter nothing is written or released.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import sqlite3
import stat
import threading
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from parley.durable import PRIVATE_MODE, create_once
from parley.errors import BrokenChainError, LedgerError, MissingMemoryError, StateFolderError
from parley.numerals import counted
from parley.owner.ledger.account import Head

COLUMNS = (
    "seq", "time", "kind", "owner", "terms", "learner", "round", "query", "content", "event",
    "epsilon", "delta", "balance", "shape", "answer",
)  # fmt: skip
FIRST_PREVIOUS_HASH = "0" * 64
PAD_BYTES = 32  # bytes, as long as a digest
_ALL_COLUMNS = (*COLUMNS, "pruned", "pad", "previous", "hash")
_INSERT_ENTRY = f"INSERT INTO entries ({', '.join(_ALL_COLUMNS)}) VALUES ({', '.join('?' * len(_ALL_COLUMNS))})"  # noqa: S608
_encode = json.JSONEncoder().encode


def seal(digest: bytes, pad: bytes) -> str:
    """Return a digest under a one-time pad; sealing it again with the same pad gives the digest."""
    return (int.from_bytes(digest) ^ int.from_bytes(pad)).to_bytes(PAD_BYTES).hex()


def answer_digest(answer: bytes | None, pruned: bytes | None = None) -> bytes | None:
    """Return the digest of a row's answer; `pruned` is the digest of an answer that is no longer kept."""
    return pruned if answer is None else hashlib.sha256(answer).digest()


def row_hash(previous: str, row: tuple[Any, ...], pad: bytes, digest: bytes | None = None) -> str:
    """Return the chain's link: a hash of everything in the row (`digest`: its answer's, if known) and of the row
    before. An upgrade's row seals the hash before it, because earlier hashes covered the answers as they are."""
    *facts, answer = row
    if facts[2] == "upgrade":
        previous = seal(bytes.fromhex(previous), pad)
    digest = digest or answer_digest(answer)
    sealed = None if digest is None else seal(digest, pad)
    return hashlib.sha256(_encode(["parley-ledger-1", previous, *facts, sealed]).encode()).hexdigest()


def first_row_hash(previous: str, row: tuple[Any, ...], digest: bytes | None = None) -> str:
    """Return the link as it was before files had a version."""
    *facts, answer = row
    digest = digest or answer_digest(answer)
    return hashlib.sha256(_encode([previous, *facts, None if digest is None else digest.hex()]).encode()).hexdigest()


def head(db: sqlite3.Connection) -> Head:
    """Return the end of the chain in this file: how many rows, the last hash."""
    row = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(0, FIRST_PREVIOUS_HASH) if row is None else Head(*row)


def hash_at(db: sqlite3.Connection, entries: int) -> str | None:
    """Return the hash that the chain had with this many rows; None if it never had as many."""
    row = db.execute("SELECT hash FROM entries WHERE seq=?", (entries,)).fetchone()
    return None if row is None else str(row[0])


def append(db: sqlite3.Connection, pad: bytes | None = None, last: Head | None = None, **entry: Any) -> Head:
    """Add a row to the chain's end (`last`, if known), in the transaction under way; return the new end."""
    last, pad = last or head(db), pad or secrets.token_bytes(PAD_BYTES)
    entry |= {"seq": last.entries + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
    row, digest = tuple(entry.get(column) for column in COLUMNS), answer_digest(entry.get("answer"))
    end = Head(last.entries + 1, row_hash(last.hash, row, pad, digest))
    db.execute(_INSERT_ENTRY, (*row, digest, pad, last.hash, end.hash))
    return end


NOTE_BYTES = 86  # bytes: 20 digits, a blank, 64 hexadecimal digits, a new line
REMEDY_BY_KIND = {
    "ledger": "Put the latest ledger file and its -wal file back. If the latest ledger is lost, run parley owner "
    "restore",
    "journal": "Put the latest journal file and its -wal file back. If the latest journal is lost, run parley host "
    "restore and agree on new terms",
}


class NotedEnd:
    """A file that one party at a time holds, over threads and processes, and in which it notes where a chain of rows
    ends. The kernel ends the hold with a process. Notes are not synced: a process's death loses none, a machine's
    perhaps the last."""

    rank: ClassVar[int]  # who holds one of a lower rank may wait for one of a higher rank, never the other way round
    flags = os.O_RDWR | os.O_CLOEXEC

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.RLock()
        self._descriptor: int | None = None
        NOTED_ENDS.add(self)

    def __enter__(self) -> Self:
        self.lock.acquire()
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, self.flags, PRIVATE_MODE)
            self._check(self._descriptor)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except FileNotFoundError:
            self.lock.release()
            raise self.missing() from None
        except OSError as error:
            self.lock.release()
            raise LedgerError(
                f"{self.path}: the file cannot be opened and locked ({error.strerror}); nothing was released. Check "
                "the file's permissions and the disk"
            ) from None
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self.lock.release()

    def note(self, end: Head) -> None:
        """Note where the chain ends, while holding the lock."""
        if self._descriptor is not None:
            os.pwrite(self._descriptor, _written(end), 0)

    def noted(self) -> Head | None:
        """Return what was noted; None if nothing was."""
        try:
            text, before = self.path.read_bytes(), b""
            while text != before:  # somebody may be writing it
                text, before = self.path.read_bytes(), text
        except OSError:
            return None
        return _read(text)

    def close(self) -> None:
        """Let go of the file, which stays: else two processes could hold two files of the same name."""
        with self.lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _check(self, descriptor: int) -> None:
        """Refuse a file that is not the right one."""

    def missing(self) -> LedgerError:
        """Return the error for a file that cannot be made."""
        return LedgerError(f"{self.path}: the file's folder does not exist; nothing was released")


class Drawing(NotedEnd):
    """Held while noise is drawn for an answer of this ledger. No SQLite lock is held meanwhile: however long a draw
    takes, others read, accept and get what is stored."""

    rank = 0
    flags = NotedEnd.flags | os.O_CREAT


class Memory(NotedEnd):
    """The end of the rows in the file `books` (a ledger or a journal, by `kind`) when last written to, in a file of its
    own.

    Formal guarantee: of all copies of one ledger or journal whose memory is one file, in whatever folders they lie, a
    transaction commits only in one whose rows go on from the noted end, and before it returns its own end is noted. So
    all that is ever sent comes from one line of rows, for as long as the memory is kept. Without the memory nothing is
    written. Putting back the memory together with the books is not noticed here.
    """

    rank = 1
    flags = NotedEnd.flags | os.O_NOFOLLOW

    def __init__(self, folder: Path, name: str, books: Path, kind: str) -> None:
        super().__init__(folder / name)
        self.books, self.kind = books, kind

    def begin(self, end: Head) -> Head | None:
        """Make the memory, on the disk, unless it is there; return what it says."""
        return _read(create_once(self.path, _written(end)))

    def replace(self, end: Head) -> None:
        """Note this end whatever was noted: for a restore, after which nothing is answered that was asked before."""
        self.begin(end)
        with self:
            self.note(end)

    def note(self, end: Head) -> None:
        try:
            super().note(end)
        except OSError as error:
            raise LedgerError(
                f"{self.path}: the file cannot be written ({error.strerror}); nothing was released. Free some space "
                "and try again"
            ) from None

    def require_latest(self, db: sqlite3.Connection, noted: Head | None = None) -> Head:
        """Return the noted end; refuse a file whose rows do not go on from it. The end is read under the held lock, or
        was read before the file (`noted`)."""
        noted = noted or self._under_lock()
        end = head(db)
        if noted != end and hash_at(db, noted.entries) != noted.hash:
            raise BrokenChainError(
                f"{self.books}: the {self.kind} was rolled back or replaced, or another copy was used. The {self.kind} "
                f"had {counted(noted.entries, 'row')}, but the {counted(end.entries, 'row')} now in the file do not "
                f"continue those rows. {REMEDY_BY_KIND[self.kind]}"
            )
        return noted

    def _under_lock(self) -> Head:
        found = None if self._descriptor is None else _read(os.pread(self._descriptor, NOTE_BYTES, 0))
        if found is None:
            raise BrokenChainError(
                f"{self.path}: the file does not contain the head of the {self.kind} {self.books}. Restore the file "
                f"from a copy. If there is no copy, remove the file and treat the {self.kind} as lost. "
                f"{REMEDY_BY_KIND[self.kind]}"
            )
        return found

    def _check(self, descriptor: int) -> None:
        about = os.fstat(descriptor)
        try:
            found = os.stat(self.path, follow_symlinks=False)  # noqa: PTH116 - for every message, and pathlib is slower
        except FileNotFoundError:
            raise self.missing() from None
        if (found.st_dev, found.st_ino) != (about.st_dev, about.st_ino):
            raise LedgerError(f"{self.path}: the file was moved or replaced while in use; restart the program")
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise StateFolderError(
                f"{self.path}: this account must own the file, and no other account may write to the file; correct the "
                "file's owner and permissions"
            )

    def missing(self) -> MissingMemoryError:
        """Return the error that says why nothing is written without the memory, and what to do."""
        lost = "run parley owner restore" if self.kind == "ledger" else "run parley host restore and agree on new terms"
        return MissingMemoryError(
            f"{self.books}: {self.path} is missing. The missing file contains the head of this {self.kind}. Without "
            f"the head, Parley cannot tell whether the {self.kind} is the latest, and releases nothing. Set "
            "PARLEY_STATE to the earlier state folder, or copy the file from the earlier machine or account. If the "
            f"file is lost, {lost}"
        )


def _written(end: Head) -> bytes:
    return f"{end.entries:020d} {end.hash}\n".encode()


def _read(text: bytes) -> Head | None:
    found = re.fullmatch(rb"(\d{20}) ([0-9a-f]{64})\n", text)
    return None if found is None else Head(int(found[1]), found[2].decode())


NOTED_ENDS: "weakref.WeakSet[NotedEnd]" = weakref.WeakSet()
