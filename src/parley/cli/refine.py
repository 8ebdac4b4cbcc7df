"""`parley refine`: an owner's personal model, from the joint model and its own rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show


def refine_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model, as `parley train --save` wrote it.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained under.")],
    owner: Annotated[str, typer.Option(help="Whose own rows.")],
    save: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the personal model, which must stay with the owner.")
    ],
    data: Annotated[Path | None, typer.Option(metavar="TABLE", help="Its table. Default: `data` in the terms.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Personalise the joint model with your own rows.

    It fits a ridge towards the joint model, then boosted trees on top of it, then trees without it. Cross-validation on
    the owner's training rows decides how much of each is kept. If it shows no gain beyond a standard error, the joint
    model stays as it is. Held-out rows are not touched, so `parley score` can judge the outcome. Nothing is spent and
    nothing leaves; the personal model has no guarantee and must stay inside.

    Example:  parley refine model.json terms.toml --owner bank-a --save own.json
    """
    from parley.workflows.models import refine_model

    show(refine_model(model_file, terms_file, owner, save, Terminal(), data), as_json)
