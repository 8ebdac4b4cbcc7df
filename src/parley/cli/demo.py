"""`parley demo`: the main job on embedded data - three synthetic banks with different customers, one model of interest rates."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.demo_negotiation import show_negotiation
from parley.cli.screen import console, errors_console, progress_bar, terminal_table
from parley.demo import SEED, look_around, write_banks
from parley.forecasting import forecast
from parley.learning.owners import open_owners
from parley.learning.train import train
from parley.outcome.guarantee import SIMULATION, guarantee
from parley.report.market import comparison_rows, forecast_rows, market_page, opening, verdict_rows
from parley.report.training import owner_rows
from parley.terms import load_terms


def demo(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where tables, terms and report go.")] = Path("parley-demo"),
    replicates: Annotated[int, typer.Option(help="Runs of the simulation at each budget.")] = 40,
) -> None:
    """Three synthetic banks: forecast the joint model, train it, train each alone, see what privacy costs, get a report.

    Writes DIR/report.html, and DIR/terms.toml with its tables to play with:  parley train parley-demo/terms.toml
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_banks(folder)
    terms = load_terms(folder / "terms.toml")
    owners = open_owners(terms)
    console.print("[bold]Three synthetic banks want one model of interest rates for the whole market.[/bold]")
    console.print("Their customers differ, so each bank's own model misjudges the others' customers.")
    console.print(SIMULATION, style="italic")
    console.print()
    with progress_bar("forecasting") as progress:
        expected = forecast(terms, seed=SEED, progress=progress)
    console.print("[bold]Before any data moves[/bold]")
    console.print(opening(expected))
    console.print()
    with progress_bar("training together") as progress:
        result = train(terms, owners, replicates=replicates, seed=SEED, progress=progress)
    with progress_bar("what privacy costs") as progress:
        market = look_around(terms, owners, expected, result, progress)
    for rows, title in (
        (owner_rows(result), terms.title),
        (comparison_rows(market), "On held-out customers of all three banks"),
        (verdict_rows(market), "On each bank's own held-out customers (R²)"),
        (forecast_rows(market), "Forecast and outcome"),
    ):
        console.print(terminal_table(rows, title))
        console.print()
    console.print(guarantee(result), style="dim")
    report = folder / "report.html"
    report.write_text(market_page(market), encoding="utf-8")
    console.print(f"\nThe report: [bold]{report}[/bold]", soft_wrap=True)
    console.print()
    show_negotiation(terms)
    errors_console.print(
        f"Next: parley forecast {folder / 'terms.toml'}; with files of your own: parley init", style="dim", soft_wrap=True
    )
