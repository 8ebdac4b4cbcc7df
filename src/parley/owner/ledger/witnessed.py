"""Where others' books ended, and what they signed about this one: a table beside the rows of a ledger or journal.

A *book* is an owner's ledger or a host's journal, from its first row or its last restore on. An *end* is its number of
rows and a digest of all of them. A witness keeps the latest end of each party's book; the party keeps what witnesses
signed. Neither is part of the chain: older versions of Parley pass over the table, and a copy of the file carries it.

Formal guarantee: what is kept of a book only grows, and each end after the first came with the digest of the one kept
before: its party's word that the book goes on from there. An agreement belongs to the book that was first seen under
it. The table has at most one row for each party of each agreement, and one for each witness.
"""

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


@dataclass(frozen=True)
class Signature:
    """A signature, and the certificate (DER) of the key that made it."""

    certificate: bytes
    value: bytes


@dataclass(frozen=True)
class SignedEnd:
    """The end of a party's book, of this kind, under an agreement, as the party signed it; `witness` is who keeps it,
    with its own signature. Either signature may be missing where TLS says who speaks. `book` is empty if a witness does
    not know it; the digest tells books apart in any case."""

    party: str
    kind: Kind
    terms: str
    book: str
    head: Head
    signature: Signature | None = None
    witness: str = ""
    countersignature: Signature | None = None


@dataclass(frozen=True)
class Book:
    """How the rows of this file are shown to others: the book's name, its end, and its digest at any length."""

    name: Callable[[sqlite3.Connection], str]
    head: Callable[[sqlite3.Connection], Head]
    digest_at: Callable[[sqlite3.Connection, int], str | None]

    def holds(self, db: sqlite3.Connection, end: SignedEnd) -> bool:
        """Whether this book once ended so."""
        ours = end.book in ("", self.name(db))
        return ours and (end.head.entries == 0 or self.digest_at(db, end.head.entries) == end.head.hash)


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

    def holds(self, end: SignedEnd) -> bool:
        """Whether this book once ended so."""
        with self._reading() as db:
            return self._book.holds(db, end)

    def kept(self, party: str, kind: Kind, terms: str, book: str | None = None) -> SignedEnd | None:
        """Return what is kept of a party: of another book if the agreement belongs to that, else the latest end of
        this book under any agreement. Without a `book`, that of the agreement."""
        with self._reading() as db:
            return _kept(db, party, kind, terms, book)

    def keep(self, end: SignedEnd, earlier: Head | None) -> SignedEnd:
        """Keep this end of another party's book if it goes on from the latest one, as `earlier` shows; return the one
        that is kept then."""
        with self._reading() as db:
            known = _kept(db, end.party, end.kind, end.terms, end.book)
            row = _row(db, "kept", end.party, end.kind, end.terms)
        written = row is not None and row.head == end.head
        if known is not None and (written or not _goes_on(known, end, earlier)):
            return known
        with self._writing() as db:
            known = _kept(db, end.party, end.kind, end.terms, end.book)
            if known is None or _goes_on(known, end, earlier):
                _put(db, "kept", end.party, end)
                known = end
        return known

    def add_countersigned(self, end: SignedEnd) -> None:
        """Keep what a witness signed about this book, unless a later end that it signed is here. One that this book
        does not hold is kept in any case, so that `contradiction` remembers it."""
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
        """Return the latest end that a witness signed and this book does not hold; None if it holds all."""
        with self._reading() as db:
            signed = _rows(db, "role='own' AND book=? ORDER BY entries DESC", (self._book.name(db),))
            return next((end for end in signed if not self._book.holds(db, end)), None)

    def _supersedes(self, db: sqlite3.Connection, end: SignedEnd) -> bool:
        known = _row(db, "own", end.witness, end.kind)
        if known is None:
            return True
        if known.book != end.book:  # a word about another book says nothing against the evidence about this one
            return known.book != self._book.name(db) or self._book.holds(db, known)
        if not self._book.holds(db, known):
            return False
        return end.head.entries > known.head.entries or not self._book.holds(db, end)


def _goes_on(known: SignedEnd, end: SignedEnd, earlier: Head | None) -> bool:
    same_end = known.head == end.head
    longer = end.head.entries > known.head.entries and earlier == known.head
    return known.book == end.book and (same_end or longer)


def _kept(db: sqlite3.Connection, party: str, kind: Kind, terms: str, book: str | None) -> SignedEnd | None:
    row = _row(db, "kept", party, kind, terms)
    if row is not None and book not in (None, row.book):
        return row
    book = book if row is None else row.book
    where = "role='kept' AND other=? AND kind=? AND book=? ORDER BY entries DESC LIMIT 1"
    latest = _rows(db, where, (party, kind, book or ""))
    return latest[0] if latest else None


def _row(db: sqlite3.Connection, role: Role, other: str, kind: Kind, agreement: str = "") -> SignedEnd | None:
    found = _rows(db, "role=? AND other=? AND kind=? AND agreement=?", (role, other, kind, agreement))
    return found[0] if found else None


def _rows(db: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[SignedEnd]:
    if db.execute("SELECT 1 FROM sqlite_master WHERE type='table' AND name='witnessed'").fetchone() is None:
        return []
    return [_read(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM witnessed WHERE {where}", values)]  # noqa: S608


def _read(
    terms: str, kind: Kind, party: str, book: str, entries: int, digest: str,
    certificate: bytes | None, signature: bytes | None, witness: str,
    witness_certificate: bytes | None, countersignature: bytes | None,
) -> SignedEnd:  # fmt: skip
    signed, countersigned = _signature(certificate, signature), _signature(witness_certificate, countersignature)
    return SignedEnd(party, kind, terms, book, Head(entries, digest), signed, witness, countersigned)


def _signature(certificate: bytes | None, value: bytes | None) -> Signature | None:
    return None if certificate is None or value is None else Signature(certificate, value)


def _put(db: sqlite3.Connection, role: Role, other: str, end: SignedEnd) -> None:
    db.execute(TABLE)
    signed, countersigned = (
        (None, None) if each is None else (each.certificate, each.value)
        for each in (end.signature, end.countersignature)
    )
    agreement = end.terms if role == "kept" else ""
    row = (role, other, agreement, end.terms, end.kind, end.party, end.book, end.head.entries, end.head.hash)
    db.execute(
        f"INSERT OR REPLACE INTO witnessed (role, other, agreement, {_COLUMNS}) VALUES ({', '.join('?' * 14)})",  # noqa: S608
        (*row, *signed, end.witness, *countersigned),
    )
