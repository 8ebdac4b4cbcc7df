"""Figures of attacks: their errors next to the claim, and members found by false alarm rate."""

from collections.abc import Mapping
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes

from parley.audit import Verdict
from parley.audit.attacks.membership import Membership
from parley.audit.attacks.trained_model import ModelAudit
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.privacy.accounting.meaning import error_tradeoff
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, SERIES_COLOURS, TOGETHER
from parley.report.figures.picture import Picture, decorate, headed, lettered
from parley.report.words.audit import claim
from parley.report.words.membership import ATTACK_NAMES, TITLE
from parley.report.words.membership import claim as member_claim


def audit_figure(verdict: Verdict) -> Picture:
    """Draw the attack's errors next to the claim, and its advantage over guessing."""
    alarms, misses = np.array(verdict.curve).T
    x = np.linspace(0, 1, 401)
    least = error_tradeoff(verdict.claimed_epsilon, verdict.delta, x)
    reached = float(np.max(1 - alarms - misses))
    figure = Picture(
        8.6,
        4.2,
        f"The figure shows the attack's false alarms and misses next to the claimed bound, {claim(verdict)}. The "
        f"attack's advantage over guessing is at most {reached:.3f}. The claim allows an advantage of at most "
        f"{np.max(1 - x - least):.3f}.",
    )
    left, right = (decorate(axes) for axes in figure.subplots(1, 2))
    left.fill_between(x, 0, least, color=ALONE, alpha=0.15, linewidth=0)
    left.plot(x, least, color=ALONE, linewidth=1.8, label="claimed lower limit for all attacks")
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
    right.set_ylabel("advantage over guessing")
    headed(left, "Can an attacker tell who is in the table?")
    headed(right, f"Claimed {claim(verdict)}")
    return figure


ATTACK_COLOURS: dict[str, str] = {"online": TOGETHER, "offline": SERIES_COLOURS[4], "shadow": MUTED}


def membership_figure(found: Mapping[str, Membership], below: str = "") -> Picture:
    """Draw members found by false alarms, on logarithmic axes, next to the claim: one panel per title, `below` as a
    note."""
    seen = "; ".join(f"{title}: {_seen(each)}" for title, each in found.items())
    figure = Picture(
        0.6 + 5.6 * len(found),
        5.2,
        f"The figure shows the share of members that each attack finds, by its false-alarm rate. {seen}. "
        f"{below}".strip(),
    )
    for axes, (title, each) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        _panel(decorate(axes), each)
        headed(axes, lettered(title, 48))
    if below:
        figure.supxlabel(fill(below, 14 * int(figure.get_figwidth())), color=MUTED, fontsize=8)
    return figure


def own_figure(audit: ModelAudit) -> Picture:
    """Draw the curves of models like the audited one, marked as for the owner only."""
    return membership_figure(
        {TITLE: audit.membership}, below=f"For {lettered(audit.owner or 'the owner')} alone. {KEEP_INSIDE_NOTE}"
    )


def _seen(found: Membership) -> str:
    areas = ", ".join(f"{ATTACK_NAMES[each.method]} {each.auc.value:.3f}" for each in found.inferences)
    return f"areas under the curves (AUC): {areas}, guessing 0.500 ({member_claim(found)})"


def _panel(axes: Axes, found: Membership) -> None:
    x = np.geomspace(1e-4, 1, 400)
    if found.claimed_epsilon is not None:
        most = 1 - error_tradeoff(found.claimed_epsilon, found.delta, x)
        axes.fill_between(x, most, 1, color=ALONE, alpha=0.13, linewidth=0)
        axes.plot(
            x, most, color=ALONE, linewidth=1.8, label=f"claimed upper limit for all attacks: {member_claim(found)}"
        )
    for each in found.inferences:
        alarms, hits = np.array(each.curve).T
        shown = (alarms > 0) & (hits > 0)
        label = f"{ATTACK_NAMES[each.method]}: AUC {each.auc.value:.3f}"
        axes.plot(alarms[shown], hits[shown], color=ATTACK_COLOURS.get(each.method, INK), linewidth=1.8, label=label)
    axes.plot(x, x, color=LIMIT, linestyle="--", linewidth=1.2, label="guessing")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1e-4, 1)
    axes.set_ylim(1e-4, 1)
    axes.set_xlabel("false alarms: share of non-members classified as members")
    axes.set_ylabel("share of members that the attack finds")
    axes.legend(frameon=False, labelcolor=INK, fontsize=8.5, loc="lower right")
