"""The ledger: what an owner promised, what it released, and the refusal to go beyond.

Check, record, then release: the debit and the noisy answer are committed in one transaction, and only the stored answer is sent.
A crash at any moment leaves either both or neither. Asked the same question again, the owner sends the stored answer at no cost.
Rows form a hash chain, so a row that was changed, or removed from the middle, is noticed. What no file can notice is being cut short or
replaced by its own older copy: keep the ledger (and SQLite's `-wal` file beside it, which belongs to it) where only the owner's daemon
writes, and out of backups that are restored blindly.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parley.account import Account, Reservation
from parley.accounting import exact
from parley.durable import create
from parley.errors import (
    BrokenChainError,
    BudgetExhausted,
    ContentMismatch,
    LedgerError,
    OutOfOrder,
    UnknownTerms,
)
from parley.queries import Query, StatisticsQuery
from parley.validate import Floats

Budget = tuple[Fraction, Fraction]  # epsilon, delta
Release = Callable[[], Callable[[], Floats]]  # computes, and returns what then draws the noise
Facts = dict[str, Any]
Cost = Callable[[int], Fraction]  # what this many answers cost together


class AnyLedger(Protocol):
    """What an owner needs of a ledger, durable or for a study."""

    @property
    def durable(self) -> bool: ...
    def accept(self, reservation: Reservation) -> None: ...
    def answer(self, query: Query, spent_after: Cost, event: Facts, release: Release) -> tuple[Floats, Account]: ...
    def account(self, terms: str) -> Account: ...


class StudyLedger:
    """The same rules in memory, for studies: every study starts a fresh one, and only the latest answer is kept."""

    durable = False

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._latest: dict[str, tuple[str, str, Floats]] = {}

    def accept(self, reservation: Reservation) -> None:
        self._accounts.setdefault(reservation.terms, reservation.account())

    def account(self, terms: str) -> Account:
        if terms not in self._accounts:
            raise UnknownTerms("nobody at this owner accepted these terms")
        return self._accounts[terms]

    def answer(self, query: Query, spent_after: Cost, event: Facts, release: Release) -> tuple[Floats, Account]:
        account = self.account(query.terms)
        known, content, value = self._latest.get(query.terms, ("", "", np.empty(0)))
        if query.id == known:
            return _same_question(query, content, value), account
        after = account.debit(query, spent_after)
        value = release()()
        self._accounts[query.terms] = after
        self._latest[query.terms] = (query.id, query.content, value)
        return value, after


SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  seq INTEGER PRIMARY KEY,
  time TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('open', 'accept', 'answer')),
  owner TEXT, terms TEXT, learner TEXT, round INTEGER, query TEXT, content TEXT, event TEXT,
  epsilon TEXT NOT NULL,   -- open: lifetime budget; accept: reserved; answer: debited
  delta TEXT NOT NULL,     -- the same for delta; an agreement's delta is spent by its first answer
  balance TEXT NOT NULL,   -- accept: epsilon reserved so far over all terms; answer: epsilon spent so far under these terms
  shape TEXT, answer BLOB,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_lifetime ON entries (kind) WHERE kind = 'open';
CREATE UNIQUE INDEX IF NOT EXISTS one_acceptance ON entries (terms) WHERE kind = 'accept';
CREATE UNIQUE INDEX IF NOT EXISTS one_answer_a_question ON entries (terms, query) WHERE kind = 'answer';
CREATE UNIQUE INDEX IF NOT EXISTS one_answer_a_round ON entries (terms, round) WHERE kind = 'answer';
"""
COLUMNS = (
    "seq", "time", "kind", "owner", "terms", "learner", "round", "query", "content", "event",
    "epsilon", "delta", "balance", "shape", "answer",
)  # fmt: skip
START = "0" * 64


class Ledger:
    """A durable ledger in one SQLite file: one lifetime budget for one table of one owner.

    Formal guarantee: over the file's whole life the reservations of all accepted terms add up to at most the lifetime budget
    (epsilon and delta, by simple composition), and the answers under each stay within its reservation, across threads, processes,
    forks, crashes, retries and restarts; at most one answer ever exists for a query id and for a round of an agreement.

    `lifetime` (and `lifetime_delta`) are needed when the file is new and must be left out or equal afterwards.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "bank-a.ledger", lifetime=3.0)
    >>> float(ledger.lifetime[0]), float(ledger.reserved[0])
    (3.0, 0.0)
    """

    durable = True

    def __init__(
        self, path: str | Path, lifetime: float | str | Fraction | None = None, lifetime_delta: float | str | None = None
    ) -> None:
        self.path = Path(path)
        if self.path.name in ("", ":memory:") or str(path).startswith("file:") or (self.path.exists() and not self.path.is_file()):
            raise LedgerError(f"{path}: expected the path of a file: what SQLite keeps elsewhere is not there after a crash")
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._seen = False  # whether this connection knows that the schema is there
        self._file: tuple[int, int] | None = None
        if lifetime is None and not self.path.exists():
            raise LedgerError(f"{self.path}: no such ledger; to make one, give its lifetime budget (epsilon)")
        wanted = None if lifetime is None else exact(lifetime)
        wanted_delta = None if lifetime_delta is None else _delta(lifetime_delta)
        _LIVE.add(self)
        with contextlib.suppress(OSError):  # what cannot be made, SQLite says below; its -wal file gets the same permissions
            create(self.path, b"")
        with self._transaction() as db:
            known = self._budget(db, "open")
            if known is None:
                if wanted is None:
                    raise LedgerError(f"{self.path}: not a ledger; to make it one, give its lifetime budget (epsilon)")
                self._append(db, kind="open", epsilon=str(wanted), delta=str(wanted_delta or 0), balance="0")
            elif wanted not in (None, known[0]) or wanted_delta not in (None, known[1]):
                raise LedgerError(f"{self.path}: its lifetime budget is {_written(known)}, and a lifetime budget never changes")
        self.verify()

    @property
    def lifetime(self) -> Budget:
        """(epsilon, delta): the most that all agreements together may ever cost."""
        with self._transaction() as db:
            return self._lifetime(db)

    @property
    def reserved(self) -> Budget:
        """(epsilon, delta) that the accepted terms may cost together."""
        with self._transaction() as db:
            return self._reserved(db)

    def accept(self, reservation: Reservation) -> None:
        """Reserve for these terms. Accepting the same terms again changes nothing; terms are never un-accepted."""
        with self._transaction() as db:
            reserved = self._room(db, reservation)
            if reserved is not None:
                self._append(
                    db,
                    kind="accept",
                    owner=reservation.owner,
                    terms=reservation.terms,
                    learner=reservation.learner,
                    round=reservation.rounds,
                    event=json.dumps({"gaps": True}) if reservation.gaps else None,
                    epsilon=str(reservation.epsilon),
                    delta=str(reservation.delta),
                    balance=str(reserved),
                )

    def require_room(self, reservation: Reservation) -> None:
        """Raise what `accept` would raise, and change nothing."""
        with self._transaction() as db:
            self._room(db, reservation)

    def _room(self, db: sqlite3.Connection, new: Reservation) -> Fraction | None:
        """The epsilon reserved in all after accepting; None if these terms are accepted already."""
        holder = db.execute("SELECT owner FROM entries WHERE kind='accept' LIMIT 1").fetchone()
        if holder is not None and holder[0] != new.owner:
            raise LedgerError(f"{self.path}: it is the ledger of {holder[0]!r}, not of {new.owner!r}; every table has its own")
        known = db.execute(
            "SELECT learner, epsilon, delta, round FROM entries WHERE kind='accept' AND terms=?", (new.terms,)
        ).fetchone()
        if known is not None:
            if known != (new.learner, str(new.epsilon), str(new.delta), new.rounds):
                raise LedgerError(f"{self.path}: these terms were accepted with another learner, budget or horizon")
            return None
        before, lifetime = self._reserved(db), self._lifetime(db)
        after = before[0] + new.epsilon, before[1] + new.delta
        if after[0] > lifetime[0] or after[1] > lifetime[1]:
            raise BudgetExhausted(
                f"accepting these terms would reserve {_written(after)} in all: the table's lifetime budget is {_written(lifetime)}"
            )
        return after[0]

    def account(self, terms: str) -> Account:
        """Where the agreement stands."""
        with self._transaction(reading=True) as db:
            return self._account(db, terms)

    def answer(self, query: Query, spent_after: Cost, event: Facts, release: Release) -> tuple[Floats, Account]:
        """The stored answer if there is one; else check, release, and commit debit and answer together. With it, the account.

        `release` computes outside any transaction: however long it takes, others read and write meanwhile. Should the same round
        have been answered then, its work is thrown away and that answer, or a refusal, is returned. Only otherwise is the noise
        drawn, inside the transaction that stores it: once for each answer, so no race chooses among several draws. Others wait
        that long (milliseconds; seconds for tens of thousands of Gaussian numbers).
        """
        with self._transaction(reading=True) as db:
            known = self._stored(db, query)
            if known is not None:
                return known
            self._account(db, query.terms).debit(query, spent_after)
        draw = release()
        with self._transaction() as db:
            known = self._stored(db, query)
            if known is not None:
                return known
            before = self._account(db, query.terms)
            after = before.debit(query, spent_after)
            value = np.ascontiguousarray(draw(), dtype="<f8")
            self._append(
                db,
                kind="answer",
                terms=query.terms,
                learner=query.learner,
                round=query.round,
                query=query.id,
                content=query.content,
                event=json.dumps(event, sort_keys=True),
                epsilon=str(after.spent - before.spent),
                delta=str(before.delta if before.answered == 0 else 0),
                balance=str(after.spent),
                shape=json.dumps(value.shape),
                answer=value.tobytes(),
            )
        return value, after

    def _stored(self, db: sqlite3.Connection, query: Query) -> tuple[Floats, Account] | None:
        """The answer that this question got before, and where its agreement stands now."""
        row = db.execute(
            "SELECT content, shape, answer FROM entries WHERE kind='answer' AND terms=? AND query=?", (query.terms, query.id)
        ).fetchone()
        if row is None:
            return None
        content, shape, blob = row
        value = np.frombuffer(blob, dtype="<f8").reshape(json.loads(shape))
        return _same_question(query, content, value), self._account(db, query.terms)

    def entries(self) -> list[dict[str, Any]]:
        """Every row, oldest first, without the answers themselves."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT {', '.join(COLUMNS[:-2])} FROM entries ORDER BY seq").fetchall()  # noqa: S608
        return [dict(zip(COLUMNS, row, strict=False)) for row in rows]

    def verify(self) -> int:
        """Recompute the chain and every balance; the number of rows, or a `BrokenChainError` that names the first bad one."""
        with self._transaction() as db:
            previous, reserved, count = START, (Fraction(0), Fraction(0)), 0
            accounts: dict[str, Account] = {}
            for row in db.execute(f"SELECT {', '.join(COLUMNS)}, previous, hash FROM entries ORDER BY seq"):  # noqa: S608
                entry = dict(zip(COLUMNS, row, strict=False))
                count += 1
                sound = entry["seq"] == count and row[-2] == previous and row[-1] == _row_hash(previous, row[:-2])
                try:
                    epsilon, delta, balance = (Fraction(entry[name]) for name in ("epsilon", "delta", "balance"))
                    if entry["kind"] == "accept":
                        reserved = reserved[0] + epsilon, reserved[1] + delta
                        gaps = entry["event"] is not None
                        accounts[entry["terms"]] = Account(entry["terms"], entry["learner"], epsilon, delta, entry["round"], gaps)
                        sound = sound and balance == reserved[0]
                    elif entry["kind"] == "answer":
                        account = accounts[entry["terms"]]
                        question = StatisticsQuery(entry["query"], entry["terms"], entry["learner"], entry["round"])
                        accounts[entry["terms"]] = account.debit(question, partial(_stored, balance))
                        sound = sound and epsilon == balance - account.spent
                        sound = sound and delta == (account.delta if account.answered == 0 else 0)
                except (KeyError, ValueError, TypeError, OutOfOrder, BudgetExhausted, UnknownTerms):
                    sound = False
                if not sound:
                    raise BrokenChainError(
                        f"{self.path}: row {count} does not follow from the rows before it; do not use this ledger"
                    )
                previous = row[-1]
            lifetime = self._lifetime(db)
            if reserved[0] > lifetime[0] or reserved[1] > lifetime[1]:
                raise BrokenChainError(f"{self.path}: more is reserved than the lifetime budget; do not use this ledger")
            return count

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA fullfsync=ON")
            self._connection, self._seen, self._file = connection, False, self._found()
        return self._connection

    def _found(self) -> tuple[int, int] | None:
        """Which file lies there: a connection would go on writing to one that was moved away."""
        try:
            about = os.stat(self.path)  # noqa: PTH116 - for every message, and pathlib is slower
        except FileNotFoundError:
            return None
        return about.st_dev, about.st_ino

    @contextmanager
    def _transaction(self, reading: bool = False) -> Iterator[sqlite3.Connection]:
        """One writer at a time, over threads and processes; everything or nothing. Who only reads sees one moment."""
        with self._lock:
            try:
                db = self._connect()
                if self._found() != self._file:
                    raise LedgerError(f"{self.path}: the ledger was moved or replaced while it was in use; nothing was released")
                db.execute("BEGIN" if reading else "BEGIN IMMEDIATE")
                try:
                    if not self._seen and db.execute("SELECT 1 FROM sqlite_master WHERE name='entries'").fetchone() is None:
                        for statement in SCHEMA.split(";\n"):
                            db.execute(statement)
                    yield db
                    db.execute("COMMIT")
                    self._seen = True
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise LedgerError(f"{self.path}: the ledger cannot be used ({error}); nothing was released") from None

    @staticmethod
    def _budget(db: sqlite3.Connection, kind: str) -> Budget | None:
        """The sum of epsilon and delta over the rows of this kind; None without any."""
        rows = db.execute("SELECT epsilon, delta FROM entries WHERE kind=?", (kind,)).fetchall()
        if not rows:
            return None
        try:
            return sum((Fraction(e) for e, _ in rows), Fraction(0)), sum((Fraction(d) for _, d in rows), Fraction(0))
        except ValueError:
            raise BrokenChainError("a budget in the ledger is not a number; do not use this ledger") from None

    def _lifetime(self, db: sqlite3.Connection) -> Budget:
        budget = self._budget(db, "open")
        if budget is None:
            raise BrokenChainError(f"{self.path}: the row with its lifetime budget is missing; do not use this ledger")
        return budget

    def _reserved(self, db: sqlite3.Connection) -> Budget:
        return self._budget(db, "accept") or (Fraction(0), Fraction(0))

    @staticmethod
    def _account(db: sqlite3.Connection, terms: str) -> Account:
        accepted = db.execute(
            "SELECT learner, epsilon, delta, round, event FROM entries WHERE kind='accept' AND terms=?", (terms,)
        ).fetchone()
        if accepted is None:
            raise UnknownTerms("nobody at this owner accepted these terms")
        learner, epsilon, delta, rounds, facts = accepted
        account = Account(terms, learner, Fraction(epsilon), Fraction(delta), rounds, gaps=facts is not None)
        last = db.execute(
            "SELECT balance, round FROM entries WHERE kind='answer' AND terms=? ORDER BY round DESC LIMIT 1", (terms,)
        ).fetchone()
        if last is None:
            return account
        answers = last[1]
        if account.gaps:
            answers = db.execute("SELECT COUNT(*) FROM entries WHERE kind='answer' AND terms=?", (terms,)).fetchone()[0]
        return replace(account, spent=Fraction(last[0]), answered=last[1], answers=answers)

    @staticmethod
    def _append(db: sqlite3.Connection, **entry: Any) -> None:
        last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        seq, previous = (1, START) if last is None else (last[0] + 1, last[1])
        entry |= {"seq": seq, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        row = tuple(entry.get(column) for column in COLUMNS)
        marks = ", ".join("?" * (len(COLUMNS) + 2))
        values = (*row, previous, _row_hash(previous, row))
        db.execute(f"INSERT INTO entries ({', '.join(COLUMNS)}, previous, hash) VALUES ({marks})", values)  # noqa: S608


def _stored(balance: Fraction, answers: int) -> Fraction:
    """What a row says its agreement had cost by then."""
    return balance


def _delta(value: float | str) -> Fraction:
    """A lifetime delta as people mean it."""
    try:
        delta = Fraction(str(value))
    except ValueError:
        delta = Fraction(-1)
    if not 0 <= delta < 1:
        raise LedgerError(f"lifetime_delta = {value}: expected a number from 0 to below 1")
    return delta


def _written(budget: Budget) -> str:
    epsilon, delta = (float(part) for part in budget)
    return f"{epsilon:g}" if delta == 0 else f"({epsilon:g}, {delta:g})"


def _before_fork() -> None:
    """SQLite's locks belong to a process: no connection may live through a fork, in the parent or in the child."""
    for ledger in list(_LIVE):
        ledger._lock.acquire()
        ledger.close()
        _HELD.append(ledger)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._lock.release()


_LIVE: "weakref.WeakSet[Ledger]" = weakref.WeakSet()
_HELD: list[Ledger] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _row_hash(previous: str, row: tuple[Any, ...]) -> str:
    """The link of the chain: a hash of everything in the row and of the row before."""
    *facts, answer = row
    digest = None if answer is None else hashlib.sha256(answer).hexdigest()
    return hashlib.sha256(json.dumps([previous, *facts, digest]).encode()).hexdigest()


def _same_question(query: Query, content: str, value: Floats) -> Floats:
    if query.content != content:
        raise ContentMismatch(f"query id {query.id!r} was already used for another question: choose a new id")
    return value
