"""`parley owner inbox` and `refuse`: terms that learners proposed, read and decided about."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from parley.cli import acceptance
from parley.errors import SettingError
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.inbox import SHORTEST, Inbox, open_inbox
from parley.network.serving.proposal import Proposal
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table, warn
from parley.report.words.proposals import inbox_rows, proposal_line
from parley.terms import Terms, load_terms

SettingsOption = Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")]
Named = Annotated[
    str, typer.Argument(metavar="TERMS", help="The hash of proposed terms, or how it begins, as a handle.")
]
PublicSample = Annotated[
    Path | None, typer.Option("--public", metavar="FILE", help="Your own copy of the public sample of proposed terms.")
]
PinnedNumbers = Annotated[
    Path | None, typer.Option("--preparation", metavar="FILE", help="Your own copy of the numbers that they pin.")
]


def inbox_command(
    settings_file: Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")],
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="[TERMS]", help="The hash of proposed terms, or how it begins, as a handle; left out: all of them."
        ),
    ] = None,
    public: PublicSample = None,
    preparation: PinnedNumbers = None,
    certificate: acceptance.Certificate = None,
    peer: acceptance.Peer = False,
    as_json: acceptance.AsJson = False,
) -> None:
    """Terms that certified learners proposed: by whom, when, and what became of them. The ledger knows nothing of them.

    With TERMS, what accepting those would mean: what `parley owner accept` says, who else is in, and what would be left
    of the lifetime budget. Nothing is accepted.

    Example:  parley owner inbox bank-a/owner.toml

    Example:  parley owner inbox bank-a/owner.toml 3f0c91d2 --public public_loans.csv
    """
    settings = load_owner(settings_file)
    inbox = open_inbox(settings)
    if named is None:
        if public or preparation or certificate or peer:
            raise SettingError("--public, --preparation, --certificate, --peer: expected with the hash of a proposal")
        _list(inbox, settings, as_json)
        return
    proposal = inbox.find(named)
    proposal.terms(public, preparation)  # what is wrong with them is said before the libraries that the rest needs
    with extras():
        from parley.learning.outcome.guarantee import INSIDE
        from parley.network.serving.offer import consider_proposal
    with progress_bar("reading the table, calibrating noise"):
        offer, found = consider_proposal(inbox, proposal, settings, public, preparation, certificate, peer)
    if offer.ledger_warning is not None:
        warn(offer.ledger_warning)
    out = errors_console if as_json else console
    out.print(proposal_line(found["proposal"]), markup=False, soft_wrap=True)
    acceptance.show_summary(offer, as_json)
    for sentence in (found["others"], found["left"]):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(INSIDE, style="dim")
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
    named: Named,
    settings_file: SettingsOption,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, without figures of the table; the learner reads it.")
    ],
) -> None:
    """Refuse proposed terms, with a reason that is kept. Accepting them later is still possible.

    Example:  parley owner refuse 3f0c91d2 --owner bank-a/owner.toml --reason "an epsilon of 0.5 at most"
    """
    inbox = open_inbox(load_owner(settings_file))
    proposal = inbox.find(named)
    inbox.refuse(proposal, reason)
    console.print(f"Refused: terms {proposal.terms_hash}", soft_wrap=True)


def offered_terms(
    named: Path, settings_file: Path, public: Path | None, preparation: Path | None
) -> tuple[Terms, Proposal | None]:
    """(terms, their proposal) by the hash of a proposal in the inbox, or by the name of a file, which
    nobody proposed."""
    if named.exists() or not re.fullmatch(f"[0-9a-f]{{{SHORTEST},64}}", str(named)):
        terms = load_terms(named)
        if public is not None or preparation is not None:
            raise SettingError(
                "--public, --preparation: expected with the hash of a proposal; a file says where they lie"
            )
        return terms, None
    proposal = open_inbox(load_owner(settings_file)).find(str(named))
    return proposal.terms(public, preparation), proposal


@contextmanager
def unchanged(proposal: Proposal | None, settings_file: Path) -> Iterator[None]:
    """While terms are accepted nobody changes their proposal; refused if somebody did since it was read. Terms from a
    file have none."""
    if proposal is None:
        yield
        return
    with open_inbox(load_owner(settings_file)).unchanged(proposal):
        yield
