"""From events to (eps, delta), by every composition rule worth knowing. Every `high` is an upper bound.

simple, zcdp and rdp hold however later events depend on earlier answers (within the given total); advanced and pld hold for a sequence of
events fixed in advance, as in one accepted agreement - the queries inside may still be chosen adaptively.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from parley.errors import SettingError
from parley.privacy.accounting.loss import amplified, composed, epsilon_at, pure_event_epsilon
from parley.privacy.accounting.renyi import REAL_ORDERS, renyi_epsilon
from parley.privacy.mechanisms import Event
from parley.privacy.mechanisms.bounded import REPLACE_ONE
from parley.privacy.mechanisms.gaussian import gaussian_delta, probability
from parley.validate import non_negative, positive, upper, whole

Method = Literal["simple", "advanced", "zcdp", "rdp", "pld"]
ROUNDING = 1e-12  # of floats on the way to an epsilon, relative: added to what is called an upper bound
METHODS: tuple[Method, ...] = ("simple", "advanced", "zcdp", "rdp", "pld")


@dataclass(frozen=True)
class Bound:
    """eps at delta: the truth lies in [low, high], and a guarantee is `high`. low = 0 where a rule bounds from above only."""

    low: float
    estimate: float
    high: float
    delta: float
    method: str
    adjacency: str = REPLACE_ONE


def compose(events: Sequence[Event], delta: float = 0.0, method: Method | Literal["best"] = "best") -> Bound:
    """eps of all events together at `delta`; "best" is the smallest upper bound that any rule proves.

    >>> compose([Event("laplace", 10.0, "l1", count=5)]).high
    0.5
    """
    if not events:
        raise SettingError("events: expected at least one")
    delta = non_negative(delta, "delta")
    if delta == 0:
        if method not in ("best", "simple"):
            raise SettingError(f"method = {method!r}: needs a delta above 0; without one only simple composition applies")
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
        raise SettingError("events: no composition rule covers them all")
    return min(bounds, key=lambda bound: bound.high)


def _simple(events: Sequence[Event], delta: float) -> Bound:
    """eps and delta add up; delta is divided evenly among the releases that need one."""
    needing = sum(event.count for event in events if event.mechanism == "gaussian")
    if needing and not delta > 0:
        raise SettingError("delta = 0: a Gaussian release is never pure; give a delta above 0")
    total = upper(sum((event.count * _exact_epsilon(event, delta / max(needing, 1)) for event in events), Fraction(0)))
    return Bound(0.0, total, total, delta, "simple")


def _advanced(events: Sequence[Event], delta: float) -> Bound:
    """Kairouz, Oh and Viswanath (2015), heterogeneous: half of delta for the deviation, half for the releases that need one."""
    needing = sum(event.count for event in events if event.mechanism == "gaussian")
    own, deviation = (delta / 2 / needing, delta / 2) if needing else (0.0, delta)
    parts = [(event.count, _single_epsilon(event, own)) for event in events]
    drift = math.fsum(count * e * math.tanh(e / 2) for count, e in parts)
    spread = math.fsum(count * e * e for count, e in parts)
    return _above(drift + math.sqrt(2 * spread * math.log(1 / deviation)), delta, "advanced")


def _zcdp(events: Sequence[Event], delta: float) -> Bound:
    """rho adds up: sensitivity^2/(2 sigma^2) for a Gaussian, eps^2/2 for a pure release; converted order by order."""
    if any(event.sampling < 1 for event in events):
        raise SettingError("zcdp: has no amplification by sampling; use rdp or pld")
    rho = math.fsum(event.count * _rho(event) for event in events)
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon  # it takes a second to load

    return _above(float(compute_epsilon(REAL_ORDERS, rho * REAL_ORDERS, delta)[0]), delta, "zcdp")


def _rdp(events: Sequence[Event], delta: float) -> Bound:
    return _above(renyi_epsilon(events, delta), delta, "rdp")


def _pld(events: Sequence[Event], delta: float) -> Bound:
    """Loss distributions at two grids: the finer is the upper bound, twice the difference the error below it."""
    events = merged(events)
    if len(events) == 1 and events[0].mechanism == "gaussian" and events[0].sampling == 1:
        value = gaussian_epsilon(events[0].multiplier, delta)
        return Bound(value, value, value, delta, "pld")
    interval = pld_interval(events)
    rounds = sum(event.count for event in events)
    coarse, fine = (epsilon_at(composed(events, h), delta, rounds) for h in (2 * interval, interval))
    if not math.isfinite(fine):
        raise SettingError(f"delta = {delta:g}: the grid of so large or so many losses does not reach it; use rdp")
    exact = all(event.mechanism == "gaussian" for event in events)  # others enter as the worst release of their eps
    low = max(0.0, fine - 2 * abs(coarse - fine)) if exact else 0.0
    return Bound(low, (low + fine) / 2, fine * (1 + ROUNDING), delta, "pld")


def merged(events: Sequence[Event]) -> list[Event]:
    """The same events with all unsampled Gaussian ones as a single one: their squared shifts add up, exactly."""
    plain = [event for event in events if event.mechanism == "gaussian" and event.sampling == 1]
    rest = [event for event in events if event not in plain]
    if not plain:
        return rest
    shift = math.sqrt(math.fsum(event.count / event.multiplier**2 for event in plain))
    return [*rest, Event("gaussian", 1 / shift, "l2")]


def pld_interval(events: Sequence[Event]) -> float:
    """A grid that keeps the discretisation error of the whole composition near 0.1 % at a bearable cost."""
    rounds = sum(event.count for event in events)
    reach = 2 * renyi_epsilon(events, 1e-12)  # about as wide as the composed distribution is
    interval = max(min(1e-3, max(1e-5, 0.005 / math.sqrt(rounds))), reach / 2e6)
    smallest = min((_single_epsilon(event, 0.0) for event in events if event.mechanism != "gaussian"), default=math.inf)
    if rounds > 1e7 or smallest < interval:
        raise SettingError("pld: these releases are too many, or too small, for a grid; use rdp")
    return interval


_RULES: dict[str, Callable[[Sequence[Event], float], Bound]] = {
    "simple": _simple,
    "advanced": _advanced,
    "zcdp": _zcdp,
    "rdp": _rdp,
    "pld": _pld,
}


def _above(value: float, delta: float, method: str) -> Bound:
    return Bound(0.0, value, value * (1 + ROUNDING), delta, method)


def _rho(event: Event) -> float:
    return 0.5 / event.multiplier**2 if event.mechanism == "gaussian" else pure_event_epsilon(event) ** 2 / 2


def _single_epsilon(event: Event, delta: float) -> float:
    """eps of one release, amplified by sampling: ln(1 + q (e^eps - 1)) at q delta."""
    if event.mechanism == "gaussian":
        epsilon = gaussian_epsilon(event.multiplier, min(delta / event.sampling, 0.5))
    else:
        epsilon = pure_event_epsilon(event)
    return amplified(epsilon, event.sampling)


def _exact_epsilon(event: Event, delta: float) -> Fraction:
    """The same, not below the truth: a fraction for plain pure noise, whose multiplier is the decimal that people wrote."""
    if event.mechanism in ("laplace", "geometric", "pure") and event.sampling == 1:
        return 1 / Fraction(repr(float(event.multiplier)))
    return Fraction(_single_epsilon(event, delta) * (1 + ROUNDING))


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """The exact eps of one Gaussian release at delta, rounded up in the ninth digit.

    >>> round(gaussian_epsilon(2**0.5, 1e-5), 3)
    2.943
    """
    shift = 1 / positive(multiplier, "multiplier")
    delta = probability(delta) * (1 - 1e-9)  # gaussian_delta is right to ten digits
    if gaussian_delta(0.0, shift) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, shift) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, shift) > delta else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return high * (1 + 1e-12)


def rounds_for(event: Event, epsilon: float, delta: float, method: Method | Literal["best"] = "best") -> int:
    """How many such releases fit into (epsilon, delta): the largest count whose upper bound stays within; 0 if none does."""
    positive(epsilon, "epsilon")
    if delta == 0:
        return int(Fraction(str(epsilon)) / _exact_epsilon(event, 0.0))

    def fits(count: int) -> bool:
        return compose([replace(event, count=count)], delta, method).high <= epsilon

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
        if high > 2**40:
            raise SettingError("epsilon: more than a trillion such rounds fit; that is no budget")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def multiplier_for(
    mechanism: Literal["laplace", "gaussian", "geometric", "stable"],
    epsilon: float,
    delta: float = 0.0,
    rounds: int = 1,
    sampling: float = 1.0,
    alpha: float | None = None,
    method: Method | Literal["best"] = "best",
) -> float:
    """The least scale/sensitivity with which `rounds` releases stay within (epsilon, delta), to 1e-6 and on the private side."""
    positive(epsilon, "epsilon")
    whole(rounds, "rounds")
    norm: Literal["l1", "l2"] = "l2" if mechanism == "gaussian" or (mechanism == "stable" and delta > 0) else "l1"

    def fits(multiplier: float) -> bool:
        event = Event(mechanism, multiplier, norm, alpha, sampling, rounds)
        return compose([event], delta, method).high <= epsilon

    if delta == 0:
        if sampling < 1:
            raise SettingError("sampling: amplification of pure noise is computed with a delta; give one above 0")
        unit = pure_event_epsilon(Event(mechanism, 1.0, norm, alpha, count=rounds))
        return positive(unit * rounds / epsilon * (1 + 1e-12), "multiplier")
    low, high = 1e-6, 1.0
    while not fits(high):
        low, high = high, 2 * high
        if high > 1e14:
            raise SettingError(f"epsilon = {epsilon:g}, delta = {delta:g}: no noise of this kind reaches it")
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
