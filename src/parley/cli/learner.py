"""`parley learner`: propose terms to owners elsewhere, and train one joint model with them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences, Force, Track
from parley.errors import SettingError
from parley.report.extras import extras
from parley.report.run_options import Expect
from parley.report.terminal import Terminal, console, print_json, show, terminal_table
from parley.report.words.ledgers import proposal_rows, told_lines
from parley.terms import Terms, load_terms

if TYPE_CHECKING:
    from parley.network.exchange.remote import Proposed

TermsFile = Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file, which contains the learner's name.")]
Owners = Annotated[Path, typer.Option(metavar="ADDRESSES", help="The file with the owners' addresses, addresses.toml.")]
OnlyOwners = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Contact only this owner. Repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def propose_command(terms_file: TermsFile, owners: Owners, to: OnlyOwners = None, as_json: AsJson = False) -> None:
    """Propose terms to the owners that are listed in the terms. Each owner's staff can read the proposal in the owner's
    inbox, for the number of days that the owner allows. Proposing terms spends no budget.

    The command does not send the paths or comments in the terms file. Proposing the same terms again repeats the
    proposal, or makes a new proposal if the old proposal lapsed or was withdrawn.

    Example:  parley learner propose terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    with extras():
        from parley.network.exchange.remote import propose
    _show(terms, propose(terms, owners, to or ()), to, as_json)


def proposal_command(terms_file: TermsFile, owners: Owners, to: OnlyOwners = None, as_json: AsJson = False) -> None:
    """Show the state of proposed terms at each owner (open, accepted, refused, lapsed or withdrawn), with the reason if
    there is one.

    Example:  parley learner proposal terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.remote import propose
    _show(terms, propose(terms, owners, to or (), ask=True), to, as_json)


def withdraw_command(terms_file: TermsFile, owners: Owners, to: OnlyOwners = None, as_json: AsJson = False) -> None:
    """Withdraw proposed terms at every owner where the proposal is still open. Accepted terms stay accepted.

    Example:  parley learner withdraw terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.remote import withdraw
    _show(terms, withdraw(terms, owners, to or ()), to, as_json)


def _show(terms: Terms, said: "Sequence[Proposed]", to: list[str] | None, as_json: bool) -> None:
    """Print each owner's reply; exit with code 1 if one is missing."""
    replies = [vars(each) for each in said]
    if as_json:
        print_json({"terms_hash": terms.hash, "owners": replies}, inside=False)
    else:
        console.print(terminal_table(proposal_rows(replies), terms.title or "Proposal"))
        for line in told_lines(replies):
            console.print(line, markup=False, soft_wrap=True)
        local_owners = {*(to or (part.name for part in terms.owners))} - {each["owner"] for each in replies}
        if local_owners:
            console.print(
                f"No proposal was sent to owners whose tables are on this machine: {', '.join(sorted(local_owners))}.",
                markup=False,
                soft_wrap=True,
            )
        console.print(f"terms {terms.hash}", style="dim", soft_wrap=True)
    if any(each["state"] is None for each in replies):
        raise typer.Exit(1)


learner_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="For the analyst: propose terms to owners on other machines, and train a joint model with these owners.",
)


@learner_app.command("run")
def run_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file that every owner accepted.")],
    owners: Annotated[
        Path, typer.Option(metavar="ADDRESSES", help="The file with the owners' addresses, addresses.toml.")
    ],
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds without an answer after which an owner counts as late.")
    ] = 60.0,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the run's state. Default: a file next to TERMS.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    save_own: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="If the learner is an owner: write the owner's private personal model."),
    ] = None,
    track: Track = None,
    differences: Differences = None,
    anyway: Force = False,
    expect: Expect = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train one joint model under the terms by asking each owner's daemon questions, in the same rounds as `parley
    train`.

    A broken connection, a restarted owner or a killed command costs no budget. After an interruption, the learner
    repeats its questions and gets the owners' stored answers. The keys quorum and straggler in the terms decide whether
    the learner waits for late owners, skips them or stops.

    --force releases a model even if the forecast says that the zero model or the public sample's model is better, or
    that no owner gains. For ratings, --force releases a model even if the forecast says that owners do better
    alone.

    Example:  parley learner run terms.toml --owners addresses.toml --save model.json
    """
    load_terms(terms_file)  # refuses bad ones before the libraries that the rest needs
    from parley.report.run_options import RunOptions
    from parley.workflows.train_elsewhere import train_elsewhere

    kept = checkpoint if checkpoint is not None else terms_file.with_suffix(".checkpoint")
    options = RunOptions(addresses=owners, resume=resume, deadline=deadline, checkpoint=kept)
    options = replace(options, save=save, save_own=save_own, anyway=anyway)
    show(train_elsewhere(terms_file, options, Terminal(), differences, track, expect), as_json)


learner_app.command("propose")(propose_command)
learner_app.command("proposal")(proposal_command)
learner_app.command("withdraw")(withdraw_command)


@learner_app.command("flower")
def flower_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the Flower app.")],
) -> None:
    """Write a Flower app that trains under Parley terms in a Flower federation. Every party must install
    parley-dp[flower].

    Start the app with `flwr run DIR`. Start each owner's Flower node with the path of that owner's daemon socket, for
    example --node-config 'socket="/run/parley/bank-a.sock"'.

    Example:  parley learner flower relay && flwr run relay here --run-config 'terms="terms.toml" save="model.json"'
    """
    with extras():
        from parley.learning.over_flower import write_app
    if folder.exists():
        raise SettingError(f"{folder}: the folder already exists; name a new folder")
    write_app(folder)
    console.print(
        f"{folder}  the Flower app; the app's settings (terms, save, report, checkpoint, deadline) are in "
        "pyproject.toml",
        soft_wrap=True,
    )
