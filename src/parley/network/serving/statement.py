"""What an owner's books say: what was promised and spent, by whom, for what. Every epsilon and delta is an upper bound
as a float, too."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from parley.errors import LedgerError
from parley.network.identity.settings import OwnerSettings
from parley.network.serving.acceptance import Acceptances
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Account
from parley.privacy.adjacency import Adjacency
from parley.protocol.schedule import agreed_answers
from parley.validate import upper


def statement(settings: OwnerSettings, verify: bool = False) -> dict[str, Any]:
    """The object that `parley owner ledger --json` prints. `verify`: with the whole chain recomputed."""
    return ledger_statement(settings.name, settings.ledger, settings.accepted, verify)


def ledger_statement(name: str, path: Path, accepted: Path, verify: bool = False) -> dict[str, Any]:
    """The same of the owner's ledger in this file; the folder of what was accepted need not be there."""
    if path.is_file() and path.stat().st_size == 0:  # SQLite would make a database of it
        raise LedgerError(f"{path}: an empty file, and no ledger; put the ledger back (parley owner restore)")
    ledger, acceptances = Ledger(path, writes=False), Acceptances(accepted)
    try:
        if verify:
            ledger.verify()
        accounts = ledger.accounts()
        reasons = {account.terms_hash: ledger.other_books(account.terms_hash) for _, account in accounts}
        lifetime, reserved, rho, head = ledger.lifetime, ledger.reserved, ledger.rho, ledger.head
    finally:
        ledger.close()
    return {
        "owner": name,
        "adjacency": Adjacency.REPLACE_ONE,  # of the sums: what hides a table hides a person in it
        "lifetime": {"epsilon": float(lifetime[0]), "delta": float(lifetime[1])},
        "reserved": {"epsilon": upper(reserved[0]), "delta": upper(reserved[1])},
        "rule": "simple" if rho is None else "zcdp",
        "rho": None if rho is None else {"lifetime": float(rho[0]), "reserved": upper(rho[1])},
        "epsilon_spent": upper(sum((account.spent for _, account in accounts), Fraction(0))),
        "agreements": [
            _agreement(time, account, acceptances, name) | {"other_books": reasons[account.terms_hash]}
            for time, account in accounts
        ],
        "rows": head.entries,
        "head": head.hash,
    }


def table_digests(path: Path) -> list[str]:
    """The digests of the tables with which agreements in this ledger were accepted, for the owner's own eyes."""
    ledger = Ledger(path, writes=False)
    try:
        found = [ledger.table(account.terms_hash) for _, account in ledger.accounts()]
    finally:
        ledger.close()
    return sorted({digest.hex() for digest in found if digest is not None})


def _agreement(time: str, account: Account, acceptances: Acceptances, owner: str) -> dict[str, Any]:
    acceptance = acceptances.get(account.terms_hash)
    return {
        "terms": account.terms_hash,
        "terms_hash": account.terms_hash,
        "title": None if acceptance is None else acceptance.terms.title,
        "learner": account.learner,
        "adjacency": None if acceptance is None else Adjacency.of_unit(acceptance.terms.privacy.unit),
        "key": None if acceptance is None else acceptance.fingerprint,
        "accepted": time,
        "epsilon": upper(account.epsilon),
        "epsilon_spent": upper(account.spent),
        "delta": upper(account.delta),
        "answers": account.answers,
        "agreed_answers": account.rounds if acceptance is None else agreed_answers(acceptance.terms, owner),
        "rounds": account.rounds,
        "closed": account.closed,
    }
