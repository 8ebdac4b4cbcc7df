"""The hash chain: every row holds the hash of the one before it, so a row that was changed, or removed from the middle,
is noticed.

What is hashed of an answer, or of a table, is its digest under a one-time pad: 32 random bytes of the row's own, which
lie in the file, are used for one thing alone and never leave. Formal guarantee: the hashes are independent of the table
and of every answer, given what else the rows say (whose terms, which round, what it cost, when). So the end of the
chain may be told to any learner: it says how busy the owner is with others, and nothing about what it told them, nor
about a record. (A sealed digest is uniform whatever was sealed.)

The chain has no key. It notices accidents, careless hands, and, where somebody else remembers an earlier end, a ledger
that went back in time. Who may write to the file can forge all of it: keep it where only the owner's daemon writes.
"""

import hashlib
import json
import secrets
import sqlite3
from datetime import UTC, datetime
from typing import Any

from parley.owner.ledger.account import Head

COLUMNS = (
    "seq", "time", "kind", "owner", "terms", "learner", "round", "query", "content", "event",
    "epsilon", "delta", "balance", "shape", "answer",
)  # fmt: skip
START = "0" * 64
PAD = 32  # bytes, as long as a digest
_ALL = (*COLUMNS, "pruned", "pad", "previous", "hash")
_INSERT = f"INSERT INTO entries ({', '.join(_ALL)}) VALUES ({', '.join('?' * len(_ALL))})"  # noqa: S608
_encode = json.JSONEncoder().encode


def seal(digest: bytes, pad: bytes) -> str:
    """A digest under a one-time pad; sealed again with the same pad it is the digest."""
    return (int.from_bytes(digest) ^ int.from_bytes(pad)).to_bytes(PAD).hex()


def answer_digest(answer: bytes | None, pruned: bytes | None = None) -> bytes | None:
    """The digest of a row's answer; of one that is no longer kept, what was kept of it (`pruned`)."""
    return pruned if answer is None else hashlib.sha256(answer).digest()


def row_hash(previous: str, row: tuple[Any, ...], pad: bytes, digest: bytes | None = None) -> str:
    """The link of the chain: a hash of everything in the row and of the row before. `digest` is the answer's, for who
    has it already.

    The row that says that the file was upgraded seals the hash before it: until then hashes covered the answers as they
    are.
    """
    *facts, answer = row
    if facts[2] == "upgrade":
        previous = seal(bytes.fromhex(previous), pad)
    digest = digest or answer_digest(answer)
    sealed = None if digest is None else seal(digest, pad)
    return hashlib.sha256(_encode(["parley-ledger-1", previous, *facts, sealed]).encode()).hexdigest()


def first_row_hash(previous: str, row: tuple[Any, ...], digest: bytes | None = None) -> str:
    """The link as it was before files had a version."""
    *facts, answer = row
    digest = digest or answer_digest(answer)
    return hashlib.sha256(_encode([previous, *facts, None if digest is None else digest.hex()]).encode()).hexdigest()


def head(db: sqlite3.Connection) -> Head:
    """The end of the chain in this file: how many rows, the last hash."""
    row = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(0, START) if row is None else Head(*row)


def hash_at(db: sqlite3.Connection, entries: int) -> str | None:
    """The hash that the chain had with this many rows; None if it never had so many."""
    row = db.execute("SELECT hash FROM entries WHERE seq=?", (entries,)).fetchone()
    return None if row is None else str(row[0])


def append(db: sqlite3.Connection, pad: bytes | None = None, last: Head | None = None, **entry: Any) -> Head:
    """Add a row to the end of the chain (`last`, if the caller has looked), in the transaction under way; the new
    end."""
    last, pad = last or head(db), pad or secrets.token_bytes(PAD)
    entry |= {"seq": last.entries + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
    row, digest = tuple(entry.get(column) for column in COLUMNS), answer_digest(entry.get("answer"))
    end = Head(last.entries + 1, row_hash(last.hash, row, pad, digest))
    db.execute(_INSERT, (*row, digest, pad, last.hash, end.hash))
    return end
