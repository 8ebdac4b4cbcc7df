"""A picture of the laws of one answer under two truths (after A's figure 4)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from parley.report.figures.colours import ALONE, INK, TOGETHER
from parley.report.figures.picture import decorate
from parley.validate import Floats


def laws(x: Floats, curves: Sequence[Floats], k: Floats, bars: Sequence[Floats]) -> Figure:
    """Left: densities with Laplace noise, as A draws them; right: chances with geometric noise, on whole numbers."""
    figure = Figure(figsize=(8.8, 3.6), layout="constrained", facecolor="white")
    left, right = (decorate(axes) for axes in figure.subplots(1, 2, sharey=True))
    for truth, colour, curve, bar, shift in zip(
        (100, 101), (TOGETHER, ALONE), curves, bars, (-0.18, 0.18), strict=True
    ):
        left.plot(x, curve, color=colour, linewidth=1.6, label=f"the truth is {truth}")
        right.bar(k + shift, bar, width=0.34, color=colour, alpha=0.8, label=f"the truth is {truth}")
    for axes, title in ((left, "4: Laplace noise"), (right, "the same on whole numbers")):
        axes.set_xlabel("answer")
        axes.set_title(title, loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.legend(frameon=False, labelcolor=INK, fontsize=8)
    left.set_ylabel("density or chance")
    return figure
