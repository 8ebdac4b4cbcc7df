"""`parley forecast`: what training by a terms file would give, before any data moves."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, print_json, progress_bar
from parley.cli.terms_file import write_terms
from parley.durable import require_folder
from parley.errors import SettingError
from parley.forecasting import Forecast, Proposal, ReleasedMoments, Source, Stated, compare_noise, forecast
from parley.forecasting import plan as make_plan
from parley.report import figures
from parley.report import noise as kinds
from parley.report.tables import number, terminal_table
from parley.terms import load_terms

METHODS = {
    "curvature-moments": "moments of the algorithm by curvature alone, which a clip, a box or a corner may upset",
    "exact-moments": "exact moments of the algorithm on the pilot's landscape",
    "pilot-run": "the algorithm itself, run on the pilot with the owners' noise",
}


def forecast_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file. Its owners need no `data`.")],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    moments: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Instead of a sample: second moments that owners released, as `parley train --json` printed them under terms with "
            'algorithm = "sufficient-statistics".',
        ),
    ] = None,
    assume: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help="Instead of a sample: stated assumptions, with the keys curvature (the Hessian's eigenvalues), least_cost, and "
            "distance (from the start to the optimum).",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Choose horizon, step, clip and mechanism for the same budgets.")] = False,
    delta: Annotated[
        float | None, typer.Option(metavar="DELTA", help="With --plan: consider Gaussian noise at this delta too.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="With --plan: write terms with the best choice, ready for parley train.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the pilot's resampling and runs.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw expected relative fitness against rounds.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Forecast the joint model from public knowledge: the terms and a pilot sample. No private record is looked at.

    Relative fitness 0.05 means: the training cost will be about 5% above that of the model without privacy.

    Example:  parley forecast parley-demo/terms.toml --plan --write better.toml
    """
    terms = load_terms(terms_file)
    for file in (plot, write):
        require_folder(file)
    if plot is not None:
        figures.require_figure_name(plot)
    if (delta is not None or write is not None) and not plan:
        raise SettingError("--delta, --write: expected --plan beside them")
    known = source(pilot, moments, assume)
    with progress_bar("resampling the pilot") as progress:
        result = forecast(terms, known, seed, progress=progress)
    noise = compare_noise(result, known, seed).to_json()
    proposal = None
    if plan:
        with progress_bar("planning") as progress:
            proposal = make_plan(terms, known, delta, seed, progress=progress)
        if write is not None:
            write_terms(proposal.terms, write)
    if plot is not None:
        figures.save(figures.fitness_path(result.path[:, None], "Expected distance from the model without privacy"), plot)
    if as_json:
        print_json(result.to_json() | {"noise": noise, "plan": None if proposal is None else proposal.to_json()})
        return
    show(result)
    console.print()
    console.print(terminal_table(kinds.kind_rows(noise), kinds.TITLE))
    console.print(f"\n{kinds.decision(noise, terms.shared)}", markup=False)
    if proposal is not None:
        show_plan(proposal)
        for sentence in kinds.plan_beside(proposal.to_json()):
            console.print(sentence)


def source(pilot: Path | None, moments: Path | None, assume: Path | None) -> str | Source | None:
    """What the options say is known."""
    if sum(option is not None for option in (pilot, moments, assume)) > 1:
        raise SettingError("--pilot, --moments, --assume: expected at most one of them")
    if moments is not None:
        return ReleasedMoments.load(moments)
    if assume is not None:
        return Stated.load(assume)
    return None if pilot is None else str(pilot)


def show_plan(proposal: Proposal) -> None:
    """What the planner tried, and the lines to put into the terms."""
    best, written = proposal.best, proposal.choices[0]
    rows = [["choice", "rounds", "step", "clip", "ψ", "against as written"]]
    for choice in proposal.choices:
        against = written.relative_fitness / choice.relative_fitness if choice.relative_fitness > 0 else float("inf")
        name = f"[bold]{choice.label}[/bold]" if choice is best else choice.label
        settings = [number(choice.step), number(choice.clip), number(choice.relative_fitness)]
        rows.append(
            [name, str(choice.horizon), *settings, f"{against:.3g} x better" if against >= 1 else f"{1 / against:.3g} x worse"]
        )
    console.print()
    console.print(terminal_table(rows, "The same budgets, spent otherwise"))
    if not best.relative_fitness < 0.95 * proposal.nobody:
        console.print(
            "\nAt these budgets no choice is better than the model that asks nobody; ask for more records or larger budgets."
        )
        return
    if best is written:
        console.print("\nThe terms are as good as any of these.")
        return
    lines = ["\\[learning]", f'algorithm = "{best.algorithm}"', f"horizon = {best.horizon}"]
    lines += [] if best.step is None else [f"step = {best.step:g}"]
    lines += [] if best.local_steps is None else [f"local_steps = {best.local_steps}"]
    lines += ["\\[privacy]", f'mechanism = "{best.mechanism}"']
    lines += [] if best.clip is None else [f"clip = {best.clip:g}"]
    lines += [f"delta = {best.delta:g}"] if best.delta > 0 else []
    lines += ['noise = "shared"'] if proposal.terms.shared else []
    console.print("\nFor the terms file:\n  " + "\n  ".join(lines))


def show(result: Forecast) -> None:
    """The forecast as tables."""
    fitness, excess = result.relative_fitness, result.excess_cost
    console.print(
        f"[bold]Expected relative fitness ψ = {number(fitness.mean)}[/bold]  ({result.coverage}: {number(fitness.low)} to "
        f"{number(fitness.high)}, for what the pilot leaves open)"
    )
    if result.run_quartiles is not None:
        low, _, high = result.run_quartiles
        console.print(f"half of all runs end between {number(low)} and {number(high)}", style="dim")
    console.print(f"excess training cost {number(excess.mean)}; by {METHODS[result.method]}", style="dim")
    expected = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in result.metrics.items() if value is not None)
    if expected:
        console.print(f"on the pilot's rows: {expected}", style="dim")
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
        console.print(f"\nBetter without {', '.join(left_out)}: the noise of so small a budget adds more than the records bring.")
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow")
    console.print(
        "Owners that differ should judge the trained model on their own rows (parley score) before believing this.", style="dim"
    )
