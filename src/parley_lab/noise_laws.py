"""A picture of studies with noise of several laws at the same epsilon: quantiles, since some laws have no variance."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, TOGETHER
from parley.report.figures.picture import Picture, decorate, headed, lettered
from parley.validate import Floats

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def quantiles_by_law(panels: Mapping[str, Sequence[tuple[str, Floats]]], title: str, up: str) -> Picture:
    """For each panel, by its name, the runs [R] of every law, by its own: median, quartiles and the middle 90 %. The
    first law's median goes through the panel as a line."""
    figure = Picture(max(6.0, 4.4 * len(panels)), 4.4, f"{title}. Medians: {_medians(panels)}.")
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, laws) in zip(drawn, panels.items(), strict=True):
        decorate(axes)
        for place, (_, runs) in enumerate(laws):
            low, q25, median, q75, high = np.quantile(runs, QUANTILE_LEVELS)
            colour = INK if place == 0 else TOGETHER
            axes.plot([place, place], [low, high], color=colour, linewidth=1.2)
            axes.plot([place, place], [q25, q75], color=colour, linewidth=6, alpha=0.45, solid_capstyle="butt")
            axes.plot([place], [median], "o", color=colour, markersize=6)
            if place == 0:
                axes.axhline(median, color=ALONE, linewidth=1.0, linestyle=(0, (4, 3)))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(range(len(laws)), ["\n".join(map(lettered, law.splitlines())) for law, _ in laws], fontsize=8)
        axes.set_xlim(-0.6, len(laws) - 0.4)
        headed(axes, lettered(name))
    drawn[0].set_ylabel(up)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold")
    return figure


def _medians(panels: Mapping[str, Sequence[tuple[str, Floats]]]) -> str:
    return "; ".join(
        f"{name}, " + ", ".join(f"{law} {number(float(np.median(runs)), 3)}" for law, runs in laws)
        for name, laws in panels.items()
    ).replace("\n", " ")
