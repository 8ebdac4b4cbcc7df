"""Survival curves of the rows of a table, as a picture. Drawn from the rows without noise: as private as they are."""

import numpy as np

from parley.numerals import percent
from parley.report.figures.colours import INK, MUTED, TOGETHER
from parley.report.figures.lettering import lettered
from parley.report.figures.picture import Picture, decorate, headed
from parley.validate import Floats

MOST = 60  # curves of single rows


def survival_curves(ends: Floats, alive: Floats, time: str, event: str) -> Picture:
    """The curves [n, periods] of up to `MOST` rows, evenly chosen by who survives, and the mean of all."""
    title = f"Survival: until {lettered(event)}"
    left = percent(float(alive[:, -1].mean())) if len(alive) else "nobody"
    figure = Picture(
        7.2, 4.0, f"{title}. Curves of {len(alive):,} rows by {time}; on average {left} are left at {ends[-1]:g}."
    )
    axes = decorate(figure.add_subplot())
    begin, moments = np.ones((len(alive), 1)), np.append(0.0, ends)
    curves = np.hstack([begin, alive])
    order = np.argsort(alive[:, -1], kind="stable") if len(alive) else np.empty(0, dtype=np.int64)
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(MOST, len(order))).round().astype(int))]
    for place, row in enumerate(curves[chosen]):
        said = f"{len(chosen)} of {len(alive):,} rows" if not place else None
        axes.plot(moments, row, color=TOGETHER, alpha=0.25, linewidth=0.9, label=said)
    if len(alive):
        axes.plot(moments, curves.mean(axis=0), color=INK, linewidth=2.2, marker="o", markersize=4, label="mean of all")
        axes.legend(frameon=False, labelcolor=INK, loc="lower left")
    else:
        axes.text(0.5, 0.5, "no rows", transform=axes.transAxes, ha="center", color=MUTED)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, 1.02 * moments[-1])
    axes.set_xlabel(lettered(time))
    axes.set_ylabel("probability that it has not happened yet")
    headed(axes, title)
    return figure
