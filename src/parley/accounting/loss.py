"""Privacy-loss distributions: discretised pessimistically, composed by FFT (dp-accounting does both).

"Connect the dots" (Doroshenko et al. 2022): a discrete loss distribution on a grid of eps whose delta(eps) equals the true one on the
grid and lies above it between. So every result is an upper bound, and refining the grid closes the gap quadratically.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_privacy_parameters, identity
from numpy.typing import ArrayLike

from parley.accounting.pairs import LAPLACE, Curve, Pair, stable_law
from parley.errors import SettingError
from parley.mechanisms import Event
from parley.validate import Floats

ROUNDING = 1e-15  # error of one computed delta of a curve: added to it
READING = 1e-12  # error of a delta read off a distribution (measured: 3e-13): charged to delta, so results stay upper bounds


def from_curve(curve: Curve, largest: float, interval: float) -> PrivacyLossDistribution:
    """The loss distribution of a pair of mirror images with this curve for eps >= 0 and this largest loss.

    For eps < 0 the curve follows from the mirror symmetry: delta(-eps) = 1 - exp(-eps) (1 - delta(eps)).
    """
    steps = int(np.ceil(min(largest, 60.0) / interval)) + 1
    epsilon = interval * np.arange(steps + 1, dtype=np.float64)
    right = np.minimum(curve(epsilon) + ROUNDING, 1.0)
    right = np.minimum.accumulate(right)
    left = 1 - np.exp(-epsilon[:0:-1]) * (1 - right[:0:-1])
    deltas = np.minimum.accumulate(np.concatenate([left, right]))
    keep = deltas < 1
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, np.arange(-steps, steps + 1)[keep], deltas[keep])
    return PrivacyLossDistribution(pmf)


def delta_at(distribution: PrivacyLossDistribution, epsilon: ArrayLike) -> Floats:
    """An upper bound on delta at eps."""
    asked = np.asarray(epsilon, dtype=np.float64)
    read = np.asarray(distribution.get_delta_for_epsilon(asked.reshape(-1)))
    return np.minimum(read.reshape(asked.shape) + READING, 1.0)


def epsilon_at(distribution: PrivacyLossDistribution, delta: float) -> float:
    """An upper bound on eps at delta."""
    if not delta > 10 * READING:
        raise SettingError(f"delta = {delta:g}: loss distributions are computed to 1e-12; expected more than 1e-11, or use rdp")
    return float(distribution.get_epsilon_for_delta(delta - READING))


@lru_cache(maxsize=256)
def loss_distribution(event: Event, interval: float) -> PrivacyLossDistribution:
    """The loss distribution of one release (count is applied by `composed`).

    Gaussian: exact in any dimension. Laplace, geometric and other pure releases of vectors: the worst loss distribution that any
    eps-DP release can have (randomised response), because for spread-out differences no smaller one is proved; sampled by the
    amplified eps ln(1 + q (e^eps - 1)).
    """
    if event.mechanism == "gaussian":
        pair = Pair(stable_law(2.0), 2**-0.5 / event.multiplier, event.sampling)  # scale = sigma/sqrt(2)
        return from_curve(*pair.curve(), interval)
    epsilon = pure_event_epsilon(event)
    amplified = float(np.log1p(event.sampling * np.expm1(epsilon)))
    return from_privacy_parameters(DifferentialPrivacyParameters(amplified, 0.0), interval)


def scalar_laplace(multiplier: float, sampling: float, interval: float) -> PrivacyLossDistribution:
    """Laplace noise on a single number: its exact loss distribution."""
    return from_curve(*Pair(LAPLACE, 0.5 / multiplier, sampling).curve(), interval)


def pure_event_epsilon(event: Event) -> float:
    """eps of one unsampled pure release."""
    if event.mechanism == "gaussian" or event.alpha == 2:
        raise SettingError("a Gaussian release is never pure: give a delta and use zcdp, rdp or pld")
    if event.mechanism == "stable":
        from parley.mechanisms.stable import score_bound

        if event.norm != "l1":
            raise SettingError("stable noise on a value bounded in L2 has an interval, not a pure epsilon: use stable_epsilon")
        return score_bound(float(event.alpha or 0)) / event.multiplier
    return 1 / event.multiplier


def composed(events: Sequence[Event], interval: float) -> PrivacyLossDistribution:
    """All events together. For a sequence fixed in advance; the queries inside it may be chosen adaptively."""
    total: Any = identity(value_discretization_interval=interval)
    for event in events:
        total = total.compose(loss_distribution(single(event), interval).self_compose(event.count))
    return total


def single(event: Event) -> Event:
    """The same event once."""
    return Event(event.mechanism, event.multiplier, event.norm, event.alpha, event.sampling)
