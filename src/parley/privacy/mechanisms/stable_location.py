"""Where answers with stable noise lie: such noise has no mean square, so a mean of answers does not settle, and one of
m is not 1/m as uncertain. What holds instead follows from the law, which is known exactly.

One answer: what it is about lies around it by that law. Several answers of one thing: under a flat prior the posterior
is the product of their densities, by then of finite variance (its tails fall like z^(-m (1 + alpha)), m >= 2); its mean
is Pitman's estimate, the best of those that move along when all answers are moved (1939). Since nothing but the place
is unknown, its intervals are right in the sense of repeated answers, too, and given how far apart the answers lie.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from parley.privacy.mechanisms.stable_law import cdf, log_pdf
from parley.validate import Floats

AROUND = np.sinh(
    np.linspace(-np.arcsinh(1e4), np.arcsinh(1e4), 161)
)  # in scales: where a posterior is looked at, around every answer
NORMAL = np.linspace(-6.0, 6.0, 601)  # deviations


def located(answers: Floats, alpha: float, scale: float) -> tuple[Floats, Floats]:
    """(the posterior's mean, its variance) [...] of what m >= 2 answers [m, ...] with noise of this law are about.

    >>> mean, variance = located(np.array([[1.0], [2.0], [100.0]]), 1.5, 0.5)
    >>> bool(1 < mean[0] < 2.2), bool(variance[0] < 1)
    (True, True)
    """
    flat = answers.reshape(len(answers), -1)
    at = np.sort((flat[:, None, :] + scale * AROUND[None, :, None]).reshape(-1, flat.shape[1]), axis=0)  # [g, d]
    fit = sum((log_pdf((each - at) / scale, alpha) for each in flat), start=np.zeros_like(at))
    weight = np.exp(fit - fit.max(axis=0))
    weight *= _steps(at)
    weight /= weight.sum(axis=0)
    mean = (weight * at).sum(axis=0)
    variance = (weight * (at - mean) ** 2).sum(axis=0)
    return mean.reshape(answers.shape[1:]), variance.reshape(answers.shape[1:])


def reach(level: float, alpha: float, scale: float, deviation: float) -> float:
    """How far from 0 a stable number of this scale plus a normal
    one of this deviation lies at most, with this probability.

    >>> round(reach(0.9, 1.0, 1.0, 0.0), 3), round(reach(0.9, 1.5, 0.0, 1.0), 3)
    (6.314, 1.645)
    """
    if not scale > 0:
        return deviation * float(ndtri((1 + level) / 2))
    weight = np.exp(-(NORMAL**2) / 2)
    weight /= weight.sum()

    def beyond(log: float) -> float:
        q = np.exp(log)
        shifted = deviation * NORMAL if deviation > 0 else np.zeros(1)
        inside = cdf(q - shifted, alpha, scale) - cdf(-q - shifted, alpha, scale)
        return float(inside @ (weight if deviation > 0 else np.ones(1))) - level

    unit = np.log(scale + deviation)
    return float(np.exp(brentq(beyond, unit - 12, unit + 40, xtol=1e-6)))


def _steps(at: Floats) -> Floats:
    """What each place of a sorted column stands for, by the trapezoid rule."""
    gap = np.diff(at, axis=0)
    ends = np.zeros((1, at.shape[1]))
    return np.asarray((np.concatenate([ends, gap]) + np.concatenate([gap, ends])) / 2)
