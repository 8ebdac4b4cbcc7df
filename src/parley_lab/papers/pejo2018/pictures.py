"""Figures of learning tastes together (after P's figures 3 to 5). Plain numbers in, figures out; colours that everybody
can tell apart."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import decorate

# Okabe and Ito's colours, with a mark and a line for those who print without any; sound noise is solid, the published
# scale dashed
LINE_STYLES: Mapping[str, tuple[str, str, str, str]] = {
    "updates": ("#0072b2", "o", "-", "updates released: hides a user"),
    "bounded": ("#d55e00", "s", "-", "noise on ratings, sound: hides a value"),
    "bounded-published": ("#d55e00", "s", "--", "noise on ratings as published: no ε holds"),
    "unbounded": ("#009e73", "^", "-", "noise on every cell, sound: hides a rating"),
    "unbounded-published": ("#009e73", "^", "--", "noise on every cell as published: no ε holds"),
    "hide": ("#66727f", "x", ":", "some ratings left out: no ε"),
}


def size_ratios(points: Sequence[Mapping[str, Any]], splits: int) -> Figure:
    """What each of two owners gains by learning together, over ratios of their users (P figure 3): on the left as P
    compares, on the right against learning alone; points of earlier runs have the right alone."""
    compared = ("over_means", "Against the means alone, as P compares"), ("improvement", "Against learning alone")
    known = [(name, title) for name, title in compared if all(name in point for point in points)]
    figure = Figure(figsize=(5.2 * len(known), 4.4), layout="constrained", facecolor="white")
    for axes, (name, title) in zip(figure.subplots(1, len(known), squeeze=False)[0], known, strict=True):
        _ratios(decorate(axes), points, name, title)
    _note(figure, "No privacy. Above the line: fewer errors together", splits)
    return figure


def _ratios(axes: Axes, points: Sequence[Mapping[str, Any]], name: str, title: str) -> None:
    ratios = list(dict.fromkeys(point["ratio"] for point in points))
    for player, (label, colour, mark) in enumerate(
        (("the smaller owner", TOGETHER, "o"), ("the larger owner", ALONE, "s")), start=1
    ):
        own = [point for point in points if point["player"] == player]
        places = np.arange(len(own)) + 0.06 * (2 * player - 3)
        gains = [point[name] for point in own]
        bars = _bars(own, "error" if name == "improvement" else f"{name}_error")
        axes.errorbar(
            places, gains, bars, fmt=f"{mark}-", color=colour, linewidth=2, markersize=7, capsize=4, label=label
        )
        others = [point[name] for point in points if point["player"] != player]
        for x, gain, other, bar in zip(places, gains, others, bars or [0.0] * len(own), strict=True):
            above = gain > other or (gain == other and player == 1)
            axes.annotate(
                f"{gain:+.2f} %",
                (x, gain + (bar if above else -bar)),
                xytext=(0, 6 if above else -15),
                textcoords="offset points",
                ha="center",
                color=colour,
                fontsize=9,
            )
    axes.set_xticks(range(len(ratios)), [f"1 in {sum(map(int, r.split(':')))}\n({r})" for r in ratios])
    axes.set_xlabel("the smaller owner's share of all users")
    _gains(axes, title)
    axes.margins(x=0.1, y=0.2)
    axes.legend(frameon=False, labelcolor=INK)


def unconcerned_partner(points: Sequence[Mapping[str, Any]], splits: int) -> Figure:
    """The smaller owner's gain over its own epsilon, the partner having no privacy (P figure 4); what is far below is
    cut off."""
    figure = Figure(figsize=(8.4, 5.2), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot())
    for mechanism, own in _by_mechanism(points).items():
        colour, mark, line, label = LINE_STYLES[mechanism]
        x, gains = np.arange(len(own)), [point["improvement"] for point in own]
        axes.errorbar(
            x,
            gains,
            _bars(own),
            fmt=line,
            marker=mark,
            color=colour,
            linewidth=1.9,
            markersize=6,
            capsize=3,
            label=label,
        )
    axes.set_xticks(range(len(own)), ["none" if point["p"] == 0 else f"{1 / point['p'] - 1:.2g}" for point in own])
    axes.set_xlabel("own ε as named; leaving out: a share of 1/(1 + ε)")
    _gains(axes, "The smaller owner of 1:4, whose partner has no privacy")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], -12))
    figure.legend(frameon=False, labelcolor=INK, fontsize=9, loc="outside lower center", ncols=2, handlelength=3.6)
    _note(
        figure,
        "Against the best that it has alone. The better of items as learned and of users' tastes solved at home",
        splits,
    )
    return figure


def both_concerned(points: Sequence[Mapping[str, Any]], splits: int) -> Figure:
    """What one of two alike gains by its own and the other's p, a panel for each mechanism (P figure 5)."""
    groups = _by_mechanism(points)
    columns = 2 if len(groups) == 4 else min(len(groups), 3)
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(3.7 * columns, 3.5 * rows + 0.4), layout="constrained", facecolor="white")
    panels = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    for axes, (mechanism, own) in zip(panels, groups.items(), strict=False):
        _heat(axes, own, LINE_STYLES[mechanism][3], "ε" if mechanism != "hide" else "share left out")
    _note(figure, "Gain over learning alone in %. Orange: together is better; purple: alone is", splits, "±")
    return figure


def _heat(axes: Axes, points: Sequence[Mapping[str, Any]], label: str, named: str) -> None:
    levels = sorted({point["p"] for point in points})
    cells: dict[tuple[float, float], list[Mapping[str, Any]]] = {}
    for point in points:
        cells.setdefault((point["p_other"], point["p"]), []).append(point)
    means = np.array(
        [[np.mean([one["improvement"] for one in cells[other, own]]) for own in levels] for other in levels]
    )
    axes.imshow(np.clip(means, -5, 5), cmap="PuOr_r", vmin=-5, vmax=5, origin="lower")
    for j, other in enumerate(levels):
        for i, own in enumerate(levels):
            # both players of a division are one
            gains = np.mean([one["improvements"] for one in cells[other, own]], axis=0)
            bar = f"\n± {gains.std(ddof=1) / len(gains) ** 0.5:.1f}" if len(gains) > 1 else ""
            ink = "white" if means[j, i] < -2.5 else INK
            axes.annotate(
                f"{round(float(means[j, i]), 1) + 0.0:+.1f}{bar}",
                (i, j),
                ha="center",
                va="center",
                color=ink,
                fontsize=8.5,
            )
    ticks = ["none" if p == 0 else f"{1 / p - 1:.2g}" if named == "ε" else f"{p:.0%}" for p in levels]
    axes.set_xticks(range(len(levels)), ticks)
    axes.set_yticks(range(len(levels)), ticks)
    axes.tick_params(colors=MUTED, length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"own {named}", color=MUTED)
    axes.set_ylabel(f"the other's {named}", color=MUTED)
    axes.set_title(label, loc="left", color=INK, fontsize=9, fontweight="bold")


def _by_mechanism(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The points of each mechanism, in the order of the looks."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in LINE_STYLES}
    for point in points:
        found[point["mechanism"]].append(point)
    return {name: own for name, own in found.items() if own}


def _bars(points: Sequence[Mapping[str, Any]], name: str = "error") -> list[float] | None:
    errors = [point[name] for point in points]
    return None if None in errors else errors


def _gains(axes: Axes, title: str) -> None:
    axes.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    axes.set_ylabel("error falls by, %")
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")


def _note(figure: Figure, text: str, splits: int, mark: str = "bars") -> None:
    bars = (
        f". {mark.capitalize()}: standard error over {splits} divisions of the users"
        if splits > 1
        else ". One division of the users"
    )
    lines = textwrap.fill(text + bars, int(12 * figure.get_figwidth()))  # characters of this size in an inch
    figure.suptitle(lines, x=0.01, ha="left", color=MUTED, fontsize=9)
