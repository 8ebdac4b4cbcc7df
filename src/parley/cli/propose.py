"""`parley learner propose`, `proposal` and `withdraw`: terms brought to the owners' inboxes, what became of them, and
terms taken back."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.report.extras import extras
from parley.report.terminal import console, print_json, terminal_table
from parley.report.words.proposals import told_rows
from parley.terms import Terms, load_terms

if TYPE_CHECKING:
    from parley.network.exchange.proposing import Proposed

TermsFile = Annotated[Path, typer.Argument(metavar="TERMS", help="The terms, with the learner's name in them.")]
Owners = Annotated[Path, typer.Option(metavar="ADDRESSES", help="Where the owners are, addresses.toml.")]
To = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this owner; may be said several times.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def propose_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """Propose terms to the owners that they name: each daemon keeps them for its people to read, for as many days as
    its owner says. Nothing is spent.

    Paths and comments in the file stay here. The same terms again are the same proposal; where they lapsed or were
    withdrawn, a new one.

    Example:  parley learner propose terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    with extras():
        from parley.network.exchange.proposing import propose
    _show(terms, propose(terms, owners, to or ()), to, as_json)


def proposal_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """What became of proposed terms at each owner: open, accepted, refused, lapsed or withdrawn, and why.

    Example:  parley learner proposal terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.proposing import propose
    _show(terms, propose(terms, owners, to or (), ask=True), to, as_json)


def withdraw_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """Withdraw proposed terms at each owner where they are open. What was accepted stays accepted.

    Example:  parley learner withdraw terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.proposing import withdraw
    _show(terms, withdraw(terms, owners, to or ()), to, as_json)


def _show(terms: Terms, said: "Sequence[Proposed]", to: list[str] | None, as_json: bool) -> None:
    """Print what each owner said; exit code 1 if one said nothing."""
    told = [vars(each) for each in said]
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
