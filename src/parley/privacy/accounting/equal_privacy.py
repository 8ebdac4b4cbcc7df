"""Mechanisms at equal privacy: how much noise each needs, and what stable noise costs by how a difference is spread."""

import math
from fractions import Fraction
from typing import Any

from parley.privacy.accounting.stable_bounds import stable_epsilon
from parley.privacy.adjacency import Adjacency
from parley.privacy.mechanisms import Gaussian, Geometric, Laplace, Stable
from parley.validate import positive, whole


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
