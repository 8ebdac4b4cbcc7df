"""An attack's errors beside what is claimed."""

import numpy as np

from parley.audit import Verdict
from parley.privacy.accounting.meaning import error_tradeoff
from parley.report.figures.colours import ALONE, INK, LIMIT, TOGETHER
from parley.report.figures.picture import Picture, decorate, headed
from parley.report.words.audit import claim


def audit_figure(verdict: Verdict) -> Picture:
    """The attack's errors beside the claim: all of it, and how far it is better than guessing."""
    alarms, misses = np.array(verdict.curve).T
    x = np.linspace(0, 1, 401)
    least = error_tradeoff(verdict.claimed_epsilon, verdict.delta, x)
    reached = float(np.max(1 - alarms - misses))
    figure = Picture(
        8.6,
        4.2,
        f"Who is in the table? False alarms and misses of the attack beside what is claimed, {claim(verdict)}. The "
        f"attack is better than guessing by {reached:.3f} at most; the claim allows {np.max(1 - x - least):.3f}.",
    )
    left, right = (decorate(axes) for axes in figure.subplots(1, 2))
    left.fill_between(x, 0, least, color=ALONE, alpha=0.15, linewidth=0)
    left.plot(x, least, color=ALONE, linewidth=1.8, label="no attack is below (claimed)")
    left.plot(alarms, misses, color=TOGETHER, linewidth=1.8, label="this attack")
    left.plot([0, 1], [1, 0], color=LIMIT, linestyle="--", linewidth=1.2, label="guessing")
    left.set_xlim(0, 1)
    left.set_ylim(0, 1)
    left.set_xlabel("false alarms")
    left.set_ylabel("misses")
    left.legend(frameon=False, labelcolor=INK, fontsize=9)
    right.plot(x, 1 - x - least, color=ALONE, linewidth=1.8)
    right.plot(alarms, 1 - alarms - misses, color=TOGETHER, linewidth=1.8)
    right.axhline(0, color=LIMIT, linestyle="--", linewidth=1.2)
    right.set_xlim(0, 1)
    right.set_xlabel("false alarms")
    right.set_ylabel("better than guessing by")
    headed(left, "Who is in the table?")
    headed(right, f"Claimed {claim(verdict)}")
    return figure
