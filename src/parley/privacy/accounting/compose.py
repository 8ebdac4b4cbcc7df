"""Compose events into (eps, delta) by every rule worth knowing; every `high` is an upper bound. simple, zcdp and rdp
hold however later events depend on earlier answers, within the given total. advanced and pld hold for a sequence of
events fixed in advance, as in one agreement; the queries inside may be chosen adaptively."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaln, logsumexp

from parley.errors import SettingError
from parley.privacy.accounting.pairs import epsilon_at
from parley.privacy.accounting.releases import (
    EPSILON_ROUNDING,
    exact_epsilon,
    loss_distribution,
    needs_delta,
    pure_epsilon,
    release_epsilon,
    renyi_divergence,
    zcdp_rho,
)
from parley.privacy.events import Adjacency, Event, GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon, probability
from parley.validate import Floats, non_negative, positive, upper

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


REAL_ORDERS = np.concatenate([1 + np.geomspace(0.01, 1, 12, endpoint=False), np.geomspace(2, 512, 50)])
WHOLE_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.round(np.geomspace(64, 256, 12))])).astype(float)


def sampled_divergence(event: Event, orders: Floats) -> Floats:
    """Return R_a of one Poisson-sampled release for whole orders, replace-one adjacency, every direction.

    Let f be the law without the record, g with it, h with its replacement. Then P - Q = q (g - h), so for whole a
    E_Q[(P/Q)^a] = 1 + sum_(j>=2) C(a, j) q^j int (g - h)^j/Q^(j-1). The smaller of two bounds on the integral counts.
    First, Q >= (1 - q) f leaves (1 - q)^(1-j) E_f[|g/f - h/f|^j]. Second, (u, v, w) -> |u - v|^j/w^(j-1) is jointly
    convex, so Q may be replaced by the worse of f and h (Wang, Balle, Kasiviswanathan 2019). Then |u - v|^j <= u^j +
    v^j, and for j = 2 (u - v)^2 <= 2 (u - 1)^2 + 2 (v - 1)^2. What remains are moments of g and h against f (half the
    sensitivity away) or of g against h.
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
    terms = _log_binomials(tuple(orders)) + np.concatenate([[0.0], j * math.log(q) + integral])
    out = logsumexp(terms, axis=1) / (orders - 1)
    return np.asarray(np.minimum(out, renyi_divergence(event, orders)))  # sampling never hurts


@lru_cache(maxsize=8)
def _log_binomials(orders: tuple[float, ...]) -> Floats:
    """Return ln of 1 and of C(a, j) for j = 2, 3, ...: a row for every whole order a; -inf beyond a."""
    a, j = np.array(orders)[:, None], np.arange(2.0, max(orders) + 1)
    inside = gammaln(a + 1) - gammaln(j + 1) - gammaln(np.maximum(a - j, 0) + 1)
    return np.hstack([np.zeros_like(a), np.where(j <= a, inside, -np.inf)])


@lru_cache(maxsize=256)
def _single_release_divergence(event: Event, whole: bool) -> Floats:
    """Return R_a of one release at the orders in use, cached: a series needs it after every answer."""
    orders = WHOLE_ORDERS if whole else REAL_ORDERS
    value = sampled_divergence(event, orders) if event.sampling < 1 else renyi_divergence(event, orders)
    value.flags.writeable = False
    return value


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return an upper bound on eps at delta by adding Renyi divergences, for adaptively chosen queries and events."""
    whole = any(event.sampling < 1 for event in events)
    orders = WHOLE_ORDERS if whole else REAL_ORDERS
    total = np.zeros(len(orders))
    for event in events:
        total += event.count * _single_release_divergence(event.times(1), whole)
    if not np.isfinite(total).any():
        raise SettingError("rdp: the Renyi divergence is infinite at every order; use pld")
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon  # it takes a second to load

    return float(compute_epsilon(orders, total, delta)[0])


Method = Literal["simple", "advanced", "zcdp", "rdp", "pld"]
METHODS: tuple[Method, ...] = ("simple", "advanced", "zcdp", "rdp", "pld")


@dataclass(frozen=True)
class Bound:
    """eps at delta: the truth lies in [low, high], a guarantee is `high`; low = 0 if a rule has no lower bound."""

    low: float
    estimate: float
    high: float
    delta: float
    method: str
    adjacency: Adjacency = Event.adjacency


def compose(events: Sequence[Event], delta: float = 0.0, method: Method | Literal["best"] = "best") -> Bound:
    """Return eps of all events together at `delta`; "best" is the smallest upper bound that any rule proves.

    >>> from parley.privacy.events import LaplaceEvent
    >>> compose([LaplaceEvent(10.0, count=5)]).high
    0.5
    """
    if not events:
        raise SettingError("events: expected at least one event")
    delta = non_negative(delta, "delta")
    if delta == 0:
        if method not in ("best", "simple"):
            raise SettingError(
                f"method = {method!r}: needs a delta above 0; without a delta, only simple composition applies"
            )
        return _simple(events, 0.0)
    probability(delta)
    if method != "best":
        return _RULES[method](events, delta)
    bounds = []
    for rule in _RULES.values():
        try:
            bounds.append(rule(events, delta))
        except SettingError:
            continue  # a rule that does not cover these events
    if not bounds:
        raise SettingError("events: no composition rule covers all these events; compose the events separately")
    return min(bounds, key=lambda bound: bound.high)


def _simple(events: Sequence[Event], delta: float) -> Bound:
    """Add up eps and delta; delta is divided evenly among the releases that need one."""
    releases_needing_delta = sum(event.count for event in events if needs_delta(event))
    if releases_needing_delta and not delta > 0:
        raise SettingError("delta = 0: Gaussian noise has no epsilon without a delta; give a delta above 0")
    total = upper(
        sum(
            (event.count * exact_epsilon(event, delta / max(releases_needing_delta, 1)) for event in events),
            Fraction(0),
        )
    )
    return Bound(0.0, total, total, delta, "simple")


def _advanced(events: Sequence[Event], delta: float) -> Bound:
    """Compose by Kairouz, Oh and Viswanath (2015): half of delta for the deviation, half for releases that need one."""
    releases_needing_delta = sum(event.count for event in events if needs_delta(event))
    delta_per_release, deviation = (
        (delta / 2 / releases_needing_delta, delta / 2) if releases_needing_delta else (0.0, delta)
    )
    parts = [(event.count, release_epsilon(event, delta_per_release)) for event in events]
    drift = math.fsum(count * e * math.tanh(e / 2) for count, e in parts)
    spread = math.fsum(count * e * e for count, e in parts)
    return _upper_bound(drift + math.sqrt(2 * spread * math.log(1 / deviation)), delta, "advanced")


def _zcdp(events: Sequence[Event], delta: float) -> Bound:
    """Add up rho and convert it order by order."""
    if any(event.sampling < 1 for event in events):
        raise SettingError("zcdp: this method has no amplification by sampling; use rdp or pld")
    rho = math.fsum(event.count * zcdp_rho(event) for event in events)
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon  # it takes a second to load

    return _upper_bound(float(compute_epsilon(REAL_ORDERS, rho * REAL_ORDERS, delta)[0]), delta, "zcdp")


def _rdp(events: Sequence[Event], delta: float) -> Bound:
    return _upper_bound(renyi_epsilon(events, delta), delta, "rdp")


def _pld(events: Sequence[Event], delta: float) -> Bound:
    """Compose loss distributions: a fine grid gives `high`, twice its difference from a coarser one the distance to
    `low`. Releases that enter as the worst of their eps have low = 0."""
    events = merge_gaussian_events(events)
    match events:
        case [GaussianEvent(sampling=1) as one]:
            value = gaussian_epsilon(one.multiplier, delta)
            return Bound(value, value, value, delta, "pld")
    interval = pld_interval(events)
    rounds = sum(event.count for event in events)
    fine = epsilon_at(compose_loss_distributions(events, interval), delta, rounds)
    if not math.isfinite(fine):
        raise SettingError(f"delta = {delta:g}: too small for method pld with these releases; use method rdp")
    low = 0.0
    if all(isinstance(event, GaussianEvent) for event in events):
        low = max(
            0.0, fine - 2 * abs(epsilon_at(compose_loss_distributions(events, 2 * interval), delta, rounds) - fine)
        )
    return Bound(low, (low + fine) / 2, fine * (1 + EPSILON_ROUNDING), delta, "pld")


def merge_gaussian_events(events: Sequence[Event]) -> list[Event]:
    """Return the events with all unsampled Gaussian ones as a single one: their squared shifts add up exactly."""
    plain = [event for event in events if isinstance(event, GaussianEvent) and event.sampling == 1]
    other_events = [event for event in events if event not in plain]
    if not plain:
        return other_events
    shift = math.sqrt(math.fsum(event.count / event.multiplier**2 for event in plain))
    return [*other_events, GaussianEvent(1 / shift)]


def compose_loss_distributions(events: Sequence[Event], interval: float) -> "PrivacyLossDistribution":
    """Return the privacy-loss distribution of a sequence fixed in advance; queries inside may be chosen adaptively."""
    from dp_accounting.pld.privacy_loss_distribution import identity

    total: Any = identity(value_discretization_interval=interval)
    for event in events:
        total = total.compose(loss_distribution(event.times(1), interval).self_compose(event.count))
    return total


def pld_interval(events: Sequence[Event]) -> float:
    """Return a grid step that keeps the whole composition's discretisation error near 0.1 % at a bearable cost."""
    rounds = sum(event.count for event in events)
    reach = 2 * renyi_epsilon(events, 1e-12)  # about as wide as the composed distribution is
    interval = max(min(1e-3, max(1e-5, 0.005 / math.sqrt(rounds))), reach / 2e6)
    smallest = min((release_epsilon(event, 0.0) for event in events if not needs_delta(event)), default=math.inf)
    if rounds > 1e7 or smallest < interval:
        raise SettingError("pld: this method cannot handle so many releases or so small a privacy loss; use method rdp")
    return interval


_RULES: dict[str, Callable[[Sequence[Event], float], Bound]] = {
    "simple": _simple,
    "advanced": _advanced,
    "zcdp": _zcdp,
    "rdp": _rdp,
    "pld": _pld,
}


def _upper_bound(value: float, delta: float, method: str) -> Bound:
    return Bound(0.0, value, value * (1 + EPSILON_ROUNDING), delta, method)


def rounds_for(event: Event, epsilon: float, delta: float, method: Method | Literal["best"] = "best") -> int:
    """Return the largest count of such releases whose upper bound stays within (epsilon, delta); 0 if none does."""
    positive(epsilon, "epsilon")
    if delta == 0:
        return int(Fraction(str(epsilon)) / exact_epsilon(event, 0.0))

    def fits(count: int) -> bool:
        return compose([event.times(count)], delta, method).high <= epsilon

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
        if high > 2**40:
            raise SettingError("epsilon: more than 10^12 rounds fit this epsilon; give a smaller epsilon")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def multiplier_for(
    make_event: Callable[[float], Event], epsilon: float, delta: float = 0.0, method: Method | Literal["best"] = "best"
) -> float:
    """Return the least scale/sensitivity with which `make_event` of it stays within (epsilon, delta), to 1e-6 and on
    the private side (dp_accounting: `calibrate_dp_mechanism`, whose `make_event_from_param` this takes).

    >>> round(multiplier_for(lambda multiplier: GaussianEvent(multiplier, count=100), 1.0, 1e-5), 2)
    37.31
    """
    positive(epsilon, "epsilon")
    unit = make_event(1.0)
    if delta == 0:
        if unit.sampling < 1:
            raise SettingError("sampling: amplification by sampling needs a delta above 0")
        return positive(pure_epsilon(unit) * unit.count / epsilon * (1 + 1e-12), "multiplier")

    def fits(multiplier: float) -> bool:
        return compose([make_event(multiplier)], delta, method).high <= epsilon

    low, high = 1e-6, 1.0
    while not fits(high):
        low, high = high, 2 * high
        if high > 1e14:
            raise SettingError(
                f"epsilon = {epsilon:g}, delta = {delta:g}: this kind of noise cannot meet this budget; use a larger "
                "epsilon or delta"
            )
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
