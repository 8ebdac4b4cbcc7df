"""The ledger's file: what it holds, and which versions of it there are.

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
memory outside the file says where it ended (`noted_end.Memory`): without it nothing is answered.
"""

import sqlite3
from pathlib import Path

from parley.errors import LedgerError
from parley.owner.ledger.chain import COLUMNS, append

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
