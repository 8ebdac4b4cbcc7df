"""Where others' books ended, and what they signed about this one: a table beside the rows of a ledger or journal.

A *book* is an owner's ledger or a host's journal, from its first row or its last restore on. An *end* is its number of
rows and a digest of all of them. A book's *origin* is made with its file and kept across restores, which are numbered.
A witness keeps the latest end of each party's book; the party keeps what witnesses signed. Neither is part of the
chain: older versions of Parley pass over the table, and a copy of the file carries it.

Formal guarantee: what is kept of a book only grows, and each end after the first came with the digest of the one kept
before: its party's word that the book goes on from there. An agreement belongs to the book that was first seen under
it. Once a book is kept with its origin, nothing of that origin with an earlier restore is kept, nor another book with
the same restore, nor any end without an origin: earlier programs of the party wrote that. The table has at most one
row for each party of each agreement, and one for each witness.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from parley.owner.ledger.account import Head

Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]
Kind = Literal["ledger", "journal"]
Role = Literal["kept", "own"]  # an end of another party's book, or of this one as a witness signed it

# `other`: whose book it is that is kept, or who signed an end of this one; `agreement`: of what is kept, else empty
TABLE = """CREATE TABLE IF NOT EXISTS witnessed (
  role TEXT NOT NULL, other TEXT NOT NULL, agreement TEXT NOT NULL, terms TEXT NOT NULL, kind TEXT NOT NULL,
  party TEXT NOT NULL, book TEXT NOT NULL, entries INTEGER NOT NULL, digest TEXT NOT NULL, certificate BLOB,
  signature BLOB, witness TEXT NOT NULL, witness_certificate BLOB, countersignature BLOB,
  PRIMARY KEY (role, other, kind, agreement)
)"""
_COLUMNS = (
    "terms, kind, party, book, entries, digest, certificate, signature, witness, witness_certificate, countersignature"
)
# of ends with an origin; tables of earlier versions lack these columns, and earlier versions leave them empty
ADDED = {
    "origin": "TEXT NOT NULL DEFAULT ''",
    "restores": "INTEGER NOT NULL DEFAULT 0",
    "signature_2": "BLOB",
    "countersignature_2": "BLOB",
}
MAX_CERTIFICATE_BYTES = 1 << 14
MAX_SIGNATURE_BYTES = 256
MAX_RESTORES = (1 << 31) - 1  # of one origin
TOO_MANY_RESTORES = "a witness saw the last possible restore, which somebody with a key of this party must have signed"


@dataclass(frozen=True)
class Signature:
    """A signature, and the certificate (DER) of the key that made it; `second`: of the second form of the text."""

    certificate: bytes
    value: bytes
    second: bytes = b""

    def fits(self) -> bool:
        """Whether it is as short as signatures are."""
        parts = (self.value, self.second)
        return len(self.certificate) <= MAX_CERTIFICATE_BYTES and max(map(len, parts)) <= MAX_SIGNATURE_BYTES


@dataclass(frozen=True)
class SignedEnd:
    """The end of a party's book, of this kind, under an agreement, as the party signed it; `witness` is who keeps it,
    with its own signature. Either signature may be missing where TLS says who speaks. `book` is empty if a witness does
    not know it; the digest tells books apart in any case. `origin` is empty if an earlier version of Parley wrote or
    passed on the end; otherwise `restores` is the number of the book's last restore, 0 for none."""

    party: str
    kind: Kind
    terms: str
    book: str
    head: Head
    signature: Signature | None = None
    witness: str = ""
    countersignature: Signature | None = None
    origin: str = ""
    restores: int = 0

    def refutes(self, end: "SignedEnd") -> bool:
        """Whether a party that once showed this end of its book cannot show the other one, unless its disk or its
        programs went back, or it restored two copies alike."""
        if not self.origin:
            return False
        if self.book == end.book:
            return (self.origin, self.restores) != (end.origin, end.restores)
        return not end.origin or (self.origin == end.origin and self.restores >= end.restores)


def end_texts(end: SignedEnd) -> tuple[bytes, bytes]:
    """Return what a party signs about its own book, in two forms: versions of Parley before origins know the first
    alone; the second is empty without an origin."""
    facts = [end.party, end.kind, end.terms, end.book, end.head.entries, end.head.hash]
    second = json.dumps(["parley-end-2", *facts, end.origin, end.restores]).encode() if end.origin else b""
    return json.dumps(["parley-end-1", *facts]).encode(), second


def kept_texts(end: SignedEnd) -> tuple[bytes, bytes]:
    """Return what a witness signs about an end that it keeps, in the same forms."""
    first, second = (b"kept by " + json.dumps(end.witness).encode() + text for text in end_texts(end))
    return first, second if end.origin else b""


@dataclass(frozen=True)
class Book:
    """How the rows of this file are shown to others: the book's name, its end, its digest at any length, its origin and
    the number of its last restore."""

    name: Callable[[sqlite3.Connection], str]
    head: Callable[[sqlite3.Connection], Head]
    digest_at: Callable[[sqlite3.Connection, int], str | None]
    origin: Callable[[sqlite3.Connection], str]
    restores: Callable[[sqlite3.Connection], int]

    def holds(self, db: sqlite3.Connection, end: SignedEnd) -> bool:
        """Whether this book once ended so."""
        ours = end.book in ("", self.name(db))
        ours = ours and (not end.origin or (end.origin, end.restores) == (self.origin(db), self.restores(db)))
        return ours and (end.head.entries == 0 or self.digest_at(db, end.head.entries) == end.head.hash)

    def contradicted(self, db: sqlite3.Connection, end: SignedEnd) -> bool:
        """Whether the party's own signature of this end proves that the book went back, or that two copies of it were
        restored. An end of before the last restore proves nothing."""
        if end.book == self.name(db):
            return not self.holds(db, end)
        return end.origin == self.origin(db) and end.restores >= self.restores(db)


def next_restore(db: sqlite3.Connection, book: Book) -> int:
    """Return the number of a restore that begins now: later than what this file knows of, by its rows and by what
    witnesses showed; over `MAX_RESTORES` if there is none."""
    known = [end.restores for end in _rows(db, "role='own'", ()) if end.origin == book.origin(db)]
    return 1 + max([book.restores(db), *known])


@dataclass(frozen=True)
class Ends:
    """What one party tells another about their books under an agreement: the end of its own; the digest that its own
    had with as many rows as the other is known to keep; the latest end that it keeps of the other's."""

    terms: str
    own: SignedEnd | None
    earlier: Head | None = None
    kept: SignedEnd | None = None


class Witnessed:
    """The ends that one file keeps; `writing` and `reading` are its transactions."""

    def __init__(self, book: Book, writing: Transaction, reading: Transaction | None = None) -> None:
        self._book, self._writing, self._reading = book, writing, reading or writing

    def own(self) -> tuple[str, Head]:
        """Return this book's name and end."""
        with self._reading() as db:
            return self._book.name(db), self._book.head(db)

    def own_at(self, entries: int) -> Head | None:
        """Return the end that this book had with so many rows; None if it never had as many."""
        with self._reading() as db:
            digest = self._book.digest_at(db, entries) if entries else None
        return None if digest is None else Head(entries, digest)

    def lineage(self) -> tuple[str, int]:
        """Return this book's origin and the number of its last restore."""
        with self._reading() as db:
            return self._book.origin(db), self._book.restores(db)

    def holds(self, end: SignedEnd) -> bool:
        """Whether this book once ended so."""
        with self._reading() as db:
            return self._book.holds(db, end)

    def contradicted(self, end: SignedEnd) -> bool:
        """Whether this end proves that the book went back, if the party itself signed the end."""
        with self._reading() as db:
            return self._book.contradicted(db, end)

    def kept(self, party: str, kind: Kind, terms: str, shown: SignedEnd | None = None) -> SignedEnd | None:
        """Return what is kept of a party that shows an end: one that refutes it; one of another book if the agreement
        belongs to that; else the latest end of the same book under any agreement. If it shows none, the latest of the
        book to which the agreement belongs."""
        with self._reading() as db:
            return _kept(db, party, kind, terms, shown)

    def saw_restore(self, party: str, kind: Kind) -> bool:
        """Whether a restored book of the party is kept, under whatever agreement."""
        with self._reading() as db:
            return any(end.restores > 0 for end in _rows(db, "role='kept' AND other=? AND kind=?", (party, kind)))

    def keep(self, end: SignedEnd, earlier: Head | None) -> SignedEnd:
        """Keep this end of another party's book if it goes on from the latest one, as `earlier` shows; return the one
        that is kept then."""
        with self._reading() as db:
            known = _kept(db, end.party, end.kind, end.terms, end)
            row = _row(db, "kept", end.party, end.kind, end.terms)
        written = row is not None and (row.head, row.origin) == (end.head, end.origin)
        if known is not None and (written or not _goes_on(known, end, earlier)):
            return known
        with self._writing() as db:
            known = _kept(db, end.party, end.kind, end.terms, end)
            if known is None or _goes_on(known, end, earlier):
                _put(db, "kept", end.party, end)
                known = end
        return known

    def add_countersigned(self, end: SignedEnd) -> None:
        """Keep what a witness signed about this book, unless a later end that it signed is here. One that contradicts
        this book is kept in any case, so that `contradiction` remembers it."""
        with self._reading() as db:
            if not self._supersedes(db, end):
                return
        with self._writing() as db:
            if self._supersedes(db, end):
                _put(db, "own", end.witness, end)

    def countersigned(self) -> list[SignedEnd]:
        """Return the latest end of this book that each witness signed."""
        with self._reading() as db:
            return _rows(db, "role='own' AND book IN (?, '') ORDER BY other", (self._book.name(db),))

    def contradiction(self) -> SignedEnd | None:
        """Return the latest end that the party and a witness signed and that contradicts this book; None without."""
        with self._reading() as db:
            signed = _rows(db, "role='own' ORDER BY restores DESC, entries DESC", ())
            return next((end for end in signed if self._book.contradicted(db, end)), None)

    def _supersedes(self, db: sqlite3.Connection, end: SignedEnd) -> bool:
        known = _row(db, "own", end.witness, end.kind)
        if known is None:
            return True
        contradicts = self._book.contradicted(db, end)
        if self._book.contradicted(db, known):  # a word about another book says nothing against the evidence
            return contradicts and end.restores > known.restores
        return contradicts or known.book != end.book or end.head.entries > known.head.entries


def _goes_on(known: SignedEnd, end: SignedEnd, earlier: Head | None) -> bool:
    same_end = known.head == end.head
    longer = end.head.entries > known.head.entries and earlier == known.head
    return known.book == end.book and not known.refutes(end) and (same_end or longer)


def _kept(db: sqlite3.Connection, party: str, kind: Kind, terms: str, shown: SignedEnd | None) -> SignedEnd | None:
    if shown is not None:
        where = "role='kept' AND other=? AND kind=? ORDER BY restores DESC, entries DESC"
        refuting = [known for known in _rows(db, where, (party, kind)) if known.refutes(shown)]
        if refuting:
            return refuting[0]
    row = _row(db, "kept", party, kind, terms)
    if row is None and shown is None:
        return None
    if row is not None and shown is not None and row.book != shown.book:
        return row
    book = row.book if row is not None else shown.book if shown is not None else ""
    where = "role='kept' AND other=? AND kind=? AND book=? ORDER BY entries DESC LIMIT 1"
    latest = _rows(db, where, (party, kind, book))
    return latest[0] if latest else None


def _row(db: sqlite3.Connection, role: Role, other: str, kind: Kind, agreement: str = "") -> SignedEnd | None:
    found = _rows(db, "role=? AND other=? AND kind=? AND agreement=?", (role, other, kind, agreement))
    return found[0] if found else None


def _rows(db: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[SignedEnd]:
    made = db.execute("SELECT sql FROM sqlite_master WHERE type='table' AND name='witnessed'").fetchone()
    if made is None:
        return []
    added = ", ".join(ADDED) if "origin" in made[0] else "'' AS origin, 0 AS restores, NULL, NULL"
    return [_read(*row) for row in db.execute(f"SELECT {_COLUMNS}, {added} FROM witnessed WHERE {where}", values)]  # noqa: S608


def _read(
    terms: str, kind: Kind, party: str, book: str, entries: int, digest: str,
    certificate: bytes | None, signature: bytes | None, witness: str,
    witness_certificate: bytes | None, countersignature: bytes | None,
    origin: str, restores: int, signature_2: bytes | None, countersignature_2: bytes | None,
) -> SignedEnd:  # fmt: skip
    signed = _signature(certificate, signature, signature_2)
    countersigned = _signature(witness_certificate, countersignature, countersignature_2)
    head = Head(entries, digest)
    return SignedEnd(party, kind, terms, book, head, signed, witness, countersigned, origin, restores)


def _signature(certificate: bytes | None, value: bytes | None, second: bytes | None) -> Signature | None:
    return None if certificate is None or value is None else Signature(certificate, value, second or b"")


def _put(db: sqlite3.Connection, role: Role, other: str, end: SignedEnd) -> None:
    db.execute(TABLE)
    (made,) = db.execute("SELECT sql FROM sqlite_master WHERE type='table' AND name='witnessed'").fetchone()
    if "origin" not in made:
        for name, kind in ADDED.items():
            db.execute(f"ALTER TABLE witnessed ADD COLUMN {name} {kind}")
    signed, countersigned = (
        (None, None, None) if each is None else (each.certificate, each.value, each.second or None)
        for each in (end.signature, end.countersignature)
    )
    agreement = end.terms if role == "kept" else ""
    row = (role, other, agreement, end.terms, end.kind, end.party, end.book, end.head.entries, end.head.hash)
    added = (end.origin, end.restores, signed[2], countersigned[2])
    columns = f"role, other, agreement, {_COLUMNS}, {', '.join(ADDED)}"
    db.execute(
        f"INSERT OR REPLACE INTO witnessed ({columns}) VALUES ({', '.join('?' * 18)})",  # noqa: S608
        (*row, *signed[:2], end.witness, *countersigned[:2], *added),
    )
