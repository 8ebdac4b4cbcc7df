"""How budgets converge, what an owner's own budget brings (after T's figures 4.2 and 4.3), and T's bound 2.3."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parley.report.figures.colours import ALONE, INK, MUTED, SERIES_COLOURS, TOGETHER
from parley.report.figures.picture import decorate
from parley.validate import Floats
from parley_lab.papers.wu2019_thesis.payoffs import PayoffCurve


def convergence(panels: Sequence[tuple[str, Sequence[Floats], Sequence[str]]]) -> Figure:
    """Panels (title, paths [rounds + 1, owners], owners' labels): budgets after each round, a colour an owner, a line a
    start."""
    figure = Figure(figsize=(3.6 * len(panels), 3.8), layout="constrained", facecolor="white")
    for place, (title, paths, labels) in enumerate(panels, start=1):
        axes = decorate(figure.add_subplot(1, len(panels), place))
        for line, path in enumerate(paths):
            for owner, label in enumerate(labels):
                name = label if line == 0 else None
                axes.plot(
                    path[:, owner],
                    color=SERIES_COLOURS[owner % len(SERIES_COLOURS)],
                    linewidth=1.4,
                    alpha=0.85,
                    label=name,
                )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
        axes.set_ylabel("budget ε")
        axes.set_title(title, loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure


def payoffs(curves: Sequence[PayoffCurve]) -> Figure:
    """One owner's payoff over its own budget, a panel a game, a line for each equilibrium of the others; dots: tops."""
    names = list(dict.fromkeys(curve.figure for curve in curves))
    figure = Figure(figsize=(4.4 * len(names), 3.8), layout="constrained", facecolor="white")
    for place, name in enumerate(names, start=1):
        axes = decorate(figure.add_subplot(1, len(names), place))
        for curve, colour in zip((c for c in curves if c.figure == name), (TOGETHER, ALONE), strict=False):
            label = f"others at ε = {curve.others[0]:.2f}"
            axes.plot(curve.epsilon, curve.payoff, color=colour, linewidth=1.6, label=label)
            axes.plot([curve.top], [curve.payoff.max()], "o", color=colour, markersize=6)
        axes.set_xlabel("own budget ε")
        axes.set_ylabel("payoff")
        game = next(curve.game for curve in curves if curve.figure == name)
        axes.set_title(f"{name}: {game}", loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure


def bound(lines: Sequence[tuple[float, Sequence[float], Sequence[float]]]) -> Figure:
    """For each e^-eps the chance of a right guess by the number of records: the best as dots, the bound as a line."""
    figure = Figure(figsize=(5.4, 3.8), layout="constrained", facecolor="white")
    axes = decorate(figure.add_subplot())
    for (ratio, best, bounds), colour in zip(lines, (TOGETHER, ALONE, MUTED), strict=True):
        records = range(1, len(best) + 1)
        axes.plot(records, bounds, color=colour, linewidth=1.4, label=f"e^-ε = {ratio:g}: bound 2.3")
        axes.plot(records, best, "o", color=colour, markersize=4, label="best mechanism")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, 1)
    axes.set_xlabel("records")
    axes.set_ylabel("chance of a right guess")
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    return figure
