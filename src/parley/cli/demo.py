"""`parley demo`: forty credit unions, one of them large, decide whether to learn together."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show_parts

SEED = 7


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the demo's tables, terms, models and report.")
    ] = Path("parley-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the tables and of the training noise.")] = SEED,
    unions: Annotated[
        int | None,
        typer.Option("--unions", min=4, help="Number of credit unions, besides the large bank. Default: 39."),
    ] = None,
) -> None:
    """Show how forty credit unions decide whether to train together: who gains, who must be paid, and the result.

    The demo prints the commands for each step on the files in DIR, so you can continue from any step. The demo also
    writes DIR/report.html.
    """
    from parley.workflows.demo import Demo

    show_parts(Demo(folder, seed, unions, Terminal()).told())
