"""Pictures of noise laws: lines that were computed elsewhere."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from parley.report.figures import ALONE, INK, LIMIT, MUTED, TOGETHER, decorate
from parley.validate import Floats

COLOURS = (INK, ALONE, "#b59a2a", TOGETHER, MUTED, LIMIT)


def chart(
    title: str,
    across: str,
    up: str,
    curves: Sequence[tuple[str, Floats, Floats, bool]],
    logarithmic: bool = False,
    marks: bool = False,
) -> Figure:
    """Lines (label, x, y, whether dashed) on one pair of axes; a dashed line has the colour of the one before. `marks`: points, too."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes, place = decorate(figure.add_subplot(1, 1, 1)), -1
    for label, x, y, dashed in curves:
        place += 0 if dashed else 1
        style, colour = "--" if dashed else "-", COLOURS[place % len(COLOURS)]
        axes.plot(x, y, linewidth=1.6, label=label or None, linestyle=style, color=colour, marker="o" if marks else "")
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    if any(label for label, *_ in curves):
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure
