"""`parley learner`: propose terms to owners that are elsewhere, and train one joint model with them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences
from parley.cli.spending import ANYWAY, require_worth_spending
from parley.cli.track import Track, require_store
from parley.errors import SettingError
from parley.report.extras import extras
from parley.report.terminal import console, print_json, terminal_table, warn, watched
from parley.report.words.ledgers import told_rows
from parley.tasks.asking_options import Expect
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected

if TYPE_CHECKING:
    from parley.learning.outcome import Result
    from parley.network.exchange.federation import Federation
    from parley.network.exchange.remote import Proposed

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
        from parley.network.exchange.remote import propose
    _show(terms, propose(terms, owners, to or ()), to, as_json)


def proposal_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """What became of proposed terms at each owner: open, accepted, refused, lapsed or withdrawn, and why.

    Example:  parley learner proposal terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.remote import propose
    _show(terms, propose(terms, owners, to or (), ask=True), to, as_json)


def withdraw_command(terms_file: TermsFile, owners: Owners, to: To = None, as_json: AsJson = False) -> None:
    """Withdraw proposed terms at each owner where they are open. What was accepted stays accepted.

    Example:  parley learner withdraw terms.toml --owners addresses.toml
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.exchange.remote import withdraw
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


learner_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="For the analyst who trains: run the rounds with owners that are elsewhere.",
)


@learner_app.command("run")
def run_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms that every owner accepted.")],
    owners: Annotated[Path, typer.Option(metavar="ADDRESSES", help="Where the owners are, addresses.toml.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="When an owner counts as late in a round.")] = 60.0,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the run is kept; left out: beside TERMS, named after it.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    save_own: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An owner that learns: write its own refinement, which must never leave it."),
    ] = None,
    track: Track = None,
    differences: Differences = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help=ANYWAY[0].upper() + ANYWAY[1:],
        ),
    ] = False,
    expect: Expect = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train one joint model by the terms: the same rounds as `parley train`, with each owner behind its own daemon.

    A connection that breaks, an owner that restarts or this command being killed costs no budget: questions are asked
    again and get the stored answers. Late owners are waited for, skipped or end the run as the terms say (quorum,
    straggler).

    Example:  parley learner run terms.toml --owners addresses.toml --save model.json
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    require_expected(terms, expect)
    terms.require_shared_sample()
    require_store(track)
    from parley.learning.deployed import learn, open_federation, prepare_run
    from parley.learning.run_options import RunOptions
    from parley.protocol.task import task_of

    kept = checkpoint if checkpoint is not None else terms_file.with_suffix(".checkpoint")
    if (other := task_of(terms).command("learner run")) is not None:
        if track is not None:
            raise SettingError(f"--track: expected none for {terms.task}, whose figures --json has")
        options = RunOptions(addresses=owners, resume=resume, deadline=deadline, checkpoint=kept)
        other(terms, replace(options, save=save, save_own=save_own, anyway=anyway, as_json=as_json))
        return
    run = prepare_run(terms, kept, save)
    begin = run.begin(resume)
    if not (resume or anyway):
        require_worth_spending(terms, differences)
    with extras():
        federation, own = open_federation(run, begin, owners, deadline, warn)
    if save_own is not None and own is None:
        federation.close()
        raise SettingError(f"--save-own: expected an owner as the learner, with its own table in {owners}")
    try:
        if not run.finished(begin):  # a finished run needs nobody
            federation.fetch_statements()
        with watched(terms, federation) as progress:
            result, unheard = learn(run, federation, begin, own, progress)
    finally:
        federation.close()
    if save_own is not None and result.own_model is not None:
        result.own_model.save(save_own)
    if track is not None:
        from parley.report.tracking import tracked_training, write_run

        write_run(tracked_training(result, "parley learner run", heads=federation.heads), track)
    if as_json:
        print_json(
            result.to_json()
            | {
                "latency": {name: status.mean_seconds for name, status in federation.status.items()},
                "unheard": unheard,
            },
            inside=False,
        )
    else:
        show(result, federation, unheard)


learner_app.command("propose")(propose_command)
learner_app.command("proposal")(proposal_command)
learner_app.command("withdraw")(withdraw_command)


@learner_app.command("flower")
def flower_command(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the app is written.")]) -> None:
    """Write the app that runs the same terms over a Flower federation: `flwr run DIR`. Every party needs
    parley-dp[flower].

    The owners' nodes are started with the path of their daemon's socket: --node-config
    'socket="/run/parley/bank-a.sock"'.

    Example:  parley learner flower relay && flwr run relay here --run-config 'terms="terms.toml" save="model.json"'
    """
    with extras():
        from parley.learning.over_flower import write_app
    if folder.exists():
        raise SettingError(f"{folder}: exists already; nothing was overwritten")
    write_app(folder)
    console.print(
        f"{folder}  the app; its settings (terms, save, report, checkpoint, deadline) are in pyproject.toml",
        soft_wrap=True,
    )


def show(result: "Result", federation: "Federation", unheard: list[str]) -> None:
    """The report of a deployed run."""
    from parley.cli.train import show_intervals, show_scores, show_target
    from parley.learning.outcome.guarantee import guarantee, kind_of_run
    from parley.report.words.training import aborted_line, consensus_line, notice_lines, remote_owner_rows

    console.print(kind_of_run(result), style="italic")
    console.print()
    latency = {name: status.mean_seconds for name, status in federation.status.items()}
    rows = remote_owner_rows(result, latency, unheard)
    console.print(terminal_table(rows, result.terms.title or "Owners"))
    console.print()
    show_intervals(result)
    show_scores(result)
    if (aborted := aborted_line(result)) is not None:
        console.print(aborted, style="yellow")
    for notice in notice_lines(result):
        console.print(notice, style="yellow", markup=False, soft_wrap=True)
    if (consensus := consensus_line(result)) is not None:
        console.print(consensus)
    show_target(result)
    console.print(guarantee(result), style="dim")
    if result.terms.model.holdout > 0:
        sentence = (
            "What the model is worth to it each owner finds out inside: parley score MODEL TERMS --owner NAME "
            "--data TABLE"
        )
        console.print(sentence, style="dim")
    console.print(f"terms {result.terms_hash[:16]}…   {result.seconds:.1f} s", style="dim")
