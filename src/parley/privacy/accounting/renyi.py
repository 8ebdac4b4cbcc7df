"""The Renyi accountant: divergences add up over releases, so
they bound every direction and every adaptive choice at once."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from parley.errors import SettingError
from parley.privacy.accounting.releases import renyi_divergence
from parley.privacy.events import Event
from parley.validate import Floats

REAL_ORDERS = np.concatenate([1 + np.geomspace(0.01, 1, 12, endpoint=False), np.geomspace(2, 512, 50)])
WHOLE_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.round(np.geomspace(64, 256, 12))])).astype(float)


def sampled_divergence(event: Event, orders: Floats) -> Floats:
    """R_a of one Poisson-sampled release for whole orders, replace-one adjacency, every direction.

    With f the law without the record, g with it, h with its replacement: P - Q = q (g - h), so for whole a E_Q[(P/Q)^a]
    = 1 + sum_(j>=2) C(a, j) q^j int (g - h)^j/Q^(j-1). Two bounds of the integral, the smaller counts: Q >= (1 - q) f
    leaves (1 - q)^(1-j) E_f[|g/f - h/f|^j]; and (u, v, w) -> |u - v|^j/w^(j-1) is jointly convex, so Q may be replaced
    by the worse of f and h (as in Wang, Balle, Kasiviswanathan 2019). Then |u - v|^j <= u^j + v^j, and for j = 2
    (u - v)^2 <= 2 (u - 1)^2 + 2 (v - 1)^2. Whatever is left are moments of g and h against f (half the sensitivity
    away) or of g against h.
    """
    q = event.sampling
    j = np.arange(2.0, orders.max() + 1)
    near = (j - 1) * renyi_divergence(event, j, 0.5)  # ln E_f[(g/f)^j] at most
    far = (j - 1) * renyi_divergence(event, j)  # ln E_h[(g/h)^j] at most
    over_f = near + math.log(2)
    over_h = np.logaddexp(far, 0.0)
    over_f[0] = min(over_f[0], near[0] + math.log(4 * -math.expm1(-near[0])))
    over_h[0] = min(over_h[0], far[0] + math.log(-math.expm1(-far[0])))
    integral = np.minimum(over_f - (j - 1) * math.log1p(-q), np.maximum(over_f, over_h))
    terms = _binomials(tuple(orders)) + np.concatenate([[0.0], j * math.log(q) + integral])
    out = logsumexp(terms, axis=1) / (orders - 1)
    return np.asarray(np.minimum(out, renyi_divergence(event, orders)))  # sampling never hurts


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
    value = sampled_divergence(event, orders) if event.sampling < 1 else renyi_divergence(event, orders)
    value.flags.writeable = False
    return value


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """eps at delta by adding Renyi divergences over all events: an
    upper bound, valid for adaptively chosen queries and events."""
    whole = any(event.sampling < 1 for event in events)
    orders = WHOLE_ORDERS if whole else REAL_ORDERS
    total = np.zeros(len(orders))
    for event in events:
        total += event.count * _once(event.times(1), whole)
    if not np.isfinite(total).any():
        raise SettingError("no order has a finite Renyi divergence; use pld")
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon  # it takes a second to load

    return float(compute_epsilon(orders, total, delta)[0])
