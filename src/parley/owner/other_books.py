"""Other books of the same table, as far as this account can tell: a table has one lifetime budget.

Whenever a ledger accepts terms, the account notes which table that was for. A ledger that takes on a table which
another one was noted with, or one with 90 % of its rows or people, is refused without a reason, which the acceptance
keeps. A table that shares less is a question. Keys, digests and sketches never leave.

Formal guarantee: within one account and state folder no ledger of an `Owner` newly accepts terms for a table that
another one was noted with, by its digest, unless somebody gave a reason. `train_network` is no owner: its ledgers know
their rows, and not each other. What else is noticed rests on sketches: it is help for honest owners. Another machine or
account is out of sight, and so is what was noted before the state folder was removed, except for a table that still
lies in its place.

The state folder holds a key (32 bytes), a note for each ledger and table (a keyed digest, a keyed sketch) and a lock.
Beside the table, where that folder can be written to, the same facts lie with a salted digest in the place of both:
whoever has the table can recognise it, even if the state folder is gone.
"""

import fcntl
import hashlib
import hmac
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parley.data.blocks import Remembered
from parley.data.sketch import Keys, TableSketch, name_hash, overlap, table_sketch
from parley.data.sources import TableSource
from parley.durable import (
    PRIVATE_MODE,
    Version,
    as_disk_errors,
    create_once,
    file_version,
    replace_bytes,
    replace_text,
    state_folder,
)
from parley.errors import DiskError, LedgerError, OtherBooksError, ParleyError, UnknownTerms
from parley.numerals import number
from parley.owner.ledger import Ledger, stored_rows
from parley.owner.ledger.account import Budget
from parley.owner.ledger.chain import hash_at
from parley.owner.ledger.connections import open_to_look
from parley.terms import Terms
from parley.validate import printable

FORMAT = 1
_NOTE_FIELDS = ("ledger", "path", "owner", "person", "settled")


@dataclass(frozen=True, eq=False)
class Note:
    """A ledger that accepted terms for a table: the table's keyed or salted `digest`, the hash of the `person` column's
    name, and `settled`, other ledgers beside which somebody gave a reason to go on."""

    ledger: str
    path: Path
    owner: str
    digest: str
    person: str | None = None
    settled: tuple[str, ...] = ()
    sketch: TableSketch | None = None  # None: the note lies beside the table


_notes: dict[Path, tuple[Version, Note]] = {}


class TableNotes:
    """The notes of this account."""

    def __init__(self) -> None:
        self._folder = state_folder("tables", lasting=True)
        self.key = create_once(self._folder / "key", os.urandom(32))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others of this account from accepting terms meanwhile."""
        file = self._folder / "lock"
        with as_disk_errors(file):
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
        try:
            with as_disk_errors(file):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def digest(self, cells: bytes) -> str:
        """Return the keyed digest by which notes name a table of this digest."""
        return hmac.digest(self.key, cells, "sha256").hex()

    def read(self) -> list[Note]:
        """Return all notes in the state folder."""
        return [_cached_note(file) for file in sorted(self._folder.glob("*.npz"))]

    def write(self, note: Note, cells: bytes, table: Path | None) -> None:
        """Keep a note, and one beside the table if that is possible."""
        replace_bytes(self._file(note), _written(note))
        salt = secrets.token_hex(16)
        self._write_beside(note, cells, table, [_facts(note) | {"salt": salt, "digest": _salted_digest(salt, cells)}])

    def remove(self, note: Note, cells: bytes, table: Path | None) -> None:
        """Forget a note: its ledger accepted nothing after all."""
        self._file(note).unlink(missing_ok=True)
        self._write_beside(note, cells, table, [])

    def _file(self, note: Note) -> Path:
        return self._folder / f"{hashlib.sha256(f'{note.ledger} {note.digest}'.encode()).hexdigest()[:32]}.npz"

    def _write_beside(self, note: Note, cells: bytes, table: Path | None, new: list[dict[str, Any]]) -> None:
        if table is None:
            return
        others = [
            each for each in _entries(table) if each.get("ledger") != note.ledger or not _entry_matches(each, cells)
        ]
        with suppress(OSError, DiskError):  # a folder that cannot be written to
            if others or new:
                replace_text(
                    _books_file(table), json.dumps({"format": FORMAT, "books": [*others, *new]}, indent=1) + "\n"
                )
            else:
                _books_file(table).unlink(missing_ok=True)


def notes_beside(table: Path | None, cells: bytes) -> list[Note]:
    """Return the notes beside a table that are about what it holds now."""
    if table is None:
        return []
    return [_note(each, digest="") for each in _entries(table) if _entry_matches(each, cells)]


def _books_file(table: Path) -> Path:
    return table.with_name(f".{table.name}.books")


def _entries(table: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(_books_file(table).read_text(encoding="utf-8"))["books"]
        return [each for each in found if {*_NOTE_FIELDS, "salt", "digest"} <= each.keys()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _entry_matches(entry: dict[str, Any], cells: bytes) -> bool:
    return hmac.compare_digest(str(entry["digest"]), _salted_digest(str(entry["salt"]), cells))


def _salted_digest(salt: str, cells: bytes) -> str:
    return hmac.digest(salt.encode(), cells, "sha256").hex()


def _facts(note: Note) -> dict[str, Any]:
    return {name: getattr(note, name) for name in _NOTE_FIELDS} | {
        "path": str(note.path),
        "settled": list(note.settled),
    }


def _note(facts: dict[str, Any], **more: Any) -> Note:
    settled = tuple(str(each) for each in facts["settled"])
    return Note(
        **{name: facts[name] for name in _NOTE_FIELDS} | {"path": Path(facts["path"]), "settled": settled} | more
    )


def _written(note: Note) -> bytes:
    """Return a note as the bytes of an .npz file."""
    sketch = note.sketch
    if sketch is None:
        raise LedgerError("a note in the state folder must contain a sketch of the table")
    keys = [sketch.whole, *sketch.without, *sketch.single]
    about = {"format": FORMAT, "digest": note.digest, **_facts(note)}
    about |= {"rows": sketch.rows, "width": sketch.width, "columns": sketch.columns, "alike": sketch.alike}
    file = io.BytesIO()
    np.savez(
        file,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        sizes=np.array([len(each.hashes) for each in keys]),
        hashes=np.concatenate([each.hashes for each in keys]),
        counts=np.concatenate([each.counts for each in keys]),
        distinct=np.array([each.distinct for each in keys]),
        contents=sketch.contents,
        bits=sketch.bits,
        counting=sketch.counting,
    )
    return file.getvalue()


def _cached_note(file: Path) -> Note:
    """Return a note, read again only if it changed: many owners on one machine all look at all notes."""
    version, known = file_version(file), _notes.get(file)
    if known is None or known[0] != version:
        _notes[file] = known = version, _read(file)
    return known[1]


def _read(file: Path) -> Note:
    try:
        with np.load(file, allow_pickle=False) as held:
            about = json.loads(held["about"].tobytes())
            ends = np.cumsum(held["sizes"])[:-1]
            parts = np.split(held["hashes"], ends), np.split(held["counts"], ends), held["distinct"].tolist()
            keys = [Keys(*each) for each in zip(*parts, strict=True)]
            columns = len(about["columns"])
            sketch = TableSketch(
                about["rows"],
                about["width"],
                tuple(about["columns"]),
                keys[0],
                about["alike"],
                tuple(keys[1 : columns + 1]),
                tuple(keys[columns + 1 :]),
                held["contents"],
                held["bits"],
                held["counting"],
            )
        return _note(about, digest=about["digest"], sketch=sketch)
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise LedgerError(
            f"{file}: this note about a table's ledger cannot be read ({type(error).__name__}); restore the file from "
            "a backup. Nothing was spent"
        ) from None


MIN_SHARE_OF_SAME_TABLE = 0.87  # of the keys: 90 %, less three standard errors of a sketch
MIN_SHARE_OF_SHARED_TABLE = 0.1  # of the keys: fewer are no question
MAX_REASON_CHARACTERS = 500  # characters of a reason that are kept
REASON_WHEN_ASKED = "asked whether they are other people: yes"
REASON_FOR_AUDITS = (
    " an audit's table, of nobody"  # such a table is not noted; with its space it is no reason that somebody gives
)
_sketches = Remembered[TableSketch](max_entries=64)


@dataclass(frozen=True)
class OtherBooks:
    """Another ledger whose table shares keys with an owner's: nearly all of them (`same`), or some."""

    owner: str
    ledger: Path
    same: bool
    reserved: Budget | None  # None: the ledger is not there any more
    spent: Fraction = Fraction(0)

    @property
    def sentence(self) -> str:
        """What was found, and what was promised and spent there."""
        shared = "the table" if self.same else "a table that shares rows or people with the table"
        found = f"{printable(str(self.ledger))} is another ledger for {shared} of {printable(self.owner)}."
        if self.reserved is None:
            return f"{found} That ledger no longer exists, so its spent ε is unknown."
        epsilon, delta = (number(each, side="above") for each in self.reserved)
        return (
            f"{found} That ledger has reserved ε = {epsilon}, δ = {delta}, and has spent ε = "
            f"{number(self.spent, side='above')}. A release under another ledger adds to the spent ε."
        )


@dataclass(frozen=True, eq=False)
class OwnerBooks:
    """An owner's table, the terms to be accepted for it, and the ledger that is to accept them (None: not made yet)."""

    owner: str
    table: TableSource
    cells: bytes  # the table's digest
    terms: Terms
    ledger: Ledger | None

    @property
    def place(self) -> Path | None:
        return None if self.table.path is None else self.table.path.resolve()

    @property
    def accepted(self) -> bool:
        """Whether the ledger accepted these terms already: nothing new is promised."""
        with suppress(UnknownTerms):
            return self.ledger is not None and self.ledger.account(self.terms.hash) is not None
        return False


def require_reason(found: Sequence[OtherBooks], reason: str | None, anyway: bool = False) -> str | None:
    """Return the reason to keep for going on beside these books, None without any; refuse where none was given.
    `anyway`: somebody was asked whether people shared in part are others."""
    kept = None if reason is None else printable(reason.strip(), MAX_REASON_CHARACTERS)
    same = [each for each in found if each.same]
    if not found or kept:
        return kept if found else None
    if anyway and not same:
        return REASON_WHEN_ASKED
    advice = (
        "Use the existing ledger, because a table has one lifetime budget. If a second ledger is necessary, give a "
        "reason with --other-books REASON; the second ledger keeps the reason"
        if same
        else "If the two tables hold different people, give a reason with --other-books REASON, which the ledger keeps "
        "(for parley train: --force)"
    )
    raise OtherBooksError(f"{(same or found)[0].sentence} {advice}. Nothing was spent")


def find_other_books(books: OwnerBooks) -> list[OtherBooks]:
    """Return other books of a table, those of the same table first; none for terms that its ledger accepted already."""
    return [] if books.accepted else [each for each, _ in _other_books(books, _Described(books))[0]]


def find_among(all_books: Sequence[OwnerBooks], folder: Path) -> list[OtherBooks]:
    """Return the same for all owners of some terms, with ledgers in `folder` (now or later); two may share people."""
    found, among = list[OtherBooks](), list[Note]()
    for books in all_books:
        if not books.accepted:
            described = _Described(books)
            found += [each for each, _ in _other_books(books, described, among)[0]]
            among.append(described.note(f"of {books.owner}", folder / f"{books.owner}.ledger"))
    return sorted(found, key=lambda each: not each.same)


@contextmanager
def noting_table(books: OwnerBooks, ledger: Ledger, reason: str | None, anyway: bool) -> Iterator[str | None]:
    """Yield the reason to keep while a ledger accepts terms, or refuse. The table is noted before they are accepted, so
    nothing is promised without a note. Ledgers of one account take turns: of two for one table the second is refused.
    """
    if reason is REASON_FOR_AUDITS or ledger.other_books(books.terms.hash) == REASON_FOR_AUDITS:
        yield REASON_FOR_AUDITS
        return
    if books.accepted:
        yield None
        with suppress(ParleyError, OSError):  # made by an earlier Parley, or moved
            described = _Described(books, lazily=True)
            if not described.known(ledger):
                described.write(ledger, ())
        return
    described = _Described(books)
    with described.notes.locked():
        other_books, settled = _other_books(books, described)
        kept = require_reason([each for each, _ in other_books], reason, anyway)
        noted = any(
            (note.ledger, note.digest) == (ledger.identity, described.digest) for note in described.notes.read()
        )
        # before the ledger accepts: a disk that is full then must leave no acceptance without its note
        note = described.write(ledger, [note.ledger for _, note in other_books] + settled)
        try:
            yield kept
        except BaseException:
            if not noted and not books.accepted:
                described.notes.remove(note, books.cells, books.place)
            raise


class _Described:
    """A table as notes describe it: its keyed digest, and its sketch as noted, else made in one pass."""

    def __init__(self, books: OwnerBooks, lazily: bool = False) -> None:
        self.books, self.notes = books, TableNotes()
        person = books.terms.privacy.person
        self.digest = self.notes.digest(books.cells)
        self.person = None if person is None else name_hash(self.notes.key, person)
        if not lazily:
            self.sketch  # noqa: B018 - before the lock is taken

    @cached_property
    def sketch(self) -> TableSketch:
        for note in self.notes.read():
            if note.digest == self.digest and note.sketch and (self.person or "") in ("", *note.sketch.columns):
                return note.sketch
        books, key, person = self.books, self.notes.key, self.books.terms.privacy.person
        name = key + books.cells + repr(person).encode()
        return _sketches.get(name, lambda: table_sketch(books.table, key, person))

    def known(self, ledger: Ledger) -> bool:
        """Return whether this ledger was noted with this table, in the place where it lies."""
        facts = self.digest, ledger.identity, ledger.path.resolve()
        return facts in [(note.digest, note.ledger, note.path) for note in self.notes.read()]

    def note(self, ledger: str, path: Path, settled: Iterable[str] = ()) -> Note:
        return Note(ledger, path, self.books.owner, self.digest, self.person, tuple(sorted({*settled})), self.sketch)

    def write(self, ledger: Ledger, settled: Sequence[str]) -> Note:
        before = [each for note in self.notes.read() if note.ledger == ledger.identity for each in note.settled]
        note = self.note(ledger.identity, ledger.path.resolve(), [*settled, *before])
        self.notes.write(note, self.books.cells, self.books.place)
        return note

    def shared(self, note: Note) -> float:
        """Return the share of keys in common with a noted table; below `MIN_SHARE_OF_SAME_TABLE` where that is no
        evidence by itself."""
        if note.sketch is None or note.digest == self.digest:
            return 1.0
        mine = note.owner == self.books.owner
        found = [overlap(self.sketch, note.sketch, person, mine) for person in {self.person, note.person}]
        return max(each.keys if each.certain else min(each.keys, MIN_SHARE_OF_SAME_TABLE - 0.01) for each in found)


def _other_books(
    books: OwnerBooks, described: _Described, among: Sequence[Note] = ()
) -> tuple[list[tuple[OtherBooks, Note]], list[str]]:
    """Return (books that share keys with this table, with their notes; ledgers of other owners of the same terms, which
    may share records, or numbers of people), without those beside which somebody gave a reason to go on."""
    noted, own = described.notes.read(), None if books.ledger is None else books.ledger.identity
    settled_ledgers = {own, *(each for note in noted if note.ledger == own for each in note.settled)}
    terms, books_by_ledger, co_owner_ledgers = books.terms, dict[str, tuple[OtherBooks, Note]](), list[str]()
    for note in (*notes_beside(books.place, books.cells), *noted, *among):
        share = 0.0 if note.ledger in settled_ledgers or own in note.settled else described.shared(note)
        if share < MIN_SHARE_OF_SHARED_TABLE:
            continue
        accepted, promised, spent = _expected_promises(note, terms) if note in among else _read_noted_ledger(note)
        if promised is not None and not any(promised) and not accepted:  # a crash: it was noted and not accepted
            continue
        declared = (
            terms.privacy.shared_records > 1 or share < MIN_SHARE_OF_SAME_TABLE
        )  # many owners number people from 1
        if declared and terms.hash in accepted and note.owner != books.owner:
            co_owner_ledgers.append(note.ledger)
            continue
        each = OtherBooks(books.owner, note.path, share >= MIN_SHARE_OF_SAME_TABLE, promised, spent)
        if each.same or note.ledger not in books_by_ledger:
            books_by_ledger[note.ledger] = each, note
    return sorted(books_by_ledger.values(), key=lambda each: not each[0].same), co_owner_ledgers


_Promises = tuple[set[str], Budget | None, Fraction]  # accepted terms, what they may cost, what they have cost


def _expected_promises(note: Note, terms: Terms) -> _Promises:
    """Return what the ledger of another owner of these terms will have promised."""
    return {terms.hash}, (terms.promised_epsilon(note.owner), Fraction(str(terms.privacy.delta))), Fraction(0)


def _read_noted_ledger(note: Note) -> _Promises:
    """Return what a noted ledger says, without upgrading or changing it; nothing if it is gone."""
    with suppress(sqlite3.Error, LedgerError), open_to_look(note.path) as db:
        if hash_at(db, 1) == note.ledger:
            accepted = [terms_hash for _, terms_hash in stored_rows.accepted(db)]
            spent = sum((stored_rows.account(db, terms_hash).spent for terms_hash in accepted), Fraction(0))
            return {*accepted}, stored_rows.reserved(db), spent
    return set(), None, Fraction(0)
