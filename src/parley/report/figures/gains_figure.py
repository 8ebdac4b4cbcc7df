"""A figure of owners that consider joining: what it saves each of them, as forecast and as it came out."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from parley.report.figures.colours import INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import decorate
from parley.validate import Floats

NAMED = 24  # owners whose names have room
LETTERS = 26  # of a name


def owners_gains(
    names: Sequence[str],
    expected: Floats | None,
    found: Floats | None,
    title: str,
    came_out: str = "came out, on own held-out rows (90 %)",
) -> Figure:
    """What joining saves each owner, of its error alone: (low, mean, high) [owners, 3] as forecast, as it came out, or
    both; the first owner on top. Of a crowd every so many owners are named, and outcomes are dots without intervals."""
    count = len(names)
    figure = Figure(figsize=(7.6, 1.9 + 0.34 * min(count, NAMED)), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot())
    places = np.arange(count)[::-1].astype(float)
    every = -(-count // NAMED)
    crowd = every > 1
    apart = 0.16 if expected is not None and found is not None else 0.0
    axes.axvline(0, color=LIMIT, linewidth=1.0)
    if expected is not None:
        low, mean, high = np.asarray(expected).T
        label = "forecast, if owners differ much or not at all"
        axes.hlines(places + apart, low, high, color=MUTED, linewidth=1 if crowd else 4, alpha=0.35, label=label)
        line, mark = ("-", "") if crowd else ("", "|")
        axes.plot(mean, places + apart, linestyle=line, marker=mark, markersize=11, color=INK, label="forecast")
    if found is not None:
        low, mean, high = np.asarray(found).T
        if not crowd:
            axes.hlines(places - apart, low, high, color=TOGETHER, linewidth=1.4)
        size, label = (3.5, came_out.removesuffix(" (90 %)")) if crowd else (6.0, came_out)
        axes.plot(mean, places - apart, linestyle="", marker="o", markersize=size, color=TOGETHER, label=label)
    if crowd:
        axes.set_ylabel(f"{count} owners, one in {every} named")
    axes.set_yticks(places[::every], [_short(name) for name in names[::every]])
    axes.set_ylim(-0.7, count - 0.3)
    axes.set_xlim(*_reach([each for each in (expected, found) if each is not None]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.set_xlabel("error that joining saves, of the error alone")
    axes.grid(axis="y", visible=False)
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    figure.legend(loc="outside lower left", ncols=3, frameon=False, labelcolor=INK, fontsize=9)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def _reach(drawn: Sequence[Floats]) -> tuple[float, float]:
    """The ends of the axis: everything, short of an interval that says nothing."""
    values = np.clip(np.concatenate([np.ravel(each) for each in drawn]), -1.0, 1.0)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    margin = 0.06 * max(high - low, 1e-3)
    return low - margin, high + margin
