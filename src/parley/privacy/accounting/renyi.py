"""Renyi divergences of releases: additive over rounds and coordinates, so they bound every direction at once.

R_a(P||Q) = ln E_Q[(P/Q)^a]/(a - 1). For product noise a shift v costs sum_j R_a(v_j); hence for |v|_2 <= D

    sum_j R_a(v_j) <= D^2 sup over 0 < d <= D of R_a(d)/d^2

whatever the direction of v (erratum d of Z: the one-dimensional figure alone covers one direction only).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from parley.errors import SettingError
from parley.privacy.accounting.loss import pure_event_epsilon, single
from parley.privacy.mechanisms import Event, stable
from parley.validate import Floats

REAL_ORDERS = np.concatenate([1 + np.geomspace(0.01, 1, 12, endpoint=False), np.geomspace(2, 512, 50)])
WHOLE_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.round(np.geomspace(64, 256, 12))])).astype(float)

Divergence = Callable[[Floats], Floats]  # orders -> R_a


def release_divergence(event: Event, sensitivity: float = 1.0) -> Divergence:
    """R_a of one unsampled release for the worst difference, in units of the event's own sensitivity."""
    if event.mechanism == "gaussian":
        return lambda orders: orders * (sensitivity / event.multiplier) ** 2 / 2
    if event.mechanism == "stable" and event.norm == "l2":
        return lambda orders: stable_divergence(float(event.alpha or 0), sensitivity / event.multiplier, tuple(orders))
    epsilon = pure_event_epsilon(event) * sensitivity
    return lambda orders: pure_divergence(epsilon, orders)


def pure_divergence(epsilon: float, orders: Floats) -> Floats:
    """The largest R_a that an eps-DP release can have, that of randomised response: ln[cosh((a - 1/2) eps)/cosh(eps/2)]/(a - 1)."""
    a = np.asarray(orders, dtype=np.float64)

    def log_cosh(x: Floats) -> Floats:
        size = np.abs(x)
        return np.where(size < 20, np.log1p(2 * np.sinh(np.minimum(size, 20.0) / 2) ** 2), size - math.log(2))

    value = (log_cosh((a - 0.5) * epsilon) - log_cosh(np.array(epsilon / 2))) / (a - 1)
    return np.minimum(value * (1 + 1e-9), np.minimum(epsilon, a * epsilon**2 / 2))


@lru_cache(maxsize=256)
def stable_divergence(alpha: float, distance: float, orders: tuple[float, ...]) -> Floats:
    """distance^2 sup over 0 < d <= distance of R_a(d)/d^2 for SaS noise of scale 1: valid for every direction of that L2 length.

    The limit at zero is a/2 times the Fisher information (at least 0.4). Beyond d = 20 the quotient is at most kappa/20 < 0.2, since
    R_a(d) <= kappa d; between, it is evaluated at 20 shifts, it varies slowly, and 1e-4 is added. In all we computed it is
    largest at zero.
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

    E_Q[(P/Q)^a] - 1 = int q (expm1(a L) - a expm1(L)) dx, since E_Q[P/Q - 1] = 0: nothing cancels, however small the shift.
    """
    x, weight = _nodes(shift)
    log_q = stable.log_pdf(x, alpha)
    loss = stable.log_pdf(x - shift, alpha) - log_q
    a = np.asarray(orders, dtype=np.float64)[:, None]
    moment = np.empty(len(a))
    for row, order in enumerate(a[:, 0]):
        if order * np.abs(loss).max() < 600:
            excess = np.expm1(order * loss) - order * np.expm1(loss)
            moment[row] = math.log1p(float(np.sum(weight * np.exp(log_q) * excess)))
        else:
            moment[row] = float(logsumexp(order * loss + log_q, b=weight))
    return np.maximum(moment, 0.0) / (a[:, 0] - 1)


@lru_cache(maxsize=32)
def fisher_information(alpha: float) -> float:
    """E[(p'/p)^2] at scale 1: what a small shift, spread over many coordinates, leaks like a Gaussian of variance 1/this."""
    if alpha == 2:
        return 0.5
    x, weight = _nodes(0.0)
    return float(np.sum(weight * np.exp(stable.log_pdf(x, alpha)) * stable.score(x, alpha) ** 2))


def _nodes(shift: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights over the whole line: panels of equal length in asinh(x - shift/2)."""
    panels = np.linspace(-math.asinh(1e9), math.asinh(1e9), 161)
    node, weight = np.polynomial.legendre.leggauss(10)
    half = (panels[1] - panels[0]) / 2
    u = (panels[:-1, None] + half + half * node).ravel()
    return np.sinh(u) + shift / 2, np.tile(weight * half, len(panels) - 1) * np.cosh(u)


def sampled_divergence(event: Event, orders: Floats) -> Floats:
    """R_a of one Poisson-sampled release for whole orders, replace-one adjacency, every direction.

    With f the law without the record, g with it, h with its replacement: P - Q = q (g - h), so for whole a
    E_Q[(P/Q)^a] = 1 + sum_(j>=2) C(a, j) q^j int (g - h)^j/Q^(j-1). Two bounds of the integral, the smaller counts:
    Q >= (1 - q) f leaves (1 - q)^(1-j) E_f[|g/f - h/f|^j]; and (u, v, w) -> |u - v|^j/w^(j-1) is jointly convex, so Q may be replaced by
    the worse of f and h (as in Wang, Balle, Kasiviswanathan 2019). Then |u - v|^j <= u^j + v^j, and for j = 2
    (u - v)^2 <= 2 (u - 1)^2 + 2 (v - 1)^2. Whatever is left are moments of g and h against f (half the sensitivity away) or of g against h.
    """
    q = event.sampling
    j = np.arange(2.0, orders.max() + 1)
    near = (j - 1) * release_divergence(event, 0.5)(j)  # ln E_f[(g/f)^j] at most
    far = (j - 1) * release_divergence(event, 1.0)(j)  # ln E_h[(g/h)^j] at most
    over_f = near + math.log(2)
    over_h = np.logaddexp(far, 0.0)
    over_f[0] = min(over_f[0], near[0] + math.log(4 * -math.expm1(-near[0])))
    over_h[0] = min(over_h[0], far[0] + math.log(-math.expm1(-far[0])))
    integral = np.minimum(over_f - (j - 1) * math.log1p(-q), np.maximum(over_f, over_h))
    terms = _binomials(tuple(orders)) + np.concatenate([[0.0], j * math.log(q) + integral])
    out = logsumexp(terms, axis=1) / (orders - 1)
    return np.asarray(np.minimum(out, release_divergence(event, 1.0)(orders)))  # sampling never hurts


@lru_cache(maxsize=8)
def _binomials(orders: tuple[float, ...]) -> Floats:
    """ln of 1 and of C(a, j) for j = 2, 3, ...: a row for every whole order a; -inf beyond a."""
    a, j = np.array(orders)[:, None], np.arange(2.0, max(orders) + 1)
    inside = gammaln(a + 1) - gammaln(j + 1) - gammaln(np.maximum(a - j, 0) + 1)
    return np.hstack([np.zeros_like(a), np.where(j <= a, inside, -np.inf)])


@lru_cache(maxsize=256)
def _once(event: Event, whole: bool) -> Floats:
    """R_a of one release at the orders that are looked at: a series asks for it after every answer."""
    orders = WHOLE_ORDERS if whole else REAL_ORDERS
    value = sampled_divergence(event, orders) if event.sampling < 1 else release_divergence(event)(orders)
    value.flags.writeable = False
    return value


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """eps at delta by adding Renyi divergences over all events: an upper bound, valid for adaptively chosen queries and events."""
    whole = any(event.sampling < 1 for event in events)
    orders = WHOLE_ORDERS if whole else REAL_ORDERS
    total = np.zeros(len(orders))
    for event in events:
        total += event.count * _once(single(event), whole)
    if not np.isfinite(total).any():
        raise SettingError("no order has a finite Renyi divergence; use pld")
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon  # it takes a second to load

    return float(compute_epsilon(orders, total, delta)[0])
