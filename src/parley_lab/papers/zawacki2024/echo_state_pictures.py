"""Pictures after Z's figures 6.3 to 6.7: a series, guesses of it on their way, and where they end."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import decorate
from parley.validate import Floats


def series(true: Floats) -> Figure:
    """The owner's series [T]."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained", facecolor="white")
    axes = _over_time(decorate(figure.subplots()))
    axes.plot(np.arange(1, len(true) + 1), true, color=TOGETHER, marker="o", markersize=4, linewidth=1.6)
    return figure


def evolution(true: Floats, paths: Mapping[str, Floats]) -> Figure:
    """Every number of guesses [steps, T] by step, and where they should end: a panel for each descent."""
    figure = Figure(figsize=(5.2 * len(paths), 4.2), layout="constrained", facecolor="white")
    for axes, (name, path) in zip(figure.subplots(1, len(paths), squeeze=False)[0], paths.items(), strict=True):
        decorate(axes).plot(path, linewidth=0.9, color=TOGETHER, alpha=0.7)
        axes.scatter(np.full(len(true), len(path) * 1.02), true, color=ALONE, s=14, zorder=3, label="the series")
        axes.set_ylim(-1.3 * np.abs(true).max(), 1.3 * np.abs(true).max())
        axes.set_xlabel("step")
        axes.set_ylabel("numbers of the guess")
        axes.set_title(name, loc="left", color=INK, fontsize=10)
        axes.legend(frameon=False, labelcolor=INK, fontsize=9, loc="lower left")
    return figure


def errors(by_step: Mapping[str, Floats], read: float) -> Figure:
    """Mean squared errors by step, on logarithmic axes; `read`: of what needs no step."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes = decorate(figure.subplots())
    for colour, (name, path) in zip((ALONE, TOGETHER, MUTED), by_step.items(), strict=False):
        axes.plot(np.arange(1, len(path) + 1), path, color=colour, linewidth=1.6, label=name)
    axes.axhline(read, color=LIMIT, linestyle="--", linewidth=1.2, label="read off the range of B, no step")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("mean squared error of the series")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def guesses(true: Floats, found: Mapping[str, Floats]) -> Figure:
    """The series and guesses of it [trials, T], mean and one deviation: a panel for each."""
    figure = Figure(figsize=(5.2 * len(found), 3.8), layout="constrained", facecolor="white")
    times = np.arange(1, len(true) + 1)
    for axes, (name, each) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        _over_time(decorate(axes)).plot(times, true, color=TOGETHER, linewidth=1.8, label="the series")
        axes.errorbar(
            times,
            each.mean(axis=0),
            each.std(axis=0),
            color=ALONE,
            linestyle="--",
            linewidth=1.3,
            capsize=3,
            label="guesses",
        )
        axes.set_title(name, loc="left", color=INK, fontsize=10)
        axes.legend(frameon=False, labelcolor=INK, fontsize=9, loc="lower left")
    return figure


def _over_time(axes: Axes) -> Axes:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("t")
    axes.set_ylabel("u")
    return axes
