"""The owners of a terms file, all on this machine: for a simulation, or with ledgers of their own for a release."""

from fractions import Fraction
from pathlib import Path

from parley.accounting.budget import exact
from parley.errors import LedgerError, TermsError
from parley.learning.algorithms import make_algorithm
from parley.ledger import Ledger
from parley.owner import Owner, reservation
from parley.terms import OwnerTerms, Terms


def open_owners(terms: Terms) -> list[Owner]:
    """The owners with their tables, for a simulation."""
    return [Owner(part.name, owner_table(part)) for part in terms.owners]


def accepting_owners(terms: Terms, folder: Path, lifetime: float | None, lifetime_delta: float | None) -> list[Owner]:
    """The owners with their durable ledgers, the terms accepted by all - or by none, if anything is wrong with one of them."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [owner_table(part) for part in terms.owners]
    trial = [Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    agreements = [owner.prepare(terms) for owner in trial]
    make_algorithm(agreements[0].setup)
    owners = []
    for part, table in zip(terms.owners, tables, strict=True):
        path = folder / f"{part.name}.ledger"
        if lifetime is None and not path.exists():
            raise LedgerError(f"{path}: no such ledger; --lifetime EPS makes it, with that budget for the table's whole life")
        promised = reservation(terms, part.name)
        if not path.exists() and (promised.epsilon > exact(lifetime or 0.0) or promised.delta > Fraction(str(lifetime_delta or 0))):
            raise LedgerError(
                f"{path}: these terms need a lifetime budget of at least ε = {float(promised.epsilon):g} and δ = "
                f"{float(promised.delta):g}: --lifetime, --lifetime-delta. No ledger was made: its budget is for ever"
            )
        ledger = Ledger(path, lifetime, lifetime_delta)
        owners.append(Owner(part.name, table, ledger=ledger))
        ledger.require_room(promised)
    for owner in owners:
        owner.accept(terms)
    return owners


def owner_table(part: OwnerTerms) -> str:
    """Where an owner's table lies."""
    if part.data is None:
        raise TermsError(f"owners.{part.name}.data: missing; training on one machine needs every owner's table")
    return part.data
