"""`parley score`: an owner judges the joint model on its own held-out rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import Terminal, show


def score_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model's file, which `parley train --save` wrote.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms under which the model was trained.")],
    owner: Annotated[str | None, typer.Option(help="Owner whose held-out rows test the model.")] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Test the model for all owners whose `data` are on this machine.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="The owner's table. Default: the table under `data` in the terms."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a private page (.html) about the scores for the owner.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Use an owner's held-out rows to compare the joint model with the model that the owner can train alone.

    The output also shows the owner's personal model, which `parley refine` makes from the joint model. To train the
    owner's own model, the command uses the procedure of `parley refine` without the joint model. MODEL may also be a
    file that `parley refine` saved. Owners differ, so a forecast for all owners may be wrong for one owner. The output
    is computed from private rows and must stay inside the organisation.

    Example:  parley score model.json terms.toml --owner bank-a
    """
    from parley.workflows.models import score_model

    if everyone == (owner is not None):
        raise SettingError(
            f"--owner NAME, --all: both are {'given' if everyone else 'missing'}; give exactly one of the two options"
        )
    show(score_model(model_file, terms_file, Terminal(), owner, data, report), as_json)
