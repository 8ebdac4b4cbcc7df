"""`parley refine`: an owner's personal model, from the joint model and its own rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show


def refine_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model's file, which `parley train --save` wrote.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms under which the model was trained.")],
    owner: Annotated[str, typer.Option(help="Owner whose rows personalise the model.")],
    save: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the personal model, which must stay with the owner.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="The owner's table. Default: the table under `data` in the terms."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Personalise the joint model with your own rows.

    The command fits a ridge model pulled towards the joint model, boosted trees added to the ridge model, and trees
    without the joint model. Cross-validation on the owner's training rows decides how much of each fit to keep. If no
    fit gains more than one standard error, the command keeps the joint model. The command does not use held-out rows,
    so `parley score` can test the personal model on these rows. The command spends no budget, and nothing leaves this
    machine. The personal model has no privacy guarantee and must stay with the owner.

    Example:  parley refine model.json terms.toml --owner bank-a --save own.json
    """
    from parley.workflows.models import refine_model

    show(refine_model(model_file, terms_file, owner, save, Terminal(), data), as_json)
