"""Figures of games: what owners gain by a budget, what quality costs. Plain numbers in, figures out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from parley.report.figures import ALONE, EPSILON, INK, LIMIT, MUTED, TOGETHER, decorate
from parley.validate import Floats

OWNERS = (TOGETHER, ALONE, "#5b6c9e", "#b59a2a", "#8c4a6b", "#5d8a4a", "#7a6a5a", "#3a8fb7")
NAMED = 8  # owners that a figure tells apart


def negotiation(
    epsilons: Floats,
    payoffs: Mapping[str, Floats],
    chosen: Mapping[str, float],
    spend: Mapping[str, tuple[Floats, Floats]],
    budget: str = f"own budget {EPSILON}",
) -> Figure:
    """Left: each owner's payoff against its own budget, the others' as agreed, with its choice. Right: quality against
    spend.

    `payoffs` holds one curve an owner over `epsilons`, `chosen` the budgets of those who join, `spend` curves (money,
    relative fitness).
    """
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot(1, 2, 1))
    lowest = 0.0
    for place, (name, curve) in enumerate(payoffs.items()):
        colour, width, label = _look(place, name, len(payoffs), name in chosen)
        axes.plot(epsilons, curve, color=colour, linewidth=width, label=label)
        if name in chosen:
            height = float(np.interp(np.log(chosen[name]), np.log(epsilons), curve))
            axes.scatter([chosen[name]], [height], color=colour, s=46 if width > 1 else 12, zorder=3)
            lowest = min(lowest, height)
    axes.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    axes.annotate(
        "stay out",
        (epsilons[-1], 0),
        ha="right",
        va="bottom",
        color=MUTED,
        fontsize=9,
        xytext=(-2, 2),
        textcoords="offset points",
    )
    top = max(float(curve.max()) for curve in payoffs.values())
    lowest = min(lowest, top)  # where nobody joins, all lies below zero
    reach = max(top, -lowest)
    usual = float(np.median(np.abs(list(payoffs.values()))))
    reach = reach if reach > 1e-6 * usual else max(usual, 1e-12)
    axes.set_ylim(lowest - 0.6 * reach, max(top, 0.0) + 0.25 * reach)
    axes.set_ylabel("payoff")
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    _log_budgets(axes, budget)
    axes.set_title("What each budget is worth", loc="left", color=INK, fontsize=11, fontweight="bold")
    _spend_panel(decorate(figure.add_subplot(1, 2, 2)), spend)
    return figure


def _look(place: int, name: str, owners: int, joins: bool) -> tuple[str, float, str | None]:
    """(colour, width, label) of an owner's curve: the first ones by name, a crowd's others alike, with one label for
    all of them."""
    if place < NAMED:
        return OWNERS[place], 1.8, name if joins else f"{name} (stays out)"
    return LIMIT, 0.7, f"{owners - NAMED} more owners" if place == NAMED else None


KINDS = {"each_owner": ("each owner's own noise", ALONE), "shared": ("one noise for all", TOGETHER)}


def equal_owners(counts: Floats, payoff: Mapping[str, Floats], fitness: Mapping[str, Floats], like: str) -> Figure:
    """Left: what joining pays one of so many equal owners, by kind of noise. Right: how good the joint model is."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot(1, 2, 1))
    for kind, (label, colour) in KINDS.items():
        axes.plot(counts, payoff[kind], color=colour, linewidth=2.2, label=label)
    axes.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    top = max(float(curve.max()) for curve in payoff.values())
    # what few owners lose may be far below
    reach = max(top, max(-float(curve[-1]) for curve in payoff.values()), 1e-12)
    axes.set_ylim(
        max(min(float(curve.min()) for curve in payoff.values()), -reach) - 0.1 * reach, max(top, 0.0) + 0.15 * reach
    )
    for word, above in (("join", True), ("stay out", False)):
        axes.annotate(
            word,
            (counts[-1], 0),
            ha="right",
            va="bottom" if above else "top",
            color=MUTED,
            fontsize=9,
            xytext=(-2, 2 if above else -3),
            textcoords="offset points",
        )
    axes.set_ylabel("payoff of each owner")
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    axes.set_title(f"What joining pays an owner like {like}", loc="left", color=INK, fontsize=11, fontweight="bold")
    right = decorate(figure.add_subplot(1, 2, 2))
    for kind, (_, colour) in KINDS.items():
        right.plot(counts, fitness[kind], color=colour, linewidth=2.2)
    right.set_yscale("log")
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right.set_ylabel("relative fitness ψ  (0 = without privacy)")
    right.set_title("How far the model is from no privacy", loc="left", color=INK, fontsize=11, fontweight="bold")
    for each in (axes, right):
        _log_budgets(each, "number of such owners")
    return figure


def _spend_panel(axes: Axes, spend: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Money on a logarithmic axis: ways to pay differ by orders of magnitude. What is free is left of it."""
    drawn = 0
    for (label, (money, fitness)), colour in zip(spend.items(), (TOGETHER, ALONE), strict=False):
        paid = money > 1e-6 * max(float(money.max(initial=0.0)), 1e-300)
        axes.plot(money[paid], fitness[paid], color=colour, linewidth=2, marker="o", markersize=3, label=label)
        drawn += int(paid.sum())
    if not drawn:
        axes.text(0.5, 0.5, "no payment brings a better model", transform=axes.transAxes, ha="center", color=MUTED)
    axes.set_xscale("log")
    axes.set_xlabel("what the learner pays, in the owners' money")
    axes.set_ylabel("relative fitness ψ  (0 = without privacy)")
    axes.set_ylim(bottom=0)
    if spend:
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    axes.set_title("What quality costs", loc="left", color=INK, fontsize=11, fontweight="bold")


def _log_budgets(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
