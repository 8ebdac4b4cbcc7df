"""W's own bounds, with their errata; neither is a prediction.

Theorem 2 has no term for the starting point: with its printed step rho/(T^2 k) the path is at most rho ln(T)/T^2
gradients long. So for large T the algorithm barely leaves theta[1], and the bound lies below the truth by orders of
magnitude. As printed it also lacks the dimension (E|w|^2 = 2 p b^2) and, from (14) on, half the largest curvature; the
corrected bound has both. Theorem 3's constant c2 is an unspecified function of T,
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

    theorem_2: float | None  # as printed
    theorem_2_corrected: float | None
    theorem_2_distance: float | None  # as printed
    theorem_3_rate: float
    theorem_3_fitted_constant: float
    theorem_3_distance: float | None
    note: str = (
        "published bounds, not predictions: theorem 2 ignores the start, theorem 3 has an unspecified constant, "
        "fitted here"
    )


def published_bounds(pilot: Pilot, here: Landscape, excess: float) -> PublishedBounds:
    """Return theorem 2's bound (Algorithm 1, strongly convex) as printed, 8 Xi^2 rho/(L n^2) sum eps^-2, and corrected,
    p lambda/2 times that; and theorem 3's rate, Xi/n sqrt(sum eps^-2). L is the least curvature, lambda the largest.

    Where (9) comes from: a step of length r lowers the cost by at least r |grad|^2/2 - lambda r^2 v/2, v = E|w|^2 = p 8
    Xi^2 T^2/n^2 sum eps^-2. This stops where |grad|^2 = lambda r v, and there the excess cost is at most lambda r
    v/(2 L); r is at most rho/T^2. W has r v/(p L).

    Distances are 4/L times a bound, where 2/L would do: L is the cost's least curvature in theorem 2, and the penalty's
    alone in theorem 3, which gives no distance without one."""
    terms = pilot.terms
    n = float(pilot.rows.sum())
    total = float(np.sum(np.array([float(terms.training_epsilon(part.name)) for part in terms.owners]) ** -2.0))
    penalty = pilot.objective.regularisation
    strength, steepness = float(here.curvature.min()) + penalty, float(here.curvature.max()) + penalty
    rate = pilot.bound.value / n * math.sqrt(total)
    second = None
    if isinstance(pilot.algorithm, GradientDescent) and strength > 0:
        second = 8 * pilot.bound.value**2 * pilot.algorithm.step / (strength * n**2) * total
    return PublishedBounds(
        theorem_2=second,
        theorem_2_corrected=None if second is None else pilot.source.width * steepness / 2 * second,
        theorem_2_distance=None if second is None else 4 / strength * second,
        theorem_3_rate=rate,
        theorem_3_fitted_constant=excess / rate,
        theorem_3_distance=4 / penalty * excess if penalty > 0 else None,
    )
