"""What people type about owners that no public rows tell: `--speeds` and `--heterogeneity`."""

from typing import Annotated

import typer

Differences = Annotated[
    str | None,
    typer.Option(
        "--heterogeneity",
        "--differences",
        metavar="MULTIPLE|JSON",
        help="How much owners differ: multiple of sampling variance, or released JSON.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", "--anyway", help="Release even what is forecast to be worth no budget.")
]
Speeds = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SPEED,...",
        help="Asynchronous terms: each owner's answers per unit of time.",
    ),
]
