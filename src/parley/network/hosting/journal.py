"""What a host wrote down about each question: one SQLite file to which rows are added; only old sums are dropped.

Formal guarantee: for a question (terms, round) there is at most one proposal, one record and one end ("opened" or
"void", never both), each for ever, across threads, processes, crashes and restarts. A record stands in the file
together with the host's sums, or neither does; no noise stands in two records. What was returned is on the disk. Each
row holds the hash of the one before, so a row that was changed, or removed from the middle, is noticed when the file is
opened. A whole file that was put back, and a copy left behind, are noticed by what the account's state folder
remembers; a file of which nothing is remembered is refused (`chain.Memory`). Put back together with the state folder it
is noticed by who saw a later end (`exchange.witnesses`); `host.py` says why that matters with two hosts.

Of owners' answers it holds two of three shares of a sum that already carries its noise, of the latest rounds; never
shares of single owners. Of two hosts, each holds one share, with a whole noise of its own or with its share of the
noise that both drew.
"""

import hashlib
import hmac
import json
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from parley.durable import create, state_folder
from parley.errors import BrokenChainError, GuaranteeError, LedgerError, StateFolderError
from parley.owner.ledger.account import Head
from parley.owner.ledger.chain import FIRST_PREVIOUS_HASH, Memory, hash_at, head
from parley.owner.ledger.connections import FileConnection, FileIdentity
from parley.owner.ledger.witnessed import MAX_RESTORES, TOO_MANY_RESTORES, Book, Witnessed, next_restore

APPLICATION, VERSION = 0x50617248, 1
RESTORED_VERSION = 2  # of a journal with closed terms, which earlier versions of Parley would go on opening
CLOSED_REASON = "this host closed these terms when it restored its journal; agree on new terms"
# bytes of sums that are kept for each agreement: a learner that follows the rounds asks for the last ones only
KEPT_SUM_BYTES = 1 << 26

# kind       body                               noise                    sums
# memory     which file in the state folder remembers this journal; no terms, round 0
# begin      nothing; round 0: this journal is that of these terms from their first question on
# proposal   what this host held (JSON)
# record     what all hosts agreed on (JSON)    its session and number   two shares of the sum, one after the other
# left-out   the owners (JSON) whose answers exceeded their bounds and are not in the record, if there are any
# opened     nothing: the sums may leave, and are repeated for ever
# void       why the round was aborted (text)
# close      why these terms are closed for ever (text); round 0
# restore    random; no terms, its number as the round: from here on it is another book to witnesses, of the same origin
# secret     random; no terms, round 0: in journals of earlier versions, what blinds the ends that others see
SCHEMA = (
    """CREATE TABLE entries (
  seq INTEGER PRIMARY KEY, terms TEXT NOT NULL, round INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
  noise TEXT, sums BLOB, digest BLOB, previous TEXT NOT NULL, hash TEXT NOT NULL
)""",
    "CREATE UNIQUE INDEX one_of_each ON entries (terms, round, kind)",
    "CREATE UNIQUE INDEX one_use ON entries (terms, noise) WHERE noise IS NOT NULL",
    "CREATE INDEX kept_sums ON entries (terms, round) WHERE sums IS NOT NULL",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


@dataclass(frozen=True)
class Entry:
    """What the journal says about one question; old `sums` are dropped for later rounds."""

    proposal: str | None = None
    record: str | None = None
    sums: bytes | None = None
    aborted: str | None = None
    opened: bool = False

    @property
    def open(self) -> bool:
        """Whether the hosts might still agree on something."""
        return self.record is None and self.aborted is None


class Transactions(Protocol):
    """A database whose transactions happen whole or not at all."""

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def close(self) -> None: ...


class Journal:
    """A host's journal; without a path in memory, for studies and tests; a reader (not `writes`) keeps nobody waiting.

    >>> journal = Journal()
    >>> journal.propose("t", 1, "what I hold").proposal, journal.propose("t", 1, "something else").proposal
    ('what I hold', 'what I hold')
    """

    def __init__(self, path: Path | None = None, writes: bool = True) -> None:
        self.path = path
        self._memory: Memory | None = None
        if path is None:
            self._db: Transactions = _InMemory()
            with self._db.transaction() as db:
                _require_journal(db, path)
        elif writes:
            memories = state_folder("journals", lasting=True)
            with suppress(OSError):  # there already, or SQLite will say what is wrong
                create(path, b"")
            self._db = self._remembered(FileConnection(FileIdentity(path, "journal"), writes=True), path, memories)
        else:
            self._db = _checked_reader(FileConnection(FileIdentity(path, "journal")), path)

    def _remembered(self, connection: FileConnection, path: Path, memories: Path) -> FileConnection:
        """Return the connection that extends what is remembered; the first opening creates the memory and a row."""
        with connection.transaction() as db:
            _require_journal(db, path)
            name, end = _memory_name(db), head(db)
            if name is None:
                # A journal from before there were memories is known by its place: an older copy may be put back there.
                name = _hashed(str(path.resolve())) if end.entries else secrets.token_hex(32)
                _append(db, "", 0, "memory", name)
                memory = Memory(memories, name, path, "journal")
                memory.require_latest(db, memory.begin(end if end.entries else head(db)))
        connection.memory = self._memory = Memory(memories, name, path, "journal")
        with connection.transaction():  # refuses an older one, and notes the end if whoever wrote it died before
            return connection

    def begin(self, terms: str) -> None:
        """Begin to journal what is asked by these terms; repeating it changes nothing."""
        with self._db.transaction() as db:
            if not _begun(db, terms):
                _append(db, terms, 0, "begin", "")

    def closed(self, terms: str) -> bool:
        """Whether these terms were closed: nothing more is agreed on or opened under them."""
        with self._db.transaction() as db:
            return _closed(db, terms)

    @cached_property
    def witnessed(self) -> Witnessed:
        """The ends of others' books that this file keeps, and what witnesses signed about this journal."""
        with self._db.transaction() as db:
            if not _has_blinding(db):
                _append(db, "", 0, "secret", secrets.token_hex(32))
        return Witnessed(BOOK, self._db.transaction)

    def begun(self, terms: str) -> bool:
        """Whether this is the journal of these terms; another may lack what was opened."""
        with self._db.transaction() as db:
            return _begun(db, terms)

    def entry(self, terms: str, round: int) -> Entry:  # noqa: A002
        """Return what is written about this question."""
        with self._db.transaction() as db:
            return _entry(db, terms, round)

    def propose(self, terms: str, round: int, proposal: str) -> Entry:  # noqa: A002
        """Write the proposal, unless one is there or the question is aborted; return what then stands there."""
        with self._db.transaction() as db:
            entry = _entry(db, terms, round)
            if entry.proposal is None and entry.open:
                _append(db, terms, round, "proposal", proposal)
                entry = _entry(db, terms, round)
            return entry

    def agree(
        self,
        terms: str,
        round: int,  # noqa: A002
        record: str,
        noise: str,
        sums: bytes,
        left_out: Sequence[str] = (),
    ) -> Entry:
        """Write the record, its noise as used and its sums, and who was left out, unless a record or an end is there;
        return what stands there. A noise that stands in another record is refused, and nothing is written."""
        with self._db.transaction() as db:
            entry = _entry(db, terms, round)
            if entry.open:
                if entry.proposal is None:
                    raise GuaranteeError("journal: this host must write its own proposal before a record")
                if db.execute("SELECT 1 FROM entries WHERE terms=? AND noise=?", (terms, noise)).fetchone() is not None:
                    raise GuaranteeError("journal: this noise was used for another question")
                if left_out:
                    _append(db, terms, round, "left-out", json.dumps(list(left_out)))
                _append(db, terms, round, "record", record, noise, sums)
                _prune(db, terms, len(sums))
                entry = _entry(db, terms, round)
            return entry

    def left_out(self, terms: str, round: int) -> list[str]:  # noqa: A002
        """Return the owners whose answers to this question exceeded their bounds."""
        with self._db.transaction() as db:
            row = db.execute(
                "SELECT body FROM entries WHERE terms=? AND round=? AND kind='left-out'", (terms, round)
            ).fetchone()
        return [] if row is None else list(json.loads(row[0]))

    def abort(self, terms: str, round: int, why: str) -> Entry:  # noqa: A002
        """Write that nothing more is opened for this question, unless something was; return what stands there."""
        with self._db.transaction() as db:
            entry = _entry(db, terms, round)
            if entry.aborted is None and not entry.opened:
                _append(db, terms, round, "void", why)
                entry = _entry(db, terms, round)
            return entry

    def open(self, terms: str, round: int) -> Entry:  # noqa: A002
        """Write that the sums leave, unless that is there or the question is aborted; return what stands there."""
        with self._db.transaction() as db:
            entry = _entry(db, terms, round)
            if entry.record is None and entry.aborted is None:
                raise GuaranteeError("journal: this host must record a round before it opens the round")
            if entry.aborted is None and not entry.opened:
                _append(db, terms, round, "opened", "")
                entry = _entry(db, terms, round)
            return entry

    def abort_unfinished(self, terms: str, why: str) -> list[int]:
        """End all questions with a proposal and no record; return their rounds."""
        with self._db.transaction() as db:
            proposed = db.execute(
                "SELECT round FROM entries WHERE terms=? AND kind='proposal' ORDER BY round", (terms,)
            ).fetchall()
            ended = [number for (number,) in proposed if _entry(db, terms, number).open]
            for number in ended:
                _append(db, terms, number, "void", why)
            return ended

    def counts(self, terms: str) -> dict[str, int]:
        """Return how many rows of each kind there are."""
        with self._db.transaction() as db:
            return dict(
                db.execute("SELECT kind, COUNT(*) FROM entries WHERE terms=? GROUP BY kind", (terms,)).fetchall()
            )

    def waiting(self, terms: str) -> list[int]:
        """Return the rounds that have rows and no end yet."""
        with self._db.transaction() as db:
            rows = db.execute(
                "SELECT round FROM entries WHERE terms=? AND round>0 GROUP BY round HAVING SUM(kind IN ('opened', "
                "'void')) = 0 ORDER BY round",
                (terms,),
            ).fetchall()
        return [number for (number,) in rows]

    @property
    def entries(self) -> int:
        """The number of rows."""
        with self._db.transaction() as db:
            return int(db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    @property
    def head(self) -> Head:
        """The end of the journal's chain: its number of rows and last hash."""
        with self._db.transaction() as db:
            return head(db)

    def holds(self, end: Head) -> bool:
        """Whether its chain once ended so; a file of an earlier time does not know it."""
        with self._db.transaction() as db:
            return end.entries == 0 or hash_at(db, end.entries) == end.hash

    def close(self) -> None:
        """Close the journal's file."""
        self._db.close()
        if self._memory is not None:
            self._memory.close()


class _InMemory:
    """A database that ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._connection.close()


def _require_journal(db: sqlite3.Connection, path: Path | None) -> None:
    """Make it in an empty file; refuse another file, a later version or a broken chain."""
    application, number = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if not db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] and (application, number) == (0, 0):
        for statement in SCHEMA:
            db.execute(statement)
        return
    if application != APPLICATION or number not in (VERSION, RESTORED_VERSION):
        raise LedgerError(
            f"{path}: expected a host's journal that this version of Parley can read; check the path, or update Parley"
        )
    previous = FIRST_PREVIOUS_HASH
    rows = db.execute("SELECT terms, round, kind, body, noise, sums, digest, previous, hash FROM entries ORDER BY seq")
    for *facts, sums, digest, before, link in rows:
        kept = sums is None or hashlib.sha256(sums).digest() == digest
        if before != previous or not kept or link != _link(previous, facts, digest):
            raise BrokenChainError(
                f"{path}: the rows of this journal do not form a hash chain; do not use this journal"
            )
        previous = link


def _checked_reader(connection: FileConnection, path: Path) -> FileConnection:
    """Return a reader's connection; refuse an older journal as far as it is remembered."""
    with connection.transaction() as db:
        _require_journal(db, path)
        name = _memory_name(db)
    with suppress(StateFolderError):
        memory = Memory(state_folder("journals"), name or _hashed(str(path.resolve())), path, "journal")
        if (noted := memory.noted()) is not None:
            with connection.transaction() as db:
                memory.require_latest(db, noted)
    return connection


# How rows are shown to witnesses. Formal guarantee: without the secret, 32 random bytes in the file, a shown digest is
# as good as random (HMAC-SHA-256), and the same for the same rows. A row's own hash would not do: that of a record
# follows from this host's part of a sum, and whoever knows the other parts could try all values of a single number
# before anything is opened.


def _has_blinding(db: sqlite3.Connection) -> bool:
    """Whether the journal has a secret."""
    return _blinding(db) is not None


def _blinding(db: sqlite3.Connection) -> bytes | None:
    """Return 32 random bytes that nobody else knows. The first row of a journal that this version began is random; in
    an older one the name of its memory follows from the path, so that such a journal has a row for this alone."""
    found = db.execute(
        "SELECT body FROM entries WHERE kind='secret' OR (kind='memory' AND seq=1) ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    return None if found is None else bytes.fromhex(found[0])


def _blinded(db: sqlite3.Connection, text: str) -> str:
    return hmac.new(_blinding(db) or b"", text.encode(), "sha256").hexdigest()


def _book_name(db: sqlite3.Connection) -> str:
    restored = db.execute("SELECT body FROM entries WHERE kind='restore' ORDER BY seq DESC LIMIT 1").fetchone()
    return _blinded(db, "book" if restored is None else f"book {restored[0]}")


def _origin(db: sqlite3.Connection) -> str:
    """Return what this journal and those restored from its copies have in common."""
    return _blinded(db, "origin")


def _restores(db: sqlite3.Connection) -> int:
    (number,) = db.execute("SELECT MAX(round) FROM entries WHERE kind='restore'").fetchone()
    return int(number or 0)


def _shown_digest(db: sqlite3.Connection, entries: int) -> str | None:
    known = hash_at(db, entries)
    return None if known is None else _blinded(db, f"{entries} {known}")


def _shown_head(db: sqlite3.Connection) -> Head:
    end = head(db)
    return Head(end.entries, _blinded(db, f"{end.entries} {end.hash}"))


BOOK = Book(_book_name, _shown_head, _shown_digest, _origin, _restores)


def _closed(db: sqlite3.Connection, terms: str) -> bool:
    return db.execute("SELECT 1 FROM entries WHERE terms=? AND kind='close'", (terms,)).fetchone() is not None


def _memory_name(db: sqlite3.Connection) -> str | None:
    found = db.execute("SELECT body FROM entries WHERE kind='memory'").fetchone()
    return None if found is None else str(found[0])


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _begun(db: sqlite3.Connection, terms: str) -> bool:
    return db.execute("SELECT 1 FROM entries WHERE terms=? AND kind='begin'", (terms,)).fetchone() is not None


def _entry(db: sqlite3.Connection, terms: str, number: int) -> Entry:
    rows = db.execute("SELECT kind, body, sums FROM entries WHERE terms=? AND round=?", (terms, number)).fetchall()
    bodies, sums = {kind: body for kind, body, _ in rows}, [sums for kind, _, sums in rows if kind == "record"]
    opened, aborted = "opened" in bodies, bodies.get("void")
    if aborted is None and not opened and _closed(db, terms):
        aborted = CLOSED_REASON
    return Entry(bodies.get("proposal"), bodies.get("record"), sums[0] if sums else None, aborted, opened)


def _append(
    db: sqlite3.Connection,
    terms: str,
    number: int,
    kind: str,
    body: str,
    noise: str | None = None,
    sums: bytes | None = None,
) -> None:
    previous, digest = head(db).hash, None if sums is None else hashlib.sha256(sums).digest()
    facts = [terms, number, kind, body, noise]
    row = (*facts, sums, digest, previous, _link(previous, facts, digest))
    db.execute(
        "INSERT INTO entries (terms, round, kind, body, noise, sums, digest, previous, hash) VALUES (?, ?, ?, ?, ?, "
        "?, ?, ?, ?)",
        row,
    )


def _link(previous: str, facts: list[object], digest: bytes | None) -> str:
    return _hashed(json.dumps(["parley-journal-1", previous, *facts, None if digest is None else digest.hex()]))


def _prune(db: sqlite3.Connection, terms: str, size: int) -> None:
    """Drop the oldest sums beyond what is kept; the last ones always stay."""
    db.execute(
        "UPDATE entries SET sums=NULL WHERE terms=? AND sums IS NOT NULL AND round NOT IN (SELECT round FROM "
        "entries WHERE terms=? AND sums IS NOT NULL ORDER BY seq DESC LIMIT ?)",
        (terms, terms, max(1, KEPT_SUM_BYTES // max(1, size))),
    )


def close_everything(db: sqlite3.Connection, path: Path, others: Collection[str]) -> str:
    """Close all terms that this copy of the journal at `path` or `others` name, and begin another book; return the name
    of its memory. Earlier versions of Parley do not open the journal any more: they would go on under closed terms."""
    _require_journal(db, path)
    rows = db.execute("SELECT DISTINCT terms FROM entries WHERE terms<>''").fetchall()
    for terms in sorted({terms for (terms,) in rows} | {*others}):
        if not _closed(db, terms):
            _append(db, terms, 0, "close", CLOSED_REASON)
    name = _memory_name(db)
    if name is None:
        name = _hashed(str(path.resolve()))
        _append(db, "", 0, "memory", name)
    number = next_restore(db, BOOK)
    if number > MAX_RESTORES:
        raise LedgerError(f"{path}: {TOO_MANY_RESTORES}; make a new journal with parley host init")
    _append(db, "", number, "restore", secrets.token_hex(32))
    db.execute(f"PRAGMA user_version = {RESTORED_VERSION}")
    return name


def require_known_heads(path: Path, journals: Mapping[str, Journal]) -> None:
    """Refuse journals that are older than the ends in this file, by name; without a file nothing is known."""
    if not path.exists():
        return
    try:
        known = {name: Head(end["entries"], end["hash"]) for name, end in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BrokenChainError(
            f"{path}: the file does not record where the journals ended; restore the file from a copy"
        ) from None
    for name, journal in journals.items():
        if name in known and not journal.holds(known[name]):
            raise BrokenChainError(
                f"{journal.path}: this journal is an older or different journal; put the latest journal back"
            )
