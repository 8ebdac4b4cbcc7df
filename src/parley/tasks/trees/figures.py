"""What every column adds to the prediction of boosted trees, as a figure."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.report.figures import ALONE, INK, MUTED, TOGETHER, decorate
from parley.tasks.trees.model import BoostedModel, ShapeFunction
from parley.validate import Floats

ACROSS = 4  # panels in a row
MOST_NAMES = 10  # of a column that are shown: those that add or take most
LONG = 14  # letters of a name
_SMALL: dict[str, Any] = {"color": ALONE, "fontsize": 6.5, "ha": "right", "va": "bottom"}


def shape_functions(model: BoostedModel) -> Figure:
    """A panel for each column, all on one scale, those that move predictions most first: steps for numbers, bars for
    names and gaps. What pairs add is not in it."""
    shapes = sorted(model.shapes(), key=lambda shape: -np.ptp(np.append(shape.steps, shape.of_names)))
    down = -(-len(shapes) // ACROSS)
    figure = Figure(figsize=(11.5, 2.5 * down + 0.3), layout="constrained")
    panels = figure.subplots(down, min(ACROSS, len(shapes)), sharey=True, squeeze=False).ravel()
    for panel, shape in zip(panels, shapes, strict=False):
        _draw(decorate(panel), shape)
    for panel in panels[len(shapes) :]:
        panel.set_axis_off()
    unit = "log odds" if model.preparation_.model.classifies else model.preparation_.model.target
    figure.supylabel(f"added to the prediction ({unit})", color=INK, fontsize=9)
    return figure


def _draw(panel: Axes, shape: ShapeFunction) -> None:
    panel.axhline(0.0, color=MUTED, linewidth=0.6)
    panel.set_title(shape.column[:28], loc="left", color=INK, fontsize=9)
    if len(shape.steps):
        panel.stairs(shape.steps, shape.cuts, color=TOGETHER, linewidth=1.5, baseline=None)
        if _far(shape.cuts):
            panel.set_xscale("symlog", linthresh=max(shape.cuts[1], 1.0))
        if len(shape.of_names):
            panel.axhline(shape.of_names[0], color=ALONE, linewidth=1.0, linestyle=":")
            panel.annotate("missing", (0.98, shape.of_names[0]), xycoords=("axes fraction", "data"), **_SMALL)
        panel.tick_params(labelsize=7)
        return
    shown = np.sort(np.argsort(-np.abs(shape.of_names))[:MOST_NAMES])
    panel.bar(range(len(shown)), shape.of_names[shown], color=TOGETHER, alpha=0.6)
    labels = [shape.names[place] for place in shown]
    short = [label if len(label) <= LONG else f"{label[: LONG - 1]}…" for label in labels]
    panel.set_xticks(range(len(shown)), short, rotation=60, ha="right", fontsize=6.5)
    panel.tick_params(axis="y", labelsize=7)


def _far(cuts: Floats) -> bool:
    """Whether steps grow so much that they need a logarithm."""
    widths = np.diff(cuts)
    return bool(cuts[0] >= 0 and widths[-1] > 50 * widths[0])
