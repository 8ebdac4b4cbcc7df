"""What three models cost one owner on its own rows, as a figure."""

import math

from parley.learning.outcome.verdict import Verdict
from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, MUTED, TOGETHER
from parley.report.figures.lettering import lettered
from parley.report.figures.picture import Picture, decorate, headed

MODELS = {"together": MUTED, "alone": ALONE, "personal": TOGETHER}


def model_costs(verdict: Verdict) -> Picture:
    """A dot for each model's mean cost and a line for its interval, where there are rows enough for one."""
    said = ", ".join(f"{name} {number(verdict.costs[name].mean)}" for name in MODELS)
    figure = Picture(
        7.2,
        2.3,
        f"What each model costs {verdict.owner}. Mean cost on {verdict.rows:,} held-out rows of its own, with 90 % "
        f"intervals: {said}.",
    )
    axes = decorate(figure.add_subplot())
    axes.grid(visible=False, axis="y")
    for line, (name, colour) in enumerate(MODELS.items()):
        cost = verdict.costs[name]
        if math.isfinite(cost.low) and math.isfinite(cost.high):
            axes.plot([cost.low, cost.high], [line, line], color=colour, linewidth=2.2, alpha=0.45)
        axes.plot([cost.mean], [line], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(MODELS)), list(MODELS))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(len(MODELS) - 0.4, -0.6)
    axes.set_xlabel("mean cost of a held-out row; lines: 90 % intervals")
    headed(axes, f"What each model costs {lettered(verdict.owner)}")
    return figure
