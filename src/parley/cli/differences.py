"""`parley differences`: how much owners differ, from one noisy answer of each, debited."""

import json
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, print_json, progress_bar
from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.differences import DifferencesResult, accepting_differences, ask_differences
from parley.learning.owners import open_owners
from parley.report.differences import clip_note, left, release_note, summary
from parley.terms import Terms, differences_agreement, load_terms, write_terms


def differences_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="Terms with privacy.difference_epsilon and a public sample.")],
    save: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Keep what came out, for parley forecast READY --differences JSON.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="READY", help="Write the terms to learn by, with the rest of the budgets.")
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only write the agreement by which this is asked, for owners elsewhere to accept; ask nobody."
        ),
    ] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Release: debit every owner's ledger, DIR/NAME.ledger. Without, this is a simulation."),
    ] = None,
    lifetime: Annotated[
        float | None,
        typer.Option(metavar="EPS", help="With --ledgers: make the ledgers that are missing, with this lifetime budget, for ever."),
    ] = None,
    lifetime_delta: Annotated[
        float | None, typer.Option(metavar="DELTA", help="With --lifetime: the delta of that budget; left out: 0.")
    ] = None,
    owners: Annotated[
        Path | None,
        typer.Option(metavar="ADDRESSES", help="Ask owners that are elsewhere, addresses.toml; they accepted --agreement's file."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With --owners: go on with a run that was interrupted.")] = False,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="With --owners: when one counts as late.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Of a simulation's noise.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask the owners how much they differ, with noise, debited: for the forecast of what joining adds to each.

    It costs each owner privacy.difference_epsilon of its epsilon: one mean of clipped gradients at the public sample's best fit. What
    these scatter beyond chance and noise is how much owners differ. READY has the rest of the budgets.

    Example:  parley differences terms.toml --ledgers books --lifetime 3 --save apart.json --write ready.toml
    """
    terms = load_terms(terms_file)
    asked = differences_agreement(terms)
    for file in (save, write, agreement):
        require_folder(file)
    if agreement is not None:
        write_terms(asked, agreement)
        console.print(f"{agreement}  every owner accepts it: parley owner accept {agreement} --owner OWNER", soft_wrap=True)
        return
    if owners is not None and (ledgers is not None or seed is not None):
        raise SettingError("--owners: expected neither --ledgers nor --seed beside it: owners elsewhere have ledgers of their own")
    if ledgers is not None and seed is not None:
        raise SettingError("--seed belongs to simulations; leave it out, or leave out --ledgers")
    if owners is not None:
        result, unheard = _elsewhere(terms, asked, terms_file, owners, resume, deadline)
    else:
        parties = open_owners(asked) if ledgers is None else accepting_differences(terms, ledgers, lifetime, lifetime_delta)
        with progress_bar("asking") as progress:
            result, unheard = ask_differences(terms, parties, seed, progress), []
    content = result.to_json() | {"unheard": unheard}
    if save is not None:
        save.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if write is not None:
        write_terms(result.ready, write, release_note(result))
    if as_json:
        print_json(content)
    else:
        show(result, save, write)


def _elsewhere(
    terms: Terms, asked: Terms, terms_file: Path, addresses: Path, resume: bool, deadline: float
) -> tuple[DifferencesResult, list[str]]:
    from parley.cli.learner import open_federation, watched
    from parley.learning.differences import ask_differences_elsewhere, prepare_differences

    run = prepare_differences(asked, terms_file.with_suffix(".differences.checkpoint"))
    begin = run.begin(resume)
    federation, _ = open_federation(run, begin, addresses, deadline)
    try:
        if not run.finished(begin):
            federation.fetch_statements()
        with watched(asked, federation) as progress:
            return ask_differences_elsewhere(terms, run, federation, begin, progress)
    finally:
        federation.close()


def show(result: DifferencesResult, save: Path | None, write: Path | None) -> None:
    """What came out, in sentences."""
    console.print(summary(result), style="italic")
    console.print(f"\n{result.between.sentence()}", style="bold", soft_wrap=True)
    note = clip_note(result)
    if note is not None:
        console.print(note, style="yellow", soft_wrap=True)
    console.print(left(result), style="dim", soft_wrap=True)
    if write is not None:
        kept = "" if save is None else f" --differences {save}"
        console.print(f"{write}  the terms to learn by: parley forecast {write}{kept}", soft_wrap=True)
