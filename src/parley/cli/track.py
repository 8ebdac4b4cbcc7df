"""`--track`: keep a run where MLflow opens it."""

from pathlib import Path
from typing import Annotated

import typer

Track = Annotated[
    Path | None,
    typer.Option(
        "--track",
        metavar="DIR",
        help="Keep this run in DIR, in MLflow's format.",
    ),
]
