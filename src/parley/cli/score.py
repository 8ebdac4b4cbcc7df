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
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained under.")],
    owner: Annotated[str | None, typer.Option(help="Which owner judges.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Score all owners whose `data` are on this machine.")] = False,
    data: Annotated[Path | None, typer.Option(metavar="TABLE", help="Its table. Default: `data` in the terms.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about it (.html), for the owner's own eyes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Is the joint model better for us? Compares it with the model the owner can train alone, on its own held-out rows.

    The table also shows the owner's personal model, which `parley refine` makes from the joint one; the model alone
    comes from the same procedure without it. MODEL may also be a file that `parley refine` saved. Owners differ, so a
    forecast for all is not a verdict for each. The output is computed from private rows: keep it inside.

    Example:  parley score model.json terms.toml --owner bank-a
    """
    from parley.workflows.models import score_model

    if everyone == (owner is not None):
        raise SettingError("--owner NAME or --all: expected one of the two")
    show(score_model(model_file, terms_file, Terminal(), owner, data, report), as_json)
