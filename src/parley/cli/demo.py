"""`parley demo`: the main job on embedded data - forty credit unions, one of them large, ask whether to learn
together."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.durable import write_file
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.report.terminal import console, errors_console, progress_bar, terminal_table

if TYPE_CHECKING:
    from parley.decisions.outlook.forecast import Forecast

SEED = 7


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where tables, terms, models and report go.")
    ] = Path("parley-demo"),
    seed: Annotated[int, typer.Option(help="Of the tables and of the training's noise.")] = SEED,
    unions: Annotated[
        int | None,
        typer.Option(
            "--unions", min=4, help="How many credit unions beside the large bank; left out: 39. Fewer is faster."
        ),
    ] = None,
) -> None:
    """Forty credit unions ask whether to learn together: who gains, what moves the large one, what came of it, and a
    report.

    Everything is done by commands that are printed, on files in DIR, so you can go on from any of them. Writes
    DIR/report.html too.
    """
    from parley.decisions.games.negotiate import negotiate
    from parley.decisions.knowledge.privacy_cost import joining_price
    from parley.demo.folder import (
        BANK_PRIVACY,
        BANKS,
        EPSILON,
        HOSTS,
        ONE,
        OWN,
        PRIVACY,
        VALUE,
        write_banks,
        write_unions,
    )
    from parley.demo.story import FUTURE, learn
    from parley.demo.unions import BANK, PUBLIC_ROWS, UNIONS
    from parley.learning.outcome.guarantee import SIMULATION
    from parley.report.figures.owner_gains import ONE_NOISE, OWN_NOISE, joined_owners
    from parley.report.figures.picture import save
    from parley.report.pages.forecast_page import joined_page
    from parley.report.words import joined
    from parley.report.words.forecast import assumption
    from parley.report.words.negotiation import CAVEAT

    count = UNIONS if unions is None else unions
    folder.mkdir(parents=True, exist_ok=True)
    with progress_bar("writing tables"):
        members, banks = write_unions(folder, seed, count), write_banks(folder, seed)
    *small, large_one = sorted(union.records for union in members)
    console.print(
        f"[bold]{count} credit unions and a large bank ask: should we learn together what rate a loan should "
        f"have?[/bold]"
    )
    console.print(
        f"Unions have {small[0]} to {small[-1]:,} loans, the bank {large_one:,}. Regions differ, in who borrows and "
        f"in what rates depend on. Everybody's ε is {EPSILON:g} ({Adjacency.REPLACE_ONE}). {', '.join(HOSTS[:-1])} "
        f"and {HOSTS[-1]} draw one noise for all, which none of them knows.",
        soft_wrap=True,
    )
    console.print(
        f"By their terms a squared point of error is worth ${VALUE:g} a loan, this ε costs "
        f"{100 * PRIVACY * EPSILON:g} cents (the bank {100 * BANK_PRIVACY * EPSILON:g}): joining is worth its price "
        "where it saves more than that.",
        soft_wrap=True,
    )
    console.print(SIMULATION, style="italic")

    _heading("1. Who would gain? Before any data moves", f"parley forecast {folder / ONE}")
    expected = _foresee(folder / ONE)
    prices = [joining_price(expected.terms, part.name) or 0.0 for part in expected.terms.owners]
    console.print(terminal_table(joined.forecast_rows(expected, prices)))
    console.print(f"\n{joined.forecast_sentence(expected, prices)}", style="bold", soft_wrap=True)
    console.print(
        f"From {PUBLIC_ROWS} public loans and the numbers of rows. {assumption(expected)}", style="dim", soft_wrap=True
    )

    target = float(number(expected.relative_fitness.mean, 1))
    _heading(
        "2. What moves the large one?",
        f"parley negotiate {folder / ONE}",
        f"parley negotiate {folder / ONE} --target {target:g}",
    )
    with progress_bar("negotiating") as progress:
        free = negotiate(expected.terms)
        progress(1, 2)
        paid = negotiate(expected.terms, target=target)
    for sentence in joined.bargain(free, paid, BANK):
        console.print(sentence, soft_wrap=True)
    console.print(CAVEAT, style="dim", soft_wrap=True)

    model, other = folder / "model.json", folder / "own_noise.json"
    _heading(
        "3. They train. Was the forecast right?",
        f"parley train {folder / ONE} --seed {seed} --save {model}",
        f"parley train {folder / OWN} --seed {seed} --save {other}",
        f"parley score {model} {folder / ONE} --all",
        f"parley refine {model} {folder / ONE} --owner {HOSTS[0]} --save {folder / HOSTS[0]}.json",
    )
    other_noise = _foresee(folder / OWN)
    with progress_bar("training, refining, judging") as progress:
        one, own = learn([expected, other_noise], members, seed, progress=progress)
    one.model.save(model)
    own.model.save(other)
    console.print(terminal_table(joined.outcome_rows(one, own), "Error that joining saves, of the error alone"))
    console.print(f"\n{joined.verdict(one, 'one noise')}", style="bold", soft_wrap=True)
    console.print(joined.verdict(own, "each owner's own noise"), soft_wrap=True)
    console.print(joined.without_anybody(one), soft_wrap=True)
    console.print(joined.on_held_out(one), soft_wrap=True)
    console.print(
        f"Errors: of an owner's personal model and of its model alone, both as refine makes them, on {FUTURE:,} loans "
        "of its own law "
        "that nobody has seen. Only a demo can look at those; held out, 90 %: what the owner's own held-out rows "
        "tell.",
        style="dim",
        soft_wrap=True,
    )

    _heading("4. And three large banks?", f"parley forecast {folder / BANKS}")
    for_banks = _foresee(folder / BANKS)
    with progress_bar("the same for three banks") as progress:
        (large,) = learn([for_banks], banks, seed, progress=progress)
    console.print(joined.large_owners_sentence(large), style="bold", soft_wrap=True)

    picture, report = folder / "unions.png", folder / "report.html"
    figure = joined_owners(
        [(ONE_NOISE, one), (OWN_NOISE, own)],
        f"{count} credit unions and a large bank: who gains by learning together?",
        large,
    )
    save(figure, picture)
    write_file(report, joined_page(one, own, large, joined.bargain(free, paid, BANK), figure))
    console.print(f"\nThe picture: [bold]{picture}[/bold]  The report: [bold]{report}[/bold]", soft_wrap=True)
    inside = f"parley forecast {folder / ONE} --inside {folder / HOSTS[0]}.csv --owner {HOSTS[0]}"
    errors_console.print(
        f"Next: an owner's own view, {inside}; with files of your own: parley init", style="dim", soft_wrap=True
    )


def _heading(title: str, *commands: str) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    for command in commands:
        console.print(f"$ {command}", style="dim", soft_wrap=True)
    console.print()


def _foresee(file: Path) -> "Forecast":
    from parley.demo.story import foresee

    with progress_bar("forecasting") as progress:
        return foresee(file, progress)
