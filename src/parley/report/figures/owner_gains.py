"""What joining brings each owner, with its interval, beside what was forecast: every owner by name while they are few,
of a crowd those at both ends and the quantiles of all; and what three models cost one owner.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from parley.learning.outcome.verdict import Verdict
from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import Picture, decorate, first_names, headed, lettered
from parley.validate import Floats

EVERYBODY = 40  # owners that have a line each
AT_EACH_END = 10  # of a crowd that have one
Advice = Literal["join", "stay", "unsure"]
COLOURS: dict[Advice, tuple[str, str]] = {
    "join": (TOGETHER, "gains"),
    "stay": (ALONE, "does not"),
    "unsure": (MUTED, "unsure"),
}
FARTHEST = 1.0  # of a share: beyond that an interval says nothing
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class OwnerGain:
    """What one owner gains, between which ends, and whether it had better join; `foreseen`: (low, mean, high) as it was
    forecast, where that is another figure."""

    name: str
    mean: float
    low: float
    high: float
    verdict: Advice
    foreseen: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, name: str, ends: Floats, verdict: Advice, foreseen: Floats | None = None) -> "OwnerGain":
        """A gain between (low, mean, high)."""
        low, mean, high = (float(each) for each in ends)
        before = None if foreseen is None else (float(foreseen[0]), float(foreseen[1]), float(foreseen[2]))
        return cls(name, mean, low, high, verdict, before)


def owner_gains(gains: Sequence[OwnerGain], title: str, unit: str, about: str, shares: bool = False) -> Picture:
    """A dot for each owner's gain and a line from end to end, the largest first, and behind them a band with a stroke
    for what was foreseen; `about`: what the ends are; `shares`: gains are parts of 1, shown in per cent."""
    ranked = sorted(gains, key=lambda each: -each.mean)
    crowd = len(ranked) > EVERYBODY
    named = [*ranked[:AT_EACH_END], *ranked[-AT_EACH_END:]] if crowd else ranked
    lines = [*range(AT_EACH_END), *range(AT_EACH_END + 2, 2 * AT_EACH_END + 2)] if crowd else list(range(len(ranked)))
    figure = Picture(7.2, 2.0 + 0.21 * (lines[-1] + 1), _words(title, ranked, about))
    axes = decorate(figure.add_subplot())
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=LIMIT, linewidth=1.2)
    for line, each in zip(lines, named, strict=True):
        if each.foreseen is not None:
            low, mean, high = np.clip(each.foreseen, -FARTHEST, FARTHEST) if shares else each.foreseen
            axes.plot([low, high], [line, line], color=MUTED, linewidth=6, alpha=0.3, solid_capstyle="butt")
            axes.plot([mean], [line], "|", color=INK, markersize=9)
        if math.isfinite(each.low) and math.isfinite(each.high):  # of one row there is no interval
            low, high = np.clip([each.low, each.high], -FARTHEST, FARTHEST) if shares else (each.low, each.high)
            axes.plot([low, high], [line, line], color=COLOURS[each.verdict][0], linewidth=2.2, alpha=0.45)
        axes.plot([each.mean], [line], "o", color=COLOURS[each.verdict][0], markersize=5)
    names = [lettered(each.name) for each in named]
    if crowd:
        middle = AT_EACH_END + 0.5
        between = ranked[AT_EACH_END:-AT_EACH_END]
        _quantiles(axes, np.array([each.mean for each in between]), middle)
        lines, names = [*lines, middle], [*names, f"… and {len(between):,} more"]
    axes.set_yticks(lines, names)
    axes.tick_params(axis="y", length=0, labelsize=8.5, labelcolor=INK)
    axes.set_ylim(max(lines) + 0.8, -0.8)
    axes.margins(x=0.04)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %" if shares else f"{value:g}"))
    axes.set_xlabel(f"{unit}\n{about}" + ("\nbox: median, half and nine in ten of the many" if crowd else ""))
    here = [COLOURS[verdict] for verdict in COLOURS if any(each.verdict == verdict for each in gains)]
    marks = [Line2D([], [], color=colour, marker="o", markersize=5, alpha=0.8, label=word) for colour, word in here]
    if any(each.foreseen is not None for each in gains):
        marks.append(Line2D([], [], color=MUTED, linewidth=6, alpha=0.3, label="forecast"))
    figure.legend(handles=marks, loc="outside upper right", ncols=4, frameon=False, labelcolor=INK, fontsize=8.5)
    headed(axes, title)
    return figure


def _quantiles(axes: Axes, values: Floats, line: float) -> None:
    """How many owners lie, on one line."""
    low, q25, median, q75, high = np.quantile(values, QUANTILES)
    axes.plot([low, high], [line, line], color=INK, linewidth=1.2)
    axes.plot([q25, q75], [line, line], color=INK, linewidth=8, alpha=0.35, solid_capstyle="butt")
    axes.plot([median], [line], "|", color=INK, markersize=13, markeredgewidth=2)


def _words(title: str, ranked: Sequence[OwnerGain], about: str) -> str:
    first, last = ranked[0], ranked[-1]
    better = [each.name for each in ranked if each.verdict == "join"]
    who = f" Better off: {first_names(better, 6)}." if better else ""
    reach = f"from {number(first.mean, 3)} ({first.name}) to {number(last.mean, 3)} ({last.name})"
    alone = f"{first.name}: {number(first.mean, 3)}"
    return f"{title}. Gains of owners by joining, {about}: {reach if len(ranked) > 1 else alone}.{who}"


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
