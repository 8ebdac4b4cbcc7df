"""`parley reproduce`: figures and tables of the source documents again, published beside recomputed."""

from pathlib import Path
from typing import Annotated

import typer

from parley.durable import require_folder
from parley.papers.commands.aarhus2020 import aarhus2020
from parley.papers.commands.pejo2018 import pejo2018
from parley.papers.commands.wu2019 import wu2019
from parley.papers.commands.zawacki2024 import zawacki2024
from parley.report.terminal import console, print_json, progress_bar, terminal_table

reproduce_app = typer.Typer(no_args_is_help=True, help="A source document's numbers again: published beside recomputed.")
reproduce_app.command("wu2019")(wu2019)
reproduce_app.command("aarhus2020")(aarhus2020)
reproduce_app.command("pejo2018")(pejo2018)
reproduce_app.command("zawacki2024")(zawacki2024)


@reproduce_app.command("wu2019-thesis")
def wu_thesis(
    printed: Annotated[bool, typer.Option("--printed", help="Use the scale as printed instead of the mended one.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw figures 4.2 and 4.3 (b, c).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Nan Wu, thesis (2019), chapter 4: owners' budgets converge in the leakage- and utility-compensation games.

    Example:  parley reproduce wu2019-thesis --plot convergence.png
    """
    from parley.papers import compensation_games
    from parley.report import figures, game_figures

    require_folder(plot)
    with progress_bar("best responses"):
        panels = compensation_games.convergence(printed)
    if plot is not None:
        drawn = [(f"{p.figure}: {p.game}", p.paths[:-1], [f"n = {size:,}" for size in p.sizes]) for p in panels]
        figures.save(game_figures.convergence(drawn), plot)
    if as_json:
        print_json(
            {"panels": [{"figure": p.figure, "game": p.game, "sizes": p.sizes, "ends": p.ends.tolist()} for p in panels]},
            inside=False,
        )
        return
    rows = [["figure, game, sizes", *(f"from {start}" for start in (*compensation_games.STARTS, "the lowest"))]]
    for p in panels:
        rows.append([f"{p.figure} {p.game} {p.sizes}", *(" ".join(f"{e:.3f}" for e in end) for end in p.ends)])
    console.print(terminal_table(rows, "Where best responses come to rest" + (", scale as printed" if printed else "")))
    if not printed:
        console.print("The thesis calls the equilibrium unique; the last column refutes it for the utility game.", style="dim")
