"""A figure of released counts."""

from matplotlib.figure import Figure

from parley.report.figures import INK, MUTED, TOGETHER, decorate
from parley.tasks.counts.run import CountsResult
from parley.validate import printable

MANY = 60  # cells whose names can be read


def counted(result: CountsResult) -> Figure:
    """Best guesses as bars, with the ends within which the truth lies in 95 of 100 cases."""
    names = [printable(cell.cell, 24) for cell in result.cells]
    heights = [cell.guess for cell in result.cells]
    ends = [
        [max(cell.guess - cell.low, 0.0) for cell in result.cells],
        [max(cell.high - cell.guess, 0.0) for cell in result.cells],
    ]
    figure = Figure(figsize=(7.2, max(2.2, 1.2 + 0.3 * min(len(names), MANY))), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot())
    places = range(len(names))
    axes.barh(places, heights, color=TOGETHER, alpha=0.55, xerr=ends, ecolor=INK, capsize=2.5)
    axes.set_yticks(places, names) if len(names) <= MANY else axes.set_yticks([])
    axes.invert_yaxis()
    said = "" if result.released else "\nsimulation, not a release"
    axes.set_xlabel(f"of {result.records:,} records; bars: best guess, lines: 95 of 100 cases{said}", color=MUTED)
    title = printable(result.asked.title or f"Counts of {result.asked.model.target}")
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    return figure
