"""`parley forecast`: what training by a terms file would give, before any data moves."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, print_json, progress_bar, require_folder
from parley.errors import SettingError
from parley.forecasting import Forecast, forecast
from parley.report import figures
from parley.report.tables import number, terminal_table
from parley.terms import load_terms

METHODS = {
    "exact-moments": "exact moments of the algorithm on the pilot's landscape",
    "pilot-run": "the algorithm itself, run on the pilot with the owners' noise",
}


def forecast_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file. Its owners need no `data`.")],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the pilot's resampling and runs.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw expected relative fitness against rounds.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Forecast the joint model from public knowledge: the terms and a pilot sample. No private record is looked at.

    Relative fitness 0.05 means: the training cost will be about 5% above that of the model without privacy.

    Example:  parley forecast parley-demo/terms.toml
    """
    terms = load_terms(terms_file)
    require_folder(plot)
    if plot is not None:
        figures.require_figure_name(plot)
    with progress_bar("resampling the pilot") as progress:
        result = forecast(terms, None if pilot is None else str(pilot), seed, progress=progress)
    if plot is not None:
        if result.path is None:
            raise SettingError("--plot: this forecast is a pilot run, which has no path of moments; use --json")
        figures.save(figures.fitness_path(result.path[:, None], "Expected distance from the model without privacy"), plot)
    if as_json:
        print_json(result.to_json())
    else:
        show(result)


def show(result: Forecast) -> None:
    """The forecast as tables."""
    fitness, excess = result.relative_fitness, result.excess_cost
    console.print(
        f"[bold]Expected relative fitness ψ = {number(fitness.mean)}[/bold]  (90%: {number(fitness.low)} to {number(fitness.high)})"
    )
    console.print(f"excess training cost {number(excess.mean)}; by {METHODS[result.method]}", style="dim")
    console.print()
    rows = [["owner", "test cost alone", "together", "gain", "worth it from ε", "worth to the others"]]
    for owner in result.owners:
        even = owner.break_even_epsilon
        needed = "never" if even is None else "always" if even == 0 else number(even)
        costs = [number(v, 5) for v in (owner.alone, owner.together)]
        rows.append([owner.name, *costs, number(owner.gain, 3), needed, number(owner.marginal_value, 3)])
    console.print(terminal_table(rows, "Together or alone, if all owners' data follow one law"))
    left_out = [owner.name for owner in result.owners if owner.name not in result.best_coalition]
    if left_out:
        console.print(f"\nLeast noise without {', '.join(left_out)}: too few records for so small a budget.")
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow")
    console.print(
        "Owners that differ should judge the trained model on their own rows (parley score) before believing this.", style="dim"
    )
