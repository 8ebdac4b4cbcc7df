"""The chain recomputed row by row, with every balance; and what was verified remembered, so that nobody starts at the
first row again.

What was verified lies in a file of its own beside the ledger (`NAME.ledger.verified`): how many rows, the hash of the
last one, and every account as it then stood. Formal guarantee: a ledger that was opened follows, row by row, from what
was remembered; and it is the one that was remembered, or goes on from it (and from its last answer, which
`connections.Drawing` notes). So a ledger alone that was put back to an older state, or replaced, is refused. The rows
before are believed, unless there are at most `FULLY` of them: somebody's edit there is found by `Ledger.verify`
(`parley owner ledger --verify`). Who may write to the folder can forge all these files, as the chain itself (`chain`).
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from parley.durable import replace_text
from parley.errors import BrokenChainError, BudgetExhausted, OutOfOrder, UnknownTerms
from parley.owner.ledger.account import Account, Budget, Head, holds
from parley.owner.ledger.chain import COLUMNS, START, answer_digest, first_row_hash, row_hash
from parley.owner.ledger.transactions import stated, stated_rho

FORMAT = "parley-verified-1"
FULLY = 10_000  # rows that every opening verifies from the first one on: a fraction of a second
PAGE = 2_000  # rows looked at in one transaction
_DIGEST = re.compile("[0-9a-f]{64}")

Reading = Callable[[], AbstractContextManager[sqlite3.Connection]]


class Verification:
    """Follows the chain from its start, or from what was remembered."""

    def __init__(self) -> None:
        self.head = Head(0, START)
        self.lifetime: Budget | None = None
        self.reserved: Budget = (Fraction(0), Fraction(0))
        self.rho: Budget | None = None  # of the lifetime budget, and reserved of it, where that is held as zCDP
        self.accounts: dict[str, Account] = {}
        self.tables: set[str] = set()  # hashes of terms whose table is known

    def follow(self, read: Reading, path: Path, upgraded: int | None) -> None:
        """Verify the rows after those that were; a `BrokenChainError` names the first that does not follow.

        Read in pages: rows are only ever added, so a later page belongs to the same chain. `upgraded` is the row up to
        which files had no version.
        """
        while rows := self._page(read):
            for row in rows:
                try:
                    *_, answer, pruned, pad, previous, link = row
                    digest = answer_digest(answer, pruned)
                    first = upgraded is not None and row[0] < upgraded
                    due = (
                        first_row_hash(previous, row[:-4], digest)
                        if first
                        else row_hash(previous, row[:-4], pad, digest)
                    )
                    sound = row[0] == self.head.entries + 1 and previous == self.head.hash and link == due
                    sound = sound and pruned in (None, digest)
                    sound = sound and self._adds_up(dict(zip(COLUMNS, row, strict=False)))
                except (KeyError, ValueError, TypeError, OutOfOrder, BudgetExhausted, UnknownTerms):
                    sound = False
                if not sound:
                    raise BrokenChainError(
                        f"{path}: row {self.head.entries + 1} does not follow from the rows before it; do not use "
                        f"this ledger"
                    )
                self.head = Head(row[0], link)
        if self.lifetime is None:
            raise BrokenChainError(f"{path}: the row with its lifetime budget is missing; do not use this ledger")

    def _page(self, read: Reading) -> list[tuple[Any, ...]]:
        with read() as db:
            return db.execute(
                f"SELECT {', '.join(COLUMNS)}, pruned, pad, previous, hash "  # noqa: S608
                "FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
                (self.head.entries, PAGE),
            ).fetchall()

    def _adds_up(self, entry: dict[str, Any]) -> bool:
        """Whether the row says what its kind must say after the rows before; if so it is taken into account."""
        kind, terms_hash = entry["kind"], entry["terms"]
        epsilon, delta, balance = _fraction(entry["epsilon"]), _fraction(entry["delta"]), _fraction(entry["balance"])
        if kind == "answer":
            account = self.accounts[terms_hash]
            self.accounts[terms_hash] = account.debit(entry["learner"], entry["round"], lambda answers: balance)
            return epsilon == balance - account.spent and delta == account.delta_left
        if kind == "open":
            sound, self.lifetime = self.lifetime is None and epsilon > 0 and 0 <= delta < 1, (epsilon, delta)
            return sound and self._rule(stated(entry["event"]), epsilon, delta)
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
        gaps = stated(entry["event"]).get("gaps", False)
        self.accounts[terms_hash] = Account(terms_hash, entry["learner"], epsilon, delta, entry["round"], gaps)
        if sealed is not None:
            self.tables.add(terms_hash)
        return new and (sealed is None or _DIGEST.fullmatch(sealed) is not None)

    def _rule(self, said: dict[str, Any], epsilon: Fraction, delta: Fraction) -> bool:
        """Whether this is a rule by which a lifetime budget can be held; of zCDP the rho is checked, as it implies the
        budget."""
        if said.get("rule", "simple") == "simple":
            return not said
        rho = Fraction(said["rho"])
        self.rho = rho, Fraction(0)
        return said["rule"] == "zcdp" and holds(rho, epsilon, delta)

    def _within_lifetime(self, rho: Fraction | None, balance: Fraction) -> bool:
        """Whether what is reserved with this row is within the lifetime budget, by its rule, and the row's balance says
        how much it is."""
        lifetime = self.lifetime
        if self.rho is not None:
            if rho is None or rho < 0:
                return False
            self.rho = self.rho[0], self.rho[1] + rho
            return balance == self.rho[1] <= self.rho[0]
        within = lifetime is not None and self.reserved[0] <= lifetime[0] and self.reserved[1] <= lifetime[1]
        return within and rho is None and balance == self.reserved[0]

    def remember(self, path: Path) -> None:
        """Keep it for `recall`. A crash of the machine may lose it: then the next opening starts at the first row."""
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
    """What was remembered; None if nothing was, or the file is damaged."""
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
