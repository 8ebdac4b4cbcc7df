"""Pictures after Z's: noise laws, accuracies of methods, plants under feedback. Lines that were computed elsewhere."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.colours import SERIES_COLOURS as PLANTS
from parley.report.figures.picture import decorate
from parley.validate import Floats

COLOURS = (INK, ALONE, "#b59a2a", TOGETHER, MUTED, LIMIT)


def chart(
    title: str,
    across: str,
    up: str,
    curves: Sequence[tuple[str, Floats, Floats, bool]],
    logarithmic: bool = False,
    marks: bool = False,
    highest: float | None = None,
) -> Figure:
    """Lines (label, x, y, whether dashed) on one pair of axes; a dashed line has the colour of the one before.

    `marks`: points, too. `highest`: what is above is cut off.
    """
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes, place = decorate(figure.add_subplot(1, 1, 1)), -1
    for label, x, y, dashed in curves:
        place += 0 if dashed else 1
        style, colour = "--" if dashed else "-", COLOURS[place % len(COLOURS)]
        axes.plot(x, y, linewidth=1.6, label=label or None, linestyle=style, color=colour, marker="o" if marks else "")
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    if highest is not None:
        axes.set_ylim(0, highest)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    if any(label for label, *_ in curves):
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure


def accuracy_paths(
    paths: Sequence[tuple[str, Floats, Floats]],
    title: str = "Test accuracy as methods go on",
    published: Mapping[str, float] | None = None,
) -> Figure:
    """A line for each method: its name, iterations [T], mean accuracy in percent [T]; where a document prints one, a
    dashed line of the same colour, once for methods that have the same."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot())
    colours = (ALONE, "#c9a227", LIMIT, TOGETHER)
    for place, (name, iterations, accuracy) in enumerate(paths):
        axes.plot(iterations, accuracy, color=colours[place % len(colours)], linewidth=1.6, label=name)
    for level, names in _by_level(published or {}).items():
        first = next(place for place, (name, *_) in enumerate(paths) if name in names)
        label = f"{', '.join(names)}: {level:g} published"
        axes.axhline(level, color=colours[first % len(colours)], linewidth=1.1, linestyle="--", label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel("test accuracy, %")
    figure.legend(frameon=False, labelcolor=INK, fontsize=8.5, loc="outside lower center", ncols=4)
    heading, *subtitle = title.split("\n")
    figure.suptitle(heading, x=0.01, ha="left", color=INK, fontweight="bold", fontsize=11)
    axes.set_title("\n".join(subtitle), loc="left", color=MUTED, fontsize=9)
    return figure


def _by_level(published: Mapping[str, float]) -> dict[float, list[str]]:
    """Which methods have each published accuracy."""
    return {level: [name for name in published if published[name] == level] for level in published.values()}


def feedback(times: Floats, runs: Mapping[str, tuple[Floats, Floats]]) -> Figure:
    """The state's size over time under two controllers, by delay: fractional solid, truncated dashed (Z figure 9.1)."""
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    axes = decorate(figure.subplots())
    for colour, (name, (fractional, truncated)) in zip(PLANTS, runs.items(), strict=False):
        axes.plot(times, np.linalg.norm(fractional, axis=1), color=colour, linewidth=2, label=f"{name}, fractional")
        axes.plot(
            times,
            np.linalg.norm(truncated, axis=1),
            color=colour,
            linewidth=1.3,
            linestyle=(0, (4, 2)),
            label=f"{name}, truncated",
        )
    axes.set_xlabel("time", color=INK)
    axes.set_ylabel("size of the state |x|", color=INK)
    axes.set_xlim(times[0], times[-1])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8.5, ncols=3, loc="upper left")
    return figure
