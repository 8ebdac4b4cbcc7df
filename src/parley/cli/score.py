"""`parley score`: an owner judges the joint model on its own held-out rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import Terminal, show


def score_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model, as `parley train --save` wrote it.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained by.")],
    owner: Annotated[str | None, typer.Option(help="Which owner judges.")] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="All owners, each by its own `data` on this machine.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Its table; left out: `data` in the terms.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about it (.html), for the owner's own eyes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Is the joint model better for us? Compares it with the model the owner can train alone, on its own held-out rows.

    Beside them stands the owner's personal model, as `parley refine` makes it of the joint one; the model alone is what
    the same procedure makes without it. What `parley refine` saved can be scored as MODEL, too. Owners differ, so a
    forecast for all is not a verdict for each.
    What this prints is computed from private rows: keep it inside.

    Example:  parley score model.json terms.toml --owner bank-a
    """
    from parley.workflows.models import score_model

    if everyone == (owner is not None):
        raise SettingError("--owner NAME or --all: expected one of the two")
    show(score_model(model_file, terms_file, Terminal(), owner, data, report), as_json)
