"""A figure of released counts."""

import numpy as np

from parley.numerals import number
from parley.report.figures.colours import INK, TOGETHER
from parley.report.figures.picture import Picture, decorate, headed, lettered
from parley.tasks.statistics.counts.run import CountsResult

MAX_NAMED_CELLS = 60  # cells whose names can be read
SAMPLE_NAMES = 8  # of more cells that have theirs


def counted(result: CountsResult) -> Picture:
    """Draw best guesses with 95% intervals as bars, or as a profile if cells are many."""
    cells = result.cells
    title = lettered(result.asked.title or f"Counts of {result.asked.model.target}", 64)
    simulated = "" if result.released else "\nsimulation, not a release"
    bars = f"of {result.records:,} records; bars: best guess, lines: 95 of 100 cases{simulated}"
    figure = Picture(
        7.2, max(2.2, 1.2 + 0.3 * len(cells)) if len(cells) <= MAX_NAMED_CELLS else 4.4, _describe_figure(result)
    )
    axes = decorate(figure.add_subplot())
    headed(axes, title)
    heights, low, high = (np.array([getattr(cell, end) for cell in cells]) for end in ("guess", "low", "high"))
    places = np.arange(len(cells))
    if len(cells) <= MAX_NAMED_CELLS:
        ends = np.maximum([heights - low, high - heights], 0.0)
        axes.barh(places, heights, color=TOGETHER, alpha=0.55, xerr=ends, ecolor=INK, capsize=2.5)
        axes.set_yticks(places, [lettered(cell.cell, 24) for cell in cells])
        axes.set_ylim(len(cells) - 0.4, -0.6)
        axes.set_xlabel(bars)
        return figure
    axes.fill_between(places, low, high, step="mid", color=TOGETHER, alpha=0.25, linewidth=0)
    axes.step(places, heights, where="mid", color=TOGETHER, linewidth=1.2)
    some = np.unique(np.linspace(0, len(cells) - 1, SAMPLE_NAMES).round().astype(int))
    names = [lettered(cells[place].cell, 16) for place in some]
    axes.set_xticks(some, names, rotation=30, ha="right")
    axes.margins(x=0.01)
    axes.set_ylabel("records")
    axes.set_xlabel(f"{len(cells):,} cells {bars}".replace("bars:", "line:").replace("lines:", "shaded:"))
    return figure


def _describe_figure(result: CountsResult) -> str:
    largest, smallest = (pick(result.cells, key=lambda cell: cell.guess) for pick in (max, min))
    kind = "released with noise" if result.released else "simulated, not released"
    many = f"; fewest in {smallest.cell}, {number(smallest.guess)}" if len(result.cells) > 1 else ""
    return (
        f"{result.asked.title or f'Counts of {result.asked.model.target}'}. {len(result.cells):,} counts of "
        f"{result.records:,} records, {kind}: most in {largest.cell}, {number(largest.guess)}{many}."
    )
