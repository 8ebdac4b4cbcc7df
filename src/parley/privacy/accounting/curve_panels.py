"""Privacy curves of stable noise, and panels of them: the dissertation's figures 4.1 and 4.6 to 4.11 are some.

Z draws one dimension. `spread="many"` draws the limit of a difference spread over many coordinates: there SaS noise
leaks like the Gaussian with the same Fisher information, and the published advantage is gone.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from parley.errors import SettingError
from parley.privacy.accounting.pairs import Pair, delta_at, from_curve, stable_law
from parley.privacy.accounting.releases import fisher_information
from parley.privacy.accounting.stable_bounds import grid_interval, sampling_rate, spread_epsilon, stable_epsilon
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms import Gaussian, Geometric, Laplace, Stable
from parley.privacy.mechanisms.gaussian import probability
from parley.privacy.mechanisms.stable_law import check_alpha
from parley.validate import Floats, positive, whole

Spread = Literal["one", "many"]


@dataclass(frozen=True)
class Panel:
    """One axes: delta against eps, or eps against the scale of the noise."""

    title: str
    alphas: tuple[float, ...]
    over: Literal["epsilon", "scale"] = "epsilon"
    scale: float = 1.0
    delta: float = 1e-5
    compositions: tuple[int, ...] = (1,)
    sampling: tuple[float, ...] = (1.0,)


ALL, TWO = (2.0, 1.999, 1.95, 1.9), (2.0, 1.999)
FIGURES: dict[str, tuple[Panel, ...]] = {
    "4.1": (Panel("scale 1", ALL),),
    "4.6": (Panel("200 compositions, sampling 0.001, δ = 1e-5", ALL, "scale", compositions=(200,), sampling=(0.001,)),),
    "4.7": tuple(Panel(f"δ = {d:g}", TWO, "scale", delta=d) for d in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "4.8": tuple(
        Panel(f"{n} composition" + "s" * (n > 1), TWO, "scale", delta=1e-4, compositions=(n,)) for n in (1, 2, 4, 8, 16)
    ),
    "4.9": (Panel("once and composed with itself", TWO, compositions=(1, 2)),),
    "4.10": tuple(
        Panel(f"sampling {q:g}", TWO, "scale", delta=1e-4, sampling=(q,)) for q in (1.0, 0.5, 0.1, 0.05, 0.01)
    ),
    "4.11": (Panel("sampling 1 and 0.1", TWO, sampling=(1.0, 0.1)),),
}


def panel_curves(panel: Panel) -> list[dict[str, Any]]:
    """The curves of one panel, each as a dictionary for JSON."""
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


def equal_privacy(
    epsilon: float, delta: float, dimension: int = 1, sensitivity: float = 1.0, rounds: int = 1
) -> dict[str, Any]:
    """The object that `parley budget compare --json` prints; `sensitivity`
    is in L2, in L1 it is taken to be sqrt(dimension) times that."""
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
