"""`parley owner`: what one organisation does with its own table - open its books, accept terms, serve, and look at what
was spent."""

import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parley.cli import acceptance
from parley.cli.inbox import (
    PinnedNumbers,
    PublicSample,
    inbox_command,
    offered_terms,
    refuse_command,
    unchanged,
)
from parley.cli.owner_ledger import backup_command, close_command, ledger_command, restore_command
from parley.cli.owner_snapshot import snapshot_command
from parley.network.identity.settings import load_owner
from parley.network.serving.opening import books_alike, open_ledger
from parley.numerals import number
from parley.privacy.adjacency import Adjacency
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, progress_bar, warn

owner_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="""For an organisation that holds a private table: open its books, accept terms, serve, and look at what
    was spent.

    The table, the ledger and the noise stay with the owner's daemon. Learners bring it questions; it executes
    nothing it is sent.""",
)


class LifetimeRule(StrEnum):
    """How agreements are held against the lifetime budget."""

    simple = "simple"
    zcdp = "zcdp"


SettingsFile = Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")]


@owner_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the owner's things will lie.")],
    name: Annotated[str, typer.Option(help="The owner's name, as in the terms.")],
    table: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Its private table (.csv, .parquet, .arrow, a folder of .parquet files, or s3://...)."
        ),
    ],
    lifetime: Annotated[
        float, typer.Option(metavar="EPS", help="The most that all agreements together may ever cost. For ever.")
    ],
    lifetime_delta: Annotated[float, typer.Option(metavar="DELTA", help="The delta of that budget.")] = 0.0,
    rule: Annotated[
        LifetimeRule,
        typer.Option(
            help="How agreements are held against that budget, for ever. simple: their ε and δ add up; zcdp: their ρ "
            "does, which lets more "
            "agreements with Gaussian noise, or with many rounds, fit. Needs a DELTA above 0, and cannot hold terms "
            'with noise = "shared".'
        ),
    ] = LifetimeRule.simple,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where learners reach it.")] = "0.0.0.0:7443",
) -> None:
    """Open the books of one table: settings and a ledger with its lifetime budget.

    Example:  parley owner init bank-a --name bank-a --table bank_a.parquet --lifetime 3
    """
    alike = books_alike(folder, table)
    settings = open_ledger(folder, name, table, lifetime, lifetime_delta, listen, rule.value)
    if alike is not None:
        warn(
            f"{alike} has the books of a table with the same keys and columns. If that is of the same people, these "
            f"here are a second budget for them, which nobody promised: move {folder} away now, while it is unused, "
            "and go on with those."
        )
    if not lifetime_delta > 0:
        warn(
            "Without --lifetime-delta this ledger holds pure noise only, for ever: terms with gaussian noise, or "
            f"one noise for all, will be refused. If it should hold them: move {folder} out of its parent folder "
            "now, while it is unused, and init anew."
        )
    acceptance.warn_if_exposed(folder)
    console.print(f"{folder / 'owner.toml'}  settings: look through them", soft_wrap=True)
    held = "" if rule is LifetimeRule.simple else ", held as zCDP"
    console.print(
        f"{settings.ledger}  the ledger: lifetime budget ({Adjacency.REPLACE_ONE}) ε = {number(lifetime)}, δ = "
        f"{number(lifetime_delta)}{held}",
        soft_wrap=True,
    )
    acceptance.show_certificates_next(folder, name)


@owner_app.command("accept")
def accept_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS|HASH", help="The terms file, or the hash of a proposal or how it begins.")
    ],
    settings_file: Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")],
    certificate: acceptance.Certificate = None,
    relay: Annotated[
        bool, typer.Option("--relay", help="Let relays on this machine ask too (the settings' socket).")
    ] = False,
    peer: acceptance.Peer = False,
    public: PublicSample = None,
    preparation: PinnedNumbers = None,
    other_books: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Why the table may have another ledger than one that this account knows of; kept in the ledger.",
        ),
    ] = None,
    yes: acceptance.Yes = False,
    as_json: acceptance.AsJson = False,
) -> None:
    """Read what the terms promise and cost, and accept them. From then on the daemon answers by them, up to their
    budget.

    TERMS may also be the hash of a proposal in the inbox, or how it begins: then only the key that proposed may ask, or
    that of --certificate or --peer, and with --relay relays too.

    Example:  parley owner accept terms.toml --owner bank-a/owner.toml --certificate learner.crt
    """
    # before the libraries that the rest needs
    terms, proposal = offered_terms(terms_file, settings_file, public, preparation)
    with extras():
        from parley.learning.outcome.guarantee import INSIDE
        from parley.network.serving.offer import consider
    with progress_bar("reading the table, calibrating noise"):
        offer = consider(terms, load_owner(settings_file), certificate, relay, peer, proposal, other_books)
    if offer.ledger_warning is not None:
        warn(offer.ledger_warning)
    acceptance.show_summary(offer, as_json)
    (errors_console if as_json else console).print(INSIDE, style="dim")
    offer.require_room()
    agreed = yes or typer.confirm("Accept? This reserves the budget for ever", err=True)
    with unchanged(proposal, settings_file):
        acceptance.accept_or_exit(offer, terms.hash, agreed, as_json, inside=True)


@owner_app.command("serve")
def serve_command(settings_file: SettingsFile) -> None:
    """Answer learners until told to stop (SIGTERM or Ctrl-C). Logs are JSON lines on stderr, without data.

    Example:  parley owner serve bank-a/owner.toml
    """
    with extras():
        from parley.network.serving.daemon import serve
        from parley.network.serving.stderr import process_log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    settings = load_owner(settings_file)
    with process_log() as log:
        serve(settings, stop, log)


owner_app.command("inbox")(inbox_command)
owner_app.command("refuse")(refuse_command)
owner_app.command("snapshot")(snapshot_command)
owner_app.command("ledger")(ledger_command)
owner_app.command("backup")(backup_command)
owner_app.command("restore")(restore_command)
owner_app.command("close")(close_command)
