"""What is proved of one release: all that accountants ask of an event, one function for each notion of privacy.

Formal guarantee: each is an upper bound for the event's adjacency (replace-one) and every direction of a difference, in
any dimension. New noise is accounted for as soon as it has a line in `pure_epsilon`, as the worst release of that eps;
a line in the others makes it cheaper.
"""

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from parley.errors import SettingError
from parley.privacy.accounting.divergences import pure_divergence, stable_divergence
from parley.privacy.accounting.loss import from_curve
from parley.privacy.accounting.pairs import gaussian_pair
from parley.privacy.events import Event, GaussianEvent, PureEvent, StableEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.privacy.mechanisms.stable_law import score_bound
from parley.validate import Floats

if TYPE_CHECKING:  # the library takes a second to load, and most series need none of it
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

ROUNDING = 1e-12  # of floats on the way to an epsilon, relative: added to what is called an upper bound


def pure_epsilon(event: Event) -> float:
    """eps of one unsampled release without a delta; refused where there is none."""
    match event:
        case PureEvent():
            return 1 / event.multiplier
        case StableEvent(norm="l1") if event.alpha < 2:
            return score_bound(event.alpha) / event.multiplier
        case StableEvent() if event.alpha < 2:
            raise SettingError(
                "stable noise on a value bounded in L2 has an interval, not a pure epsilon: use stable_epsilon"
            )
        case GaussianEvent() | StableEvent():
            raise SettingError("a Gaussian release is never pure: give a delta and use zcdp, rdp or pld")
        case _:
            raise SettingError(
                f"events: nothing is proved of a {type(event).__name__}; expected one that accounting knows"
            )


def needs_delta(event: Event) -> bool:
    """Whether each release takes a share of delta for itself where eps and delta add up."""
    return isinstance(event, GaussianEvent)


def release_epsilon(event: Event, delta: float) -> float:
    """eps of one release at delta, amplified by sampling: ln(1 + q (e^eps - 1)) at q delta."""
    if isinstance(event, GaussianEvent):
        epsilon = gaussian_epsilon(event.multiplier, min(delta / event.sampling, 0.5))
    else:
        epsilon = pure_epsilon(event)
    return amplified(epsilon, event.sampling)


def exact_epsilon(event: Event, delta: float) -> Fraction:
    """The same, not below the truth: a fraction for plain pure
    noise, whose multiplier is the decimal that people wrote."""
    if isinstance(event, PureEvent) and event.sampling == 1:
        return 1 / Fraction(repr(float(event.multiplier)))
    return Fraction(release_epsilon(event, delta) * (1 + ROUNDING))


def amplified(epsilon: float, sampling: float) -> float:
    """eps of a Poisson-sampled release: ln(1 + q (e^eps - 1)), for
    the replacement of a record too (Balle, Barthe, Gaboardi 2018)."""
    if sampling == 1:
        return epsilon
    if epsilon > 30:
        return float(np.logaddexp(np.log1p(-sampling), np.log(sampling) + epsilon))
    return float(np.log1p(sampling * np.expm1(epsilon)))


def zcdp_rho(event: Event) -> float:
    """rho of one unsampled release: sensitivity^2/(2 sigma^2) for a Gaussian, eps^2/2 for a pure one."""
    return 0.5 / event.multiplier**2 if isinstance(event, GaussianEvent) else pure_epsilon(event) ** 2 / 2


def renyi_divergence(event: Event, orders: Floats, sensitivity: float = 1.0) -> Floats:
    """R_a of one unsampled release at these orders, for the worst difference of `sensitivity` times the event's own."""
    match event:
        case GaussianEvent():
            return orders * (sensitivity / event.multiplier) ** 2 / 2
        case StableEvent(norm="l2"):
            return stable_divergence(event.alpha, sensitivity / event.multiplier, tuple(orders))
        case _:
            return pure_divergence(pure_epsilon(event) * sensitivity, orders)


@lru_cache(maxsize=256)
def loss_distribution(event: Event, interval: float) -> "PrivacyLossDistribution":
    """The privacy-loss distribution of one release, pessimistic on a grid of this interval.

    Gaussian: exact in any dimension. Laplace, geometric and other pure releases of vectors: the worst loss distribution
    that any eps-DP release can have (randomised response), because for spread-out differences no smaller one is proved;
    sampled by the amplified eps ln(1 + q (e^eps - 1)).
    """
    if isinstance(event, GaussianEvent):
        return from_curve(*gaussian_pair(event.multiplier, event.sampling).curve(), interval)
    epsilon = amplified(pure_epsilon(event), event.sampling)
    if epsilon > 60:
        raise SettingError("pld: a release of such an epsilon hides nothing; use simple")
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    return from_privacy_parameters(DifferentialPrivacyParameters(epsilon, 0.0), interval)
