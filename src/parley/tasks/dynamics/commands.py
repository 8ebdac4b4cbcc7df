"""`parley identify`: estimate a plant and the delay of its inputs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.durable import write_file
from parley.errors import DataError, SettingError
from parley.numerals import number
from parley.report import run_options as asking
from parley.report.run_options import RunOptions
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.terminal import progress_bar, show, warn
from parley.tasks.dynamics.terms import PlantModel
from parley.terms import Terms, load_terms
from parley.validate import Floats

if TYPE_CHECKING:
    import pandas as pd


def identify_command(
    source: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Samples in order of time (.csv, .parquet), or terms (.toml).")
    ],
    inputs: Annotated[str | None, typer.Option(help="The columns that drive the plant, separated by commas.")] = None,
    states: Annotated[str | None, typer.Option(help="The columns of the plant's state, separated by commas.")] = None,
    period: Annotated[float | None, typer.Option(help="Time between two samples.")] = None,
    max_delay: Annotated[int | None, typer.Option(help="The longest delay to consider, in whole periods.")] = None,
    trajectory: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of a row's recording. Default: one recording.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Find a delay for each input.")] = False,
    rank: Annotated[int | None, typer.Option(help="Number of the state's modes to keep. Default: all.")] = None,
    method: Annotated[
        str,
        typer.Option(help="instruments: unbiased under measurement noise; least-squares: plain regression."),
    ] = "instruments",
    ledgers: asking.Ledgers = None,
    lifetime: asking.Lifetime = None,
    lifetime_delta: asking.LifetimeDelta = None,
    other_books: asking.OtherBooks = None,
    owners: asking.Addresses = None,
    resume: asking.Resume = False,
    deadline: asking.Deadline = 60.0,
    seed: asking.Seed = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="With terms: write the release as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the measurements, the plant and the delay.")
    ] = None,
    as_json: asking.AsJson = False,
) -> None:
    """Estimate the matrices and the delay of the system x' = A x + B u(t - r) from samples of states and inputs.

    A row holds the state at a moment and the inputs that are held from that moment on. The delay need not be a whole
    number of periods; its standard error comes from the residuals. With terms (.toml) several owners identify one
    plant: each answers once with the second moments of its trajectories, noisy and debited, and the standard error
    counts that noise, too.

    Example:  parley identify drive.csv --inputs u1,u2 --states x1,x2 --period 2 --max-delay 3 --plot drive.png
    """
    import numpy as np

    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
    from parley.tasks.dynamics import DelayedDMD

    if source.suffix.lower() == ".toml":
        if each or any(given is not None for given in (inputs, states, period, max_delay, trajectory, rank, plot)):
            raise SettingError("--inputs, --states, --plot and similar options apply only to a table; remove them")
        terms, kept = load_terms(source), source.with_suffix(".checkpoint")
        if terms.task != "dynamics":
            raise SettingError(
                f"{source}: expected terms for a plant, kind = 'delayed-dynamics'; use parley train for other terms"
            )
        options = RunOptions(ledgers, lifetime, lifetime_delta, owners, resume, deadline, seed, other_books=other_books)
        show(_together(terms, replace(options, checkpoint=kept, save=save)), as_json)
        return
    if any(given is not None for given in (ledgers, owners, save, seed)):
        raise SettingError("--ledgers, --owners, --seed and --save need a terms file (.toml), not a table")
    if inputs is None or states is None or period is None or max_delay is None:
        raise SettingError("--inputs, --states, --period and --max-delay are all required with a table")
    if plot is not None:
        from parley.report.figures import picture
        from parley.tasks.dynamics import figures as plant_figures  # a library that is slow to load

        picture.require_figure_name(plot)
    driven, moved = _listed(inputs, "--inputs"), _listed(states, "--states")
    x, u = _recordings(source, moved, driven, trajectory)
    with progress_bar("delays"):
        model = DelayedDMD(max_delay, rank, "each" if each else "common", method).fit(x, u, period)
    if plot is not None:
        picture.save(plant_figures.identified(model, x[0], u[0], moved), plot)
    low, high = model.delay_interval()
    content = {
        "A": model.A_.tolist(),
        "B": model.B_.tolist(),
        "Ad": model.Ad_.tolist(),
        "input_blocks": model.input_blocks_.tolist(),
        "delay": np.asarray(model.delay_).tolist(),
        "delay_std": np.asarray(model.delay_std_).tolist(),
        "delay_interval": {"level": 0.9, "low": np.asarray(low).tolist(), "high": np.asarray(high).tolist()},
        "period": period,
        "samples": sum(map(len, x)),
    }
    side = [f"mode {i + 1}" for i in range(rank)] if rank is not None else moved
    delays, errors = np.atleast_1d(model.delay_), np.atleast_1d(model.delay_std_)
    named = driven if each else [""]
    shown = _plant_parts(model.A_, model.B_, side, driven, delays, errors, period, max_delay * period, named)
    show(Sheet(content, [*shown, Line(KEEP_INSIDE_NOTE, "dim", folded=True)], inside=True), as_json)


def _plant_parts(
    A: Floats,
    B: Floats,
    side: list[str],
    driven: list[str],
    delays: Floats,
    errors: Floats,
    period: float,
    longest_delay: float,
    names: list[str],
) -> list[Part]:
    from parley.tasks.dynamics.report import delay_sentence, matrix_rows

    parts: list[Part] = [
        Grid(matrix_rows("A", side, side, A)),
        BLANK_LINE,
        Grid(matrix_rows("B", driven, side, B)),
        BLANK_LINE,
    ]
    for name, delay, error in zip(names, delays, errors, strict=True):
        parts.append(Line(delay_sentence(delay, error, period, longest_delay, name), "bold"))
        if error > period / 2:
            hardly = "The samples hardly determine this delay: record more samples, or drive the plant harder."
            parts.append(Line(hardly, "yellow", folded=True))
    return parts


def _together(terms: Terms, options: RunOptions) -> Sheet:
    from parley.learning.deployed import prepare_run
    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
    from parley.tasks.dynamics.report import owner_rows, plant_json
    from parley.tasks.dynamics.run import identify_together, plant_result

    asking.require_one_way(options)
    if options.addresses is not None:
        answers = asking.ask_owners_elsewhere(lambda: prepare_run(terms, options.checkpoint), terms, options)
        result, unheard = plant_result(answers), list(answers.missing_owners)
    else:
        parties = asking.owners_here(terms, options)
        with progress_bar("asking") as progress:
            result, unheard = identify_together(terms, parties, seed=options.seed, progress=progress), []
    if options.save is not None:
        write_file(options.save, json.dumps(result.releases[0].to_json(), indent=1, allow_nan=False) + "\n")
    try:
        identified = result.identified()
    except DataError as error:
        raise DataError(
            f"the noise is too large to identify the plant ({error}). Parley keeps the release; next time, use more "
            "trajectories or a larger budget"
        ) from None
    kind = "Released, debited." if result.released else f"A simulation: nothing was released. {KEEP_INSIDE_NOTE}"
    model, plant = PlantModel.expect(terms.model), identified.plant
    errors, longest_delay = identified.delay_std, model.max_delay * plant.period
    side, driven = list(model.states), list(model.inputs)
    drowned = "Noise hid a direction of the measurements: the true error may be far larger than the stated error."
    shown = [
        Line(kind, "italic", folded=True),
        Grid(owner_rows(result), terms.title or "Owners"),
        BLANK_LINE,
        *_plant_parts(plant.A, plant.B, side, driven, plant.delays[:1], errors, plant.period, longest_delay, [""]),
        *lines([drowned if result.releases[0].repaired else None], "yellow", folded=True),
        *asking.unheard_lines(unheard),
    ]
    content = plant_json(identified, terms) | result.to_json() | {"unheard": unheard}
    return Sheet(content, shown, inside=not result.released)


def _listed(text: str, option: str) -> list[str]:
    listed = [name.strip() for name in text.split(",")]
    if not all(listed) or len(set(listed)) < len(listed):
        raise SettingError(f"{option} {text!r}: expected column names separated by commas, each only once")
    return listed


def _say_seams(others: "pd.DataFrame") -> None:
    """Warn of a column that seems to separate recordings: a jump between them is no motion of the plant."""
    for column in others.columns:
        cells = others[column].astype(str).to_numpy()
        stretches = 1 + int((cells[1:] != cells[:-1]).sum()) if len(cells) else 0
        if 2 <= stretches <= len(cells) / 4 and stretches == len(set(cells)):
            message = (
                f"The column {column!r} seems to identify {stretches} recordings, but all rows are used as one "
                "recording"
            )
            warn(f"{message}: --trajectory {column}")


def _recordings(
    table: Path, states: list[str], inputs: list[str], trajectory: str | None
) -> tuple[list[Floats], list[Floats]]:
    """Return states and inputs of every recording, in the order in which recordings begin."""
    import numpy as np

    from parley.data.sources import read_table
    from parley.data.table import groups, numbers, require_columns

    frame = read_table(table)
    require_columns(frame, [*states, *inputs, *([] if trajectory is None else [trajectory])], str(table))
    if trajectory is None:
        _say_seams(frame.drop(columns=[*states, *inputs]))
    x = np.column_stack([numbers(frame, column, str(table)) for column in states])
    u = np.column_stack([numbers(frame, column, str(table)) for column in inputs])
    which = (
        np.zeros(len(frame), dtype=np.intp)
        if trajectory is None
        else groups(frame, trajectory, str(table), "its recording")
    )
    pieces = [np.flatnonzero(which == recording) for recording in range(which.max(initial=0) + 1)]
    return [x[rows] for rows in pieces], [u[rows] for rows in pieces]


def run_dynamics(terms: Terms, options: RunOptions) -> Sheet:
    """Run `parley train` and `parley learner run` under terms of a plant."""
    if options.replicates != 1:
        raise SettingError(
            "--replicates: not allowed for a plant; in Python, use parley.train(terms, owners, replicates=...)"
        )
    if options.save_own is not None:
        raise SettingError("--save-own: not allowed for a plant, because the released plant is the only result")
    return _together(terms, options)


def forecast_dynamics(terms: Terms, pilot: Path | None) -> Sheet:
    """Forecast the standard error of the delay."""
    from parley.tasks.dynamics.report import forecast_plant, plant_rows

    found = forecast_plant(terms, None if pilot is None else str(pilot))
    period = number(PlantModel.expect(terms.model).period)
    title = f"Standard error of the delay, in units of time (a period is {period})"
    return Sheet(found.to_json(), [Grid(plant_rows(found), title), Line(f"\n{found.sentence()}", "bold")], inside=False)
