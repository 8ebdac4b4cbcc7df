"""`parley learner propose` and `proposal`: terms brought to the owners' inboxes, and what became of them."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.extras import extras
from parley.report.terminal import console, print_json, terminal_table
from parley.report.words.proposals import told_rows
from parley.terms import load_terms

TermsFile = Annotated[Path, typer.Argument(metavar="TERMS", help="The terms, with the learner's name in them.")]
Owners = Annotated[Path, typer.Option(metavar="ADDRESSES", help="Where the owners are, addresses.toml.")]
To = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this owner; may be said several times.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def propose_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """Propose terms to the owners that they name: each daemon keeps them for its people to read. Nothing is spent.

    Paths and comments in the file stay here. The same terms again are the same proposal.

    Example:  parley learner propose terms.toml --owners addresses.toml
    """
    _tell(terms_file, owners, to, as_json, ask=False)


def proposal_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """What became of proposed terms at each owner: open, accepted, or refused and why.

    Example:  parley learner proposal terms.toml --owners addresses.toml
    """
    _tell(terms_file, owners, to, as_json, ask=True)


def _tell(terms_file: Path, owners: Path, to: list[str] | None, as_json: bool, ask: bool) -> None:
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    with extras():
        from parley.network.exchange.proposing import propose
    told = [vars(each) for each in propose(terms, owners, to or (), ask=ask)]
    if as_json:
        print_json({"terms_hash": terms.hash, "owners": told}, inside=False)
    else:
        console.print(terminal_table(told_rows(told), terms.title or "Proposal"))
        here = {*(to or (part.name for part in terms.owners))} - {each["owner"] for each in told}
        if here:
            console.print(f"Not sent to {', '.join(sorted(here))}: that table is here.", markup=False, soft_wrap=True)
        console.print(f"terms {terms.hash}", style="dim", soft_wrap=True)
    if any(each["state"] is None for each in told):
        raise typer.Exit(1)
