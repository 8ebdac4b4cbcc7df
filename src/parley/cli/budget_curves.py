"""`parley budget curve`: privacy curves of stable noise, among them the dissertation's figures 4.1 and 4.6 to 4.11."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from parley.accounting.curves import Spread, delta_curve, epsilon_curve
from parley.cli.screen import console, print_json, progress_bar
from parley.durable import require_folder
from parley.errors import SettingError
from parley.mechanisms.bounded import REPLACE_ONE
from parley.report import figures
from parley.validate import Floats


@dataclass(frozen=True)
class Panel:
    """One axes: delta against eps, or eps against the scale of the noise."""

    title: str
    alphas: tuple[float, ...]
    over: Literal["epsilon", "scale"] = "epsilon"
    scale: float = 1.0
    delta: float = 1e-5
    compositions: tuple[int, ...] = (1,)
    sampling: tuple[float, ...] = (1.0,)


ALL, TWO = (2.0, 1.999, 1.95, 1.9), (2.0, 1.999)
FIGURES: dict[str, tuple[Panel, ...]] = {
    "4.1": (Panel("scale 1", ALL),),
    "4.6": (Panel("200 compositions, sampling 0.001, δ = 1e-5", ALL, "scale", compositions=(200,), sampling=(0.001,)),),
    "4.7": tuple(Panel(f"δ = {d:g}", TWO, "scale", delta=d) for d in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "4.8": tuple(Panel(f"{n} composition" + "s" * (n > 1), TWO, "scale", delta=1e-4, compositions=(n,)) for n in (1, 2, 4, 8, 16)),
    "4.9": (Panel("once and composed with itself", TWO, compositions=(1, 2)),),
    "4.10": tuple(Panel(f"sampling {q:g}", TWO, "scale", delta=1e-4, sampling=(q,)) for q in (1.0, 0.5, 0.1, 0.05, 0.01)),
    "4.11": (Panel("sampling 1 and 0.1", TWO, sampling=(1.0, 0.1)),),
}


def curve_command(
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves (.png, .svg, .pdf).")] = None,
    figure: Annotated[str | None, typer.Option(help=f"A figure of the dissertation: {', '.join(FIGURES)}.")] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="Stability index; may be given several times.")] = None,
    scale: Annotated[float, typer.Option(help="Scale of the noise for an L2 shift of 1.")] = 1.0,
    compositions: Annotated[int, typer.Option(help="Releases.")] = 1,
    sampling: Annotated[float, typer.Option(help="Poisson sampling rate.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Privacy curves of stable noise: solid for a difference in one coordinate, dashed for one spread over many.

    Example:  parley budget curve --figure 4.1 --plot curve.png
    """
    require_folder(plot)
    if plot is not None:
        figures.require_figure_name(plot)
    if figure is not None and figure not in FIGURES:
        raise SettingError(f"figure = {figure!r}: expected one of {', '.join(FIGURES)}")
    own = Panel(f"scale {scale:g}", tuple(alpha or ALL), scale=scale, compositions=(compositions,), sampling=(sampling,))
    panels = (own,) if figure is None else FIGURES[figure]
    content = []
    with progress_bar("curves") as progress:
        for done, panel in enumerate(panels):
            progress(done, len(panels))
            content.append({"title": panel.title, "over": panel.over, "curves": panel_curves(panel)})
    if plot is not None:
        figures.save(figures.privacy_curves(content), plot)
    if as_json:
        print_json({"figure": figure, "adjacency": REPLACE_ONE, "panels": content})
    elif plot is not None:
        console.print(f"{plot}: {sum(len(p['curves']) for p in content)} curves ({REPLACE_ONE})")
    else:
        raise SettingError("expected --plot FILE or --json: where should the curves go?")


def panel_curves(panel: Panel) -> list[dict[str, Any]]:
    """Every line of one panel."""
    x: Floats = np.linspace(0, 6, 121) if panel.over == "epsilon" else np.geomspace(0.4, 8, 22)
    curves = []
    for alpha in panel.alphas:
        spreads: tuple[Spread, ...] = ("one",) if alpha == 2 else ("one", "many")
        for spread in spreads:
            for n in panel.compositions:
                for q in panel.sampling:
                    if panel.over == "epsilon":
                        y = delta_curve(alpha, panel.scale, x, n, q, spread)
                    else:
                        y = epsilon_curve(alpha, x, panel.delta, n, q, spread)
                    label = f"α = {alpha:g}" + (f", {n} times" if len(panel.compositions) > 1 else "")
                    label += f", sampling {q:g}" if len(panel.sampling) > 1 else ""
                    curves.append({"label": label, "alpha": alpha, "spread": spread, "x": x.tolist(), "y": y.tolist()})
    return curves
