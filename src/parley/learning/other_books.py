"""Other ledgers for the same table: each has a budget of its own, and what people are promised adds up."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

from parley.data.sources import find_source
from parley.errors import LedgerError
from parley.learning.owners import owner_table
from parley.owner.ledger import schema, transactions
from parley.owner.ledger.connections import looking
from parley.owner.ledger.interface import Budget
from parley.terms import Terms

MOST = 40  # ledgers that are looked at


@dataclass(frozen=True)
class OtherBooks:
    """Another ledger for an owner's table, and what was promised and spent by it."""

    owner: str
    ledger: Path
    reserved: Budget
    spent: Fraction


def nearby(folder: Path) -> list[Path]:
    """The ledgers in this folder and in those that lie beside it."""
    return sorted(folder.resolve().parent.glob("*/*.ledger"))


def other_books(terms: Terms, folder: Path, ledgers: Iterable[Path]) -> list[OtherBooks]:
    """Those of these ledgers that were made for a table of these terms and are not its owner's in `folder`. Tables are
    read only where some ledger knows of one; what is no ledger is passed over."""
    known = [each for each in map(_read, islice(ledgers, MOST)) if each is not None and each[0]]
    if not known:
        return []
    found = []
    for part in terms.owners:
        own, table = (folder / f"{part.name}.ledger").resolve(), find_source(owner_table(part)).digest()
        found += [
            OtherBooks(part.name, path, reserved, spent)
            for tables, path, reserved, spent in known
            if table in tables and path.resolve() != own
        ]
    return found


def _read(path: Path) -> tuple[set[bytes], Path, Budget, Fraction] | None:
    """(the tables with which agreements were accepted, where, what they may cost, what they have cost); of a ledger
    that is somebody else's, perhaps, so that nothing of it is upgraded or noted."""
    try:
        with looking(path) as db:
            if not schema.version(db, path):
                return None
            accepted = [terms_hash for _, terms_hash in transactions.accepted(db)]
            tables = {transactions.table(db, terms_hash) for terms_hash in accepted}
            spent = sum((transactions.account(db, terms_hash).spent for terms_hash in accepted), Fraction(0))
            return {table for table in tables if table is not None}, path, transactions.reserved(db), spent
    except (sqlite3.Error, LedgerError):
        return None
