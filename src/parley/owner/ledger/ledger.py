"""The durable ledger: promises and answers in one SQLite file."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.durable import create, create_once
from parley.errors import LedgerError
from parley.owner.ledger import opening, stored_rows
from parley.owner.ledger.account import (
    RULES,
    Account,
    Budget,
    Cost,
    Facts,
    Head,
    Release,
    Reservation,
    Rule,
    largest_rho,
)
from parley.owner.ledger.chain import COLUMNS, Drawing, Memory, append, hash_at, head
from parley.owner.ledger.connections import FileConnection, FileIdentity
from parley.owner.ledger.opening import (
    MAX_ROWS_VERIFIED_FULLY,
    ROWS_PER_PAGE,
    Verification,
    file_beside,
    find_memories,
    make_or_upgrade,
    recall,
    require_known,
)
from parley.owner.ledger.witnessed import Witnessed
from parley.validate import Floats, exact

SECRET_BYTES = 32  # bytes
CHECKPOINT_ROWS = (
    # rows that may wait in the -wal file, or 1,000 pages, before they are brought into the file: a plain copy lacks no
    # more
    64
)

if TYPE_CHECKING:  # who only looks at books does not wait for statistics libraries
    from parley.protocol.queries import Query


class Ledger:
    """A durable ledger in one SQLite file: one lifetime budget for one table of one owner.

    Formal guarantee: over the file's whole life the reservations of all accepted terms add up to at most the lifetime
    budget (epsilon and delta, by simple composition; under the rule "zcdp" rho, which implies them: `account`), and the
    answers under each stay within its reservation, across threads, processes, forks, crashes, retries and restarts. At
    most one answer ever exists for a query id and for a round of an agreement. All answers under an agreement come from
    the table with which it was accepted. What was promised and released stays in it for ever; of the answers themselves
    all, or for learners that keep their own state (`prune`) the latest, up to `stored_rows.MAX_KEPT_ANSWER_BYTES` bytes
    for each agreement. A file that was put back to an earlier time, or is a copy that was left behind, is refused by
    what the account's state folder remembers of it, and so is one of which nothing is remembered (`chain.Memory`). Put
    back together with the state folder it is not noticed here, but by hosts and learners that saw the chain's end. A
    file of an earlier version is upgraded; every opening verifies the chain (`opening`).

    Parameters
    ----------
    path
        The file.
    lifetime, lifetime_delta, rule
        Epsilon, delta (default 0) and "simple" (default) or "zcdp": stated in the first row of a new file and never
        changed. Afterwards they must be left out or equal.
    writes
        False to look only: nothing is made, upgraded or noted, and the disk may be read-only.
    remembered
        False for books that end with this process, and for copies on their way: no memory is needed or kept, and not
        noted which table they are for.

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "bank-a.ledger", lifetime=3.0)
    >>> float(ledger.lifetime[0]), float(ledger.reserved[0])
    (3.0, 0.0)
    """

    durable = True

    def __init__(
        self,
        path: str | Path,
        lifetime: float | str | Fraction | None = None,
        lifetime_delta: float | str | None = None,
        rule: Rule | None = None,
        *,
        writes: bool = True,
        remembered: bool = True,
    ) -> None:
        self.path, self._writes, self.remembered = Path(path), writes, remembered
        # "./:memory:" is one too
        named = self.path.name not in ("", ":memory:") and not str(self.path).startswith("file:")
        if not named or (self.path.exists() and not self.path.is_file()):
            raise LedgerError(f"{str(path)!r}: a ledger must be a file; give the path of a file")
        if lifetime is None and not self.path.exists():
            raise LedgerError(
                f"{self.path}: the ledger does not exist. If the ledger is lost, restore a backup (parley owner "
                "restore). To create the table's first ledger, give a lifetime budget (epsilon)"
            )
        wanted = None if lifetime is None else exact(lifetime)
        wanted_delta = None if lifetime_delta is None else _delta(lifetime_delta)
        if rule not in (None, *RULES):
            raise LedgerError(f"rule = {rule!r}: expected one of {', '.join(RULES)}")
        if rule == "zcdp" and wanted is not None and not self.path.exists():
            largest_rho(wanted, wanted_delta or Fraction(0))  # refused before a file is made
        self._memories = find_memories(writes) if remembered else None
        # what cannot be made, SQLite says below; its -wal file gets the same permissions
        with contextlib.suppress(OSError):
            if writes:
                create(self.path, b"")
        place = FileIdentity(self.path)
        self._writer, self._reader = FileConnection(place, writes=True), FileConnection(place)
        self._archivist = FileConnection(place)  # for what takes longer, so that nobody waits for it
        self._drawing = Drawing(file_beside(self.path, "drawing"))
        self._begin(wanted, wanted_delta, rule, remembered)
        self._kept: Head | None = None
        self._last: Account | None = None  # after the last answer given here
        self._verified = self._recalled()
        self._memory = self._recall_end()
        self.remember()

    @property
    def lifetime(self) -> Budget:
        """(epsilon, delta): the most that all agreements together may ever cost."""
        with self._reader.transaction() as db:
            return stored_rows.lifetime(db)

    @property
    def reserved(self) -> Budget:
        """(epsilon, delta) that the accepted terms may cost together, and what counts as spent since a
        restore."""
        with self._reader.transaction() as db:
            return stored_rows.reserved(db)

    @property
    def rho(self) -> Budget | None:
        """(rho that the lifetime budget amounts to, rho reserved of it) if held as zCDP; None with simple
        sums."""
        with self._reader.transaction() as db:
            return stored_rows.rho_budget(db)

    @property
    def head(self) -> Head:
        """The end of the ledger's chain: how many rows, the last hash."""
        with self._reader.connection() as db:
            return head(db)

    @cached_property
    def identity(self) -> str:
        """What this ledger and its copies alone have in common: the hash of the first row, which is random."""
        with self._reader.connection() as db:
            return stored_rows.origin(db)

    @cached_property
    def witnessed(self) -> Witnessed:
        """The ends of others' books that this file keeps, and what witnesses signed about this ledger."""
        return Witnessed(stored_rows.BOOK, self._writer.transaction, self._reader.transaction)

    @cached_property
    def secret(self) -> bytes:
        """32 random bytes of this ledger, in a file NAME.secret beside it that `parley owner backup` leaves
        out."""
        path = file_beside(self.path, "secret")
        found = create_once(path, os.urandom(SECRET_BYTES))
        if len(found) != SECRET_BYTES:
            raise LedgerError(
                f"{path}: the file is damaged; restore or remove the file. Without the file, unfinished rounds with "
                "shared noise are aborted"
            )
        return found

    def hash_at(self, entries: int) -> str | None:
        """Return the hash that the chain had with this many rows; None if never, or before the file had a
        version."""
        with self._reader.transaction() as db:
            return None if entries < (stored_rows.upgraded(db) or 0) else hash_at(db, entries)

    def accept(
        self,
        reservation: Reservation,
        table: bytes | None = None,
        schema: str | None = None,
        other_books: str | None = None,
    ) -> None:
        """Reserve for these terms. Accepting the same terms again changes nothing; terms are never un-accepted. `table`
        is the table's digest, kept sealed with the terms: another table is refused; where none was kept yet, this one
        is. `schema`, the digest of what the table declares of its columns, counts as public: it is kept, too, and
        another one is refused. Terms accepted before ledgers kept it go on without. `other_books` is why the table may
        have other books, kept, too."""
        with self._writer.transaction() as db:
            stored_rows.accept(db, self.path, reservation, table, schema, other_books)

    def require_room(self, reservation: Reservation) -> None:
        """Raise what `accept` would raise about this reservation, and change nothing."""
        with self._reader.transaction() as db:
            stored_rows.reserved_with(db, self.path, reservation)

    def table(self, terms_hash: str) -> bytes | None:
        """Return the digest of the table that terms were accepted with, for the owner's own eyes; None if not
        kept."""
        with self._reader.transaction() as db:
            return stored_rows.table(db, terms_hash)

    def other_books(self, terms_hash: str) -> str | None:
        """Return why the table may have other books, as stated when these terms were accepted; None if not
        stated."""
        with self._reader.transaction() as db:
            return stored_rows.other_books(db, terms_hash)

    def knows_table(self, terms_hash: str) -> bool:
        """Return whether the table with which these terms were accepted is known."""
        with self._reader.transaction() as db:
            return stored_rows.table(db, terms_hash) is not None

    def close_terms(self, terms_hash: str, why: str) -> None:
        """Answer nothing more under these terms; all they reserved counts as spent. Repeating it changes
        nothing."""
        with self._writer.transaction() as db:
            stored_rows.close(db, terms_hash, why)

    def assume_spent(self, owner: str, lost: Sequence[Reservation], everything: bool) -> None:
        """Close all agreements, `lost` ones too; if `everything`, count the whole lifetime budget as spent."""
        with self._writer.transaction() as db:
            stored_rows.assume_spent(db, self.path, owner, lost, everything)

    def account(self, terms_hash: str) -> Account:
        """Return what the agreement with this hash reserved and has spent so far."""
        with self._reader.transaction() as db:
            return replace(stored_rows.account(db, terms_hash), head=head(db))

    def accounts(self) -> list[tuple[str, Account]]:
        """Return all agreements with the time of their acceptance, oldest first."""
        with self._reader.transaction() as db:
            return [(time, stored_rows.account(db, terms_hash)) for time, terms_hash in stored_rows.accepted(db)]

    def answer(
        self, query: "Query", spent_after: Cost, event: Facts, release: Release, prune: bool = False
    ) -> tuple[Floats, Account]:
        """Return the stored answer if there is one, else check, release, and commit debit and answer together; and the
        account.

        `release` computes under no lock: however long it takes, others read and write meanwhile. The noise (and what is
        computed from it: local steps on networks) is then drawn under the drawing lock, for a question that is still
        unanswered, and stored in a short transaction before the lock is given up.

        Formal guarantee: for each answer that is ever stored one draw was made among all who hold that lock, so no race
        chooses among several. A crash between draw and commit released nothing, and nobody saw that draw. (Should a
        disk that cannot lock let a second one in, the transaction looks once more: whoever comes late throws its draw
        away unseen, whatever it was.)
        """
        with self._reader.transaction() as db:
            stored = _stored_or_open(db, query, spent_after, self._last)
        if not isinstance(stored, _OpenQuestion):
            self._catch_up()  # who stored it may have died before it was noted
            return stored
        draw = release()
        with self._drawing:
            if self.head != stored.end:  # somebody wrote meanwhile
                with self._reader.transaction() as db:
                    stored = _stored_or_open(db, query, spent_after)
                if not isinstance(stored, _OpenQuestion):
                    self._catch_up()
                    return stored
            value = np.ascontiguousarray(draw(), dtype="<f8")
            with self._writer.transaction() as db:
                if head(db) != stored.end:
                    stored = _stored_or_open(db, query, spent_after)
                    if not isinstance(stored, _OpenQuestion):
                        return stored
                before, after = stored.before, stored.after
                end = append(
                    db,
                    last=stored.end,
                    kind="answer",
                    terms=query.terms_hash,
                    learner=query.learner,
                    round=query.round,
                    query=query.id,
                    content=query.content,
                    event=json.dumps(event, sort_keys=True),
                    epsilon=str(after.spent - before.spent),
                    delta=str(before.delta_left),
                    balance=str(after.spent),
                    shape=json.dumps(value.shape),
                    answer=value.tobytes(),
                )
                if prune:
                    stored_rows.prune(db, query.terms_hash, after.answers, value.nbytes)
            with contextlib.suppress(OSError):  # a full disk: the answer is stored already
                self._drawing.note(end)
        if end.entries % CHECKPOINT_ROWS == 0:
            with contextlib.suppress(LedgerError):  # the answer is stored already
                self._writer.checkpoint()
        self._last = replace(after, head=end)
        return value, self._last

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield every row, oldest first, without the answers themselves; read in pages, so that nobody waits
        for it."""
        last = 0
        while True:
            with self._archivist.transaction() as db:
                page = db.execute(
                    f"SELECT {', '.join(COLUMNS[:-2])} FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
                    (last, ROWS_PER_PAGE),
                ).fetchall()
            if not page:
                return
            for row in page:
                yield dict(zip(COLUMNS, row, strict=False))
            last = page[-1][0]

    def verify(self) -> int:
        """Recompute the chain and every balance; return the number of rows, or raise `BrokenChainError` for the first
        bad."""
        whole = Verification()
        self._follow(whole)
        return whole.head.entries

    def remember(self) -> None:
        """Verify what was added since, and keep how far the chain is known to be sound; bring the file up to date with
        its -wal file. Called now and then by whoever holds a ledger for long, so that an older copy is noticed."""
        with self._archivist.lock:
            self._follow(self._verified)
            if self._verified.head == self._kept:
                return
            path = file_beside(self.path, "verified")
            others = recall(path)  # another process may be further
            if others is None or others.head.entries < self._verified.head.entries:
                with contextlib.suppress(OSError):  # a memory only
                    self._verified.remember(path)
            if self._kept is not None:
                with contextlib.suppress(LedgerError):  # a full disk: what waits in the -wal file counts all the same
                    self._archivist.checkpoint()
            self._kept = self._verified.head

    def close(self) -> None:
        """Close the file that the ledger lies in."""
        for connection in (self._drawing, self._memory, self._writer, self._reader, self._archivist):
            if connection is not None:
                connection.close()

    def _begin(
        self, lifetime: Fraction | None, lifetime_delta: Fraction | None, rule: Rule | None, remembered: bool
    ) -> None:
        """Make or upgrade the ledger; refuse a file that is none, or has another budget or rule."""
        with self._reader.transaction() as db:
            stored_version = opening.version(db, self.path)
        if stored_version in (None, 0) or (self._writes and stored_version != opening.SCHEMA_VERSION):
            if remembered:  # who only looks has to write here all the same
                self._memories = find_memories(writes=True)
            with self._writer.transaction() as db:
                budget = None if lifetime is None else (lifetime, lifetime_delta or Fraction(0))
                make_or_upgrade(db, self.path, self._memories, budget, rule or "simple")
        known = self.lifetime
        kept: Rule = "simple" if self.rho is None else "zcdp"
        if rule not in (None, kept):
            raise LedgerError(
                f"{self.path}: the ledger's lifetime budget uses the rule {kept!r}, which never changes; give "
                "the same rule, or omit the rule"
            )
        if lifetime not in (None, known[0]) or lifetime_delta not in (None, known[1]):
            raise LedgerError(
                f"{self.path}: the ledger's lifetime budget is {stored_rows.budget_words(known)}, which never changes; "
                "give the same budget, or omit the budget"
            )

    def _recall_end(self) -> Memory | None:
        """Return the memory from which every further row goes on."""
        if self._memories is None:
            return None
        memory = Memory(self._memories, self.identity, self.path, "ledger")
        if self._writes:
            self._writer.memory = memory
            self._catch_up()
        elif (noted := memory.noted()) is not None:
            with self._reader.transaction() as db:
                memory.require_latest(db, noted)
        return memory

    def _catch_up(self) -> None:
        """Note where the ledger ends, if not noted yet; refuse one that does not go on from what was."""
        memory = self._writer.memory
        if memory is not None:
            with memory, self._reader.transaction() as db:
                if memory.require_latest(db) != (end := head(db)):
                    memory.note(end)

    def _recalled(self) -> Verification:
        """Return the verification to go on from; refuse a ledger that does not go on from the remembered one."""
        kept = recall(file_beside(self.path, "verified"))
        begin = Verification() if kept is None or kept.head.entries <= MAX_ROWS_VERIFIED_FULLY else kept
        if begin is not kept:
            self._follow(begin)
        with self._reader.transaction() as db:
            require_known(db, self.path)
        return begin

    def _follow(self, verification: Verification) -> None:
        with self._archivist.transaction() as db:
            upgraded = stored_rows.upgraded(db)
        verification.follow(self._archivist.transaction, self.path, upgraded)


@dataclass(frozen=True)
class _OpenQuestion:
    """A question that may be answered: where the ledger ends, and the agreement before and after."""

    end: Head
    before: Account
    after: Account


def _stored_or_open(
    db: sqlite3.Connection, query: "Query", spent_after: Cost, last: Account | None = None
) -> _OpenQuestion | tuple[Floats, Account]:
    """Return the stored answer, or that the question may have one; else refuse. `last` holds at the same end."""
    end = head(db)
    stored = stored_rows.stored(db, query)
    if stored is not None:
        return stored
    known = last is not None and last.head == end and last.terms_hash == query.terms_hash
    account = last if last is not None and known else stored_rows.account(db, query.terms_hash)
    return _OpenQuestion(end, account, account.debit(query.learner, query.round, spent_after))


def _delta(value: float | str) -> Fraction:
    """Return a lifetime delta as the decimal that people wrote."""
    try:
        delta = Fraction(str(value))
    except ValueError:
        delta = Fraction(-1)
    if not 0 <= delta < 1:
        raise LedgerError(f"lifetime_delta = {value}: expected a number of at least 0 and below 1")
    return delta
