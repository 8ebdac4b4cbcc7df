"""Privacy-loss distributions: discretised pessimistically, composed by FFT (dp-accounting does both).

"Connect the dots" (Doroshenko et al. 2022): a discrete loss distribution on a grid
of eps whose delta(eps) equals the true one on the grid and lies above it between. So
every result is an upper bound, and refining the grid closes the gap quadratically.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.privacy.accounting.pairs import Curve
from parley.validate import Floats

if TYPE_CHECKING:  # the library takes a second to load, and most series need none of it
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

ROUNDING = 1e-13  # error of one computed delta of a curve (measured: 2e-14): added to it


def reading_error(compositions: int) -> float:
    """Error of a delta read off a composed distribution (measured:
    3e-13 once, 3e-12 at 1e5, 6e-11 at 1e6): charged to delta."""
    return 1e-12 + 2e-16 * compositions


def from_curve(curve: Curve, largest: float, interval: float) -> "PrivacyLossDistribution":
    """The loss distribution of a pair of mirror images with this curve for eps >= 0 and this largest loss.

    For eps < 0 the curve follows from the mirror symmetry: delta(-eps) = 1 - exp(-eps) (1 - delta(eps)).
    """
    if not 0 < interval <= 1:  # beyond 1 the exponentials overflow
        raise SettingError("pld: these releases are too many, too large or too small for a grid; use rdp")
    steps = int(np.ceil(min(largest, 60.0) / interval)) + 1
    epsilon = interval * np.arange(steps + 1, dtype=np.float64)
    right = np.minimum(np.maximum.accumulate(curve(epsilon)[::-1])[::-1] + ROUNDING, 1.0)
    left = 1 - np.exp(-epsilon[:0:-1]) * (1 - right[:0:-1])
    deltas = np.minimum.accumulate(np.concatenate([left, right]))
    keep = deltas < 1
    if not keep.any():
        raise SettingError("pld: a release with so little noise hides nothing; use more")
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    pmf = create_pmf_pessimistic_connect_dots(interval, np.arange(-steps, steps + 1)[keep], deltas[keep])
    return PrivacyLossDistribution(
        pmf.to_dense_pmf()
    )  # composing a dictionary a million times begins with a number of a million digits


def delta_at(distribution: "PrivacyLossDistribution", epsilon: ArrayLike, compositions: int = 1) -> Floats:
    """An upper bound on delta at eps."""
    asked = np.asarray(epsilon, dtype=np.float64)
    read = np.asarray(distribution.get_delta_for_epsilon(float(asked) if asked.ndim == 0 else asked.reshape(-1)))
    return np.minimum(read.reshape(asked.shape) + reading_error(compositions), 1.0)


def epsilon_at(distribution: "PrivacyLossDistribution", delta: float, compositions: int = 1) -> float:
    """An upper bound on eps at delta; infinite where the grid does not reach it."""
    error = reading_error(compositions)
    if not delta > 10 * error:
        raise SettingError(
            f"delta = {delta:g}: loss distributions of so many releases are computed to {error:.0e}; use rdp"
        )
    with np.errstate(over="ignore"):
        return float(distribution.get_epsilon_for_delta(delta - error))
