"""Making and upgrading a ledger's file, and what is known of it before it is opened: beside it and in the state
folder."""

import sqlite3
from contextlib import nullcontext
from pathlib import Path

from parley.durable import state_folder
from parley.errors import BrokenChainError, LedgerError, StateFolderError
from parley.owner.ledger import schema, transactions
from parley.owner.ledger.account import Head
from parley.owner.ledger.chain import START, hash_at, head
from parley.owner.ledger.connections import looking
from parley.owner.ledger.interface import Budget, Rule
from parley.owner.ledger.noted_end import Drawing, Memory
from parley.owner.ledger.verification import Verification, recall


def make_or_upgrade(
    db: sqlite3.Connection, path: Path, memories: Path | None, lifetime: Budget | None, rule: Rule
) -> None:
    """A ledger of this version, in the transaction under way; refused if it went back in time as far as earlier
    versions noticed. Its end is remembered before anything is committed."""
    before = schema.version(db, path)
    if before == schema.VERSION:
        return
    if before is None:
        require_known(db, path)
        if lifetime is None:
            raise LedgerError(f"{path}: not a ledger; to make it one, give its lifetime budget (epsilon)")
        schema.make(db)
        transactions.begin(db, lifetime, rule)
    end = head(db)
    if before == 0:
        schema.move(db)
        Verification().follow(lambda: nullcontext(db), path, upgraded=end.entries + 1)
    require_known(db, path)
    if memories is not None:
        memory = Memory(memories, hash_at(db, 1) or START, path, "ledger")
        memory.require_latest(db, memory.begin(end))
    if before is not None:
        schema.mark(db, before)


def require_known(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a ledger that does not go on from what lies beside it. That is read before the ledger: it may grow
    meanwhile, and they with it. The message tells of the latest."""
    kept = recall(beside(path, "verified"))
    noted = [None if kept is None else kept.head, Drawing(beside(path, "drawing")).noted()]
    for known in sorted((end for end in noted if end is not None), key=lambda end: -end.entries):
        end = Head(0, START) if schema.version(db, path) is None else head(db)
        if known.entries <= end.entries and hash_at(db, known.entries) == known.hash:
            continue
        raise BrokenChainError(
            f"{path}: the ledger was rolled back or replaced: {known.entries} rows were there, now there "
            f"are {end.entries}, and they do not go on from those. Put the latest one back with its -wal file; "
            "if it is lost: parley owner restore"
        )


def find_memories(writes: bool) -> Path | None:
    """The folder where this account's ledgers are remembered; who only looks can do without."""
    try:
        return state_folder("ledgers", lasting=True)
    except StateFolderError:
        if writes:
            raise
        return None


def begun(path: Path) -> bool:
    """Whether a ledger lies there; nothing is written. A file that holds nothing yet, whose making was cut short, is
    none, unless what lies beside it knows of rows; what cannot be read as a ledger is left to `Ledger` to refuse."""
    if not path.exists() or any(beside(path, what).exists() for what in ("verified", "drawing")):
        return path.exists()
    if path.is_file() and path.stat().st_size == 0:
        return False
    try:
        with looking(path) as db:
            return schema.version(db, path) is not None
    except (sqlite3.Error, LedgerError):
        return True


def beside(ledger: Path, what: str) -> Path:
    """A file that belongs to a ledger, by whatever links that is named."""
    ledger = ledger.resolve()
    return ledger.with_name(f"{ledger.name}.{what}")
