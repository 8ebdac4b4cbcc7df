"""`parley owner ledger`, `backup`, `restore` and `close`: an owner's ledger and its agreements."""

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.errors import SettingError, UnknownTerms
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.opening import daemon_lock, ledger_statement, statement
from parley.numerals import counted
from parley.owner.ledger import Ledger
from parley.owner.ledger.backup import back_up, restore
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table
from parley.report.words.ledgers import agreement_rows, chain_line, lifetime_line, other_books_lines, units_line

SettingsOption = Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")]


SQLITE_HEAD = b"SQLite format 3"


class AssumedSpent(StrEnum):
    """What answers that a backup lacks may have spent."""

    agreements = "agreements"
    all = "all"


def ledger_command(
    settings_file: Annotated[
        Path, typer.Argument(metavar="OWNER|LEDGER", help="The owner's settings, owner.toml; or a ledger.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Verify the whole chain, from its first row.")] = False,
) -> None:
    """Show what was spent, by whom and for what. Works while the daemon runs and does not delay it. Checks the rows of
    the ledger's chain that are new since the last check (all rows up to 10,000, or with --verify).

    Example:  parley owner ledger bank-a/owner.toml

    Example:  parley owner ledger ledgers/bank-a.ledger
    """
    with progress_bar("checking the chain"):
        content = _statement(settings_file, verify)
    if as_json:
        print_json(content, inside=False)
        return
    console.print(terminal_table(agreement_rows(content), f"Ledger of {content['owner']}"))
    console.print(f"\n{lifetime_line(content)}")
    if (units := units_line(content)) is not None:
        console.print(units, markup=False, soft_wrap=True)
    for line in other_books_lines(content):
        console.print(line, markup=False, soft_wrap=True)
    console.print(chain_line(content), style="dim")


def _statement(file: Path, verify: bool) -> dict[str, Any]:
    """Return the statement of the owner with these settings, or of a ledger that a release on one machine made."""
    if _is_ledger(file):
        return ledger_statement(file.stem, file, file.with_suffix(".accepted"), verify)
    return statement(load_owner(file), verify)


def _is_ledger(file: Path) -> bool:
    head = b""
    with suppress(OSError), file.open("rb") as opened:
        head = opened.read(len(SQLITE_HEAD))
    return head == SQLITE_HEAD or file.suffix == ".ledger"


def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File for the copy; must not exist.")],
    settings_file: SettingsOption,
) -> None:
    """Copy the whole ledger and verify it, while the daemon runs. A plain copy of the file may lack its latest rows.

    Example:  parley owner backup /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml

    Example:  parley owner backup /backup/bank-a.ledger --owner ledgers/bank-a.ledger
    """
    ledger = Ledger(settings_file if _is_ledger(settings_file) else load_owner(settings_file).ledger, writes=False)
    head = back_up(ledger, file)
    ledger.close()
    console.print(
        f"{file}  {counted(head.entries, 'entry', 'entries')}, chain unbroken, head {head.hash}", soft_wrap=True
    )


def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, or the ledger itself if it was rolled back.")],
    settings_file: SettingsOption,
    assume_spent: Annotated[
        AssumedSpent, typer.Option(help="What lost answers may have spent: all (safe), or agreements.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Replace the ledger by a backup. Whatever may have been answered since counts as spent, and every agreement ends.
    Stop the daemon first. The replaced ledger is kept next to the new one. With --assume-spent all the whole lifetime
    budget is spent. This is the only safe choice if someone may have accepted terms since that the folder of
    acceptances does not show. With --assume-spent agreements, what the agreements in the backup and in that folder
    reserve is spent.

    Example:  parley owner restore /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml --assume-spent agreements
    """
    settings = load_owner(settings_file)
    everything = assume_spent is AssumedSpent.all
    lost = [] if everything and not settings.accepted.exists() else _accepted(settings)
    spent_words = (
        "the whole lifetime budget"
        if everything
        else f"all that is reserved, also by the {counted(len(lost), 'acceptance')} in {settings.accepted},"
    )
    if not yes and not typer.confirm(
        f"No agreement so far will be answered again, and {spent_words} counts as spent. Restore?", err=True
    ):
        errors_console.print("Nothing was restored.")
        raise typer.Exit(1)
    if settings.ledger.exists():
        with daemon_lock(settings.ledger):
            head, aside = restore(file, settings.ledger, settings.name, lost, everything)
    else:
        head, aside = restore(file, settings.ledger, settings.name, lost, everything)
    console.print(
        f"{settings.ledger}  {counted(head.entries, 'entry', 'entries')}, chain unbroken, head {head.hash}",
        soft_wrap=True,
    )
    if aside is not None:
        console.print(f"{aside}  the replaced ledger", soft_wrap=True)


def _accepted(settings: OwnerSettings) -> list[Any]:
    from parley.owner.owner import reservation

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
    terms: Annotated[str, typer.Argument(metavar="TERMS", help="The hash of accepted terms, or its first digits.")],
    settings_file: SettingsOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End an agreement: from now on nothing is answered under it. What it reserved stays reserved, and counts as spent.

    Example:  parley owner close 3f0c91d2 --owner bank-a/owner.toml
    """
    ledger = Ledger(load_owner(settings_file).ledger)
    matching_accounts = [account for _, account in ledger.accounts() if account.terms_hash.startswith(terms)]
    if len(matching_accounts) != 1:
        raise UnknownTerms(
            f"{terms}: expected the beginning of the hash of one agreement in the ledger; {len(matching_accounts)} "
            "begin so"
        )
    if not yes and not typer.confirm(
        f"End the agreement {matching_accounts[0].terms_hash[:16]}… with {matching_accounts[0].learner} for ever?",
        err=True,
    ):
        errors_console.print("Nothing was closed.")
        raise typer.Exit(1)
    ledger.close_terms(matching_accounts[0].terms_hash, "owner")
    ledger.remember()
    ledger.close()
    console.print(f"Closed: terms {matching_accounts[0].terms_hash[:16]}…")
