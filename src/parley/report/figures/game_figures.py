"""Figures of games: what owners gain by a budget, and what quality costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from parley.decisions.games.negotiate import Negotiation
from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, SERIES_COLOURS, TOGETHER
from parley.report.figures.curves import EPSILON
from parley.report.figures.picture import TEXT_BACKGROUND, Picture, decorate, first_names, headed, lettered
from parley.report.words.negotiation import adjacency
from parley.validate import Floats

MAX_NAMED_OWNERS = len(SERIES_COLOURS)  # owners that a figure tells apart
MAX_SINGLE_CURVES = 100  # owners whose curves are a smear: what half and nine in ten of them get is shown instead
LEGEND_BELOW: dict[str, Any] = {  # where a legend hides nothing
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.16),
    "ncols": 2,
    "frameon": False,
    "labelcolor": INK,
    "fontsize": 8,
}


def negotiation(
    epsilons: Floats,
    payoffs: Mapping[str, Floats],
    chosen: Mapping[str, float],
    spend: Mapping[str, tuple[Floats, Floats]],
    budget: str = f"own budget {EPSILON}",
) -> Picture:
    """Draw payoffs against own budgets (left) and quality against spend (right); among many, only the highest payoffs
    are named.

    `payoffs` holds one curve per owner over `epsilons`, the others' budgets as agreed; `chosen` the budgets of those
    who join; `spend` curves (money, relative fitness).
    """
    figure = Picture(10.2, 5.2, _deal_words(payoffs, chosen, spend))
    left, right = (decorate(axes) for axes in figure.subplots(1, 2))
    _payoff_panel(left, epsilons, payoffs, chosen)
    _log_budgets(left, budget)
    _spend_panel(right, spend)
    return figure


def _payoff_panel(axes: Axes, epsilons: Floats, payoffs: Mapping[str, Floats], chosen: Mapping[str, float]) -> None:
    """Draw payoffs by budget, named owners in front."""
    ranked = (
        sorted(payoffs, key=lambda name: -float(payoffs[name].max()))
        if len(payoffs) > MAX_NAMED_OWNERS
        else list(payoffs)
    )
    lowest = 0.0
    for place, name in enumerate(ranked):
        curve, (colour, width, label) = payoffs[name], _curve_style(place, name, len(payoffs), name in chosen)
        front = 2.0 if place < MAX_NAMED_OWNERS else 1.5
        if place < MAX_NAMED_OWNERS or len(ranked) <= MAX_SINGLE_CURVES:
            axes.plot(epsilons, curve, color=colour, linewidth=width, label=label, zorder=front)
        if name in chosen:
            height = float(np.interp(np.log(chosen[name]), np.log(epsilons), curve))
            axes.scatter([chosen[name]], [height], color=colour, s=46 if width > 1 else 12, zorder=front + 1)
            lowest = min(lowest, height)
    if len(ranked) > MAX_SINGLE_CURVES:
        _crowd(axes, epsilons, np.array([payoffs[name] for name in ranked[MAX_NAMED_OWNERS:]]))
    axes.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    _at_the_end(axes, epsilons[-1], "stay out", above=True)
    top = max(float(curve.max()) for curve in payoffs.values())
    lowest = min(lowest, top)  # where nobody joins, all lies below zero
    reach = max(top, -lowest)
    usual = float(np.median(np.abs(list(payoffs.values()))))
    reach = reach if reach > max(1e-6 * usual, 1e-9) else max(usual, 1.0)
    axes.set_ylim(lowest - 0.6 * reach, max(top, 0.0) + 0.25 * reach)
    axes.set_ylabel("payoff, in the owners' currency")
    axes.legend(**LEGEND_BELOW)
    headed(axes, "Payoff of each budget")


def _deal_words(
    payoffs: Mapping[str, Floats], chosen: Mapping[str, float], spend: Mapping[str, tuple[Floats, Floats]]
) -> str:
    joining = [f"{name} at ε = {number(chosen[name], 3)}" for name in payoffs if name in chosen]
    who = f"{len(joining):,} of {len(payoffs):,} owners join: {first_names(joining, 6)}" if joining else "nobody joins"
    best = [float(fitness.min()) for _, fitness in spend.values() if len(fitness)]
    pays = f"payments reach ψ = {number(min(best), 3)}" if best else "no payment improves the model"
    return (
        f"The figure shows each owner's payoff by budget, and the cost of a better model. On the left, {who}. On the "
        f"right, {pays}."
    )


def _crowd(axes: Axes, epsilons: Floats, curves: Floats) -> None:
    """Draw the median and the middle 50% and 90% of many owners."""
    low, q25, median, q75, high = np.quantile(curves, (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
    axes.fill_between(epsilons, low, high, color=LIMIT, alpha=0.18, linewidth=0)
    axes.fill_between(epsilons, q25, q75, color=LIMIT, alpha=0.3, linewidth=0)
    axes.plot(
        epsilons,
        median,
        color=LIMIT,
        linewidth=1.4,
        label=f"… and {len(curves):,} more owners: median, middle 50% and 90%",
    )


def _curve_style(place: int, name: str, owners: int, joins: bool) -> tuple[str, float, str | None]:
    """Return (colour, width, label) of an owner's curve; owners without names look alike and share one label."""
    if place < MAX_NAMED_OWNERS:
        return SERIES_COLOURS[place], 1.8, lettered(name) if joins else f"{lettered(name)} (stays out)"
    return LIMIT, 0.7, f"{owners - MAX_NAMED_OWNERS} more owners" if place == MAX_NAMED_OWNERS else None


NOISE_KINDS = {"each_owner": ("each owner's own noise", ALONE), "shared": ("shared noise", TOGETHER)}


def equal_owners(counts: Floats, payoff: Mapping[str, Floats], fitness: Mapping[str, Floats], like: str) -> Picture:
    """Draw what joining pays one of many equal owners, by kind of noise, and the quality of the joint model."""
    ends = "; ".join(f"{label} {number(float(payoff[kind][-1]), 3)}" for kind, (label, _) in NOISE_KINDS.items())
    figure = Picture(
        10.2,
        4.6,
        f"The figure shows the payoff of joining for an owner like {like}, and the joint model's relative fitness, by "
        f"the number of similar owners. Each owner's payoff among {counts[-1]:,.0f} similar owners: {ends}.",
    )
    axes = decorate(figure.add_subplot(1, 2, 1))
    for kind, (label, colour) in NOISE_KINDS.items():
        axes.plot(counts, payoff[kind], color=colour, linewidth=2.2, label=label)
    axes.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    top = max(float(curve.max()) for curve in payoff.values())
    # what few owners lose may be far below
    reach = max(top, max(-float(curve[-1]) for curve in payoff.values()), 1e-12)
    axes.set_ylim(
        max(min(float(curve.min()) for curve in payoff.values()), -reach) - 0.1 * reach, max(top, 0.0) + 0.15 * reach
    )
    for word, above in (("join", True), ("stay out", False)):
        _at_the_end(axes, counts[-1], word, above)
    axes.set_ylabel("payoff of each owner, in the owner's currency")
    axes.legend(**LEGEND_BELOW)
    headed(axes, f"Payoff of joining for an owner like {lettered(like, 18)}")
    right = decorate(figure.add_subplot(1, 2, 2))
    for kind, (_, colour) in NOISE_KINDS.items():
        right.plot(counts, fitness[kind], color=colour, linewidth=2.2)
    right.set_yscale("log")
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right.set_ylabel("relative fitness ψ  (0 = optimum)")
    headed(right, "Relative fitness of the joint model")
    for each in (axes, right):
        _log_budgets(each, "number of similar owners")
    return figure


def _spend_panel(axes: Axes, spend: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Draw quality against money on a logarithmic axis; free points are left out."""
    drawn = 0
    for (label, (money, fitness)), colour in zip(spend.items(), (TOGETHER, ALONE), strict=False):
        paid = money > 1e-6 * max(float(money.max(initial=0.0)), 1e-300)
        axes.plot(money[paid], fitness[paid], color=colour, linewidth=2, marker="o", markersize=3, label=label)
        drawn += int(paid.sum())
    headed(axes, "What quality costs")
    if not drawn:
        axes.text(0.5, 0.5, "no payment improves the model", transform=axes.transAxes, ha="center", color=MUTED)
        axes.set_axis_off()
        return
    _log_budgets(axes, "the learner's payments, in the owners' currency")
    axes.set_ylabel("relative fitness ψ  (0 = optimum)")
    axes.set_ylim(bottom=0)
    axes.legend(**LEGEND_BELOW)


def _at_the_end(axes: Axes, x: float, word: str, above: bool) -> None:
    """Write a word at the right end of the line at 0."""
    place: Any = {
        "ha": "right",
        "va": "bottom" if above else "top",
        "textcoords": "offset points",
        "bbox": TEXT_BACKGROUND,
    }
    axes.annotate(word, (x, 0), xytext=(-2, 2 if above else -3), color=MUTED, fontsize=9, **place)


def _log_budgets(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)


def negotiation_figure(result: Negotiation) -> Figure:
    """Draw payoffs by own budget with the choices marked, and quality against spend."""
    epsilons, payoffs = result.payoff_curves()
    chosen = {owner.name: owner.epsilon for owner in result.owners if owner.epsilon is not None}
    budget = f"{'common' if result.terms.noise.common else 'own'} budget ε ({adjacency(result)})"
    return negotiation(epsilons, payoffs, chosen, result.spending(), budget)
