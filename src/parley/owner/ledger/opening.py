"""The ledger's file: its versions, how it is made and upgraded, and what is known of it before it is opened.

SQLite's `application_id` says that a file is a ledger, `user_version` which version. The rule for upgrades:

- A Parley opens files of its own version and of every earlier one. An earlier one is verified and upgraded when it is
  opened, in one transaction with a chained row that says so; what was promised and released stays as it was. There is
  no way back.
- A file of a later version is refused: nothing in it is read or written.
- A change that an earlier Parley would misread (what a row means, how it is hashed) takes a new version. The daemon is
  stopped before Parley is updated: nobody writes to a file whose version changed under it (`pad` has no default, so the
  first Parley cannot).

Files of version 0 state none. Version 1: digests are sealed (`chain`), tables are known, agreements can be closed.
Version 2: the same, with a lifetime budget held as zCDP. Version 3: either, and a memory outside the file says where it
ended (`chain.Memory`): without it nothing is answered.

What was verified lies in a file beside the ledger (`NAME.ledger.verified`), so that nobody starts at the first row
again: how many rows, the hash of the last one, and every account as it then stood.

Formal guarantee: a ledger that was opened follows, row by row, from what was remembered; and it is the one that was
remembered, or goes on from it (and from its last answer, which `chain.Drawing` notes). So a ledger alone that was put
back to an older state, or replaced, is refused. The rows before are believed, unless there are at most
`MAX_ROWS_VERIFIED_FULLY` of them: an edit there is found by `Ledger.verify` (`parley owner ledger --verify`). Whoever
may write to the folder can forge all these files, as the chain itself (`chain`).
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from parley.durable import replace_text, state_folder
from parley.errors import BrokenChainError, BudgetExhausted, LedgerError, OutOfOrder, StateFolderError, UnknownTerms
from parley.numerals import counted
from parley.owner.ledger import stored_rows
from parley.owner.ledger.account import Account, Budget, Head, Rule, implies_budget
from parley.owner.ledger.chain import (
    COLUMNS,
    FIRST_PREVIOUS_HASH,
    Drawing,
    Memory,
    answer_digest,
    append,
    first_row_hash,
    hash_at,
    head,
    row_hash,
)
from parley.owner.ledger.connections import open_to_look
from parley.owner.ledger.stored_rows import event_facts, stated_rho

FORMAT = "parley-verified-1"
MAX_ROWS_VERIFIED_FULLY = 10_000  # rows that every opening verifies from the first one on: a fraction of a second
ROWS_PER_PAGE = 2_000  # rows looked at in one transaction
_DIGEST = re.compile("[0-9a-f]{64}")

OpenForReading = Callable[[], AbstractContextManager[sqlite3.Connection]]


class Verification:
    """Follows the chain from its start, or from what was remembered."""

    def __init__(self) -> None:
        self.head = Head(0, FIRST_PREVIOUS_HASH)
        self.lifetime: Budget | None = None
        self.reserved: Budget = (Fraction(0), Fraction(0))
        self.rho: Budget | None = None  # of the lifetime budget, and reserved of it, where that is held as zCDP
        self.accounts: dict[str, Account] = {}
        self.tables: set[str] = set()  # hashes of terms whose table is known

    def follow(self, read: OpenForReading, path: Path, upgraded: int | None) -> None:
        """Verify the rows after those that were; raise `BrokenChainError` for the first that does not follow. Rows are
        only ever added, so pages belong to one chain. Up to the row `upgraded` files had no version."""
        while rows := self._read_page(read):
            for row in rows:
                try:
                    *_, answer, pruned, pad, previous, link = row
                    digest = answer_digest(answer, pruned)
                    before_versions = upgraded is not None and row[0] < upgraded
                    expected_hash = (
                        first_row_hash(previous, row[:-4], digest)
                        if before_versions
                        else row_hash(previous, row[:-4], pad, digest)
                    )
                    sound = row[0] == self.head.entries + 1 and previous == self.head.hash and link == expected_hash
                    sound = sound and pruned in (None, digest)
                    sound = sound and self._adds_up(dict(zip(COLUMNS, row, strict=False)))
                except (KeyError, ValueError, TypeError, OutOfOrder, BudgetExhausted, UnknownTerms):
                    sound = False
                if not sound:
                    raise BrokenChainError(
                        f"{path}: row {self.head.entries + 1} does not follow from the rows before it; "
                        "restore a backup with parley owner restore"
                    )
                self.head = Head(row[0], link)
        if self.lifetime is None:
            raise BrokenChainError(
                f"{path}: the row with the ledger's lifetime budget is missing; restore a backup with parley owner "
                "restore"
            )

    def _read_page(self, read: OpenForReading) -> list[tuple[Any, ...]]:
        with read() as db:
            return db.execute(
                f"SELECT {', '.join(COLUMNS)}, pruned, pad, previous, hash "  # noqa: S608
                "FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
                (self.head.entries, ROWS_PER_PAGE),
            ).fetchall()

    def _adds_up(self, entry: dict[str, Any]) -> bool:
        """Return whether the row says what its kind must say after the rows before, taking it into account."""
        kind, terms_hash = entry["kind"], entry["terms"]
        epsilon, delta, balance = _fraction(entry["epsilon"]), _fraction(entry["delta"]), _fraction(entry["balance"])
        if kind == "answer":
            account = self.accounts[terms_hash]
            self.accounts[terms_hash] = account.debit(entry["learner"], entry["round"], lambda answers: balance)
            return epsilon == balance - account.spent and delta == account.delta_left
        if kind == "open":
            sound, self.lifetime = self.lifetime is None and epsilon > 0 and 0 <= delta < 1, (epsilon, delta)
            return sound and self._rule(event_facts(entry["event"]), epsilon, delta)
        if kind in ("accept", "restore"):
            self.reserved = self.reserved[0] + epsilon, self.reserved[1] + delta
            sound = epsilon >= 0 and delta >= 0 and self._within_lifetime(stated_rho(entry["event"]), balance)
            return sound and (kind == "restore" or self._accept(entry, epsilon, delta))
        if kind == "close":
            account = self.accounts[terms_hash]
            self.accounts[terms_hash] = account.close()
            return not account.closed and (epsilon, delta, balance) == (*account.left, account.epsilon)
        if kind == "table":
            new = terms_hash in self.accounts and terms_hash not in self.tables
            self.tables.add(terms_hash)
            return new and _DIGEST.fullmatch(entry["content"]) is not None
        return kind in ("upgrade", "memory")

    def _accept(self, entry: dict[str, Any], epsilon: Fraction, delta: Fraction) -> bool:
        terms_hash, sealed = entry["terms"], entry["content"]
        new = terms_hash not in self.accounts
        gaps = event_facts(entry["event"]).get("gaps", False)
        self.accounts[terms_hash] = Account(terms_hash, entry["learner"], epsilon, delta, entry["round"], gaps)
        if sealed is not None:
            self.tables.add(terms_hash)
        return new and (sealed is None or _DIGEST.fullmatch(sealed) is not None)

    def _rule(self, said: dict[str, Any], epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether this rule can hold a lifetime budget; for zCDP, whether rho implies the budget."""
        if said.get("rule", "simple") == "simple":
            return not said
        rho = Fraction(said["rho"])
        self.rho = rho, Fraction(0)
        return said["rule"] == "zcdp" and implies_budget(rho, epsilon, delta)

    def _within_lifetime(self, rho: Fraction | None, balance: Fraction) -> bool:
        """Return whether all reserved with this row is within the lifetime budget, by its rule, and equals the row's
        balance."""
        lifetime = self.lifetime
        if self.rho is not None:
            if rho is None or rho < 0:
                return False
            self.rho = self.rho[0], self.rho[1] + rho
            return balance == self.rho[1] <= self.rho[0]
        within = lifetime is not None and self.reserved[0] <= lifetime[0] and self.reserved[1] <= lifetime[1]
        return within and rho is None and balance == self.reserved[0]

    def remember(self, path: Path) -> None:
        """Keep it for `recall`. If a crash of the machine loses it, the next opening starts at the first row."""
        content = {
            "format": FORMAT,
            "entries": self.head.entries,
            "hash": self.head.hash,
            "lifetime": None if self.lifetime is None else [str(part) for part in self.lifetime],
            "reserved": [str(part) for part in self.reserved],
            "accounts": [_written(account) for account in self.accounts.values()],
            "tables": sorted(self.tables),
            **({} if self.rho is None else {"rho": [str(part) for part in self.rho]}),
        }
        replace_text(path, json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n", lasting=False)


def recall(path: Path) -> Verification | None:
    """Return what was remembered; None if nothing was, or the file is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("sha256") != _digest(content) or content["format"] != FORMAT:
            return None
        known = Verification()
        known.head = Head(content["entries"], content["hash"])
        known.lifetime = Fraction(content["lifetime"][0]), Fraction(content["lifetime"][1])
        known.reserved = Fraction(content["reserved"][0]), Fraction(content["reserved"][1])
        known.accounts = {account["terms"]: _read(account) for account in content["accounts"]}
        known.tables = set(content["tables"])
        known.rho = (Fraction(content["rho"][0]), Fraction(content["rho"][1])) if "rho" in content else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return known


_fraction = lru_cache(maxsize=4096)(Fraction)  # the same few over and over, and each takes as long as a hash


def _written(account: Account) -> dict[str, Any]:
    budgets = {"epsilon": str(account.epsilon), "delta": str(account.delta), "spent": str(account.spent)}
    plain = ("learner", "rounds", "gaps", "answered", "answers", "closed")
    return {"terms": account.terms_hash} | {name: getattr(account, name) for name in plain} | budgets


def _read(content: dict[str, Any]) -> Account:
    plain = {name: content[name] for name in content if name != "terms"}
    return Account(
        content["terms"], **plain | {name: Fraction(content[name]) for name in ("epsilon", "delta", "spent")}
    )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


APPLICATION_ID = 0x5061726C
SCHEMA_VERSION = 3

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
    """Make a ledger of this version, in the transaction under way, its end remembered before anything is committed.
    Refuse one that went back in time as far as earlier versions noticed."""
    before = version(db, path)
    if before == SCHEMA_VERSION:
        return
    if before is None:
        require_known(db, path)
        if lifetime is None:
            raise LedgerError(
                f"{path}: the file contains no ledger; to create a ledger in the file, give a lifetime budget (epsilon)"
            )
        create_tables(db)
        stored_rows.write_first_row(db, lifetime, rule)
    end = head(db)
    if before == 0:
        move_rows_of_version_0(db)
        Verification().follow(lambda: nullcontext(db), path, upgraded=end.entries + 1)
    require_known(db, path)
    if memories is not None:
        memory = Memory(memories, hash_at(db, 1) or FIRST_PREVIOUS_HASH, path, "ledger")
        memory.require_latest(db, memory.begin(end))
    if before is not None:
        note_upgrade(db, before)


def require_known(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a ledger that does not go on from what lies beside it; the message names the latest. What lies beside is
    read first, as both may grow meanwhile."""
    kept = recall(file_beside(path, "verified"))
    noted = [None if kept is None else kept.head, Drawing(file_beside(path, "drawing")).noted()]
    for known in sorted((end for end in noted if end is not None), key=lambda end: -end.entries):
        end = Head(0, FIRST_PREVIOUS_HASH) if version(db, path) is None else head(db)
        if known.entries <= end.entries and hash_at(db, known.entries) == known.hash:
            continue
        raise BrokenChainError(
            f"{path}: the ledger was rolled back or replaced. The ledger had {counted(known.entries, 'row')}, but "
            f"the {counted(end.entries, 'row')} now in the file do not continue those rows. Put the latest ledger file "
            "and its -wal file back. If the latest ledger is lost, run parley owner restore"
        )


def find_memories(writes: bool) -> Path | None:
    """Return the folder where this account's ledgers are remembered; who only looks can do without (None)."""
    try:
        return state_folder("ledgers", lasting=True)
    except StateFolderError:
        if writes:
            raise
        return None


def begun(path: Path) -> bool:
    """Return whether a ledger lies there; nothing is written. A file whose making was cut short is none, unless what
    lies beside it knows of rows. An unreadable one counts: `Ledger` will refuse it."""
    if not path.exists() or any(file_beside(path, suffix).exists() for suffix in ("verified", "drawing")):
        return path.exists()
    if path.is_file() and path.stat().st_size == 0:
        return False
    try:
        with open_to_look(path) as db:
            return version(db, path) is not None
    except (sqlite3.Error, LedgerError):
        return True


def file_beside(ledger: Path, what: str) -> Path:
    """Return the file that belongs to a ledger, by whatever links that is named."""
    ledger = ledger.resolve()
    return ledger.with_name(f"{ledger.name}.{what}")


def version(db: sqlite3.Connection, path: Path) -> int | None:
    """Return the version of the ledger in this file; None if it is empty. Refuse other files and later versions."""
    application, number = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not tables and (application, number) == (0, 0):
        return None
    if application == APPLICATION_ID and number > SCHEMA_VERSION:
        raise LedgerError(
            f"{path}: the ledger has format version {number}. This version of Parley reads ledgers up to format "
            f"version {SCHEMA_VERSION}; update Parley"
        )
    if "entries" not in tables or (application, number) not in (
        (0, 0),
        *((APPLICATION_ID, known) for known in range(1, SCHEMA_VERSION + 1)),
    ):
        raise LedgerError(f"{path}: the file is not a ledger; check the path")
    return int(number)


def create_tables(db: sqlite3.Connection) -> None:
    """Make an empty ledger, in the transaction under way."""
    for statement in SCHEMA:
        db.execute(statement.format(name="entries"))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def move_rows_of_version_0(db: sqlite3.Connection) -> None:
    """Move rows of version 0 to a table of this version: SQLite changes no table's rules. To be verified, then
    `note_upgrade`ed."""
    columns = ", ".join((*COLUMNS, "previous", "hash"))
    db.execute(SCHEMA[0].format(name="moved"))
    db.execute(f"INSERT INTO moved ({columns}, pad) SELECT {columns}, zeroblob(0) FROM entries ORDER BY seq")  # noqa: S608
    db.execute("DROP TABLE entries")  # its indices go with it
    db.execute("ALTER TABLE moved RENAME TO entries")
    for statement in SCHEMA[1:]:
        db.execute(statement)


def note_upgrade(db: sqlite3.Connection, before: int) -> None:
    """Note the upgrade from the version `before`, in the file and in the chain."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    kind = "memory" if before else "upgrade"  # up to a row of the second kind hashes are those of version 0
    append(db, kind=kind, event=f'{{"from": {before}}}', epsilon="0", delta="0", balance="0")
