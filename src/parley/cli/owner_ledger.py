"""`parley owner ledger`, `backup`, `restore` and `close`: an owner's ledger and its agreements."""

from contextlib import closing, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from parley.errors import SettingError, UnknownTerms
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances, terms_folder
from parley.network.serving.opening import daemon_lock, ledger_statement
from parley.numerals import counted
from parley.owner.ledger import Ledger
from parley.owner.ledger.backup import back_up, restore
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table
from parley.report.words.ledgers import (
    agreement_lines,
    agreement_rows,
    chain_line,
    lifetime_line,
    other_books_lines,
    units_line,
)

SettingsOption = Annotated[
    Path, typer.Option("--owner", metavar="OWNER|LEDGER", help="The owner's settings (owner.toml) or a ledger.")
]


SQLITE_HEAD = b"SQLite format 3"


class AssumedSpent(StrEnum):
    """What answers that a backup lacks may have spent."""

    agreements = "agreements"
    all = "all"


def ledger_command(
    settings_file: Annotated[
        Path, typer.Argument(metavar="OWNER|LEDGER", help="The owner's settings (owner.toml) or a ledger.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the ledger's whole hash chain, from the first row.")
    ] = False,
) -> None:
    """Show how much budget every agreement spent. The command works while the daemon runs, without delaying the daemon.
    The command checks the ledger rows that were added since the last check. With --verify, or if the ledger has at most
    10,000 rows, the command checks all rows.

    Example:  parley owner ledger bank-a/owner.toml

    Example:  parley owner ledger ledgers/bank-a.ledger
    """
    with progress_bar("checking the chain"):
        content = ledger_statement(*_books(settings_file), verify)
    if as_json:
        print_json(content, inside=False)
        return
    console.print(terminal_table(agreement_rows(content), f"Ledger of {content['owner']}"))
    for line in agreement_lines(content):
        console.print(line, markup=False, soft_wrap=True, style="dim")
    console.print(f"\n{lifetime_line(content)}")
    if (units := units_line(content)) is not None:
        console.print(units, markup=False, soft_wrap=True)
    for line in other_books_lines(content):
        console.print(line, markup=False, soft_wrap=True)
    console.print(chain_line(content), style="dim")


class _Books(NamedTuple):
    """An owner's ledger and the folder of its accepted terms: as its settings say, or beside a ledger that has none."""

    name: str
    ledger: Path
    accepted: Path


def _books(file: Path) -> _Books:
    if _is_ledger(file):
        return _Books(file.stem, file, terms_folder(file))
    settings = load_owner(file)
    return _Books(settings.name, settings.ledger, settings.accepted)


def _is_ledger(file: Path) -> bool:
    head = b""
    with suppress(OSError), file.open("rb") as opened:
        head = opened.read(len(SQLITE_HEAD))
    return head == SQLITE_HEAD or file.suffix == ".ledger"


def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy.")],
    settings_file: SettingsOption,
) -> None:
    """Copy the whole ledger and verify the copy, even while the daemon runs. A plain copy of the ledger file may lack
    the latest rows.

    Example:  parley owner backup /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml

    Example:  parley owner backup /backup/bank-a.ledger --owner ledgers/bank-a.ledger
    """
    ledger = Ledger(_books(settings_file).ledger, writes=False)
    head = back_up(ledger, file)
    ledger.close()
    console.print(
        f"{file}  {counted(head.entries, 'entry', 'entries')}, chain unbroken, head {head.hash}", soft_wrap=True
    )


def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, or the ledger itself if it was rolled back.")],
    settings_file: Annotated[
        Path,
        typer.Option("--owner", metavar="OWNER|FILE", help="The owner's settings (owner.toml) or the lost ledger."),
    ],
    assume_spent: Annotated[
        AssumedSpent,
        typer.Option(help="What counts as spent: all (the lifetime budget) or agreements (reserved budgets)."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Replace the ledger with a backup. The budget of every answer that the backup may lack counts as spent. Every
    agreement ends. Stop the daemon before you restore the ledger. The command keeps the replaced ledger next to the new
    ledger. With --assume-spent all, the whole lifetime budget counts as spent. If the folder of acceptances may lack
    terms that the owner accepted after the backup, only --assume-spent all is safe. With --assume-spent agreements, the
    budgets of all agreements in the backup and in the folder of acceptances count as spent.

    Example:  parley owner restore /backup/bank-a-2026-03-01.ledger --owner bank-a/owner.toml --assume-spent agreements
    """
    books, everything = _books(settings_file), assume_spent is AssumedSpent.all
    if not everything and _is_ledger(settings_file):
        _require_terms(file, books.accepted)
    lost = [] if everything and not books.accepted.exists() else _accepted(books)
    spent_words = (
        "the whole lifetime budget"
        if everything
        else f"every reserved budget (including the budgets of {counted(len(lost), 'acceptance')} in {books.accepted})"
    )
    if not yes and not typer.confirm(
        f"Every existing agreement ends, and {spent_words} counts as spent. Restore?", err=True
    ):
        errors_console.print("Nothing was restored.")
        raise typer.Exit(1)
    with daemon_lock(books.ledger) if books.ledger.exists() else nullcontext():
        head, aside = restore(file, books.ledger, books.name, lost, everything)
    console.print(
        f"{books.ledger}  {counted(head.entries, 'entry', 'entries')}, chain unbroken, head {head.hash}",
        soft_wrap=True,
    )
    if aside is not None:
        console.print(f"{aside}  the replaced ledger", soft_wrap=True)


def _require_terms(backup: Path, folder: Path) -> None:
    """Refuse a backup with agreements that this folder lacks: it was not kept then, so it may lack later ones, too."""
    with closing(Ledger(backup, writes=False, remembered=False)) as ledger:
        agreed = {account.terms_hash for _, account in ledger.accounts()}
    if not folder.is_dir() or not agreed <= {*Acceptances(folder).hashes()}:
        raise SettingError(
            f"{folder}: the folder lacks the terms of some agreement in {backup}, so the folder may also lack later "
            "agreements. Use --assume-spent all"
        )


def _accepted(books: _Books) -> list[Any]:
    from parley.owner.owner import reservation

    acceptances = Acceptances(books.accepted)
    found = []
    for terms in acceptances.hashes():
        try:
            acceptance = acceptances.get(terms)
        except SettingError as damaged:
            raise SettingError(
                f"{damaged}. To restore without this file, move the file away and use --assume-spent all"
            ) from None
        if acceptance is not None:
            found.append(reservation(acceptance.terms, books.name))
    return found


def close_command(
    terms: Annotated[str, typer.Argument(metavar="TERMS", help="The hash of accepted terms, or its first digits.")],
    settings_file: SettingsOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End an agreement, so that the daemon answers no more questions under it. The agreement's budget stays reserved
    and counts as spent.

    Example:  parley owner close 3f0c91d2 --owner bank-a/owner.toml
    """
    ledger = Ledger(_books(settings_file).ledger)
    matching_accounts = [account for _, account in ledger.accounts() if account.terms_hash.startswith(terms)]
    if len(matching_accounts) != 1:
        raise UnknownTerms(
            f"{terms}: expected the first digits of exactly one agreement's hash, but {len(matching_accounts)} "
            "agreements match; run parley owner ledger to list the hashes"
        )
    if not yes and not typer.confirm(
        f"End the agreement {matching_accounts[0].terms_hash[:16]}… with {matching_accounts[0].learner} permanently?",
        err=True,
    ):
        errors_console.print("Nothing was closed.")
        raise typer.Exit(1)
    ledger.close_terms(matching_accounts[0].terms_hash, "owner")
    ledger.remember()
    ledger.close()
    console.print(f"Closed: terms {matching_accounts[0].terms_hash[:16]}…")
