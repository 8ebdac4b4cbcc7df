"""Privacy curves of stable noise, as in the dissertation's chapter
4 - and what they look like when a difference is spread out.

Z draws one dimension. `spread="many"` draws the limit of a difference spread over many coordinates: there SaS noise
leaks like the Gaussian with the same Fisher information, and the published advantage is gone.
"""

import math
from typing import Literal

import numpy as np

from parley.errors import SettingError
from parley.privacy.accounting.divergences import fisher_information
from parley.privacy.accounting.loss import delta_at, from_curve
from parley.privacy.accounting.pairs import Pair, stable_law
from parley.privacy.accounting.stable_bounds import grid_interval, sampling_rate, spread_epsilon
from parley.privacy.mechanisms.gaussian import probability
from parley.privacy.mechanisms.stable_law import check_alpha
from parley.validate import Floats, positive, whole

Spread = Literal["one", "many"]


def delta_curve(
    alpha: float, scale: float, epsilons: Floats, compositions: int = 1, sampling: float = 1.0, spread: Spread = "one"
) -> Floats:
    """delta at each eps for an L2 shift of 1: an upper bound for one
    coordinate; for "many", the limit that equal spreads approach.

    >>> bool(delta_curve(2.0, 1.0, np.array([0.0]))[0] > delta_curve(2.0, 2.0, np.array([0.0]))[0])
    True
    """
    whole(compositions, "compositions")
    law, shift = _single_shift(alpha, scale, spread)
    curve, largest = Pair(stable_law(law), shift / 2, sampling_rate(sampling)).curve()
    distribution = from_curve(curve, largest, grid_interval(largest, compositions)).self_compose(compositions)
    return delta_at(distribution, epsilons, compositions)


def epsilon_curve(
    alpha: float, scales: Floats, delta: float, compositions: int = 1, sampling: float = 1.0, spread: Spread = "one"
) -> Floats:
    """eps at delta for each scale of the noise, for an L2 shift of 1: an upper bound."""
    whole(compositions, "compositions")
    rate = sampling_rate(sampling)
    shifts = [_single_shift(alpha, float(scale), spread) for scale in scales]
    return np.array([spread_epsilon(law, shift, probability(delta), compositions, rate)[1] for law, shift in shifts])


def _single_shift(alpha: float, scale: float, spread: Spread) -> tuple[float, float]:
    """(alpha, shift) of the one-dimensional release that the spread amounts to."""
    alpha = check_alpha(alpha)
    if not 1e-9 <= positive(scale, "scale") <= 1e15:
        raise SettingError(f"scale = {scale:g}: expected a number from 1e-9 to 1e15")
    if spread == "one":
        return alpha, 1 / scale
    return 2.0, math.sqrt(2 * fisher_information(alpha)) / scale
