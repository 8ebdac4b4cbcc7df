"""Figures of models of handwritten digits: how many they tell apart, and what their weights look like (after A's
figures 5 to 9)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from parley.privacy.events import Adjacency
from parley.report.figures.colours import ALONE, GRID, INK, LIMIT, MUTED, TOGETHER
from parley.validate import Floats


def curves(
    alone: pd.DataFrame, together: pd.DataFrame, silent: Mapping[str, float], published: Mapping[str, float], title: str
) -> Figure:
    """Accuracy against A's epsilon of one step, published as dots and ours as lines; above, what all steps cost
    together."""
    figure = Figure(figsize=(8.2, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(together["epsilon"], together["softmax"], color=INK, linewidth=2, label="softmax, same total ε")
    for table, colour, name, who in (
        (alone, ALONE, "alone", "alone"),
        (together, TOGETHER, "together, one noise", "one noise"),
    ):
        low, high = table["ours"] - table["sd"].fillna(0), table["ours"] + table["sd"].fillna(0)
        axes.fill_between(table["epsilon"], low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(table["epsilon"], table["ours"], color=colour, linewidth=2, label=f"{name}: ours")
        axes.plot(table["epsilon"], table["published"], "o", color=colour, markersize=5, label=f"{name}: published")
        axes.axhline(silent[who], color=colour, linewidth=1, linestyle=(0, (4, 3)))
        axes.axhline(published[who], color=colour, linewidth=1, linestyle=(0, (1, 2)))
    own = together.dropna(subset="own_noise")
    axes.plot(
        own["epsilon"],
        own["own_noise"],
        "s-",
        color=LIMIT,
        linewidth=1.6,
        markersize=4,
        label="together, each its own noise",
    )
    axes.plot([], [], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="no noise: ours")
    axes.plot([], [], color=MUTED, linewidth=1, linestyle=(0, (1, 2)), label="no noise: published")
    axes.set_xlabel(f"ε as published: of one step, a record {Adjacency.ADD_OR_REMOVE_ONE.verb}", color=INK)
    axes.set_ylabel("test images told right, %", color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8.5, loc="lower right", ncols=2)
    top = axes.secondary_xaxis("top")
    places = alone["epsilon"].to_numpy()
    top.set_xticks(places, [f"{total:.3g}" for total in alone["total"]])
    top.set_xlabel(
        f"total ε of all epochs at δ = 0.001, a record {Adjacency.REPLACE_ONE.verb}", color=MUTED, fontsize=9
    )
    top.tick_params(colors=MUTED, labelsize=8.5)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=12)
    return figure


def pictures(named: Sequence[tuple[str, Floats]], title: str) -> Figure:
    """Weights as square pictures, five in a row; each on its own scale, white at zero."""
    rows = -(-len(named) // 5)
    figure = Figure(figsize=(8.2, 1.75 * rows + 0.5), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, 5)).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, (name, weights) in zip(axes, named, strict=False):
        side = round(len(weights) ** 0.5)
        limit = float(np.abs(weights).max()) or 1.0
        axis.imshow(weights.reshape(side, side), cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        axis.set_title(name, fontsize=9, color=MUTED)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=11)
    return figure
