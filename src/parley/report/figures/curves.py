"""Curves: relative fitness by round, what an attacker can achieve, delta by epsilon."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from parley.numerals import counted, number
from parley.privacy.events import Adjacency
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, SERIES_COLOURS, TOGETHER
from parley.report.figures.picture import Picture, decorate, headed
from parley.validate import Floats

EPSILON = f"ε ({Adjacency.REPLACE_ONE})"  # of an axis


def fitness_path(
    path: Floats, title: str = "Distance from the best model without privacy", forecast: Floats | None = None
) -> Picture:
    """Draw relative fitness by round [T, replicates], median and quartiles (W figures 2 and 7); the forecast [T]
    dashed."""
    rounds = np.arange(1, len(path) + 1)
    q25, median, q75 = np.quantile(path, [0.25, 0.5, 0.75], axis=1)
    figure, axes = _canvas(_path_words(title, median, path.shape[1], forecast))
    once = len(path) == 1  # a line needs two points
    if path.shape[1] > 1 and once:
        axes.errorbar(
            rounds,
            median,
            [median - q25, q75 - median],
            color=TOGETHER,
            alpha=0.5,
            capsize=6,
            label="middle half of the runs",
        )
    elif path.shape[1] > 1:
        axes.fill_between(rounds, q25, q75, color=TOGETHER, alpha=0.22, linewidth=0, label="middle half of the runs")
    dot = "o" if once else None
    axes.plot(
        rounds, median, color=TOGETHER, linewidth=2, marker=dot, label="median" if path.shape[1] > 1 else "this run"
    )
    if forecast is not None:
        axes.plot(
            rounds, forecast, color=INK, linewidth=1.2, linestyle=(0, (4, 3)), marker=dot, label="forecast (mean)"
        )
    if (q25 > 0).all():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if q75.max() < 100 * q25.min() else (1,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(*((0.5, 1.5) if once else (1, len(path))))
    if once:
        axes.set_xticks([1])
    axes.set_xlabel("round")
    axes.set_ylabel("relative fitness ψ  (0 = optimum)")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(frameon=False, labelcolor=INK)
    headed(axes, title)
    return figure


def _path_words(title: str, median: Floats, runs: int, forecast: Floats | None) -> str:
    of = f"the median of {runs:,} runs" if runs > 1 else "one run"
    last = number(median[-1])
    foreseen = "" if forecast is None else f" The forecast for the last round is {number(forecast[-1])}."
    seen = f"{last} after the only round"
    if len(median) > 1:
        rounds = counted(len(median), "round")
        seen = f"from {number(median[0])} after the first of {rounds} to {last} after the last round"
    return f"{title}. Relative fitness ψ by round (0 is the optimum): {of}, {seen}.{foreseen}"


def error_tradeoff(false_alarms: Floats, misses: Floats, epsilon: float, delta: float) -> Picture:
    """Draw the lowest errors of any test for a person's presence; the diagonal is guessing."""
    title = (
        f"What an attacker can achieve at ε = {epsilon:g}"
        + (f", δ = {delta:g}" if delta else "")
        + f" ({Adjacency.REPLACE_ONE})"
    )
    least = float(np.min(false_alarms + misses))
    figure, axes = _canvas(
        f"{title}. The figure shows the best possible attack's miss rate by its false-alarm rate. The miss rate and "
        f"the false-alarm rate add up to at least {number(least, 3, side='below')}. With guessing, both rates add up "
        "to 1.",
        width=5.4,
        height=5.2,
    )
    axes.fill_between(false_alarms, 0, misses, color=ALONE, alpha=0.15, linewidth=0)
    axes.plot(false_alarms, misses, color=ALONE, linewidth=2, label="best possible attack")
    axes.plot([0, 1], [1, 0], color=LIMIT, linestyle="--", linewidth=1.3, label="guessing")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("false-alarm rate, for tables without the person")
    axes.set_ylabel("miss rate, for tables with the person")
    axes.legend(frameon=False, labelcolor=INK)
    headed(axes, title.replace(" at ", "\nat "))
    return figure


def privacy_curves(panels: Sequence[Mapping[str, Any]]) -> Picture:
    """Draw panels with a title, over ("epsilon" or "scale") and curves (label, alpha, spread, x, y)."""
    seen = "; ".join(f"{panel['title']}: {_curve_words(panel)}" for panel in panels)
    figure = Picture(
        7.2 if len(panels) == 1 else 3.1 * len(panels),
        4.4,
        f"The figure shows the privacy cost of several kinds of noise. {seen}.",
    )
    colours = {2.0: INK, 1.999: ALONE, 1.95: SERIES_COLOURS[4], 1.9: TOGETHER}
    for place, panel in enumerate(panels, start=1):
        axes = decorate(figure.add_subplot(1, len(panels), place))
        styles: dict[tuple[float, str], int] = {}
        for curve in panel["curves"]:
            alpha, spread = curve["alpha"], curve["spread"]
            repeat = styles[alpha, spread] = styles.get((alpha, spread), -1) + 1
            line = "--" if spread == "many" else "-"
            label = curve["label"] + (" (spread over many)" if spread == "many" else "")
            y = np.maximum(curve["y"], 1e-12) if panel["over"] == "epsilon" else curve["y"]
            colour = colours.get(alpha, MUTED)
            axes.plot(curve["x"], y, line, color=colour, linewidth=1.8 if repeat == 0 else 1.0, alpha=0.9, label=label)
        axes.set_yscale("log")
        if panel["over"] == "epsilon":
            axes.set_xlabel(EPSILON)
            axes.set_ylabel("δ")
            axes.set_ylim(1e-10, 1)
        else:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator([0.5, 1, 2, 4, 8]))
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("scale of the noise")
            axes.set_ylabel(EPSILON)
        axes.set_title(panel["title"], loc="left", color=INK, fontsize=10, fontweight="bold")
    first = figure.axes[0]
    first.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure


def _curve_words(panel: Mapping[str, Any]) -> str:
    laws = dict.fromkeys(curve["label"] for curve in panel["curves"])
    what = "δ against ε" if panel["over"] == "epsilon" else "ε against the scale of the noise"
    return f"{what} ({Adjacency.REPLACE_ONE}), for {', '.join(laws)}"


def _canvas(alt: str, width: float = 7.2, height: float = 4.0) -> tuple[Picture, Axes]:
    figure = Picture(width, height, alt)
    return figure, decorate(figure.add_subplot())
