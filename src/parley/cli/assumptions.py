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
        help="Heterogeneity: a multiple of the sampling variance, or a released JSON file.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", "--anyway", help="Release even if the forecast advises against a release.")
]
Speeds = Annotated[
    str | None,
    typer.Option(metavar="NAME=SPEED,...", help="With asynchronous terms: each owner's answers per unit of time."),
]
Track = Annotated[Path | None, typer.Option("--track", metavar="DIR", help="Save this run in DIR, in MLflow's format.")]
