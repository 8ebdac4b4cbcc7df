"""What people type about owners that no public rows tell: `--speeds` and `--differences`."""

from typing import Annotated

import typer

Differences = Annotated[
    str | None,
    typer.Option(
        metavar="MULTIPLE|JSON",
        help="How much owners differ: the variance between their best parameters, in units of the variance of an own "
        "estimate of the owner of median size, or what `parley differences --save` kept. 0: one law for all. Default: "
        "not known, from none to much.",
    ),
]
Speeds = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SPEED,...",
        help="Asynchronous terms: how many answers an owner gives in a unit of a virtual clock's time (0: none ever). "
        "Left out: all give their last at the same time.",
    ),
]
