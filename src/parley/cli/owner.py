"""`parley owner`: an organisation creates its ledger, accepts terms, serves, and sees what was spent."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parley.cli import acceptance
from parley.cli.owner_ledger import backup_command, close_command, ledger_command, restore_command
from parley.cli.owner_snapshot import snapshot_command
from parley.errors import SettingError
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.inbox import MIN_HASH_DIGITS, Inbox, Proposal, open_inbox
from parley.network.serving.opening import books_alike, open_ledger
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table, warn
from parley.report.words.ledgers import inbox_rows, proposal_line
from parley.terms import Terms, load_terms

SettingsOption = Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")]
TermsHash = Annotated[str, typer.Argument(metavar="TERMS", help="The hash of proposed terms, or its first digits.")]
PublicSample = Annotated[
    Path | None,
    typer.Option("--public", metavar="FILE", help="Your own copy of the public sample that the terms name."),
]
PinnedNumbers = Annotated[
    Path | None,
    typer.Option("--preparation", metavar="FILE", help="Your own copy of the file with the pinned public numbers."),
]


owner_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="""For an organisation with a private table:
create a ledger, accept terms, answer learners, and see how much budget was spent.

    The table and the ledger stay with the owner's daemon, which adds noise to its answers unless hosts draw shared
    noise. Learners send questions to the daemon, which never runs code from a learner.""",
)


class LifetimeRule(StrEnum):
    """How agreements count against the lifetime budget."""

    simple = "simple"
    zcdp = "zcdp"


SettingsFile = Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")]


@owner_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the owner's settings and ledger.")],
    name: Annotated[str, typer.Option(help="The owner's name, as in the terms.")],
    table: Annotated[
        Path, typer.Option(metavar="FILE", help="The owner's private table (.csv, .parquet, .arrow, folder, s3://...).")
    ],
    lifetime: Annotated[
        float,
        typer.Option(metavar="EPS", help="Permanent limit on the total epsilon of all agreements of this table."),
    ],
    lifetime_delta: Annotated[float, typer.Option(metavar="DELTA", help="The delta of the lifetime budget.")] = 0.0,
    rule: Annotated[
        LifetimeRule, typer.Option(help="Permanent rule for adding up agreements' costs: simple (ε, δ) or zcdp.")
    ] = LifetimeRule.simple,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address at which learners reach the daemon.")
    ] = "0.0.0.0:7443",
) -> None:
    """Create an owner's settings and the ledger of one table, with the table's lifetime budget.

    Under the rule 'simple', the ε and δ of agreements add up. Under the rule 'zcdp', the ρ of agreements adds up, so
    the budget allows more agreements with Gaussian noise or many rounds. The rule 'zcdp' needs a --lifetime-delta above
    0, and does not allow terms with noise = "shared".

    Example:  parley owner init bank-a --name bank-a --table bank_a.parquet --lifetime 3
    """
    similar_books = books_alike(folder, table)
    settings = open_ledger(folder, name, table, lifetime, lifetime_delta, listen, rule.value)
    if similar_books is not None:
        warn(
            f"The settings in {similar_books} are for a table with the same keys and columns as {table}. If both "
            "tables are about the same people, two ledgers together can spend more on these people than either "
            "lifetime budget allows. If both tables are about the same people, move the folder "
            f"{folder} away before its first use, and use the existing ledger."
        )
    if not lifetime_delta > 0:
        warn(
            "The lifetime delta is 0, so the owner can never accept terms with Gaussian noise or shared noise. To "
            f"change the lifetime delta, move the folder {folder} out of its parent folder before its first use. Then "
            "run parley owner init again with --lifetime-delta."
        )
    acceptance.warn_if_exposed(folder)
    console.print(f"{folder / 'owner.toml'}  the settings: read this file before you start the daemon", soft_wrap=True)
    held = "" if rule is LifetimeRule.simple else ", counted as zCDP"
    console.print(
        f"{settings.ledger}  the ledger: lifetime budget ({Adjacency.REPLACE_ONE}) ε = {number(lifetime)}, δ = "
        f"{number(lifetime_delta)}{held}",
        soft_wrap=True,
    )
    acceptance.show_certificates_next(folder, name)


@owner_app.command("accept")
def accept_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS|HASH", help="The terms file, or the first digits of a proposal's hash.")
    ],
    settings_file: Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")],
    certificate: acceptance.Certificate = None,
    relay: Annotated[
        bool, typer.Option("--relay", help="Also answer relays on this machine, through the socket in owner.toml.")
    ] = False,
    peer: acceptance.Peer = False,
    public: PublicSample = None,
    preparation: PinnedNumbers = None,
    other_books: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Reason for a second ledger of this table, stored in the ledger."),
    ] = None,
    yes: acceptance.Yes = False,
    as_json: acceptance.AsJson = False,
) -> None:
    """Read what the terms promise and cost, and accept the terms. After acceptance, the daemon answers questions under
    the terms, up to the terms' budget.

    TERMS may also be the hash of a proposal in the inbox, or the first digits of the hash. After you accept a proposal,
    the daemon answers only the holder of the proposer's key, unless you give --certificate or --peer. With --relay, the
    daemon also answers relays on this machine.

    Example:  parley owner accept terms.toml --owner bank-a/owner.toml --certificate learner.crt
    """
    # before the libraries that the rest needs
    terms, proposal = offered_terms(terms_file, settings_file, public, preparation)
    with extras():
        from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
        from parley.network.serving.offer import consider
    with progress_bar("reading the table and calibrating noise"):
        offer = consider(terms, load_owner(settings_file), certificate, relay, peer, proposal, other_books)
    if offer.ledger_warning is not None:
        warn(offer.ledger_warning)
    acceptance.show_summary(offer, as_json)
    (errors_console if as_json else console).print(KEEP_INSIDE_NOTE, style="dim")
    offer.require_room()
    agreed = yes or typer.confirm("Accept the terms, and reserve their budget permanently?", err=True)
    with unchanged(proposal, settings_file):
        acceptance.accept_or_exit(offer, terms.hash, agreed, as_json, inside=True)


@owner_app.command("serve")
def serve_command(settings_file: SettingsFile) -> None:
    """Answer learners' questions until SIGTERM or Ctrl-C. The daemon logs messages, but never records, as JSON lines on
    stderr.

    Example:  parley owner serve bank-a/owner.toml
    """
    with extras():
        from parley.network.serving.daemon import serve
        from parley.network.serving.log import process_log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    settings = load_owner(settings_file)
    with process_log() as log:
        serve(settings, stop, log)


def inbox_command(
    settings_file: Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")],
    named: Annotated[
        str | None,
        typer.Argument(metavar="[TERMS]", help="First digits of the proposed terms' hash. Default: all proposals."),
    ] = None,
    public: PublicSample = None,
    preparation: PinnedNumbers = None,
    certificate: acceptance.Certificate = None,
    peer: acceptance.Peer = False,
    as_json: acceptance.AsJson = False,
) -> None:
    """List the terms that certified learners proposed, with proposer, time and state. The ledger contains no proposals.

    With TERMS, show the effect of accepting these terms: the summary of `parley owner accept`, the other owners, and
    the remaining lifetime budget. This command never accepts terms.

    Example:  parley owner inbox bank-a/owner.toml

    Example:  parley owner inbox bank-a/owner.toml 3f0c91d2 --public public_loans.csv
    """
    settings = load_owner(settings_file)
    inbox = open_inbox(settings)
    if named is None:
        if public or preparation or certificate or peer:
            raise SettingError(
                "--public, --preparation, --certificate, --peer: allowed only with a proposal's hash; give the hash "
                f"after {settings_file}"
            )
        _list(inbox, settings, as_json)
        return
    proposal = inbox.find(named)
    proposal.terms(public, preparation)  # what is wrong with them is said before the libraries that the rest needs
    with extras():
        from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
        from parley.network.serving.offer import consider_proposal
    with progress_bar("reading the table and calibrating noise"):
        offer, found = consider_proposal(inbox, proposal, settings, public, preparation, certificate, peer)
    if offer.ledger_warning is not None:
        warn(offer.ledger_warning)
    out = errors_console if as_json else console
    out.print(proposal_line(found["proposal"]), markup=False, soft_wrap=True)
    acceptance.show_summary(offer, as_json)
    for sentence in (found["others"], found["left"]):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(KEEP_INSIDE_NOTE, style="dim")
    if as_json:
        print_json(found, inside=True)


def _list(inbox: Inbox, settings: OwnerSettings, as_json: bool) -> None:
    content = {"owner": settings.name, "proposals": [inbox.facts(each) for each in inbox.proposals()]}
    for sentence in inbox.damaged():
        warn(sentence)
    if as_json:
        print_json(content, inside=False)
    elif not content["proposals"]:
        console.print("Nothing was proposed.")
    else:
        console.print(terminal_table(inbox_rows(content), f"Proposed to {settings.name}"))


def refuse_command(
    named: TermsHash,
    settings_file: SettingsOption,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason that the learner can read. Include no figures from the table.")
    ],
) -> None:
    """Refuse proposed terms, and store the reason. You can still accept refused terms later.

    Example:  parley owner refuse 3f0c91d2 --owner bank-a/owner.toml --reason "an epsilon of 0.5 at most"
    """
    inbox = open_inbox(load_owner(settings_file))
    proposal = inbox.find(named)
    inbox.refuse(proposal, reason)
    console.print(f"Refused: terms {proposal.terms_hash}", soft_wrap=True)


def offered_terms(
    named: Path, settings_file: Path, public: Path | None, preparation: Path | None
) -> tuple[Terms, Proposal | None]:
    """Return (terms, their proposal) by a proposal's hash, or (terms, None) by a file name."""
    if named.exists() or not re.fullmatch(f"[0-9a-f]{{{MIN_HASH_DIGITS},64}}", str(named)):
        terms = load_terms(named)
        if public is not None or preparation is not None:
            raise SettingError(
                "--public, --preparation: allowed only with a proposal's hash; remove these options, because a terms "
                "file contains the paths of both files"
            )
        return terms, None
    proposal = open_inbox(load_owner(settings_file)).find(str(named))
    return proposal.terms(public, preparation), proposal


@contextmanager
def unchanged(proposal: Proposal | None, settings_file: Path) -> Iterator[None]:
    """Keep the proposal unchanged while its terms are accepted; refuse if it changed since it was read."""
    if proposal is None:
        yield
        return
    with open_inbox(load_owner(settings_file)).unchanged(proposal):
        yield


owner_app.command("inbox")(inbox_command)
owner_app.command("refuse")(refuse_command)
owner_app.command("snapshot")(snapshot_command)
owner_app.command("ledger")(ledger_command)
owner_app.command("backup")(backup_command)
owner_app.command("restore")(restore_command)
owner_app.command("close")(close_command)
