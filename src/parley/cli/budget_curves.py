"""`parley budget curve`: privacy curves of stable noise, among them the dissertation's figures 4.1 and 4.6 to 4.11."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar


def curve_command(
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves (.png, .svg, .pdf).")] = None,
    figure: Annotated[str | None, typer.Option(help="A figure of the dissertation: 4.1, 4.6 to 4.11.")] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="Stability index; may be given several times.")] = None,
    scale: Annotated[float, typer.Option(help="Scale of the noise for an L2 shift of 1.")] = 1.0,
    compositions: Annotated[int, typer.Option(help="Releases.")] = 1,
    sampling: Annotated[float, typer.Option(help="Poisson sampling rate.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Privacy curves of stable noise: solid for a difference in one coordinate, dashed for one spread over many.

    Example:  parley budget curve --figure 4.1 --plot curve.png
    """
    from parley.privacy.accounting.curve_panels import ALL, FIGURES, Panel, panel_curves
    from parley.privacy.adjacency import Adjacency

    if plot is not None:
        from parley.report.figures import curves, picture  # a library that takes its time

        picture.require_figure_name(plot)
    if figure is not None and figure not in FIGURES:
        raise SettingError(f"figure = {figure!r}: expected one of {', '.join(FIGURES)}")
    own = Panel(
        f"scale {scale:g}", tuple(alpha or ALL), scale=scale, compositions=(compositions,), sampling=(sampling,)
    )
    panels = (own,) if figure is None else FIGURES[figure]
    content = []
    with progress_bar("curves") as progress:
        for done, panel in enumerate(panels):
            progress(done, len(panels))
            content.append({"title": panel.title, "over": panel.over, "curves": panel_curves(panel)})
    if plot is not None:
        picture.save(curves.privacy_curves(content), plot)
    if as_json:
        print_json({"figure": figure, "adjacency": Adjacency.REPLACE_ONE, "panels": content}, inside=False)
    elif plot is not None:
        console.print(f"{plot}: {sum(len(p['curves']) for p in content)} curves ({Adjacency.REPLACE_ONE})")
    else:
        raise SettingError("expected --plot FILE or --json: where should the curves go?")
