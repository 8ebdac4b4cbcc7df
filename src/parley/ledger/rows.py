"""What the rows of a ledger say, and the rows that promises make: functions of the transaction under way."""

import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parley.account import Account, Reservation
from parley.errors import BrokenChainError, BudgetExhausted, LedgerError, OutOfOrder, UnknownTerms
from parley.ledger.chain import PAD, answer_digest, append, head, seal
from parley.ledger.contract import Budget, same_question
from parley.validate import Floats

if TYPE_CHECKING:  # who only looks at books does not wait for statistics libraries
    from parley.queries import Query

KEPT = 1 << 23  # bytes of answers that are kept for each agreement


def lifetime(db: sqlite3.Connection) -> Budget:
    """The most that all agreements together may ever cost."""
    budget = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='open'")
    if budget is None:
        raise BrokenChainError("the row with the ledger's lifetime budget is missing; do not use this ledger")
    return budget


def reserved(db: sqlite3.Connection) -> Budget:
    """What the accepted terms may cost together, and what counts as spent since a restore."""
    accepted = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='accept'") or (Fraction(0), Fraction(0))
    lost = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='restore'") or (Fraction(0), Fraction(0))
    return accepted[0] + lost[0], accepted[1] + lost[1]


def upgraded(db: sqlite3.Connection) -> int | None:
    """The row up to which files had no version; None in a file that always had one."""
    row = db.execute("SELECT seq FROM entries WHERE kind='upgrade'").fetchone()
    return None if row is None else int(row[0])


def account(db: sqlite3.Connection, terms: str) -> Account:
    """Where an agreement stands."""
    accepted = db.execute(
        "SELECT learner, epsilon, delta, round, event, EXISTS(SELECT 1 FROM entries WHERE kind='close' AND terms=?1) "
        "FROM entries WHERE kind='accept' AND terms=?1",
        (terms,),
    ).fetchone()
    if accepted is None:
        raise UnknownTerms("nobody at this owner accepted these terms")
    learner, epsilon, delta, rounds, facts, closed = accepted
    found = Account(terms, learner, Fraction(epsilon), Fraction(delta), rounds, gaps=facts is not None)
    last = db.execute(
        "SELECT balance, round FROM entries WHERE kind='answer' AND terms=? ORDER BY round DESC LIMIT 1", (terms,)
    ).fetchone()
    if last is not None:
        answers = last[1]
        if found.gaps:
            answers = db.execute("SELECT COUNT(*) FROM entries WHERE kind='answer' AND terms=?", (terms,)).fetchone()[0]
        found = replace(found, spent=Fraction(last[0]), answered=last[1], answers=answers)
    return found.close() if closed else found


def accepted(db: sqlite3.Connection) -> list[tuple[str, str]]:
    """(time, terms) of all acceptances, oldest first."""
    return db.execute("SELECT time, terms FROM entries WHERE kind='accept' ORDER BY seq").fetchall()


def stored(db: sqlite3.Connection, query: "Query") -> tuple[Floats, Account] | None:
    """The answer that this question got before, and where its agreement stands now."""
    row = db.execute(
        "SELECT content, shape, answer FROM entries WHERE kind='answer' AND terms=? AND query=?", (query.terms_hash, query.id)
    ).fetchone()
    if row is None:
        return None
    content, shape, blob = row
    if blob is None:
        raise OutOfOrder(
            f"query id {query.id!r} was answered long ago: of many long answers the latest are kept, and none is made anew"
        )
    value = np.frombuffer(blob, dtype="<f8").reshape(json.loads(shape))
    return same_question(query, content, value), replace(account(db, query.terms_hash), head=head(db))


def prune(db: sqlite3.Connection, terms: str, answers: int, size: int) -> None:
    """After an agreement's answer number `answers`, of `size` bytes: let go of the oldest one that is still here, if those before it
    already fill `KEPT`. Its digest and what it cost stay. The last one always stays: it alone may be asked for again by who follows
    the rounds."""
    if answers <= max(1, KEPT // size):
        return
    seq, known = db.execute(
        "SELECT seq, pruned IS NOT NULL FROM entries WHERE kind='answer' AND answer IS NOT NULL AND terms=? ORDER BY round LIMIT 1",
        (terms,),
    ).fetchone()
    if not known:  # written when digests were kept of answers that had gone only
        (answer,) = db.execute("SELECT answer FROM entries WHERE seq=?", (seq,)).fetchone()
        db.execute("UPDATE entries SET pruned=? WHERE seq=?", (answer_digest(answer), seq))
    db.execute("UPDATE entries SET answer=NULL WHERE seq=?", (seq,))


def room(db: sqlite3.Connection, path: Path, new: Reservation) -> Fraction | None:
    """The epsilon reserved in all after accepting; None if these terms are accepted already."""
    require_owner(db, path, new.owner)
    known = db.execute(
        "SELECT learner, epsilon, delta, round FROM entries WHERE kind='accept' AND terms=?", (new.terms,)
    ).fetchone()
    if known is not None:
        if known != (new.learner, str(new.epsilon), str(new.delta), new.rounds):
            raise LedgerError(f"{path}: these terms were accepted with another learner, budget or horizon")
        account(db, new.terms).require_open()
        return None
    before, most = reserved(db), lifetime(db)
    after = before[0] + new.epsilon, before[1] + new.delta
    if after[0] > most[0] or after[1] > most[1]:
        hint = "; a ledger's delta is set when it is made (--lifetime-delta)" if after[1] > most[1] else ""
        raise BudgetExhausted(
            f"accepting these terms would reserve {written(after)} in all: the table's lifetime budget is {written(most)}{hint}"
        )
    return after[0]


def accept(db: sqlite3.Connection, path: Path, new: Reservation, table: bytes | None) -> None:
    """Reserve for these terms, once; with them the table's digest, sealed. Another table later is refused."""
    after = room(db, path, new)
    if after is None:
        if table is not None:
            _settle_table(db, path, new.terms, table)
        return
    pad = secrets.token_bytes(PAD)
    append(
        db,
        pad,
        kind="accept",
        owner=new.owner,
        terms=new.terms,
        learner=new.learner,
        round=new.rounds,
        content=None if table is None else seal(table, pad),
        event=json.dumps({"gaps": True}) if new.gaps else None,
        epsilon=str(new.epsilon),
        delta=str(new.delta),
        balance=str(after),
    )


def table(db: sqlite3.Connection, terms: str) -> bytes | None:
    """The digest of the table that belongs to these terms; None if it was never told."""
    row = db.execute("SELECT content, pad FROM entries WHERE kind='table' AND terms=?", (terms,)).fetchone()
    if row is None:
        row = db.execute("SELECT content, pad FROM entries WHERE kind='accept' AND terms=?", (terms,)).fetchone()
    return None if row is None or row[0] is None else bytes.fromhex(seal(bytes.fromhex(row[0]), row[1]))


def _settle_table(db: sqlite3.Connection, path: Path, terms: str, digest: bytes) -> None:
    known = table(db, terms)
    if known is None:  # accepted before ledgers knew their tables: the first one seen is believed
        pad = secrets.token_bytes(PAD)
        append(db, pad, kind="table", terms=terms, content=seal(digest, pad), epsilon="0", delta="0", balance="0")
    elif known != digest:
        raise LedgerError(
            f"{path}: the terms {terms[:16]}… were accepted with another table than the one that is there now; put that one back and "
            "restart the daemon, or agree on new terms"
        )


def close(db: sqlite3.Connection, terms: str, why: str) -> None:
    """End an agreement: nothing more is answered, and what it reserved counts as spent. Repeating it changes nothing."""
    known = account(db, terms)
    if not known.closed:
        epsilon, delta = (str(part) for part in known.left)
        event = json.dumps({"why": why})
        append(db, kind="close", terms=terms, event=event, epsilon=epsilon, delta=delta, balance=str(known.epsilon))


def assume_spent(db: sqlite3.Connection, path: Path, owner: str, lost: Sequence[Reservation], everything: bool) -> None:
    """Reserve for the agreements that the ledger does not know, close all, and count the rest of the lifetime budget if so wanted."""
    known = {terms for _, terms in accepted(db)}
    require_owner(db, path, owner)
    for reservation in lost:
        if reservation.terms not in known:
            accept(db, path, reservation, None)
    for _, terms in accepted(db):
        close(db, terms, "restore")
    most, before = lifetime(db), reserved(db)
    epsilon, delta = (most[0] - before[0], most[1] - before[1]) if everything else (Fraction(0), Fraction(0))
    event = json.dumps({"assumed": "all" if everything else "agreements"})
    append(db, kind="restore", event=event, epsilon=str(epsilon), delta=str(delta), balance=str(before[0] + epsilon))


def require_owner(db: sqlite3.Connection, path: Path, owner: str) -> None:
    """Refuse the ledger of somebody else."""
    holder = db.execute("SELECT owner FROM entries WHERE kind='accept' LIMIT 1").fetchone()
    if holder is not None and holder[0] != owner:
        raise LedgerError(f"{path}: it is the ledger of {holder[0]!r}, not of {owner!r}; every table has its own")


def written(budget: Budget) -> str:
    """A budget for people."""
    epsilon, delta = (float(part) for part in budget)
    return f"{epsilon:g}" if delta == 0 else f"({epsilon:g}, {delta:g})"


def _budget(db: sqlite3.Connection, rows: str) -> Budget | None:
    """The sum of epsilon and delta over these rows; None without any."""
    found = db.execute(rows).fetchall()
    if not found:
        return None
    try:
        return sum((Fraction(e) for e, _ in found), Fraction(0)), sum((Fraction(d) for _, d in found), Fraction(0))
    except ValueError:
        raise BrokenChainError("a budget in the ledger is not a number; do not use this ledger") from None
