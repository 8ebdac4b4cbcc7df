"""Renyi divergences of noise: R_a(P||Q) = ln E_Q[(P/Q)^a]/(a - 1), additive over rounds and coordinates.

For product noise a shift v costs sum_j R_a(v_j); hence for |v|_2 <= D

    sum_j R_a(v_j) <= D^2 sup over 0 < d <= D of R_a(d)/d^2

whatever the direction of v (erratum d of Z: the one-dimensional figure alone covers one direction only).
"""

import math
from functools import cache, lru_cache

import numpy as np
from scipy.special import logsumexp

from parley.privacy.mechanisms.stable_law import log_pdf, score
from parley.validate import Floats


def pure_divergence(epsilon: float, orders: Floats) -> Floats:
    """The largest R_a that an eps-DP release can have, that of
    randomised response: ln[cosh((a - 1/2) eps)/cosh(eps/2)]/(a - 1)."""
    a = np.asarray(orders, dtype=np.float64)

    def log_cosh(x: Floats) -> Floats:
        size = np.abs(x)
        return np.where(size < 20, np.log1p(2 * np.sinh(np.minimum(size, 20.0) / 2) ** 2), size - math.log(2))

    value = (log_cosh((a - 0.5) * epsilon) - log_cosh(np.array(epsilon / 2))) / (a - 1)
    return np.minimum(value * (1 + 1e-9), np.minimum(epsilon, a * epsilon**2 / 2))


@lru_cache(maxsize=256)
def stable_divergence(alpha: float, distance: float, orders: tuple[float, ...]) -> Floats:
    """distance^2 sup over 0 < d <= distance of R_a(d)/d^2 for SaS
    noise of scale 1: valid for every direction of that L2 length.

    The limit at zero is a/2 times the Fisher information (at least 0.4). Beyond d = 20 the quotient is at most
    kappa/20 < 0.2, since R_a(d) <= kappa d; between, it is evaluated at 20 shifts, it varies slowly, and 1e-4 is added.
    In all we computed it is largest at zero.
    """
    a = np.array(orders)
    if alpha == 2:
        return a * distance**2 / 4
    shifts = min(distance, 20.0) * np.geomspace(1e-2, 1, 20)
    rates = np.array([shift_divergence(alpha, float(d), a) / d**2 for d in shifts])
    at_zero = a / 2 * fisher_information(alpha)
    return np.asarray(np.maximum(rates.max(axis=0), at_zero) * distance**2 * (1 + 1e-4))


def shift_divergence(alpha: float, shift: float, orders: Floats) -> Floats:
    """R_a between SaS noise of scale 1 and itself moved by `shift`.

    E_Q[(P/Q)^a] - 1 = int q (expm1(a L) - a expm1(L)) dx, since
    E_Q[P/Q - 1] = 0: nothing cancels, however small the shift.
    """
    x, weight = _nodes(shift)
    log_q = log_pdf(x, alpha)
    loss = log_pdf(x - shift, alpha) - log_q
    a = np.asarray(orders, dtype=np.float64)
    moment, largest = np.empty(len(a)), np.abs(loss).max()
    mass, once = weight * np.exp(log_q), np.expm1(loss)
    for row, order in enumerate(a):
        if order * largest < 600:
            moment[row] = math.log1p(float(np.sum(mass * (np.expm1(order * loss) - order * once))))
        else:
            moment[row] = float(logsumexp(order * loss + log_q, b=weight))
    return np.maximum(moment, 0.0) / (a - 1)


@lru_cache(maxsize=32)
def fisher_information(alpha: float) -> float:
    """E[(p'/p)^2] at scale 1: what a small shift, spread over
    many coordinates, leaks like a Gaussian of variance 1/this."""
    if alpha == 2:
        return 0.5
    x, weight = _nodes(0.0)
    return float(np.sum(weight * np.exp(log_pdf(x, alpha)) * score(x, alpha) ** 2))


def _nodes(shift: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights over the whole line: panels of equal length in asinh(x - shift/2)."""
    nodes, weight = _centred_nodes()
    return nodes + shift / 2, weight


@cache
def _centred_nodes() -> tuple[Floats, Floats]:
    """The same around zero."""
    panels = np.linspace(-math.asinh(1e9), math.asinh(1e9), 161)
    node, weight = np.polynomial.legendre.leggauss(10)
    half = (panels[1] - panels[0]) / 2
    u = (panels[:-1, None] + half + half * node).ravel()
    return np.sinh(u), np.tile(weight * half, len(panels) - 1) * np.cosh(u)
