"""The ledger's file: what it holds and in which versions, how it is made and upgraded, and what is known of it before
it is opened.

SQLite's `application_id` says that a file is a ledger, `user_version` which version. The rule for upgrades:

- A Parley opens files of its own version and of every earlier one. An earlier one is verified and upgraded when it is
  opened, in one transaction with a chained row that says so; what was promised and released stays as it was. There is
  no way back.
- A file of a later version is refused: nothing in it is read or written.
- A change that an earlier Parley would misread (what a row means, how it is hashed) takes a new version. The daemon is
  stopped before Parley is updated: nobody writes to a file whose version changed under it (`pad` has no default, so the
  first Parley cannot).

Version 0: files written before they had a version. Version 1: digests are sealed (`chain`), tables are known,
agreements can be closed. Version 2: the same, with a lifetime budget that is held as zCDP. Version 3: either, and a
memory outside the file says where it ended (`chain.Memory`): without it nothing is answered.
"""

import sqlite3
from contextlib import nullcontext
from pathlib import Path

from parley.durable import state_folder
from parley.errors import BrokenChainError, LedgerError, StateFolderError
from parley.owner.ledger import transactions
from parley.owner.ledger.account import Budget, Head, Rule
from parley.owner.ledger.chain import COLUMNS, START, Drawing, Memory, append, hash_at, head
from parley.owner.ledger.connections import looking
from parley.owner.ledger.verification import Verification, recall

APPLICATION = 0x5061726C
VERSION = 3

# kind     epsilon, delta                     balance                              besides
# open     the lifetime budget                0                                    event: the rule and its rho;
#                                                                                  none: simple sums; content: random
# accept   what the terms reserve             epsilon reserved so far, all terms   content: the table's sealed digest;
#                                                                                  event: whether rounds may be
#                                                                                  skipped, rho, the digest of what the
#                                                                                  table declares of its columns, why it
#                                                                                  may have other books
# answer   what it cost                       epsilon spent so far, these terms    content: the question's digest;
#                                                                                  pruned: the answer's (in older files
#                                                                                  once it is no longer kept)
# table    0                                  0                                    content: the table's sealed digest,
#                                                                                  learnt late
# close    what was left of the reservation   all of it                            event: why
# restore  what else counts as reserved       epsilon reserved so far, all terms   event: what is known; rho
# upgrade  0                                  0                                    event: from which version, 0
# memory   0                                  0                                    event: from which version, 1 or 2
# As zCDP: accept's and restore's balance is the rho reserved so far.
SCHEMA = (
    """CREATE TABLE {name} (
  seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL,
  owner TEXT, terms TEXT, learner TEXT, round INTEGER, query TEXT, content TEXT, event TEXT,
  epsilon TEXT NOT NULL, delta TEXT NOT NULL, balance TEXT NOT NULL,
  shape TEXT, pruned BLOB, pad BLOB NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, answer BLOB
)""",  # the answer last: what stands behind a long one is only found by going through it
    "CREATE UNIQUE INDEX one_lifetime ON entries (kind) WHERE kind = 'open'",
    "CREATE UNIQUE INDEX one_acceptance ON entries (terms) WHERE kind = 'accept'",
    "CREATE UNIQUE INDEX one_answer_a_question ON entries (terms, query) WHERE kind = 'answer'",
    "CREATE UNIQUE INDEX one_answer_a_round ON entries (terms, round) WHERE kind = 'answer'",
    "CREATE INDEX kept_answers ON entries (terms, round) WHERE kind = 'answer' AND answer IS NOT NULL",
    "CREATE UNIQUE INDEX one_table ON entries (terms) WHERE kind = 'table'",
    "CREATE UNIQUE INDEX one_end ON entries (terms) WHERE kind = 'close'",
    "CREATE UNIQUE INDEX one_upgrade ON entries (kind) WHERE kind = 'upgrade'",
    "CREATE INDEX restores ON entries (seq) WHERE kind = 'restore'",
)


def make_or_upgrade(
    db: sqlite3.Connection, path: Path, memories: Path | None, lifetime: Budget | None, rule: Rule
) -> None:
    """A ledger of this version, in the transaction under way; refused if it went back in time as far as earlier
    versions noticed. Its end is remembered before anything is committed."""
    before = version(db, path)
    if before == VERSION:
        return
    if before is None:
        require_known(db, path)
        if lifetime is None:
            raise LedgerError(f"{path}: not a ledger; to make it one, give its lifetime budget (epsilon)")
        make(db)
        transactions.begin(db, lifetime, rule)
    end = head(db)
    if before == 0:
        move(db)
        Verification().follow(lambda: nullcontext(db), path, upgraded=end.entries + 1)
    require_known(db, path)
    if memories is not None:
        memory = Memory(memories, hash_at(db, 1) or START, path, "ledger")
        memory.require_latest(db, memory.begin(end))
    if before is not None:
        mark(db, before)


def require_known(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a ledger that does not go on from what lies beside it. That is read before the ledger: it may grow
    meanwhile, and they with it. The message tells of the latest."""
    kept = recall(beside(path, "verified"))
    noted = [None if kept is None else kept.head, Drawing(beside(path, "drawing")).noted()]
    for known in sorted((end for end in noted if end is not None), key=lambda end: -end.entries):
        end = Head(0, START) if version(db, path) is None else head(db)
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
            return version(db, path) is not None
    except (sqlite3.Error, LedgerError):
        return True


def beside(ledger: Path, what: str) -> Path:
    """A file that belongs to a ledger, by whatever links that is named."""
    ledger = ledger.resolve()
    return ledger.with_name(f"{ledger.name}.{what}")


def version(db: sqlite3.Connection, path: Path) -> int | None:
    """Of the ledger in this file; None if it is empty. What is not a ledger, or a later one, is refused."""
    application, number = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not tables and (application, number) == (0, 0):
        return None
    if application == APPLICATION and number > VERSION:
        raise LedgerError(
            f"{path}: a ledger of version {number}, written by a later Parley; this one knows versions up to "
            f"{VERSION}: update Parley"
        )
    if "entries" not in tables or (application, number) not in (
        (0, 0),
        *((APPLICATION, known) for known in range(1, VERSION + 1)),
    ):
        raise LedgerError(f"{path}: not a ledger")
    return int(number)


def make(db: sqlite3.Connection) -> None:
    """An empty ledger, in the transaction under way."""
    for statement in SCHEMA:
        db.execute(statement.format(name="entries"))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def move(db: sqlite3.Connection) -> None:
    """The rows of version 0 into a table of this version: SQLite changes no table's rules. They are then verified, and
    `mark` is called."""
    columns = ", ".join((*COLUMNS, "previous", "hash"))
    db.execute(SCHEMA[0].format(name="moved"))
    db.execute(f"INSERT INTO moved ({columns}, pad) SELECT {columns}, zeroblob(0) FROM entries ORDER BY seq")  # noqa: S608
    db.execute("DROP TABLE entries")  # its indices go with it
    db.execute("ALTER TABLE moved RENAME TO entries")
    for statement in SCHEMA[1:]:
        db.execute(statement)


def mark(db: sqlite3.Connection, before: int) -> None:
    """Note the upgrade from the version `before`, in the file and in the chain."""
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    kind = "memory" if before else "upgrade"  # up to a row of the second kind hashes are those of version 0
    append(db, kind=kind, event=f'{{"from": {before}}}', epsilon="0", delta="0", balance="0")
