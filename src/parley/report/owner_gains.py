"""What joining brings each owner, with its interval: every owner by name while they are few, of a crowd those at both
ends and the quantiles of all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from parley.numerals import number
from parley.report.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.lettering import first_names, lettered
from parley.report.picture import Picture, decorate, headed
from parley.validate import Floats

EVERYBODY = 40  # owners that have a line each
AT_EACH_END = 10  # of a crowd that have one
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class OwnerGain:
    """What one owner gains, and between which ends."""

    name: str
    mean: float
    low: float
    high: float

    @property
    def colour(self) -> str:
        """Whether it gains, loses, or neither for sure."""
        return TOGETHER if self.low > 0 else ALONE if self.high < 0 else MUTED


def owner_gains(gains: Sequence[OwnerGain], unit: str, about: str) -> Picture:
    """A dot for each owner's gain and a line from end to end, the largest first; `about`: what the ends are."""
    ranked = sorted(gains, key=lambda each: -each.mean)
    crowd = len(ranked) > EVERYBODY
    named = [*ranked[:AT_EACH_END], *ranked[-AT_EACH_END:]] if crowd else ranked
    lines = [*range(AT_EACH_END), *range(AT_EACH_END + 2, 2 * AT_EACH_END + 2)] if crowd else list(range(len(ranked)))
    title = _title(gains)
    figure = Picture(7.2, 1.7 + 0.21 * (lines[-1] + 1), _words(title, ranked, about))
    axes = decorate(figure.add_subplot())
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=LIMIT, linewidth=1.2)
    for line, each in zip(lines, named, strict=True):
        axes.plot([each.low, each.high], [line, line], color=each.colour, linewidth=2.2, alpha=0.45)
        axes.plot([each.mean], [line], "o", color=each.colour, markersize=5)
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
    axes.set_xlabel(f"{unit}\n{about}" + ("\nbox: median, half and nine in ten of the many" if crowd else ""))
    headed(axes, title)
    return figure


def _quantiles(axes: Axes, values: Floats, line: float) -> None:
    """How many owners lie, on one line."""
    low, q25, median, q75, high = np.quantile(values, QUANTILES)
    axes.plot([low, high], [line, line], color=INK, linewidth=1.2)
    axes.plot([q25, q75], [line, line], color=INK, linewidth=8, alpha=0.35, solid_capstyle="butt")
    axes.plot([median], [line], "|", color=INK, markersize=13, markeredgewidth=2)


def _title(gains: Sequence[OwnerGain]) -> str:
    surely, lose = sum(each.low > 0 for each in gains), sum(each.high < 0 for each in gains)
    unsure = len(gains) - surely - lose
    others = [f"{count:,} {word}" for count, word in ((lose, "lose"), (unsure, "cannot be told")) if count]
    return ", ".join([f"{surely:,} of {len(gains):,} gain for sure", *others])


def _words(title: str, ranked: Sequence[OwnerGain], about: str) -> str:
    first, last = ranked[0], ranked[-1]
    surely = [each.name for each in ranked if each.low > 0]
    who = f" For sure: {first_names(surely, 6)}." if surely else ""
    reach = f"from {number(first.mean, 3)} ({first.name}) to {number(last.mean, 3)} ({last.name})"
    alone = f"{first.name}: {number(first.mean, 3)}"
    return f"{title}. Gains of owners by joining, {about}: {reach if len(ranked) > 1 else alone}.{who}"
