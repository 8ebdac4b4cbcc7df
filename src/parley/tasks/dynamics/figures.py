"""A figure of an identified plant beside the measurements."""

from collections.abc import Sequence

import numpy as np

from parley.numerals import number
from parley.report.figures.colours import ALONE, INK, SERIES_COLOURS, TOGETHER
from parley.report.figures.picture import Picture, decorate, first_names, headed, lettered
from parley.tasks.dynamics import DelayedDMD
from parley.validate import Floats

MAX_SAMPLES_SHOWN = 60  # samples: more are a smear


def identified(found: DelayedDMD, states: Floats, inputs: Floats, names: Sequence[str]) -> Picture:
    """Draw measured states beside the identified plant (left), and each earlier input's effect (right)."""
    figure = Picture(9.4, 4.4, _describe_figure(found, names))
    left, right = (decorate(axes) for axes in figure.subplots(1, 2, width_ratios=[2, 1]))
    lags, period = found.max_delay, found.period_
    shown = slice(lags, min(lags + MAX_SAMPLES_SHOWN, len(states)))
    fine = 8
    # The plant starts from rest, so its inputs run from the beginning and what the first state adds is carried along.
    driven = found.simulate(np.zeros(states.shape[1]), inputs[: shown.stop], fine)
    begun = found.simulate(states[0], np.zeros_like(inputs[: shown.stop]), fine)
    times = period * np.arange(len(driven)) / fine
    most_varying = np.sort(np.argsort(-states.std(axis=0), kind="stable")[: len(SERIES_COLOURS)])
    for i, colour in zip(most_varying, SERIES_COLOURS, strict=False):
        path = (driven + begun)[lags * fine :, i]
        left.plot(times[lags * fine :], path, color=colour, linewidth=1.4, label=lettered(names[i], 20))
        left.plot(period * np.arange(shown.start, shown.stop), states[shown, i], "o", color=colour, markersize=3.2)
    left.set_xlabel("time\ndots: measured; lines: the identified plant")
    left.set_ylabel("state")
    more = len(names) - len(most_varying)
    headed(left, f"What moves most, and {more:,} more states" if more else "What is measured, and what the plant does")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, labelcolor=INK, fontsize=8, ncols=4)
    sizes = np.linalg.norm(found.regression_.blocks.reshape(len(found.A_), lags + 1, -1), axis=(0, 2))
    right.bar(period * np.arange(lags + 1), sizes, width=0.6 * period, color=TOGETHER, alpha=0.35)
    low, high = found.delay_interval()
    for delay, a, b in zip(np.atleast_1d(found.delay_), np.atleast_1d(low), np.atleast_1d(high), strict=True):
        right.axvspan(a, b, color=ALONE, alpha=0.3, linewidth=0)
        right.axvline(delay, color=ALONE, linewidth=1.6)
    right.set_xlabel("age of the input, in units of time\nline: the delay; shaded: its interval")
    right.set_ylabel("its effect on the states")
    headed(right, "When inputs act")
    return figure


def _describe_figure(found: DelayedDMD, names: Sequence[str]) -> str:
    delays = ", ".join(number(float(delay)) for delay in np.atleast_1d(found.delay_))
    return (
        f"What is measured, and what the plant does. {len(names):,} states over time ({first_names(names, 6)}), beside "
        f"the identified plant run from the first of them; inputs act after {delays}."
    )
