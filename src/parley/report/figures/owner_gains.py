"""What joining brings each owner, with interval and forecast, and what three models cost one owner. Of many owners only
both ends have names."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from parley.learning.outcome.verdict import Verdict
from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import TEXT_BACKGROUND, Picture, decorate, first_names, headed, lettered
from parley.report.words.joined import Chapter, share
from parley.validate import Floats

MAX_OWNER_LINES = 40  # owners that have a line each
OWNERS_AT_EACH_END = 10  # of a crowd that have one
Advice = Literal["join", "stay", "unsure"]
VERDICT_COLOURS: dict[Advice, tuple[str, str]] = {
    "join": (TOGETHER, "gains"),
    "stay": (ALONE, "does not gain"),
    "unsure": (MUTED, "unsure"),
}
MAX_SHOWN_SHARE = 1.0  # of a share: beyond that an interval says nothing
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class OwnerGain:
    """One owner's gain, its interval and verdict; `foreseen`: (low, mean, high) of the forecast, if that differs."""

    name: str
    mean: float
    low: float
    high: float
    verdict: Advice
    foreseen: tuple[float, float, float] | None = None

    @classmethod
    def from_ends(cls, name: str, ends: Floats, verdict: Advice, foreseen: Floats | None = None) -> "OwnerGain":
        """Make a gain from (low, mean, high)."""
        low, mean, high = (float(each) for each in ends)
        before = None if foreseen is None else (float(foreseen[0]), float(foreseen[1]), float(foreseen[2]))
        return cls(name, mean, low, high, verdict, before)


def owner_gains(gains: Sequence[OwnerGain], title: str, unit: str, about: str, shares: bool = False) -> Picture:
    """Draw each owner's gain with its interval, largest first, and a band for the forecast. `about` says what the ends
    are; `shares`: gains are shares of 1, shown in percent."""
    ranked = sorted(gains, key=lambda each: -each.mean)
    crowd = len(ranked) > MAX_OWNER_LINES
    named = [*ranked[:OWNERS_AT_EACH_END], *ranked[-OWNERS_AT_EACH_END:]] if crowd else ranked
    lines = (
        [*range(OWNERS_AT_EACH_END), *range(OWNERS_AT_EACH_END + 2, 2 * OWNERS_AT_EACH_END + 2)]
        if crowd
        else list(range(len(ranked)))
    )
    figure = Picture(7.2, 2.0 + 0.21 * (lines[-1] + 1), _words(title, ranked, about))
    axes = decorate(figure.add_subplot())
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=LIMIT, linewidth=1.2)
    for line, each in zip(lines, named, strict=True):
        if each.foreseen is not None:
            low, mean, high = np.clip(each.foreseen, -MAX_SHOWN_SHARE, MAX_SHOWN_SHARE) if shares else each.foreseen
            axes.plot([low, high], [line, line], color=MUTED, linewidth=6, alpha=0.3, solid_capstyle="butt")
            axes.plot([mean], [line], "|", color=INK, markersize=9)
        if math.isfinite(each.low) and math.isfinite(each.high):  # of one row there is no interval
            low, high = (
                np.clip([each.low, each.high], -MAX_SHOWN_SHARE, MAX_SHOWN_SHARE) if shares else (each.low, each.high)
            )
            axes.plot([low, high], [line, line], color=VERDICT_COLOURS[each.verdict][0], linewidth=2.2, alpha=0.45)
        axes.plot([each.mean], [line], "o", color=VERDICT_COLOURS[each.verdict][0], markersize=5)
    names = [lettered(each.name) for each in named]
    if crowd:
        middle = OWNERS_AT_EACH_END + 0.5
        between = ranked[OWNERS_AT_EACH_END:-OWNERS_AT_EACH_END]
        _quantiles(axes, np.array([each.mean for each in between]), middle)
        lines, names = [*lines, middle], [*names, f"… and {len(between):,} more"]
    axes.set_yticks(lines, names)
    axes.tick_params(axis="y", length=0, labelsize=8.5, labelcolor=INK)
    axes.set_ylim(max(lines) + 0.8, -0.8)
    axes.margins(x=0.04)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %" if shares else f"{value:g}"))
    axes.set_xlabel(f"{unit}\n{about}" + ("\nbox: median, middle 50% and 90% of the other owners" if crowd else ""))
    shown_colours = [
        VERDICT_COLOURS[verdict] for verdict in VERDICT_COLOURS if any(each.verdict == verdict for each in gains)
    ]
    marks = [
        Line2D([], [], color=colour, marker="o", markersize=5, alpha=0.8, label=word) for colour, word in shown_colours
    ]
    if any(each.foreseen is not None for each in gains):
        marks.append(Line2D([], [], color=MUTED, linewidth=6, alpha=0.3, label="forecast"))
    figure.legend(handles=marks, loc="outside upper right", ncols=4, frameon=False, labelcolor=INK, fontsize=8.5)
    headed(axes, title)
    return figure


def _quantiles(axes: Axes, values: Floats, line: float) -> None:
    """Draw the quantiles of many owners on one line."""
    low, q25, median, q75, high = np.quantile(values, QUANTILES)
    axes.plot([low, high], [line, line], color=INK, linewidth=1.2)
    axes.plot([q25, q75], [line, line], color=INK, linewidth=8, alpha=0.35, solid_capstyle="butt")
    axes.plot([median], [line], "|", color=INK, markersize=13, markeredgewidth=2)


def _words(title: str, ranked: Sequence[OwnerGain], about: str) -> str:
    first, last = ranked[0], ranked[-1]
    better = [each.name for each in ranked if each.verdict == "join"]
    who = f" Owners that gain: {first_names(better, 6)}." if better else ""
    reach = f"from {number(first.mean, 3)} ({first.name}) to {number(last.mean, 3)} ({last.name})"
    alone = f"{first.name}: {number(first.mean, 3)}"
    return f"{title}. Gains by joining ({about}): {reach if len(ranked) > 1 else alone}.{who}"


MODEL_COLOURS = {"together": MUTED, "alone": ALONE, "personal": TOGETHER}


def model_costs(verdict: Verdict) -> Picture:
    """Draw each model's mean cost, with an interval if there are enough rows."""
    cost_words = ", ".join(f"{name} {number(verdict.costs[name].mean)}" for name in MODEL_COLOURS)
    figure = Picture(
        7.2,
        2.3,
        f"Cost of each model for {verdict.owner}. Mean cost on {verdict.rows:,} held-out rows of the "
        f"owner: {cost_words}. The lines show 90% intervals.",
    )
    axes = decorate(figure.add_subplot())
    axes.grid(visible=False, axis="y")
    for line, (name, colour) in enumerate(MODEL_COLOURS.items()):
        cost = verdict.costs[name]
        if math.isfinite(cost.low) and math.isfinite(cost.high):
            axes.plot([cost.low, cost.high], [line, line], color=colour, linewidth=2.2, alpha=0.45)
        axes.plot([cost.mean], [line], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(MODEL_COLOURS)), list(MODEL_COLOURS))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(len(MODEL_COLOURS) - 0.4, -0.6)
    axes.set_xlabel("mean cost per held-out row; lines: 90% intervals")
    headed(axes, f"Cost of each model for {lettered(verdict.owner)}")
    return figure


ONE_NOISE, OWN_NOISE = "Shared noise, drawn by three hosts", "Each owner adds its own noise"
MAX_SINGLE_FORECASTS, FORECAST_GROUPS = 100, 24  # owners that have a forecast each; of more, groups that have one
TICK_SHARES = (-0.05, -0.01, 0.0, 0.01, 0.05, 0.1, 0.2)


def joined_owners(chapters: Sequence[tuple[str, Chapter]], title: str, large: Chapter | None = None) -> Picture:
    """Draw one panel for each way of learning together, on one scale, and a narrow one for the `large` owners."""
    widths = [4.0] * len(chapters) + ([1.5] if large else [])
    figure = Picture(2.5 + 1.1 * sum(widths), 4.9, _joined_words(chapters, title, large))
    panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths, squeeze=False)[0]
    for axes, (name, chapter) in zip(panels, chapters, strict=False):
        gaining = f"{chapter.paying} of {len(chapter.owners)} gain"
        _sizes(decorate(axes), [owner.records for owner in chapter.owners])
        _panel(
            axes,
            chapter,
            name,
            f"{gaining}; average saving: {share(chapter.saved)}; correct forecasts: {chapter.right}",
        )
    if large:
        count = len(large.owners)
        _panel(
            decorate(panels[-1]),
            large,
            f"{count} large banks",
            "none gains" if not large.paying else f"{large.paying} gain",
            alike=True,
        )
        panels[-1].set_xticks(range(count), [""] * count)
        panels[-1].set_xlim(-0.6, count - 0.4)
        panels[-1].set_xlabel(f"{large.owners[0].records:,} rows each")
    owners = [owner for _, chapter in chapters for owner in chapter.owners]
    top = max(max(owner.gain / owner.alone, owner.foreseen.mean / owner.foreseen_alone) for owner in owners)
    bottom = min(owner.gain / owner.alone for owner in owners)
    panels[0].set_ylim(min(-0.002, 2 * bottom), 1.15 * top)
    panels[0].set_yscale("function", functions=(_signed_root, _signed_square))
    panels[0].yaxis.set_major_locator(FixedLocator(TICK_SHARES))
    panels[0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panels[0].set_ylabel("error saved, in % of the error without joining")
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold", fontsize=13)
    figure.legend(
        handles=_legend(),
        loc="outside lower left",
        ncols=5,
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        handletextpad=0.4,
    )
    return figure


def _panel(axes: Axes, chapter: Chapter, name: str, outcome: str, alike: bool = False) -> None:
    """Draw savings as dots, forecasts as a band and a dashed line."""
    owners = sorted(chapter.owners, key=lambda owner: owner.records)
    x = [float(place if alike else owner.records) for place, owner in enumerate(owners)]
    few = len(owners) <= MAX_SINGLE_FORECASTS
    ends = [
        [getattr(owner.foreseen, end) / owner.foreseen_alone for owner in owners] for end in ("low", "mean", "high")
    ]
    groups = np.array_split(np.arange(len(x)), len(x) if few else FORECAST_GROUPS)
    at, low, mean, high = ([float(np.mean(np.take(each, group))) for group in groups] for each in (x, *ends))
    axes.axhline(0, color=LIMIT, linewidth=1.0)
    if len(at) > 1:
        axes.fill_between(at, low, high, color=TOGETHER, alpha=0.14, linewidth=0)
        axes.plot(at, mean, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    else:  # a band needs two points
        axes.plot(at * 2, [low[0], high[0]], color=TOGETHER, alpha=0.3, linewidth=12, solid_capstyle="butt")
        axes.plot(at, mean, "_", color=INK, markersize=14)
    for place, owner in zip(x, owners, strict=True):
        style = {"color": TOGETHER} if owner.pays else {"facecolor": "white", "edgecolor": MUTED, "linewidth": 1.2}
        axes.scatter(place, owner.gain / owner.alone, s=42 if few else 16, zorder=4, **style)
        if not owner.right:
            axes.scatter(
                place,
                owner.gain / owner.alone,
                s=120 if few else 46,
                zorder=3,
                facecolor="none",
                edgecolor=ALONE,
                linewidth=1.6,
            )
    largest = owners[-1]
    if largest.records > 2 * owners[0].records:
        dot = (largest.records, largest.gain / largest.alone)
        where: Any = {"xytext": (8, 20), "textcoords": "offset points", "ha": "right", "bbox": TEXT_BACKGROUND}
        axes.annotate(lettered(largest.name), dot, color=MUTED, fontsize=9, **where)
    axes.set_title(name, loc="left", color=INK, fontsize=11, fontweight="bold", pad=22)
    axes.text(0.0, 1.02, outcome, transform=axes.transAxes, color=MUTED, fontsize=9.5, va="bottom")


def _joined_words(chapters: Sequence[tuple[str, Chapter]], title: str, large: Chapter | None) -> str:
    seen = [
        f"{name}: {chapter.paying} of {len(chapter.owners)} owners gain, the average saving is {share(chapter.saved)} "
        f"of the error, and {chapter.right} forecasts are correct"
        for name, chapter in chapters
    ]
    banks = f" {len(large.owners)} large banks: {large.paying} gain." if large else ""
    return (
        f"{title} The figure shows how much error joining saves each owner, by the owner's number of rows. "
        f"{'; '.join(seen)}.{banks}"
    )


def _signed_root(saved: Floats) -> Floats:
    """Return the signed root, which shows small gains next to large ones."""
    return np.asarray(np.sign(saved) * np.sqrt(np.abs(saved)))


def _signed_square(root: Floats) -> Floats:
    return np.asarray(np.sign(root) * root**2)


def _sizes(axes: Axes, records: Sequence[int]) -> None:
    axes.set_xscale("log")
    narrow = max(records) < 8 * min(records)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if narrow else (1.0, 2.0, 5.0)))
    if len(set(records)) == 1:
        axes.set_xlim(records[0] / 3, records[0] * 3)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.margins(x=0.07)
    axes.set_xlabel("owner's rows")


def _legend() -> list[Line2D | Patch]:
    def dot(label: str, face: str, edge: str, size: float = 6.5) -> Line2D:
        return Line2D(
            [], [], marker="o", linestyle="", markersize=size, markerfacecolor=face, markeredgecolor=edge, label=label
        )

    return [
        dot("owner gains by joining", TOGETHER, TOGETHER),
        dot("owner does not gain", "white", MUTED),
        dot("forecast wrong", "none", ALONE, 11),
        Line2D([], [], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label="forecast"),
        Patch(color=TOGETHER, alpha=0.14, label="90% of draws"),
    ]
