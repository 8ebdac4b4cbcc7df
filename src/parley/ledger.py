"""The ledger: what an owner promised, what it released, and the refusal to go beyond.

Check, record, then release: the debit and the noisy answer are committed in one transaction, and only the stored answer is sent.
A crash at any moment leaves either both or neither. Asked the same question again, the owner sends the stored answer at no cost.
Rows form a hash chain, so a changed or missing row is noticed. What no file can notice is being replaced as a whole by its own
older copy: keep the ledger where only the owner's daemon writes, and out of backups that are restored blindly.
"""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parley.accounting import exact
from parley.errors import (
    BrokenChainError,
    BudgetExhausted,
    ContentMismatch,
    LedgerError,
    OutOfOrder,
    UnknownTerms,
)
from parley.queries import GradientQuery
from parley.validate import Floats

Release = Callable[[], Floats]
Event = dict[str, Any]


@dataclass(frozen=True)
class Account:
    """What one agreement may still cost. Budgets are exact fractions: no tolerance."""

    terms: str
    learner: str
    epsilon: Fraction
    rounds: int
    spent: Fraction = Fraction(0)
    answered: int = 0

    def debit(self, query: GradientQuery, cost: Fraction) -> "Account":
        """The account after answering `query`, or a refusal that changes nothing."""
        if query.learner != self.learner:
            raise UnknownTerms(f"these terms were not accepted for learner {query.learner!r}")
        if query.round != self.answered + 1 or query.round > self.rounds:
            where = f"round {self.answered + 1} of {self.rounds}" if self.answered < self.rounds else "no further round"
            raise OutOfOrder(f"round {query.round} was asked: expected {where}")
        if self.spent + cost > self.epsilon:
            raise BudgetExhausted(
                f"round {query.round} would bring the epsilon spent to {float(self.spent + cost):g}: "
                f"these terms reserve {float(self.epsilon):g}"
            )
        return replace(self, spent=self.spent + cost, answered=query.round)


class AnyLedger(Protocol):
    """What an owner needs of a ledger, durable or for a study."""

    @property
    def durable(self) -> bool: ...
    def accept(self, terms: str, learner: str, epsilon: Fraction, rounds: int) -> None: ...
    def answer(self, query: GradientQuery, cost: Fraction, event: Event, release: Release) -> Floats: ...
    def account(self, terms: str) -> Account: ...


class StudyLedger:
    """The same rules in memory, for studies: every study starts a fresh one, and only the latest answer is kept."""

    durable = False

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._latest: dict[str, tuple[str, str, Floats]] = {}

    def accept(self, terms: str, learner: str, epsilon: Fraction, rounds: int) -> None:
        self._accounts.setdefault(terms, Account(terms, learner, epsilon, rounds))

    def account(self, terms: str) -> Account:
        if terms not in self._accounts:
            raise UnknownTerms("nobody at this owner accepted these terms")
        return self._accounts[terms]

    def answer(self, query: GradientQuery, cost: Fraction, event: Event, release: Release) -> Floats:
        account = self.account(query.terms)
        known, content, value = self._latest.get(query.terms, ("", "", np.empty(0)))
        if query.id == known:
            return _same_question(query, content, value)
        after = account.debit(query, cost)
        value = release()
        self._accounts[query.terms] = after
        self._latest[query.terms] = (query.id, query.content, value)
        return value


SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  seq INTEGER PRIMARY KEY,
  time TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('open', 'accept', 'answer')),
  terms TEXT, learner TEXT, round INTEGER, query TEXT, content TEXT, event TEXT,
  epsilon TEXT NOT NULL,   -- open: lifetime budget; accept: reserved; answer: debited
  balance TEXT NOT NULL,   -- accept: reserved so far over all terms; answer: spent so far under these terms
  shape TEXT, answer BLOB,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_lifetime ON entries (kind) WHERE kind = 'open';
CREATE UNIQUE INDEX IF NOT EXISTS one_acceptance ON entries (terms) WHERE kind = 'accept';
CREATE UNIQUE INDEX IF NOT EXISTS one_answer_a_query ON entries (query) WHERE kind = 'answer';
CREATE UNIQUE INDEX IF NOT EXISTS one_answer_a_round ON entries (terms, round) WHERE kind = 'answer';
"""
COLUMNS = ["seq", "time", "kind", "terms", "learner", "round", "query", "content", "event", "epsilon", "balance", "shape", "answer"]
START = "0" * 64


class Ledger:
    """A durable ledger in one SQLite file: one lifetime budget for one table.

    Formal guarantee: over the file's whole life the debits of all answers add up to at most the lifetime budget, across
    threads, processes, crashes, retries and restarts; at most one answer ever exists for a query id and for a round.

    `lifetime` is needed when the file is new and must be left out or equal afterwards.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "bank-a.ledger", lifetime=3.0)
    >>> float(ledger.lifetime), float(ledger.reserved)
    (3.0, 0.0)
    """

    durable = True

    def __init__(self, path: str | Path, lifetime: float | str | Fraction | None = None) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        if lifetime is None and not self.path.exists():
            raise LedgerError(f"{self.path}: no such ledger; to make one, give its lifetime budget (epsilon)")
        wanted = None if lifetime is None else exact(lifetime)
        with self._transaction() as db:
            if self._last(db, "open") is None:
                if wanted is None:
                    raise LedgerError(f"{self.path}: not a ledger; expected a file made by Parley")
                self._append(db, kind="open", epsilon=str(wanted), balance="0")
            elif wanted is not None and wanted != self._lifetime(db):
                raise LedgerError(
                    f"{self.path}: its lifetime budget is {float(self._lifetime(db)):g}, not {float(wanted):g}; "
                    "a lifetime budget never changes"
                )
        self.verify()

    @property
    def lifetime(self) -> Fraction:
        """The most that all agreements together may ever cost."""
        with self._transaction() as db:
            return self._lifetime(db)

    @property
    def reserved(self) -> Fraction:
        """What the accepted terms may cost together."""
        with self._transaction() as db:
            return self._reserved(db)

    def accept(self, terms: str, learner: str, epsilon: Fraction, rounds: int) -> None:
        """Reserve `epsilon` for these terms. Accepting the same terms again changes nothing; terms are never un-accepted."""
        with self._transaction() as db:
            known = db.execute("SELECT learner, epsilon, round FROM entries WHERE kind='accept' AND terms=?", (terms,)).fetchone()
            if known is not None:
                if known != (learner, str(epsilon), rounds):
                    raise LedgerError(f"{self.path}: these terms were accepted with another learner, epsilon or horizon")
                return
            reserved, lifetime = self._reserved(db) + epsilon, self._lifetime(db)
            if reserved > lifetime:
                raise BudgetExhausted(
                    f"accepting these terms would reserve {float(reserved):g} in all: the table's lifetime budget is "
                    f"{float(lifetime):g}"
                )
            self._append(
                db,
                kind="accept",
                terms=terms,
                learner=learner,
                round=rounds,
                epsilon=str(epsilon),
                balance=str(reserved),
            )

    def account(self, terms: str) -> Account:
        """Where the agreement stands."""
        with self._transaction() as db:
            return self._account(db, terms)

    def answer(self, query: GradientQuery, cost: Fraction, event: Event, release: Release) -> Floats:
        """The stored answer if there is one; else check, release, and commit debit and answer together."""
        with self._transaction() as db:
            stored = db.execute(
                "SELECT content, shape, answer FROM entries WHERE kind='answer' AND query=?", (query.id,)
            ).fetchone()
            if stored is not None:
                content, shape, blob = stored
                return _same_question(query, content, np.frombuffer(blob, dtype="<f8").reshape(json.loads(shape)))
            after = self._account(db, query.terms).debit(query, cost)
            value = np.ascontiguousarray(release(), dtype="<f8")
            self._append(
                db,
                kind="answer",
                terms=query.terms,
                learner=query.learner,
                round=query.round,
                query=query.id,
                content=query.content,
                event=json.dumps(event, sort_keys=True),
                epsilon=str(cost),
                balance=str(after.spent),
                shape=json.dumps(value.shape),
                answer=value.tobytes(),
            )
        return value

    def entries(self) -> list[dict[str, Any]]:
        """Every row, oldest first, without the answers themselves."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT {', '.join(COLUMNS[:-2])} FROM entries ORDER BY seq").fetchall()  # noqa: S608
        return [dict(zip(COLUMNS, row, strict=False)) for row in rows]

    def verify(self) -> int:
        """Recompute the chain and every balance; the number of rows, or a `BrokenChainError` that names the first bad one."""
        with self._transaction() as db:
            previous, reserved, count = START, Fraction(0), 0
            accounts: dict[str, Account] = {}
            for row in db.execute(f"SELECT {', '.join(COLUMNS)}, previous, hash FROM entries ORDER BY seq"):  # noqa: S608
                entry = dict(zip(COLUMNS, row, strict=False))
                count += 1
                sound = entry["seq"] == count and row[-2] == previous and row[-1] == _row_hash(previous, row[:-2])
                try:
                    epsilon, balance = Fraction(entry["epsilon"]), Fraction(entry["balance"])
                    if entry["kind"] == "accept":
                        reserved += epsilon
                        accounts[entry["terms"]] = Account(entry["terms"], entry["learner"], epsilon, entry["round"])
                        sound = sound and balance == reserved
                    elif entry["kind"] == "answer":
                        question = GradientQuery(entry["query"], entry["terms"], entry["learner"], entry["round"], np.empty(0))
                        accounts[entry["terms"]] = accounts[entry["terms"]].debit(question, epsilon)
                        sound = sound and balance == accounts[entry["terms"]].spent
                except (KeyError, ValueError, TypeError, OutOfOrder, BudgetExhausted, UnknownTerms):
                    sound = False
                if not sound:
                    raise BrokenChainError(
                        f"{self.path}: row {count} does not follow from the rows before it; do not use this ledger"
                    )
                previous = row[-1]
            if count and reserved > self._lifetime(db):
                raise BrokenChainError(f"{self.path}: more is reserved than the lifetime budget; do not use this ledger")
            return count

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None or self._pid != os.getpid():  # a forked child must not share its parent's connection
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA fullfsync=ON")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, over threads and processes; everything or nothing."""
        with self._lock:
            try:
                db = self._connect()
                db.execute("BEGIN IMMEDIATE")
                try:
                    if not self._ready(db):
                        for statement in SCHEMA.split(";\n"):
                            db.execute(statement)
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise LedgerError(f"{self.path}: the ledger cannot be used ({error}); nothing was released") from None

    @staticmethod
    def _ready(db: sqlite3.Connection) -> bool:
        return db.execute("SELECT 1 FROM sqlite_master WHERE name='entries'").fetchone() is not None

    @staticmethod
    def _last(db: sqlite3.Connection, kind: str) -> Any:
        query = "SELECT epsilon, balance FROM entries WHERE kind=? ORDER BY seq DESC LIMIT 1"
        return db.execute(query, (kind,)).fetchone()

    def _lifetime(self, db: sqlite3.Connection) -> Fraction:
        return Fraction(self._last(db, "open")[0])

    def _reserved(self, db: sqlite3.Connection) -> Fraction:
        row = self._last(db, "accept")
        return Fraction(0) if row is None else Fraction(row[1])

    @staticmethod
    def _account(db: sqlite3.Connection, terms: str) -> Account:
        accepted = db.execute("SELECT learner, epsilon, round FROM entries WHERE kind='accept' AND terms=?", (terms,)).fetchone()
        if accepted is None:
            raise UnknownTerms("nobody at this owner accepted these terms")
        account = Account(terms, accepted[0], Fraction(accepted[1]), accepted[2])
        last = db.execute(
            "SELECT balance, round FROM entries WHERE kind='answer' AND terms=? ORDER BY seq DESC LIMIT 1", (terms,)
        ).fetchone()
        return account if last is None else replace(account, spent=Fraction(last[0]), answered=last[1])

    @staticmethod
    def _append(db: sqlite3.Connection, **entry: Any) -> None:
        last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        seq, previous = (1, START) if last is None else (last[0] + 1, last[1])
        entry |= {"seq": seq, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        row = tuple(entry.get(column) for column in COLUMNS)
        marks = ", ".join("?" * (len(COLUMNS) + 2))
        values = (*row, previous, _row_hash(previous, row))
        db.execute(f"INSERT INTO entries ({', '.join(COLUMNS)}, previous, hash) VALUES ({marks})", values)  # noqa: S608


def _row_hash(previous: str, row: tuple[Any, ...]) -> str:
    """The link of the chain: a hash of everything in the row and of the row before."""
    *facts, answer = row
    digest = None if answer is None else hashlib.sha256(answer).hexdigest()
    return hashlib.sha256(json.dumps([previous, *facts, digest]).encode()).hexdigest()


def _same_question(query: GradientQuery, content: str, value: Floats) -> Floats:
    if query.content != content:
        raise ContentMismatch(f"query id {query.id!r} was already used for another question: choose a new id")
    return value
