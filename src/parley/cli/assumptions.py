"""Options that several commands share: knowledge about owners, forcing a release, what to keep."""

from pathlib import Path
from typing import Annotated

import typer

Differences = Annotated[
    str | None,
    typer.Option(
        "--heterogeneity",
        "--differences",
        metavar="MULTIPLE|JSON",
        help="Heterogeneity: a multiple of sampling variance, or a file from `parley heterogeneity`.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", "--anyway", help="Release the model even if the forecast advises against releasing.")
]
Speeds = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SPEED,...", help="With asynchronous terms: each owner's number of answers per unit of time."
    ),
]
Track = Annotated[Path | None, typer.Option("--track", metavar="DIR", help="Save this run in DIR, in MLflow's format.")]
