"""`parley train`: train the joint model of a terms file on one machine."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from parley.accounting.budget import exact
from parley.cli.screen import console, print_json, progress_bar
from parley.durable import require_folder
from parley.errors import LedgerError, SettingError, TermsError
from parley.learning.algorithms import make_algorithm
from parley.learning.train import train
from parley.ledger import Ledger
from parley.outcome import Result
from parley.outcome.scores import Scores
from parley.owner import Owner, reservation
from parley.report import figures
from parley.report.tables import number, percent, terminal_table
from parley.terms import OwnerTerms, Terms, load_terms

SIMULATION = (
    "Simulation, not a release: the noise is seeded and fast, not safe against floating-point attacks, and the quality figures "
    "were computed from the private tables. Terms that were tuned by looking at them carry what was seen."
)
RELEASE = "Release: the noise is safe, every answer was debited in the owners' ledgers, and nothing else left their tables."


def train_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file (TOML). Each owner in it needs its `data`.")],
    replicates: Annotated[int, typer.Option(help="Parallel runs of a simulation: quartiles instead of one draw of the noise.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Makes a simulation repeatable.")] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Release instead of simulating: safe noise, debited in DIR/OWNER.ledger. Run again after a crash, it goes on where "
            "it stopped; a finished run repeats its stored answers for free.",
        ),
    ] = None,
    lifetime: Annotated[
        float | None,
        typer.Option(
            metavar="EPS",
            help="With --ledgers: make the ledgers that are missing, with this lifetime budget. It is for ever, and a table has one "
            "ledger: making a second one for the same table spends outside the books.",
        ),
    ] = None,
    lifetime_delta: Annotated[float, typer.Option(metavar="DELTA", help="With --lifetime: the delta of that budget.")] = 0.0,
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
    for file in (save, plot):
        require_folder(file)
    if plot is not None:
        figures.require_figure_name(plot)
    if ledgers is None:
        owners = open_owners(terms)
    else:
        if plot is not None or replicates != 1 or seed is not None:
            raise SettingError("--plot, --replicates and --seed belong to simulations; leave them out, or leave out --ledgers")
        owners = accepting_owners(terms, ledgers, lifetime, lifetime_delta)
    with progress_bar("training") as progress:
        result = train(terms, owners, replicates=replicates, seed=seed, progress=progress)
    if save is not None:
        result.model.save(save)
    if plot is not None:
        if result.path is None:
            raise SettingError("--plot: the best cost is zero, so there is no relative fitness to draw")
        figures.save(figures.fitness_path(result.path), plot)
    if as_json:
        print_json(result.to_json())
    else:
        show(result)


def open_owners(terms: Terms) -> list[Owner]:
    """The owners of a terms file with their tables, for a simulation."""
    return [Owner(part.name, owner_table(part)) for part in terms.owners]


def accepting_owners(terms: Terms, folder: Path, lifetime: float | None, lifetime_delta: float) -> list[Owner]:
    """The owners with their durable ledgers, the terms accepted by all - or by none, if anything is wrong with one of them."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [owner_table(part) for part in terms.owners]
    trial = [Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    agreements = [owner.prepare(terms) for owner in trial]
    make_algorithm(agreements[0].setup)
    owners = []
    for part, table in zip(terms.owners, tables, strict=True):
        path = folder / f"{part.name}.ledger"
        if lifetime is None and not path.exists():
            raise LedgerError(f"{path}: no such ledger; --lifetime EPS makes it, with that budget for the table's whole life")
        promised = reservation(terms, part.name)
        if not path.exists() and (promised.epsilon > exact(lifetime or 0.0) or promised.delta > Fraction(str(lifetime_delta))):
            raise LedgerError(
                f"{path}: these terms need a lifetime budget of at least ε = {float(promised.epsilon):g} and δ = "
                f"{float(promised.delta):g}: --lifetime, --lifetime-delta. No ledger was made: its budget is for ever"
            )
        ledger = Ledger(path, lifetime, lifetime_delta)
        owners.append(Owner(part.name, table, ledger=ledger))
        ledger.require_room(promised)
    for owner in owners:
        owner.accept(terms)
    return owners


def owner_table(part: OwnerTerms) -> str:
    """Where an owner's table lies."""
    if part.data is None:
        raise TermsError(f"owners.{part.name}.data: missing; training on one machine needs every owner's table")
    return part.data


def show(result: Result) -> None:
    """The result as tables."""
    console.print(RELEASE if result.released else SIMULATION, style="italic")
    console.print()
    console.print(terminal_table(owner_rows(result), result.terms.title or "Owners"))
    console.print()
    if result.quality is not None:
        console.print(terminal_table(quality_rows(result)))
        console.print()
    show_scores(result)
    console.print(guarantee(result), style="dim")
    console.print(f"terms {result.terms_hash[:16]}…   {result.replicates} run(s), {result.seconds:.1f} s", style="dim")


def owner_rows(result: Result) -> list[list[str]]:
    """Who promised and spent what."""
    rows = [["owner", "records", "ε promised", "ε spent", "records clipped"]]
    for o in result.owners:
        rows.append(
            [
                o.name,
                f"{o.records:,}",
                number(o.epsilon, side="above"),
                number(o.epsilon_spent, side="above"),
                percent(o.clipped_share),
            ]
        )
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


def show_scores(result: Result) -> None:
    """What the owners released about the model's quality, if anything."""
    if result.scores is not None:
        title = "Released scores, ± noise" if result.released else "Simulated scores, ± noise"
        console.print(terminal_table(score_rows(result.scores), title))
        console.print()


def score_rows(scores: Scores) -> list[list[str]]:
    """Every owner's figures and everybody's, each with one standard error."""
    names = list(scores.pooled.figures)
    rows = [["owner", "held-out rows", *(name.replace("_", " ") for name in names)]]
    for score in (*scores.owners, scores.pooled):
        figures = [score.figures[name] for name in names]
        shown = ["–" if f is None else f"{number(f.value, 3)} ± {number(f.standard_error, 2)}" for f in figures]
        rows.append([score.name, f"{score.rows:,}", *shown])
    return rows


def guarantee(result: Result) -> str:
    """What was promised, in words."""
    privacy = result.terms.privacy
    people = "one person (one record)" if privacy.person is None else f"one person (at most {privacy.records_per_person} record(s))"
    subject = "Guarantee: each owner's answers together are" if result.released else "A release by these terms is"
    if result.by_word:
        subject = "What the terms promise, and each owner's own software keeps: each owner's answers together are"
    text = (
        f"{subject} ε-differentially private with the owner's ε and δ = {privacy.delta:g}; two tables are neighbours if they "
        f"differ in {people}, {result.adjacency}."
    )
    if privacy.shared_records > 1:
        epsilon = number(result.shared_record_epsilon, side="above")
        text += f" A record that {privacy.shared_records} owners hold is covered by ε = {epsilon} over all of them."
    return text
