"""`parley train`: train the joint model of a terms file on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, errors_console, print_json, progress_bar
from parley.errors import SettingError, TermsError
from parley.learning import Result
from parley.learning.train import train
from parley.ledger import Ledger
from parley.owner import Owner
from parley.report import figures
from parley.report.tables import number, percent, terminal_table
from parley.terms import Terms, load_terms

SIMULATION = (
    "Simulation, not a release: the noise is seeded and fast, not safe against floating-point attacks, and the quality figures "
    "were computed from the private tables."
)
RELEASE = (
    "Release: the noise is safe, every answer was debited in the owners' ledgers, and no quality figure was computed from their "
    "tables."
)


def train_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file (TOML). Each owner in it needs its `data`.")],
    replicates: Annotated[int, typer.Option(help="Parallel runs of a simulation: quartiles instead of one draw of the noise.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Makes a simulation repeatable.")] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Release instead of simulating: safe noise, debited in DIR/OWNER.ledger. A missing ledger is made, with the "
            "owner's epsilon as the table's lifetime budget. Run again after a crash, it goes on where it stopped.",
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw relative fitness against rounds (.png, .svg, .pdf).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Train one joint model by the terms, on this machine.

    Without --ledgers this is a simulation: it shows what training by these terms would give, with relative fitness (how far the
    model is from the one without privacy) and the task's own metrics on held-out rows.

    Example:  parley train parley-demo/terms.toml --replicates 100 --seed 1 --plot fitness.png
    """
    terms = load_terms(terms_file)
    if plot is not None:
        figures.require_figure_name(plot)
        if ledgers is not None:
            raise SettingError(
                "--plot: a release computes no relative fitness to draw; leave it out, or simulate without --ledgers"
            )
    owners = open_owners(terms, ledgers)
    with progress_bar("training") as progress:
        result = train(terms, owners, replicates=replicates, seed=seed, progress=progress)
    if save is not None:
        result.model.save(save)
    if plot is not None and result.path is not None:
        figures.save(figures.fitness_path(result.path), plot)
    if as_json:
        print_json(result.to_json())
    else:
        show(result)


def open_owners(terms: Terms, ledgers: Path | None) -> list[Owner]:
    """The owners of a terms file with their tables, and durable ledgers if wanted."""
    owners = []
    for part in terms.owners:
        if part.data is None:
            raise TermsError(f"owners.{part.name}.data: missing; training on one machine needs every owner's table")
        if ledgers is None:
            owners.append(Owner(part.name, part.data))
            continue
        ledgers.mkdir(parents=True, exist_ok=True)
        path = ledgers / f"{part.name}.ledger"
        if not path.exists():
            errors_console.print(f"New ledger {path}: lifetime budget {part.epsilon:g}", style="dim")
        owner = Owner(part.name, part.data, ledger=Ledger(path, None if path.exists() else part.epsilon))
        owner.accept(terms)
        owners.append(owner)
    return owners


def show(result: Result) -> None:
    """The result as tables."""
    terms = result.terms
    console.print(RELEASE if result.released else SIMULATION, style="italic")
    console.print()
    console.print(terminal_table(owner_rows(result), terms.title or "Owners"))
    console.print()
    if result.relative_fitness is not None:
        console.print(terminal_table(quality_rows(result)))
        console.print()
    console.print(guarantee(result), style="dim")
    console.print(f"terms {result.terms_hash[:16]}…   {result.replicates} run(s), {result.seconds:.1f} s", style="dim")


def owner_rows(result: Result) -> list[list[str]]:
    """Who promised and spent what."""
    rows = [["owner", "records", "ε promised", "ε spent", "records clipped"]]
    for o in result.owners:
        rows.append([o.name, f"{o.records:,}", number(o.epsilon), number(o.epsilon_spent), percent(o.clipped_share)])
    return rows


def quality_rows(result: Result) -> list[list[str]]:
    """How good the model is, beside the one without privacy."""
    rows = [["quality", "private", "without privacy"]]
    fitness = result.relative_fitness
    if fitness is not None:
        rows.append(["relative fitness ψ", number(fitness["mean"]), "0"])
        if result.replicates > 1:
            rows.append(["  middle half of the runs", f"{number(fitness['q25'])} to {number(fitness['q75'])}", ""])
    rows.append(["training cost", number(result.cost), number(result.optimal_cost)])
    for name, value in result.metrics.items():
        if value is not None:
            rows.append([f"held-out {name.replace('_', ' ')}", number(value), number(result.optimal_metrics[name])])
    return rows


def guarantee(result: Result) -> str:
    """What was promised, in words."""
    privacy = result.terms.privacy
    people = "one person (one record)" if privacy.person is None else f"one person (at most {privacy.records_per_person} record(s))"
    text = (
        f"Guarantee: each owner's answers together are ε-differentially private with δ = 0; two tables are neighbours if they "
        f"differ in {people}, {result.adjacency}."
    )
    if privacy.shared_records > 1:
        epsilon = number(result.shared_record_epsilon)
        text += f" A record that {privacy.shared_records} owners hold is covered by ε = {epsilon} over all of them."
    return text
