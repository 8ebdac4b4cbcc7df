"""How small the noise of a run must be for what was seen: a lower bound on epsilon for noise of the claimed law.

A guarantee of (eps, delta) is about rare events as well, which a few thousand runs never see; so hits alone prove
little where delta is small. But noise of one law has one free number, its size, and common events tell it.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

from parley.audit.distinguishing import rates, thresholds
from parley.errors import SettingError
from parley.privacy.accounting.compose import composed, pld_interval
from parley.privacy.accounting.pairs import delta_at
from parley.privacy.accounting.releases import amplified
from parley.privacy.accounting.sampled import sampled_epsilon
from parley.privacy.accounting.series import Series
from parley.privacy.events import Event, GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.validate import Floats

SMALLEST, LARGEST, STEPS = 1 / 16, 16.0, 7  # times less noise than is claimed: from where to where, and how finely


@dataclass(frozen=True)
class Rates:
    """How often an attacker says b, at least where it is b and at most where it is not, at some confidence."""

    right: float
    wrong: float

    @property
    def apart(self) -> float:
        """How far the laws of two tables lie apart in total variation, at least."""
        return self.right - self.wrong

    @classmethod
    def of(cls, pilot: tuple[Floats, Floats], counted: tuple[Floats, Floats], confidence: float) -> "Rates":
        """By the threshold on the statistic that other runs, `pilot`, are told apart best by; each side's runs as a
        and as b."""
        at = thresholds(np.concatenate(pilot))
        above = [1 - np.searchsorted(np.sort(side), at, side="left") / len(side) for side in pilot]
        best = at[int(np.argmax(above[1] - above[0]))]
        hits = [int(np.count_nonzero(side >= best)) for side in counted]
        ends = [rates(k, len(side), (1 - confidence) / 2) for k, side in zip(hits, counted, strict=True)]
        return cls(float(ends[1][0]), float(ends[0][1]))


def epsilon_by_size(found: Rates, series: Series, claimed: float, delta: float) -> float:
    """The epsilon of all answers of a series at delta if its noise has the claimed law and so small a size that what
    was found is possible; 0: any size will do.

    Formal guarantee: noise of the claimed size has laws at most delta(0) apart in total variation; of Gaussian noise
    that nobody draws rows under, P_b(S) <= Phi(Phi^-1(P_a(S)) + mu). So the result exceeds `claimed`, where noise has
    the claimed size and covers the sensitivity, with no more probability than the rates are wrong with. Where the law
    is another one, nothing is said.
    """
    event, copies = series.event.times(1 if series.joint else series.count), series.shared_records
    if not found.apart > 0:
        return 0.0
    if isinstance(event, GaussianEvent) and event.sampling == 1:
        shift = float(ndtri(found.right) - ndtri(found.wrong))
        return copies * gaussian_epsilon(1 / shift, delta / copies) if delta > 0 else 0.0
    try:
        times = _less_noise(event, found.apart)
        if isinstance(event, GaussianEvent):
            usual, less = (
                sampled_epsilon(event.multiplier / f, event.sampling, delta / copies, event.count) for f in (1.0, times)
            )
            return claimed * less / usual
    except SettingError:  # no grid holds so many or so small losses
        return 0.0
    return claimed * times if event.sampling < 1 else copies * times * event.count / event.multiplier


def _less_noise(event: Event, apart: float) -> float:
    """By how much the noise must be smaller than is claimed so that laws can lie so far apart, rounded down; 0: by less
    than is looked at."""
    if not apart > _total_variation(event, SMALLEST):
        return 0.0
    if _total_variation(event, LARGEST) < apart:
        return LARGEST
    low, high = (1.0, LARGEST) if apart > _total_variation(event, 1.0) else (SMALLEST, 1.0)
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if apart > _total_variation(event, middle) else (low, middle)
    return low


def _total_variation(event: Event, times: float) -> float:
    """How far apart the laws of all releases lie at most, with so many times less noise."""
    if isinstance(event, GaussianEvent):
        loud = replace(event, multiplier=event.multiplier / times)
        return float(delta_at(composed([loud], pld_interval([loud])), 0.0, event.count))
    # the worst that pure releases can do: coins that say the truth with probability e^eps/(1 + e^eps)
    truth, half = float(expit(amplified(times / event.multiplier, event.sampling))), event.count // 2
    return float(binom.sf(half, event.count, truth) - binom.sf(half, event.count, 1 - truth))
