"""`parley owner ledger`, `backup`, `restore` and `close`: an owner's books, looked at, copied, put back, and agreements ended."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.account import Account
from parley.cli.screen import console, errors_console, print_json, terminal_table
from parley.errors import SettingError, UnknownTerms
from parley.identity.settings import OwnerSettings, load_owner
from parley.ledger import Ledger
from parley.ledger.backup import back_up, restore
from parley.numerals import number
from parley.schedule import agreed_answers
from parley.serving.acceptance import Acceptances
from parley.serving.daemon_lock import daemon_lock
from parley.validate import printable

SettingsOption = Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")]


class Lost(StrEnum):
    """What may have been spent by answers that a backup does not know."""

    agreements = "agreements"
    all = "all"


def ledger_command(
    settings_file: Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute the chain from its first row on.")] = False,
) -> None:
    """What was spent, by whom, for what. Works beside a running daemon, which does not wait for it.

    Checks the ledger's chain from where it was checked last (a ledger of up to 10,000 rows: from its first row), --verify all of it.

    Example:  parley owner ledger bank-a/owner.toml
    """
    settings = load_owner(settings_file)
    ledger, acceptances = Ledger(settings.ledger), Acceptances(settings.accepted)
    if verify:
        ledger.verify()
    agreements = [_agreement(time, account, acceptances, settings.name) for time, account in ledger.accounts()]
    lifetime, reserved, head = ledger.lifetime, ledger.reserved, ledger.head
    content: dict[str, Any] = {
        "owner": settings.name,
        "lifetime": {"epsilon": float(lifetime[0]), "delta": float(lifetime[1])},
        "reserved": {"epsilon": float(reserved[0]), "delta": float(reserved[1])},
        "epsilon_spent": sum(a["epsilon_spent"] for a in agreements),
        "agreements": agreements,
        "rows": head.entries,
        "head": head.hash,
    }
    ledger.close()
    if as_json:
        print_json(content)
    else:
        show_ledger(content)


def _agreement(time: str, account: Account, acceptances: Acceptances, owner: str) -> dict[str, Any]:
    acceptance = acceptances.get(account.terms)
    return {
        "terms": account.terms,
        "title": None if acceptance is None else acceptance.terms.title,
        "learner": account.learner,
        "key": None if acceptance is None else acceptance.fingerprint,
        "accepted": time,
        "epsilon": float(account.epsilon),
        "epsilon_spent": float(account.spent),
        "delta": float(account.delta),
        "answers": account.answers,
        "agreed_answers": account.rounds if acceptance is None else agreed_answers(acceptance.terms, owner),
        "rounds": account.rounds,
        "closed": account.closed,
    }


def show_ledger(content: dict[str, Any]) -> None:
    """The books as a table."""
    table = [["agreement", "learner", "accepted", "ε promised", "ε spent", "answers"]]
    for a in content["agreements"]:
        title = printable(a["title"] or "", 40) or a["terms"][:16] + "…"
        answers = f"{a['answers']} of {a['agreed_answers']}" + (", closed" if a["closed"] else "")
        table.append(
            [
                title,
                a["learner"],
                a["accepted"][:10],
                number(a["epsilon"], side="above"),
                number(a["epsilon_spent"], side="above"),
                answers,
            ]
        )
    console.print(terminal_table(table, f"LedgerSnapshot of {content['owner']}"))
    left = content["lifetime"]["epsilon"] - content["reserved"]["epsilon"]
    deltas = content["lifetime"]["delta"], content["reserved"]["delta"]
    console.print(
        f"\nlifetime ε = {number(content['lifetime']['epsilon'])}: {number(content['reserved']['epsilon'], side='above')} reserved, "
        f"{number(content['epsilon_spent'], side='above')} spent, {number(left, side='below')} left for further terms"
        + (f"; δ = {number(deltas[0])}: {number(deltas[1], side='above')} reserved" if deltas[0] > 0 else "")
    )
    console.print(f"{content['rows']} rows, chain unbroken, head {content['head'][:16]}…", style="dim")


def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; must not exist yet.")],
    settings_file: SettingsOption,
) -> None:
    """Copy the ledger, whole and verified, beside a running daemon. A plain copy of the file may lack its latest rows.

    Example:  parley owner backup /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml
    """
    ledger = Ledger(load_owner(settings_file).ledger)
    head = back_up(ledger, file)
    ledger.close()
    console.print(f"{file}  {head.entries} rows, chain unbroken, head {head.hash}", soft_wrap=True)


def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, or the ledger itself if it was rolled back.")],
    settings_file: SettingsOption,
    assume_spent: Annotated[
        Lost,
        typer.Option(
            help="What the lost answers may have spent. all: the whole lifetime budget, the only safe answer if anybody may have accepted "
            "terms since that the folder of acceptances does not show; agreements: what the agreements in the backup and in that folder "
            "reserve."
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Put a backup in the ledger's place. Whatever may have been answered since counts as spent: no agreement goes on.

    The daemon must be stopped. The ledger that was in place is kept beside the new one.

    Example:  parley owner restore /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml --assume-spent agreements
    """
    settings = load_owner(settings_file)
    everything = assume_spent is Lost.all
    lost = [] if everything and not settings.accepted.exists() else _accepted(settings)
    what = (
        "the whole lifetime budget"
        if everything
        else f"all that is reserved, also by the {len(lost)} acceptances in {settings.accepted},"
    )
    if not yes and not typer.confirm(
        f"No agreement so far will be answered any more, and {what} counts as spent. Restore?", err=True
    ):
        errors_console.print("Nothing was restored.")
        raise typer.Exit(1)
    if settings.ledger.exists():
        with daemon_lock(settings.ledger):
            head, aside = restore(file, settings.ledger, settings.name, lost, everything)
    else:
        head, aside = restore(file, settings.ledger, settings.name, lost, everything)
    console.print(f"{settings.ledger}  {head.entries} rows, chain unbroken, head {head.hash}", soft_wrap=True)
    if aside is not None:
        console.print(f"{aside}  the ledger that was in place", soft_wrap=True)


def _accepted(settings: OwnerSettings) -> list[Any]:
    from parley.owner import reservation

    acceptances = Acceptances(settings.accepted)
    found = []
    for terms in acceptances.hashes():
        try:
            acceptance = acceptances.get(terms)
        except SettingError as damaged:
            raise SettingError(f"{damaged}. To restore without it, move it away and use --assume-spent all") from None
        if acceptance is not None:
            found.append(reservation(acceptance.terms, settings.name))
    return found


def close_command(
    terms: Annotated[str, typer.Argument(metavar="TERMS", help="The hash of accepted terms, or how it begins.")],
    settings_file: SettingsOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End an agreement: nothing more is answered by it, at once. What it reserved stays reserved, and counts as spent.

    Example:  parley owner close 3f0c91d2 --owner bank-a/owner.toml
    """
    ledger = Ledger(load_owner(settings_file).ledger)
    found = [account for _, account in ledger.accounts() if account.terms.startswith(terms)]
    if len(found) != 1:
        raise UnknownTerms(f"{terms}: expected the beginning of the hash of one agreement in the ledger; {len(found)} begin so")
    if not yes and not typer.confirm(f"End the agreement {found[0].terms[:16]}… with {found[0].learner} for ever?", err=True):
        errors_console.print("Nothing was closed.")
        raise typer.Exit(1)
    ledger.close_terms(found[0].terms, "owner")
    ledger.remember()
    ledger.close()
    console.print(f"Closed: terms {found[0].terms[:16]}…")
