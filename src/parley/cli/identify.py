"""`parley identify`: which plant is it, and how late do its inputs arrive?"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from parley.cli.screen import console, print_json, progress_bar, terminal_table
from parley.data.table import numbers, read_table, require_columns
from parley.durable import require_folder
from parley.errors import SettingError
from parley.numerals import number
from parley.report import figures, plant_figures
from parley.sysid import DelayedDMD
from parley.validate import Floats


def identify_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Samples in the order of time (.csv or .parquet).")],
    inputs: Annotated[str, typer.Option(help="The columns that drive the plant, with commas between them.")],
    states: Annotated[str, typer.Option(help="The columns that are its state, with commas between them.")],
    period: Annotated[float, typer.Option(help="Time between two samples.")],
    max_delay: Annotated[int, typer.Option(help="The longest delay looked for, in whole periods.")],
    trajectory: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which recording a row belongs to; left out: all are one.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Every input has a delay of its own.")] = False,
    rank: Annotated[int | None, typer.Option(help="Keep this many modes of the state; left out: all of it.")] = None,
    method: Annotated[
        str, typer.Option(help="instruments: unbiased by noise in the measurements; least-squares: the plain regression.")
    ] = "instruments",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw what was measured, what the plant does, and the delay.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the matrices and the delay of x' = A x + B u(t - r) from samples of its states and inputs.

    A row holds the state at a moment and the inputs that are held from that moment on. The delay need not be a whole number of periods;
    its standard error comes from the residuals.

    Example:  parley identify drive.csv --inputs u1,u2 --states x1,x2 --period 2 --max-delay 3 --plot drive.png
    """
    require_folder(plot)
    if plot is not None:
        figures.require_figure_name(plot)
    x, u = _recordings(table, _listed(states, "--states"), _listed(inputs, "--inputs"), trajectory)
    with progress_bar("delays"):
        found = DelayedDMD(max_delay, rank, "each" if each else "common", method).fit(x, u, period)
    low, high = found.delay_interval()
    if plot is not None:
        figures.save(plant_figures.identified(found, x[0], u[0], _listed(states, "--states")), plot)
    if as_json:
        print_json(
            {
                "A": found.A_.tolist(),
                "B": found.B_.tolist(),
                "Ad": found.Ad_.tolist(),
                "input_blocks": found.input_blocks_.tolist(),
                "delay": np.asarray(found.delay_).tolist(),
                "delay_std": np.asarray(found.delay_std_).tolist(),
                "delay_interval": {"level": 0.9, "low": np.asarray(low).tolist(), "high": np.asarray(high).tolist()},
                "period": period,
                "samples": sum(map(len, x)),
            }
        )
        return
    head = [f"mode {i + 1}" for i in range(rank)] if rank is not None else _listed(states, "--states")
    console.print(terminal_table([["A", *head], *([name, *map(number, row)] for name, row in zip(head, found.A_, strict=True))]))
    console.print()
    driven = _listed(inputs, "--inputs")
    console.print(terminal_table([["B", *driven], *([name, *map(number, row)] for name, row in zip(head, found.B_, strict=True))]))
    console.print()
    delays, errors = np.atleast_1d(found.delay_), np.atleast_1d(found.delay_std_)
    for name, delay, error, a, b in zip(
        driven if each else [""], delays, errors, np.atleast_1d(low), np.atleast_1d(high), strict=True
    ):
        whose = f"delay of {name}" if each else "delay"
        console.print(
            f"[bold]{whose} {number(delay, 6)}[/bold] = {number(delay / period, 5)} periods; with 90 % confidence between "
            f"{number(a, 6)} and {number(b, 6)} (standard error {number(error, 2)})",
            soft_wrap=True,
        )
        if error > period / 2:
            console.print(
                "The samples hardly determine this delay: record more of them, or drive the plant harder.", style="yellow"
            )


def _listed(text: str, option: str) -> list[str]:
    listed = [name.strip() for name in text.split(",")]
    if not all(listed) or len(set(listed)) < len(listed):
        raise SettingError(f"{option} {text!r}: expected names of different columns with commas between them")
    return listed


def _recordings(table: Path, states: list[str], inputs: list[str], trajectory: str | None) -> tuple[list[Floats], list[Floats]]:
    """States and inputs of every recording, in the order in which recordings begin."""
    frame = read_table(table)
    require_columns(frame, [*states, *inputs, *([] if trajectory is None else [trajectory])], str(table))
    x = np.column_stack([numbers(frame, column, str(table)) for column in states])
    u = np.column_stack([numbers(frame, column, str(table)) for column in inputs])
    which = np.zeros(len(frame), dtype=np.intp) if trajectory is None else pd.factorize(frame[trajectory].astype(str))[0]
    groups = [np.flatnonzero(which == recording) for recording in range(which.max(initial=0) + 1)]
    return [x[rows] for rows in groups], [u[rows] for rows in groups]
