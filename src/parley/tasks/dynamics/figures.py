"""A figure of plants with delayed inputs: what was measured beside what the plant does."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from parley.report.figures import ALONE, INK, LIMIT, MUTED, TOGETHER, decorate
from parley.tasks.dynamics import DelayedDMD
from parley.validate import Floats

COLOURS = (TOGETHER, ALONE, "#7a5ba6", "#b0413e", "#4c8c4a", LIMIT)
SHOWN = 60  # samples: more are a smear


def identified(found: DelayedDMD, states: Floats, inputs: Floats, names: Sequence[str]) -> Figure:
    """Left: measured states and the identified plant run from the first of them. Right: how strongly each earlier input
    acts."""
    figure = Figure(figsize=(9.4, 4.0), layout="constrained")
    left, right = (decorate(axes) for axes in figure.subplots(1, 2, width_ratios=[2, 1]))
    lags, period = found.max_delay, found.period_
    shown = slice(lags, min(lags + SHOWN, len(states)))
    fine = 8
    # The plant starts from rest, so its inputs run from the beginning and what the first state adds is carried along.
    driven = found.simulate(np.zeros(states.shape[1]), inputs[: shown.stop], fine)
    begun = found.simulate(states[0], np.zeros_like(inputs[: shown.stop]), fine)
    times = period * np.arange(len(driven)) / fine
    for i, name in enumerate(names):
        colour = COLOURS[i % len(COLOURS)]
        left.plot(times[lags * fine :], (driven + begun)[lags * fine :, i], color=colour, linewidth=1.4, label=name)
        left.plot(period * np.arange(shown.start, shown.stop), states[shown, i], "o", color=colour, markersize=3.2)
    left.set_xlabel("time", color=INK)
    left.set_title("dots: measured; lines: the identified plant", loc="left", color=MUTED, fontsize=9)
    left.legend(frameon=False, labelcolor=INK, fontsize=8.5, ncols=min(len(names), 4))
    sizes = np.linalg.norm(found.regression_.blocks.reshape(len(found.A_), lags + 1, -1), axis=(0, 2))
    right.bar(period * np.arange(lags + 1), sizes, width=0.6 * period, color=TOGETHER, alpha=0.35)
    low, high = found.delay_interval()
    for delay, a, b in zip(np.atleast_1d(found.delay_), np.atleast_1d(low), np.atleast_1d(high), strict=True):
        right.axvspan(a, b, color=ALONE, alpha=0.3, linewidth=0)
        right.axvline(delay, color=ALONE, linewidth=1.6)
    right.set_xlabel("age of the input", color=INK)
    right.set_title("bars: its effect; line: the delay", loc="left", color=MUTED, fontsize=9)
    return figure
