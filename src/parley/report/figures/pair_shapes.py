"""What pairs of columns add to a prediction together, as tables of colours."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from parley.learning.outcome.shapes import Axis, PairShape
from parley.report.figures.colours import ALONE, INK, MUTED, TOGETHER
from parley.report.figures.lettering import lettered

ACROSS = 3  # panels in a row
LONG = 14  # letters of a name
COLOURS = LinearSegmentedColormap.from_list("adds", [ALONE, "white", TOGETHER])


def draw_pairs(figure: Any, pairs: Sequence[PairShape]) -> None:
    """A panel for each pair, all on one scale of colours: a cell for each bin of the first column (below) within one of
    the second; of several classes, how far the largest differs from the least. Empty: no public row lies there."""
    down = -(-len(pairs) // ACROSS)
    panels = figure.subplots(down, min(ACROSS, len(pairs)), squeeze=False).ravel()
    tables = [pair.values if pair.values.ndim == 2 else np.ptp(pair.values, axis=0) for pair in pairs]
    reach = max(float(np.abs(table[pair.shares > 0]).max()) for table, pair in zip(tables, pairs, strict=True)) or 1.0
    drawn = None
    for panel, pair, table in zip(panels, pairs, tables, strict=False):
        here = [(pair.shares.sum(axis=1 - side) > 0) for side in (0, 1)]
        cells = np.where(pair.shares > 0, table, np.nan)[here[0]][:, here[1]]
        drawn = panel.pcolormesh(cells.T, cmap=COLOURS, vmin=-reach, vmax=reach, edgecolors="white", linewidth=0.5)
        first, second = ([each for each, kept in zip(_bins(axis), some, strict=True) if kept]
                         for axis, some in zip(pair.axes, here, strict=True))  # fmt: skip
        panel.set_xticks(np.arange(len(first)) + 0.5, first, rotation=60, ha="right", fontsize=6.5)
        panel.set_yticks(np.arange(len(second)) + 0.5, second, fontsize=6.5)
        panel.tick_params(colors=MUTED, length=0)
        panel.spines[:].set_visible(False)
        title = " × ".join(lettered(axis.column, LONG) for axis in pair.axes)
        panel.set_title(title, loc="left", color=INK, fontsize=9)
    for panel in panels[len(pairs) :]:
        panel.set_axis_off()
    scale = figure.colorbar(drawn, ax=panels.tolist(), shrink=0.8, aspect=30)
    scale.ax.tick_params(labelsize=7, colors=MUTED)
    scale.outline.set_visible(False)


def _bins(axis: Axis) -> list[str]:
    """What the bins of a column are called."""
    return [*(f"{low:.4g} – {high:.4g}" for low, high in pairwise(axis.cuts)), *(lettered(n, LONG) for n in axis.names)]
