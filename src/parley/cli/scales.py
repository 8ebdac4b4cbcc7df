"""`parley scales`: bounds, categories, centres and scales from the private tables, with noise, debited: for who has no public sample."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, errors_console, print_json, progress_bar, terminal_table
from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.owners import open_owners
from parley.learning.survey import ScalesResult, accepting_scales, ask_scales
from parley.numerals import number
from parley.report.scales import column_rows, noise_words, release_note, summary
from parley.terms import Terms, load_terms, scales_agreement, write_terms


def scales_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="Terms with privacy.scale_epsilon and no public sample.")],
    write: Annotated[
        Path | None,
        typer.Option(metavar="READY", help="Write the terms to learn by: with what was released, and the rest of the budgets."),
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only write the agreement by which scales are asked, for owners elsewhere to accept; ask nobody."
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
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="With --owners: when one counts as late in a round.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Of a simulation's noise.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask the owners how their columns are spread, with noise, debited: for terms without a public sample.

    It costs each owner privacy.scale_epsilon of its epsilon. Two rounds count rows on coarse grids; bounds, centres and scales follow from
    the noisy counts, and names that many rows hold come out where the terms have a delta. READY has them, and the rest of the budgets.

    Example:  parley scales terms.toml --ledgers books --lifetime 3 --lifetime-delta 1e-5 --write ready.toml
    """
    terms = load_terms(terms_file)
    asked = scales_agreement(terms)
    for file in (write, agreement):
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
        parties = open_owners(asked) if ledgers is None else accepting_scales(terms, ledgers, lifetime, lifetime_delta)
        with progress_bar("asking") as progress:
            result, unheard = ask_scales(terms, parties, seed, progress), []
    if write is not None:
        write_terms(result.ready.terms, write, release_note(result))
    if as_json:
        print_json(result.to_json() | {"unheard": unheard})
    else:
        show(result, write)


def _elsewhere(
    terms: Terms, asked: Terms, terms_file: Path, addresses: Path, resume: bool, deadline: float
) -> tuple[ScalesResult, list[str]]:
    from parley.cli.learner import open_federation, watched
    from parley.learning.deployed import prepare_run
    from parley.learning.survey import ask_scales_elsewhere

    run = prepare_run(asked, terms_file.with_suffix(".scales.checkpoint"))
    begin = run.begin(resume)
    federation, _ = open_federation(run, begin, addresses, deadline)
    try:
        if not run.finished(begin):
            federation.fetch_statements()
        with watched(asked, federation) as progress:
            return ask_scales_elsewhere(terms, run, federation, begin, progress)
    finally:
        federation.close()


def show(result: ScalesResult, write: Path | None) -> None:
    """What came out, as tables."""
    console.print(summary(result), style="italic")
    console.print()
    console.print(terminal_table(column_rows(result.columns), result.asked.title))
    console.print(noise_words(result), style="dim")
    for note in result.ready.notes:
        errors_console.print(note, style="yellow", markup=False, soft_wrap=True)
    left = ", ".join(f"{owner.name} {number(owner.epsilon, side='below')}" for owner in result.ready.terms.owners)
    console.print(
        f"\nLeft of ε: {left}; of δ: {number(result.ready.terms.privacy.delta, side='below')}.", style="dim", soft_wrap=True
    )
    if write is not None:
        console.print(f"{write}  the terms to learn by: parley forecast {write}", soft_wrap=True)
