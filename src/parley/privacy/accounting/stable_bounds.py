"""What stable noise costs when vectors are bounded in L2: an interval (erratum d of Z), and privacy curves such as Z's
figures 4.1 and 4.6 to 4.11. Z accounts for one dimension. A difference of L2 length D spread equally over m coordinates
is m releases of shift D/sqrt(m): the same for the Gaussian, a larger leak for alpha < 2. The truth for the worst
direction lies in (low, high). `spread="many"` is the limit of many coordinates: there SaS noise leaks like the Gaussian
with the same Fisher information."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from parley.errors import SettingError
from parley.privacy.accounting.compose import multiplier_for, renyi_epsilon
from parley.privacy.accounting.pairs import Pair, delta_at, epsilon_at, from_curve, make_stable_law
from parley.privacy.accounting.releases import EPSILON_ROUNDING, fisher_information
from parley.privacy.events import Adjacency, GaussianEvent, StableEvent
from parley.privacy.mechanisms import Gaussian, Geometric, Laplace, Stable
from parley.privacy.mechanisms.gaussian import probability
from parley.privacy.mechanisms.stable import pure_epsilon
from parley.privacy.mechanisms.stable_law import check_alpha
from parley.validate import Floats, positive, whole

COORDINATE_SPREADS = (1, 2, 4, 16, 64, 256)
RATIO_STEP = 1e-4  # relative: what a divergence is rounded up by, and the steps of a ratio


@dataclass(frozen=True)
class StableBound:
    """eps at delta lies in [low, high] for the worst direction; guarantees use `high`."""

    low: float
    high: float
    one_dimensional: float  # Z's figure: for differences that sit in a single coordinate, and only for those
    delta: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE


def stable_epsilon(
    alpha: float,
    scale: float,
    delta: float,
    l2_sensitivity: float = 1.0,
    spread: int | None = None,
    compositions: int = 1,
    sampling: float = 1.0,
) -> StableBound:
    """Return eps of `compositions` releases with i.i.d. SaS noise on vectors of this L2 sensitivity, Poisson-sampled at
    rate `sampling`.

    Formal guarantee: `high` is an upper bound for every direction and dimension, replace-one adjacency (l2_sensitivity
    is how far replacing one record moves the value; sampled, a record moves it by at most half of that to its side),
    for exactly sampled noise. `low` is reached by a difference spread equally over some number of coordinates. With
    `spread=m` both are the figure for an equal spread over m coordinates: low = high up to discretisation.

    >>> bound = stable_epsilon(1.9, 1.0, 1e-5, spread=4)
    >>> round(bound.low, 2), round(bound.high, 2)
    (2.47, 2.47)
    """
    alpha, scale, delta = check_alpha(alpha), positive(scale, "scale"), probability(delta)
    distance = positive(l2_sensitivity, "l2_sensitivity") / scale
    compositions, sampling = whole(compositions, "compositions"), sampling_rate(sampling)
    if spread is not None and whole(spread, "spread") > 1 and sampling < 1:
        raise SettingError("spread: with sampling, epsilon is known only for spread=1; omit spread to get an interval")

    def figure(m: int) -> tuple[float, float]:
        """Return (below, above) the eps of an equal spread over m coordinates."""
        return spread_epsilon(alpha, distance / math.sqrt(m), delta, m * compositions, sampling)

    one_coordinate = figure(1)
    if spread is not None or alpha == 2:  # the Gaussian looks the same in every direction
        low, high = one_coordinate if spread in (None, 1) else figure(spread)
        return StableBound(low, high, one_coordinate[1], delta)
    # many coordinates: a Gaussian with the same information
    limit = distance * math.sqrt(2 * fisher_information(alpha))
    lows = [one_coordinate[0], spread_epsilon(2.0, limit, delta, compositions, sampling)[0]]
    if sampling == 1 and alpha < 2:
        lows += [figure(m)[0] for m in COORDINATE_SPREADS[1:]]
    event = StableEvent(1 / distance, sampling, compositions, alpha=alpha, norm="l2")
    return StableBound(max(lows), max(renyi_epsilon([event], delta), *lows), one_coordinate[1], delta)


@lru_cache(maxsize=256)
def stable_ratio(alpha: float, epsilon: float, delta: float, count: int) -> float:
    """Return the least scale/sensitivity with which `count` releases on vectors bounded in L2 are (epsilon, delta)-DP,
    by Renyi divergences.

    Formal guarantee: the result suffices in every direction (`renyi_epsilon`, the `high` of `stable_epsilon`). The
    search starts at the Gaussian with this law's Fisher information: the result, if small shifts in many coordinates
    are the worst, as they were wherever we looked.

    >>> round(stable_ratio(1.9, 3.0971, 1e-5, 1), 3)
    1.0
    """

    def fits(ratio: float) -> bool:
        event = StableEvent(ratio, count=count, alpha=alpha, norm="l2")
        return renyi_epsilon([event], delta) * (1 + EPSILON_ROUNDING) <= epsilon

    normal = multiplier_for(lambda multiplier: GaussianEvent(multiplier, count=count), epsilon, delta, "rdp")
    ratio = normal * math.sqrt(fisher_information(check_alpha(alpha)) * (1 + RATIO_STEP))
    while not fits(ratio):
        ratio *= 1 + RATIO_STEP
    return ratio


def sampling_rate(rate: float) -> float:
    """Return a Poisson sampling rate as a float in (0, 1]."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise SettingError(f"sampling = {rate!r}: expected a rate above 0 and at most 1")
    return float(rate)


@lru_cache(maxsize=1024)
def spread_epsilon(alpha: float, shift: float, delta: float, count: int, sampling: float) -> tuple[float, float]:
    """Return (low, high) eps of `count` one-dimensional releases with this shift, by loss distributions. `high` is
    pessimistic on its grid. Its error is quadratic in the interval, so halving the grid moves it by about three
    quarters of its distance to the truth; `low` is the finer value less twice that move."""
    curve, largest = Pair(make_stable_law(alpha), shift / 2, sampling).curve()
    if count == 1 and largest * count <= 1e-12:
        return 0.0, 0.0
    interval = grid_interval(largest, count)
    coarse, fine = (
        epsilon_at(from_curve(curve, largest, h).self_compose(count), delta, count) for h in (2 * interval, interval)
    )
    ceiling = pure_epsilon(alpha, 1.0, shift) * count if alpha < 2 else math.inf
    high = min(fine, ceiling)
    return max(0.0, min(fine, ceiling) - 2 * abs(coarse - fine)), high


def grid_interval(largest: float, count: int) -> float:
    """Return a fine grid step, of at most ten million points, for `count` releases of at most this loss each."""
    return max(min(1e-3, max(largest / 200, 1e-6)), count * min(largest, 60.0) / 1e7)


Spread = Literal["one", "many"]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: delta against eps, or eps against the scale of the noise."""

    title: str
    alphas: tuple[float, ...]
    over: Literal["epsilon", "scale"] = "epsilon"
    scale: float = 1.0
    delta: float = 1e-5
    compositions: tuple[int, ...] = (1,)
    sampling: tuple[float, ...] = (1.0,)


ALL_ALPHAS, TWO_ALPHAS = (2.0, 1.999, 1.95, 1.9), (2.0, 1.999)
PANELS_BY_FIGURE: dict[str, tuple[Panel, ...]] = {
    "4.1": (Panel("scale 1", ALL_ALPHAS),),
    "4.6": (
        Panel(
            "200 compositions, sampling 0.001, δ = 1e-5", ALL_ALPHAS, "scale", compositions=(200,), sampling=(0.001,)
        ),
    ),
    "4.7": tuple(Panel(f"δ = {d:g}", TWO_ALPHAS, "scale", delta=d) for d in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "4.8": tuple(
        Panel(f"{n} composition" + "s" * (n > 1), TWO_ALPHAS, "scale", delta=1e-4, compositions=(n,))
        for n in (1, 2, 4, 8, 16)
    ),
    "4.9": (Panel("once and composed with itself", TWO_ALPHAS, compositions=(1, 2)),),
    "4.10": tuple(
        Panel(f"sampling {q:g}", TWO_ALPHAS, "scale", delta=1e-4, sampling=(q,)) for q in (1.0, 0.5, 0.1, 0.05, 0.01)
    ),
    "4.11": (Panel("sampling 1 and 0.1", TWO_ALPHAS, sampling=(1.0, 0.1)),),
}


def panel_curves(panel: Panel) -> list[dict[str, Any]]:
    """Return the curves of one panel, each as a dictionary for JSON."""
    # which figures there are, is said without them

    x: Floats = np.linspace(0, 6, 121) if panel.over == "epsilon" else np.geomspace(0.4, 8, 22)
    curves = []
    for alpha in panel.alphas:
        spreads: tuple[Spread, ...] = ("one",) if alpha == 2 else ("one", "many")
        for spread in spreads:
            for n in panel.compositions:
                for q in panel.sampling:
                    if panel.over == "epsilon":
                        y = delta_curve(alpha, panel.scale, x, n, q, spread)
                    else:
                        y = epsilon_curve(alpha, x, panel.delta, n, q, spread)
                    label = f"α = {alpha:g}" + (f", {n} times" if len(panel.compositions) > 1 else "")
                    label += f", sampling {q:g}" if len(panel.sampling) > 1 else ""
                    curves.append({"label": label, "alpha": alpha, "spread": spread, "x": x.tolist(), "y": y.tolist()})
    return curves


def delta_curve(
    alpha: float, scale: float, epsilons: Floats, compositions: int = 1, sampling: float = 1.0, spread: Spread = "one"
) -> Floats:
    """Return delta at each eps for an L2 shift of 1: an upper bound for one coordinate; for "many", the limit that
    equal spreads approach.

    >>> bool(delta_curve(2.0, 1.0, np.array([0.0]))[0] > delta_curve(2.0, 2.0, np.array([0.0]))[0])
    True
    """
    whole(compositions, "compositions")
    law, shift = _single_shift(alpha, scale, spread)
    curve, largest = Pair(make_stable_law(law), shift / 2, sampling_rate(sampling)).curve()
    distribution = from_curve(curve, largest, grid_interval(largest, compositions)).self_compose(compositions)
    return delta_at(distribution, epsilons, compositions)


def epsilon_curve(
    alpha: float, scales: Floats, delta: float, compositions: int = 1, sampling: float = 1.0, spread: Spread = "one"
) -> Floats:
    """Return eps at delta for each scale of the noise, for an L2 shift of 1: an upper bound."""
    whole(compositions, "compositions")
    rate = sampling_rate(sampling)
    shifts = [_single_shift(alpha, float(scale), spread) for scale in scales]
    return np.array([spread_epsilon(law, shift, probability(delta), compositions, rate)[1] for law, shift in shifts])


def _single_shift(alpha: float, scale: float, spread: Spread) -> tuple[float, float]:
    """Return (alpha, shift) of the one-dimensional release that the spread amounts to."""
    alpha = check_alpha(alpha)
    if not 1e-9 <= positive(scale, "scale") <= 1e15:
        raise SettingError(f"scale = {scale:g}: expected a number from 1e-9 to 1e15")
    if spread == "one":
        return alpha, 1 / scale
    return 2.0, math.sqrt(2 * fisher_information(alpha)) / scale


def equal_privacy(
    epsilon: float, delta: float, dimension: int = 1, sensitivity: float = 1.0, rounds: int = 1
) -> dict[str, Any]:
    """Return what `parley budget compare --json` prints; `sensitivity` is in L2, sqrt(dimension) times that in L1."""
    whole(dimension, "dimension")
    l1 = positive(sensitivity, "sensitivity") * math.sqrt(dimension)
    share = Fraction(str(positive(epsilon, "epsilon"))) / whole(rounds, "rounds")
    pure: list[tuple[str, Laplace | Geometric | Stable]] = [("laplace", Laplace.calibrate(share, l1))]
    if float(l1).is_integer():
        pure.append(("geometric", Geometric.calibrate(share, l1)))
    pure += [(f"stable, α = {alpha}", Stable.calibrate(share, l1, alpha)) for alpha in (1.5, 1.9, 1.999)]
    entries: list[dict[str, Any]] = [
        {"mechanism": name, "guarantee": "pure", "scale": m.scale, "expected_distortion": m.expected_distortion}
        for name, m in pure
    ]
    gaussian = Gaussian.calibrate(Fraction(str(epsilon)), delta, sensitivity, rounds)
    entries.append(
        {
            "mechanism": "gaussian",
            "guarantee": "delta",
            "scale": gaussian.sigma,
            "expected_distortion": gaussian.expected_distortion,
        }
    )
    return {
        "epsilon": epsilon,
        "delta": delta,
        "dimension": dimension,
        "rounds": rounds,
        "adjacency": Adjacency.REPLACE_ONE,
        "mechanisms": entries,
        "epsilon_by_spread": [_spread_entry(alpha, sensitivity, delta) for alpha in (2.0, 1.999, 1.9, 1.5)],
    }


def _spread_entry(alpha: float, sensitivity: float, delta: float) -> dict[str, float]:
    bound = stable_epsilon(alpha, sensitivity, delta, l2_sensitivity=sensitivity)
    figures_by_spread = {f"spread_{m}": stable_epsilon(alpha, 1.0, delta, spread=m).high for m in (1, 4, 64)}
    return {"alpha": alpha, **figures_by_spread, "low": bound.low, "high": bound.high}
