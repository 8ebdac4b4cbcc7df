"""W's own bounds, with their errata; neither is a prediction.

Theorem 2 has no term for the starting point: with its printed step rho/(T^2 k) the path is at most rho ln(T)/T^2
gradients long. So for large T the algorithm barely leaves theta[1], and the bound lies below the truth by orders of
magnitude. Its dimension is put back here (E|w|^2 = 2 p b^2). Theorem 3's constant c2 is an unspecified function of T,
fitted here to this forecast, so it only shows how the error scales.
"""

import math
from dataclasses import dataclass

import numpy as np

from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Landscape
from parley.learning.algorithms.gradient_descent import GradientDescent


@dataclass(frozen=True)
class PublishedBounds:
    """Bounds on excess cost (W's 9 and 11) and squared distance (10 and 12); None if a theorem does not apply."""

    theorem_2: float | None
    theorem_2_distance: float | None
    theorem_3_rate: float
    theorem_3_fitted_constant: float
    theorem_3_distance: float | None
    note: str = (
        "published bounds, not predictions: theorem 2 ignores the start, theorem 3 has an unspecified constant, "
        "fitted here"
    )


def published_bounds(pilot: Pilot, here: Landscape, excess: float) -> PublishedBounds:
    """Return theorem 2's bound (Algorithm 1, strongly convex), 8 p Xi^2 rho/(L n^2) sum eps^-2, and theorem 3's rate,
    Xi/n sqrt(sum eps^-2). Distances are 4/L times that, where 2/L would do: L is the cost's least curvature in theorem
    2, and the penalty's alone in theorem 3, which gives no distance without one."""
    terms = pilot.terms
    n = float(pilot.rows.sum())
    total = float(np.sum(np.array([float(terms.training_epsilon(part.name)) for part in terms.owners]) ** -2.0))
    penalty = pilot.objective.regularisation
    strength = float(here.curvature.min()) + penalty
    rate = pilot.bound.value / n * math.sqrt(total)
    second = None
    if isinstance(pilot.algorithm, GradientDescent) and strength > 0:
        second = 8 * pilot.source.width * pilot.bound.value**2 * pilot.algorithm.step / (strength * n**2) * total
    return PublishedBounds(
        theorem_2=second,
        theorem_2_distance=None if second is None else 4 / strength * second,
        theorem_3_rate=rate,
        theorem_3_fitted_constant=excess / rate,
        theorem_3_distance=4 / penalty * excess if penalty > 0 else None,
    )
