"""The symmetric alpha-stable (SaS) law: characteristic function exp(-|scale t|^alpha), 1 <= alpha <= 2 (Z chapter 3).

alpha = 1 is the Cauchy law, alpha = 2 the Gaussian of variance 2 scale^2. Between them the density is computed by
inversion along a rotated ray, joined to the tail series; both are checked against 50-digit arithmetic. Stated error of
`pdf` and `cdf`'s tails: 1e-8 relative for |x| <= 1e6 scale. There is no exact sampler. The one here is floating-point
Chambers-Mallows-Stuck, whose low bits depend on the value it is added to: for studies, never for a release.

The noise has no mean square, so the mean of m answers is not 1/m as uncertain. Under a flat prior the posterior of what
m >= 2 answers are about is the product of their densities, of finite variance (tails like z^(-m (1 + alpha))). Its mean
is Pitman's estimate, the best of those that move along when all answers are moved (1939). Its intervals are right for
repeated answers, too, and given how far apart the answers lie.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gamma, gammaln, ndtr, ndtri

from parley.errors import SettingError
from parley.validate import Floats, positive

if TYPE_CHECKING:
    from scipy.interpolate import BSpline


SERIES_FROM = 20.0  # beyond this many scales the tail series takes over
_SERIES_TERMS = np.arange(1, 31)
_INTEGRATION_NODES = 6001


def check_alpha(alpha: float) -> float:
    """Return the stability index as a float in [1, 2]; refuse the range from 1.9999 to 2, where tails drown in
    rounding."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating) or not 1 <= alpha <= 2:
        raise SettingError(f"alpha = {alpha!r}: expected a number from 1 (Cauchy) to 2 (Gaussian)")
    if 1.9999 < alpha < 2:
        raise SettingError(f"alpha = {alpha!r}: expected a number up to 1.9999, or 2")
    return float(alpha)


def pdf(x: ArrayLike, alpha: float, scale: float = 1.0) -> Floats:
    """Return the density at x.

    >>> float(pdf(0.0, 1.0)) == 1 / math.pi
    True
    """
    scale = positive(scale, "scale")
    return np.exp(log_pdf(np.asarray(x, dtype=np.float64) / scale, check_alpha(alpha))) / scale


def cdf(x: ArrayLike, alpha: float, scale: float = 1.0) -> Floats:
    """Return P[Y <= x], accurate to 1e-8 relative in the left tail; use cdf(-x) for small upper tails.

    >>> round(float(cdf(0.0, 1.5)), 12)
    0.5
    """
    z = np.asarray(x, dtype=np.float64) / positive(scale, "scale")
    tail = survival(np.abs(z), check_alpha(alpha))
    return np.where(z <= 0, tail, 1 - tail)


def log_pdf(z: Floats, alpha: float) -> Floats:
    """Return ln of the standard density (scale 1)."""
    z = np.abs(z)
    if alpha == 1:
        return -math.log(math.pi) - np.log1p(z * z)
    if alpha == 2:
        return -z * z / 4 - math.log(2 * math.sqrt(math.pi))
    law = _law(alpha)
    out = np.empty_like(z)
    near = z <= SERIES_FROM
    out[near] = law.log_density(np.arcsinh(z[near]))
    far = z[~near]
    out[~near] = np.log(_series(far, alpha, law.density_terms)) - np.log(far)
    return out


def survival(z: Floats, alpha: float) -> Floats:
    """Return P[Y > z] of the standard law for z >= 0, with full relative accuracy."""
    if alpha == 1:
        return np.arctan2(1.0, z) / math.pi
    if alpha == 2:
        return np.asarray(ndtr(-z / math.sqrt(2)))
    law = _law(alpha)
    out = np.empty_like(z)
    near = z <= SERIES_FROM
    out[near] = np.exp(law.log_tail(np.arcsinh(z[near])))
    out[~near] = _series(z[~near], alpha, law.tail_terms)
    return out


def score(z: Floats, alpha: float) -> Floats:
    """Return p'(z)/p(z) of the standard law: how fast the log-density changes."""
    if alpha == 1:
        return -2 * z / (1 + z * z)
    if alpha == 2:
        return -z / 2
    law = _law(alpha)
    size = np.abs(z)
    near = np.minimum(size, SERIES_FROM)
    derivative = law.log_density_derivative(np.arcsinh(near)) / np.hypot(1.0, near)
    far = np.maximum(size, SERIES_FROM)
    terms = law.density_terms
    tail = -_series(far, alpha, terms * (alpha * _SERIES_TERMS + 1)) / (_series(far, alpha, terms) * far)
    return np.sign(z) * np.where(size <= SERIES_FROM, derivative, tail)


def sample(alpha: float, scale: float, size: int | tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw independent numbers by Chambers, Mallows and Stuck (1976), for studies only."""
    alpha, scale = check_alpha(alpha), positive(scale, "scale")
    if alpha == 2:
        return rng.normal(scale=scale * math.sqrt(2), size=size)
    if alpha == 1:
        return scale * rng.standard_cauchy(size=size)
    angle = rng.uniform(-math.pi / 2, math.pi / 2, size=size)
    wait = rng.standard_exponential(size=size)
    cosine = np.cos(angle)
    draw = np.sin(alpha * angle) / cosine ** (1 / alpha)
    draw *= (np.cos((1 - alpha) * angle) / wait) ** ((1 - alpha) / alpha)
    draw *= scale
    return draw


def distortion(alpha: float, scale: float = 1.0) -> float:
    """Return E|Y| = (2 scale/pi) Gamma(1 - 1/alpha); infinite for the Cauchy law (Z table 3.1).

    >>> round(distortion(1.9), 4)
    1.1903
    """
    alpha, scale = check_alpha(alpha), positive(scale, "scale")
    return math.inf if alpha == 1 else 2 * scale / math.pi * float(gamma(1 - 1 / alpha))


@lru_cache(maxsize=64)
def score_bound(alpha: float) -> float:
    """Return kappa(alpha) = sup |p'/p| at scale 1, the most that ln p changes per unit of shift: infinite for the
    Gaussian. It is rounded up in the eighth digit, so that what is derived from it stays an upper bound.

    >>> score_bound(1.0)
    1.0
    """
    alpha = check_alpha(alpha)
    if alpha == 1:
        return 1.0
    if alpha == 2:
        return math.inf
    z = np.sinh(np.linspace(0, math.asinh(2 * SERIES_FROM), 20_001))
    best = int(np.argmax(-score(z, alpha)))
    fine = np.linspace(z[max(best - 1, 0)], z[best + 1], 2001)
    return float(np.max(-score(fine, alpha))) * (1 + 1e-8)


class _Law:
    """Splines of ln p and ln P[Y > z] in asinh(z) on [0, SERIES_FROM], and the coefficients of the tail series."""

    log_density: "BSpline"
    log_density_derivative: "BSpline"
    log_tail: "BSpline"

    def __init__(self, alpha: float) -> None:
        from scipy.interpolate import make_interp_spline  # who names no stable noise need not wait for it

        signs = (
            np.where(_SERIES_TERMS % 2 == 1, 1.0, -1.0)
            * np.sin(math.pi * np.remainder(alpha * _SERIES_TERMS, 4) / 2)
            / math.pi
        )
        self.density_terms = signs * np.exp(gammaln(alpha * _SERIES_TERMS + 1) - gammaln(_SERIES_TERMS + 1))
        self.tail_terms = signs * np.exp(gammaln(alpha * _SERIES_TERMS) - gammaln(_SERIES_TERMS + 1))
        u = np.linspace(0, math.asinh(SERIES_FROM), _INTEGRATION_NODES)
        density = _inversion(np.sinh(u), alpha)
        self.log_density = make_interp_spline(u, np.log(density), k=5)
        self.log_density_derivative = self.log_density.derivative()
        mass = make_interp_spline(u, density * np.cosh(u), k=5).antiderivative()
        tail_mass = _series(np.array([SERIES_FROM]), alpha, self.tail_terms)
        tail = mass(u[-1]) - mass(u) + tail_mass
        self.log_tail = make_interp_spline(u, np.log(tail * (0.5 / tail[0])), k=5)


@lru_cache(maxsize=32)
def _law(alpha: float) -> _Law:
    return _Law(alpha)


def _series(z: Floats, alpha: float, terms: Floats) -> Floats:
    """Return sum_k terms_k z^(-alpha k), the tail; at z >= 20 its last terms are below 1e-14 of the first."""
    y = z**-alpha
    total = np.zeros_like(z)
    for coefficient in terms[::-1]:
        total = (total + coefficient) * y
    return total


def _inversion(z: Floats, alpha: float) -> Floats:
    """Return (1/pi) Re int exp(i z t - t^alpha) dt along t = s e^(i pi/(4 alpha)), by the double-exponential rule."""
    h = 0.02
    u = np.arange(-4.5, 5.2, h)
    s = np.exp(u - np.exp(-u))
    weight = h * s * (1 + np.exp(-u))
    ray = np.exp(1j * math.pi / (4 * alpha))
    decay = -(s**alpha) * ray**alpha
    keep = decay.real > -745
    s, weight, decay = s[keep], weight[keep], decay[keep]
    out = np.empty(len(z))
    for start in range(0, len(z), 500):
        rows = slice(start, start + 500)
        out[rows] = (np.exp(1j * ray * z[rows, None] * s + decay) @ weight * ray).real / math.pi
    return out


POSTERIOR_GRID = np.sinh(
    np.linspace(-np.arcsinh(1e4), np.arcsinh(1e4), 161)
)  # in scales: where a posterior is looked at, around every answer
NORMAL_GRID = np.linspace(-6.0, 6.0, 601)  # deviations


def posterior_moments(answers: Floats, alpha: float, scale: float) -> tuple[Floats, Floats]:
    """Return (the posterior's mean, its variance) [...] of what m >= 2 answers [m, ...] with this noise are about.

    >>> mean, variance = posterior_moments(np.array([[1.0], [2.0], [100.0]]), 1.5, 0.5)
    >>> bool(1 < mean[0] < 2.2), bool(variance[0] < 1)
    (True, True)
    """
    flat = answers.reshape(len(answers), -1)
    grid = np.sort(
        (flat[:, None, :] + scale * POSTERIOR_GRID[None, :, None]).reshape(-1, flat.shape[1]), axis=0
    )  # [g, d]
    fit = sum((log_pdf((each - grid) / scale, alpha) for each in flat), start=np.zeros_like(grid))
    weight = np.exp(fit - fit.max(axis=0))
    weight *= _trapezoid_weights(grid)
    weight /= weight.sum(axis=0)
    mean = (weight * grid).sum(axis=0)
    variance = (weight * (grid - mean) ** 2).sum(axis=0)
    return mean.reshape(answers.shape[1:]), variance.reshape(answers.shape[1:])


def reach(level: float, alpha: float, scale: float, deviation: float) -> float:
    """Return the distance from 0 within which stable plus normal noise lies with probability `level`.

    >>> round(reach(0.9, 1.0, 1.0, 0.0), 3), round(reach(0.9, 1.5, 0.0, 1.0), 3)
    (6.314, 1.645)
    """
    if not scale > 0:
        return deviation * float(ndtri((1 + level) / 2))
    weight = np.exp(-(NORMAL_GRID**2) / 2)
    weight /= weight.sum()

    def excess_probability(log: float) -> float:
        q = np.exp(log)
        shifted = deviation * NORMAL_GRID if deviation > 0 else np.zeros(1)
        inside = cdf(q - shifted, alpha, scale) - cdf(-q - shifted, alpha, scale)
        return float(inside @ (weight if deviation > 0 else np.ones(1))) - level

    unit = np.log(scale + deviation)
    return float(np.exp(brentq(excess_probability, unit - 12, unit + 40, xtol=1e-6)))


def _trapezoid_weights(at: Floats) -> Floats:
    """Return the trapezoid rule's weight of each place in a sorted column."""
    gap = np.diff(at, axis=0)
    ends = np.zeros((1, at.shape[1]))
    return np.asarray((np.concatenate([ends, gap]) + np.concatenate([gap, ends])) / 2)
