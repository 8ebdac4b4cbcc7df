"""What a ledger's rows say, and the rows that promises make: functions of the transaction under way."""

import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.errors import BrokenChainError, BudgetExhausted, LedgerError, OutOfOrder, UnknownTerms
from parley.owner.ledger.account import RHO_TOLERANCE, Account, Budget, Reservation, Rule, largest_rho, same_question
from parley.owner.ledger.chain import FIRST_PREVIOUS_HASH, PAD_BYTES, answer_digest, append, hash_at, head, seal
from parley.owner.ledger.witnessed import MAX_RESTORES, TOO_MANY_RESTORES, Book, next_restore
from parley.validate import Floats

if TYPE_CHECKING:  # who only looks at books does not wait for statistics libraries
    from parley.protocol.queries import Query

MAX_KEPT_ANSWER_BYTES = 1 << 23  # bytes of answers that are kept for each agreement


def write_first_row(db: sqlite3.Connection, most: Budget, rule: Rule) -> None:
    """Write the first row: the unchanging lifetime budget and rule, and random content for a unique hash."""
    event, content = (
        _event({"rule": rule, "rho": str(largest_rho(*most))} if rule == "zcdp" else {}),
        secrets.token_hex(),
    )
    append(db, kind="open", content=content, event=event, epsilon=str(most[0]), delta=str(most[1]), balance="0")


def lifetime(db: sqlite3.Connection) -> Budget:
    """Return the most that all agreements together may ever cost."""
    budget = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='open'")
    if budget is None:
        raise BrokenChainError(
            "the row with the ledger's lifetime budget is missing; restore a backup with parley owner restore"
        )
    return budget


def reserved(db: sqlite3.Connection) -> Budget:
    """Return what the accepted terms may cost together, and what counts as spent since a restore."""
    accepted = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='accept'") or (Fraction(0), Fraction(0))
    lost = _budget(db, "SELECT epsilon, delta FROM entries WHERE kind='restore'") or (Fraction(0), Fraction(0))
    return accepted[0] + lost[0], accepted[1] + lost[1]


def rho_budget(db: sqlite3.Connection) -> Budget | None:
    """Return (rho of the lifetime budget, rho reserved of it) if held as zCDP; None with simple sums."""
    opened = db.execute("SELECT event FROM entries WHERE kind='open'").fetchone()
    lifetime_rho = None if opened is None else stated_rho(opened[0])
    if lifetime_rho is None:
        return None
    rows = db.execute(
        "SELECT event FROM entries WHERE kind='accept' UNION ALL SELECT event FROM entries WHERE kind='restore'"
    )
    return lifetime_rho, sum((stated_rho(event) or Fraction(0) for (event,) in rows.fetchall()), Fraction(0))


def event_facts(event: str | None) -> dict[str, Any]:
    """Return what else a row of promises states in the column `event`: whether rounds may be skipped, the rule, rho."""
    return {} if event is None else dict(json.loads(event))


def stated_rho(event: str | None) -> Fraction | None:
    """Return the rho that a row of promises states; None if it states none."""
    rho = event_facts(event).get("rho")
    return None if rho is None else Fraction(rho)


def book_name(db: sqlite3.Connection) -> str:
    """Return what witnesses know the ledger by: the hash of its first row, or of its last restore, which begins a new
    book under which none of the earlier agreements is answered."""
    row = db.execute("SELECT hash FROM entries WHERE kind='restore' ORDER BY seq DESC LIMIT 1").fetchone()
    return origin(db) if row is None else str(row[0])


def origin(db: sqlite3.Connection) -> str:
    """Return what this ledger and those restored from its copies have in common: the hash of the first row."""
    return hash_at(db, 1) or FIRST_PREVIOUS_HASH


def restores(db: sqlite3.Connection) -> int:
    """Return the number of the last restore, 0 for none; rows of earlier versions do not state theirs."""
    number = 0
    for (event,) in db.execute("SELECT event FROM entries WHERE kind='restore' ORDER BY seq"):
        number = max(number + 1, event_facts(event).get("restore", 0))
    return number


BOOK = Book(book_name, head, hash_at, origin, restores)


def upgraded(db: sqlite3.Connection) -> int | None:
    """Return the row up to which files had no version; None in a file that always had one."""
    row = db.execute("SELECT seq FROM entries WHERE kind='upgrade'").fetchone()
    return None if row is None else int(row[0])


def account(db: sqlite3.Connection, terms_hash: str) -> Account:
    """Return what an agreement reserved and has spent so far, by the rows of this file."""
    accepted = db.execute(
        "SELECT learner, epsilon, delta, round, event, EXISTS(SELECT 1 FROM entries WHERE kind='close' AND terms=?) "
        "FROM entries WHERE kind='accept' AND terms=?",
        (terms_hash, terms_hash),
    ).fetchone()
    if accepted is None:
        raise UnknownTerms("this owner has not accepted these terms; to accept them, run parley owner accept")
    learner, epsilon, delta, rounds, event, closed = accepted
    stored_account = Account(
        terms_hash, learner, Fraction(epsilon), Fraction(delta), rounds, gaps=event_facts(event).get("gaps", False)
    )
    last = db.execute(
        "SELECT balance, round FROM entries WHERE kind='answer' AND terms=? ORDER BY round DESC LIMIT 1", (terms_hash,)
    ).fetchone()
    if last is not None:
        answers = last[1]
        if stored_account.gaps:
            answers = db.execute(
                "SELECT COUNT(*) FROM entries WHERE kind='answer' AND terms=?", (terms_hash,)
            ).fetchone()[0]
        stored_account = replace(stored_account, spent=Fraction(last[0]), answered=last[1], answers=answers)
    return stored_account.close() if closed else stored_account


def accepted(db: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return (time, terms hash) of all acceptances, oldest first."""
    return db.execute("SELECT time, terms FROM entries WHERE kind='accept' ORDER BY seq").fetchall()


def stored(db: sqlite3.Connection, query: "Query") -> tuple[Floats, Account] | None:
    """Return the answer that this question got before, and where its agreement stands now."""
    row = db.execute(
        "SELECT content, shape, answer FROM entries WHERE kind='answer' AND terms=? AND query=?",
        (query.terms_hash, query.id),
    ).fetchone()
    if row is None:
        return None
    content, shape, blob = row
    if blob is None:
        raise OutOfOrder(
            f"query id {query.id!r} was answered, but the ledger no longer stores the answer. The ledger keeps the "
            f"latest {MAX_KEPT_ANSWER_BYTES >> 20} MiB of answers per agreement and never computes an answer twice"
        )
    value = np.frombuffer(blob, dtype="<f8").reshape(json.loads(shape))
    return same_question(query, content, value), replace(account(db, query.terms_hash), head=head(db))


def prune(db: sqlite3.Connection, terms_hash: str, answers: int, size: int) -> None:
    """Drop an agreement's oldest kept answer after number `answers`, of `size` bytes, if those before fill
    `MAX_KEPT_ANSWER_BYTES`. Its digest and cost stay. The last answer always stays: it alone may be asked for again by
    a learner that follows the rounds."""
    if answers <= max(1, MAX_KEPT_ANSWER_BYTES // size):
        return
    seq, known = db.execute(
        "SELECT seq, pruned IS NOT NULL FROM entries WHERE kind='answer' AND answer IS NOT NULL AND terms=? ORDER BY "
        "round LIMIT 1",
        (terms_hash,),
    ).fetchone()
    if not known:  # written when digests were kept of answers that had gone only
        (answer,) = db.execute("SELECT answer FROM entries WHERE seq=?", (seq,)).fetchone()
        db.execute("UPDATE entries SET pruned=? WHERE seq=?", (answer_digest(answer), seq))
    db.execute("UPDATE entries SET answer=NULL WHERE seq=?", (seq,))


def reserved_with(db: sqlite3.Connection, path: Path, new: Reservation) -> Fraction | None:
    """Return all that is reserved after accepting (epsilon, or rho where that adds up); None if accepted already."""
    require_owner(db, path, new.owner)
    known = db.execute(
        "SELECT learner, epsilon, delta, round, event FROM entries WHERE kind='accept' AND terms=?", (new.terms_hash,)
    ).fetchone()
    if known is not None:
        rho = stated_rho(known[4])
        dearer = rho is not None and (new.rho is None or new.rho > rho * (1 + RHO_TOLERANCE))
        if known[:4] != (new.learner, str(new.epsilon), str(new.delta), new.rounds) or dearer:
            raise LedgerError(
                f"{path}: these terms were accepted with another learner, budget or horizon; agree on new terms"
            )
        account(db, new.terms_hash).require_open()
        return None
    held = rho_budget(db)
    return _room_for_sums(db, path, new) if held is None else _room_for_rho(db, path, new, *held)


def _room_for_sums(db: sqlite3.Connection, path: Path, new: Reservation) -> Fraction:
    before, limits = reserved(db), lifetime(db)
    after = before[0] + new.epsilon, before[1] + new.delta
    if new.delta > 0 and limits[1] == 0:
        raise BudgetExhausted(
            f"{path}: this ledger has a lifetime delta of 0, which never changes, and these terms need a delta of "
            f"{float(new.delta):g}. Agree on laplace noise that each owner draws itself. Only a ledger created with "
            "--lifetime-delta accepts terms with a delta above 0"
        )
    if after[0] > limits[0] or after[1] > limits[1]:
        hint = (
            ". A ledger's delta is set when the ledger is created (--lifetime-delta)"
            if after[1] > limits[1] and not before[1]
            else ""
        )
        room = (
            f"{budget_words((limits[0] - before[0], limits[1] - before[1]))} is left"
            if any(before)
            else "the whole budget is left"
        )
        raise BudgetExhausted(
            f"{path}: accepting these terms would reserve {budget_words(after)} in all. The table's lifetime budget is "
            f"{budget_words(limits)}, which never changes, and {room}. Agree on terms that cost no more than "
            f"the rest of the budget{hint}"
        )
    return after[0]


def _room_for_rho(
    db: sqlite3.Connection, path: Path, new: Reservation, max_rho: Fraction, before: Fraction
) -> Fraction:
    if new.rho is None:
        raise LedgerError(
            f"{path}: the ledger's lifetime budget is in zCDP, and the zCDP cost of these terms is not known. Agree on "
            "laplace or gaussian noise that each owner draws itself (noise = 'each-owner'), and on batches that are "
            "not secret (sampling = 'partition')"
        )
    reserved_rho = before + new.rho
    if not (new.rho >= 0 and reserved_rho <= max_rho):
        raise BudgetExhausted(
            f"{path}: accepting these terms would reserve rho = {float(reserved_rho):g} in all. The table's lifetime "
            f"budget is {budget_words(lifetime(db))}, or rho = {float(max_rho):g} in zCDP; agree on terms that cost "
            "less"
        )
    return reserved_rho


def accept(
    db: sqlite3.Connection,
    path: Path,
    new: Reservation,
    table: bytes | None,
    schema: str | None = None,
    other_books: str | None = None,
) -> None:
    """Reserve for these terms, once; keep the table's digest, sealed, its schema's, and why it may have other books.
    Another table later is refused."""
    after = reserved_with(db, path, new)
    if after is None:
        _require_schema(db, path, new.terms_hash, schema)
        if table is not None:
            _settle_table(db, path, new.terms_hash, table)
        return
    pad = secrets.token_bytes(PAD_BYTES)
    append(
        db,
        pad,
        kind="accept",
        owner=new.owner,
        terms=new.terms_hash,
        learner=new.learner,
        round=new.rounds,
        content=None if table is None else seal(table, pad),
        event=_event(
            ({"gaps": True} if new.gaps else {})
            | ({} if rho_budget(db) is None else {"rho": str(new.rho)})
            | ({} if schema is None else {"schema": schema})
            | ({} if other_books is None else {"other_books": other_books})
        ),
        epsilon=str(new.epsilon),
        delta=str(new.delta),
        balance=str(after),
    )


def other_books(db: sqlite3.Connection, terms_hash: str) -> str | None:
    """Return why the table may have other books, as stated when these terms were accepted; None if not stated."""
    row = db.execute("SELECT event FROM entries WHERE kind='accept' AND terms=?", (terms_hash,)).fetchone()
    return None if row is None else event_facts(row[0]).get("other_books")


def table(db: sqlite3.Connection, terms_hash: str) -> bytes | None:
    """Return the digest of the table that belongs to these terms; None if it was never given."""
    row = db.execute("SELECT content, pad FROM entries WHERE kind='table' AND terms=?", (terms_hash,)).fetchone()
    if row is None:
        row = db.execute("SELECT content, pad FROM entries WHERE kind='accept' AND terms=?", (terms_hash,)).fetchone()
    return None if row is None or row[0] is None else bytes.fromhex(seal(bytes.fromhex(row[0]), row[1]))


def _require_schema(db: sqlite3.Connection, path: Path, terms_hash: str, schema: str | None) -> None:
    """Refuse a table that declares other columns than the accepted one, as far as that one's are known."""
    (event,) = db.execute("SELECT event FROM entries WHERE kind='accept' AND terms=?", (terms_hash,)).fetchone()
    known = event_facts(event).get("schema")
    if known is not None and schema is not None and known != schema:
        raise LedgerError(
            f"{path}: the current table declares other columns or types than the table with which the terms "
            f"{terms_hash[:16]}… were accepted. Put the accepted table back and restart the daemon, or agree on new "
            "terms"
        )


def _settle_table(db: sqlite3.Connection, path: Path, terms_hash: str, digest: bytes) -> None:
    known = table(db, terms_hash)
    if known is None:  # accepted before ledgers knew their tables: the first one seen is believed
        pad = secrets.token_bytes(PAD_BYTES)
        append(db, pad, kind="table", terms=terms_hash, content=seal(digest, pad), epsilon="0", delta="0", balance="0")
    elif known != digest:
        raise LedgerError(
            f"{path}: the terms {terms_hash[:16]}… were accepted with a table that differs from the current table. Put "
            "the accepted table back and restart the daemon, or agree on new terms"
        )


def close(db: sqlite3.Connection, terms_hash: str, why: str) -> None:
    """End an agreement: no more answers, and all it reserved counts as spent. Repeating it changes nothing."""
    known = account(db, terms_hash)
    if not known.closed:
        epsilon, delta = (str(part) for part in known.left)
        append(
            db,
            kind="close",
            terms=terms_hash,
            event=_event({"why": why}),
            epsilon=epsilon,
            delta=delta,
            balance=str(known.epsilon),
        )


def assume_spent(db: sqlite3.Connection, path: Path, owner: str, lost: Sequence[Reservation], everything: bool) -> None:
    """Reserve for agreements that the ledger lacks, close all, and if `everything` count the rest of the lifetime."""
    known = {terms_hash for _, terms_hash in accepted(db)}
    require_owner(db, path, owner)
    for reservation in lost:
        if reservation.terms_hash not in known:
            accept(db, path, reservation, None)
    for _, terms_hash in accepted(db):
        close(db, terms_hash, "restore")
    number = next_restore(db, BOOK)
    if number > MAX_RESTORES:
        raise LedgerError(f"{path}: {TOO_MANY_RESTORES}; begin a new ledger")
    assumed, held = {"assumed": "all" if everything else "agreements", "restore": number}, rho_budget(db)
    if held is not None:
        unspent_rho = held[0] - held[1] if everything else Fraction(0)
        event = _event(assumed | {"rho": str(unspent_rho)})
        append(db, kind="restore", event=event, epsilon="0", delta="0", balance=str(held[1] + unspent_rho))
        return
    limits, before = lifetime(db), reserved(db)
    epsilon, delta = (limits[0] - before[0], limits[1] - before[1]) if everything else (Fraction(0), Fraction(0))
    append(
        db,
        kind="restore",
        event=_event(assumed),
        epsilon=str(epsilon),
        delta=str(delta),
        balance=str(before[0] + epsilon),
    )


def require_owner(db: sqlite3.Connection, path: Path, owner: str) -> None:
    """Refuse another owner's ledger."""
    holder = db.execute("SELECT owner FROM entries WHERE kind='accept' LIMIT 1").fetchone()
    if holder is not None and holder[0] != owner:
        raise LedgerError(
            f"{path}: this is the ledger of {holder[0]!r}, not of {owner!r}; use a separate ledger for each table"
        )


def budget_words(budget: Budget) -> str:
    """Return a budget as people read it in a message."""
    epsilon, delta = (float(part) for part in budget)
    return f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")


def _event(stated: dict[str, Any]) -> str | None:
    return json.dumps(stated) if stated else None


def _budget(db: sqlite3.Connection, rows: str) -> Budget | None:
    """Return the sum of epsilon and delta over these rows; None without any."""
    found = db.execute(rows).fetchall()
    if not found:
        return None
    try:
        return sum((Fraction(e) for e, _ in found), Fraction(0)), sum((Fraction(d) for _, d in found), Fraction(0))
    except ValueError:
        raise BrokenChainError(
            "a budget in the ledger is not a number; restore a backup with parley owner restore"
        ) from None
