"""How budgets converge (after T's figures 4.2 and 4.3)."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parley.report.figures import INK, decorate
from parley.report.game_figures import NAMED, OWNERS
from parley.validate import Floats


def convergence(panels: Sequence[tuple[str, Sequence[Floats], Sequence[str]]]) -> Figure:
    """Panels (title, paths [rounds + 1, owners], owners' labels): budgets after each round, a colour an owner, a line a
    start."""
    figure = Figure(figsize=(3.6 * len(panels), 3.8), layout="constrained", facecolor="white")
    for place, (title, paths, labels) in enumerate(panels, start=1):
        axes = decorate(figure.add_subplot(1, len(panels), place))
        for line, path in enumerate(paths):
            for owner, label in enumerate(labels):
                name = label if line == 0 else None
                axes.plot(path[:, owner], color=OWNERS[owner % NAMED], linewidth=1.4, alpha=0.85, label=name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("round")
        axes.set_ylabel("budget ε")
        axes.set_title(title, loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    return figure
