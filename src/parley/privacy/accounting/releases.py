"""What is proved of one release: one function for each notion of privacy, all that accountants ask of an event.

Formal guarantee: each is an upper bound for the event's adjacency (replace-one) and every direction of a difference, in
any dimension. New noise with a line in `pure_epsilon` is accounted for as the worst release of that eps; a line in the
others makes it cheaper.

Renyi divergences of noise, R_a(P||Q) = ln E_Q[(P/Q)^a]/(a - 1), add up over rounds and coordinates. For product noise a
shift v costs sum_j R_a(v_j). Hence for |v|_2 <= D, whatever the direction of v (erratum d of Z: the one-dimensional
figure alone covers one direction only),

    sum_j R_a(v_j) <= D^2 sup over 0 < d <= D of R_a(d)/d^2
"""

import math
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from parley.errors import SettingError
from parley.privacy.accounting.pairs import from_curve, gaussian_pair
from parley.privacy.events import Event, GaussianEvent, PureEvent, StableEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.privacy.mechanisms.stable_law import log_pdf, score, score_bound
from parley.validate import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


def pure_divergence(epsilon: float, orders: Floats) -> Floats:
    """Return the largest R_a of eps-DP releases: ln[cosh((a - 1/2) eps)/cosh(eps/2)]/(a - 1) (randomised response)."""
    a = np.asarray(orders, dtype=np.float64)

    def log_cosh(x: Floats) -> Floats:
        size = np.abs(x)
        return np.where(size < 20, np.log1p(2 * np.sinh(np.minimum(size, 20.0) / 2) ** 2), size - math.log(2))

    value = (log_cosh((a - 0.5) * epsilon) - log_cosh(np.array(epsilon / 2))) / (a - 1)
    return np.minimum(value * (1 + 1e-9), np.minimum(epsilon, a * epsilon**2 / 2))


@lru_cache(maxsize=256)
def stable_divergence(alpha: float, distance: float, orders: tuple[float, ...]) -> Floats:
    """Return distance^2 sup over 0 < d <= distance of R_a(d)/d^2 for SaS noise of scale 1: valid for every direction of
    that L2 length. The limit at zero is a/2 times the Fisher information (at least 0.4). Beyond d = 20 the quotient is
    at most kappa/20 < 0.2, since R_a(d) <= kappa d. Between, it varies slowly: it is evaluated at 20 shifts, and 1e-4
    of it is added."""
    a = np.array(orders)
    if alpha == 2:
        return a * distance**2 / 4
    shifts = min(distance, 20.0) * np.geomspace(1e-2, 1, 20)
    rates = np.array([shift_divergence(alpha, float(d), a) / d**2 for d in shifts])
    at_zero = a / 2 * fisher_information(alpha)
    return np.asarray(np.maximum(rates.max(axis=0), at_zero) * distance**2 * (1 + 1e-4))


def shift_divergence(alpha: float, shift: float, orders: Floats) -> Floats:
    """Return R_a between SaS noise of scale 1 and itself moved by `shift`. Since E_Q[P/Q - 1] = 0, E_Q[(P/Q)^a] - 1 =
    int q (expm1(a L) - a expm1(L)) dx: nothing cancels, however small the shift."""
    x, weight = _quadrature_nodes(shift)
    log_q = log_pdf(x, alpha)
    loss = log_pdf(x - shift, alpha) - log_q
    a = np.asarray(orders, dtype=np.float64)
    moment, largest = np.empty(len(a)), np.abs(loss).max()
    mass, loss_minus_one = weight * np.exp(log_q), np.expm1(loss)
    for row, order in enumerate(a):
        if order * largest < 600:
            moment[row] = math.log1p(float(np.sum(mass * (np.expm1(order * loss) - order * loss_minus_one))))
        else:
            moment[row] = float(logsumexp(order * loss + log_q, b=weight))
    return np.maximum(moment, 0.0) / (a - 1)


@lru_cache(maxsize=32)
def fisher_information(alpha: float) -> float:
    """Return E[(p'/p)^2] at scale 1: a small shift over many coordinates leaks like a Gaussian of variance 1/this."""
    if alpha == 2:
        return 0.5
    x, weight = _quadrature_nodes(0.0)
    return float(np.sum(weight * np.exp(log_pdf(x, alpha)) * score(x, alpha) ** 2))


def _quadrature_nodes(shift: float) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights over the line: panels of equal length in asinh(x - shift/2)."""
    nodes, weight = _centred_nodes()
    return nodes + shift / 2, weight


@cache
def _centred_nodes() -> tuple[Floats, Floats]:
    panels = np.linspace(-math.asinh(1e9), math.asinh(1e9), 161)
    node, weight = np.polynomial.legendre.leggauss(10)
    half = (panels[1] - panels[0]) / 2
    u = (panels[:-1, None] + half + half * node).ravel()
    return np.sinh(u), np.tile(weight * half, len(panels) - 1) * np.cosh(u)


EPSILON_ROUNDING = 1e-12  # of floats on the way to an epsilon, relative: added to what is called an upper bound


def pure_epsilon(event: Event) -> float:
    """Return eps of one unsampled release without a delta; refuse noise that has none."""
    match event:
        case PureEvent():
            return 1 / event.multiplier
        case StableEvent(norm="l1") if event.alpha < 2:
            return score_bound(event.alpha) / event.multiplier
        case StableEvent() if event.alpha < 2:
            raise SettingError(
                "stable noise on a value bounded in L2 has no pure epsilon; call stable_epsilon to get an interval at "
                "a delta"
            )
        case GaussianEvent() | StableEvent():
            raise SettingError("Gaussian noise has no epsilon without a delta; give a delta and use zcdp, rdp or pld")
        case _:
            raise SettingError(
                f"events: no bound is known for a {type(event).__name__}; use an event of parley.privacy.events"
            )


def needs_delta(event: Event) -> bool:
    """Return whether each release takes its own share of delta where eps and delta add up."""
    return isinstance(event, GaussianEvent)


def release_epsilon(event: Event, delta: float) -> float:
    """Return eps of one release at delta, amplified by sampling: ln(1 + q (e^eps - 1)), with eps at delta/q."""
    if isinstance(event, GaussianEvent):
        epsilon = gaussian_epsilon(event.multiplier, min(delta / event.sampling, 0.5))
    else:
        epsilon = pure_epsilon(event)
    return amplified(epsilon, event.sampling)


def exact_epsilon(event: Event, delta: float) -> Fraction:
    """Return `release_epsilon`, not below the truth; for plain pure noise 1/multiplier, as the decimal that people
    wrote."""
    if isinstance(event, PureEvent) and event.sampling == 1:
        return 1 / Fraction(repr(float(event.multiplier)))
    return Fraction(release_epsilon(event, delta) * (1 + EPSILON_ROUNDING))


def amplified(epsilon: float, sampling: float) -> float:
    """Return ln(1 + q (e^eps - 1)), eps of a Poisson-sampled release, also for replacement (Balle et al. 2018)."""
    if sampling == 1:
        return epsilon
    if epsilon > 30:
        return float(np.logaddexp(np.log1p(-sampling), np.log(sampling) + epsilon))
    return float(np.log1p(sampling * np.expm1(epsilon)))


def zcdp_rho(event: Event) -> float:
    """Return rho of one unsampled release: sensitivity^2/(2 sigma^2) for a Gaussian, eps^2/2 for a pure one."""
    return 0.5 / event.multiplier**2 if isinstance(event, GaussianEvent) else pure_epsilon(event) ** 2 / 2


def renyi_divergence(event: Event, orders: Floats, sensitivity: float = 1.0) -> Floats:
    """Return R_a of one unsampled release, for the worst difference of `sensitivity` times the event's own."""
    match event:
        case GaussianEvent():
            return orders * (sensitivity / event.multiplier) ** 2 / 2
        case StableEvent(norm="l2"):
            return stable_divergence(event.alpha, sensitivity / event.multiplier, tuple(orders))
        case _:
            return pure_divergence(pure_epsilon(event) * sensitivity, orders)


@lru_cache(maxsize=256)
def loss_distribution(event: Event, interval: float) -> "PrivacyLossDistribution":
    """Return the privacy-loss distribution of one release, pessimistic on a grid of this interval. It is exact for
    Gaussian noise in any dimension. For pure releases of vectors it is the worst of any eps-DP release (randomised
    response), as no smaller one is proved for spread-out differences; sampled, of the amplified eps."""
    if isinstance(event, GaussianEvent):
        return from_curve(*gaussian_pair(event.multiplier, event.sampling).curve(), interval)
    epsilon = amplified(pure_epsilon(event), event.sampling)
    if epsilon > 60:
        raise SettingError("pld: this method cannot handle so large an epsilon; use method simple")
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    return from_privacy_parameters(DifferentialPrivacyParameters(epsilon, 0.0), interval)
