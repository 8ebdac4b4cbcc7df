"""step = "auto": a step size from declared bounds or public data. No private record is looked at."""

from parley.data import Design, Preparation
from parley.errors import TermsError
from parley.objectives import MarginObjective
from parley.objectives.local_update import local_step
from parley.terms import Learning, Terms


def step_size(terms: Terms, objective: MarginObjective, preparation: Preparation, public: Design | None) -> float:
    """The terms' step, or for "auto" the first of these that the terms allow:

    1. with a public sample: 1/lambda, lambda the curvature of the cost on that sample;
    2. with bounds of every feature: 1/lambda, lambda the largest curvature such records can have (cautious);
    3. with a box and a clip: radius/clip, the classical distance over gradient bound of subgradient methods.

    Algorithm 1 divides its rho by T^2, so there the result is multiplied by T^2 and the first step is as long. Local steps must be
    short enough for every table, so for them it is the second, or a number that is no longer than twice it.
    """
    if terms.learning.asks_updates:
        return local_step(terms, objective, preparation)
    if not isinstance(terms.learning.step, str):
        return terms.learning.step
    largest, radius, clip = objective.largest_curvature(preparation), terms.model.radius, terms.privacy.clip
    if public is not None:
        length = 1 / objective.curvature(public)
    elif largest is not None:
        length = 1 / largest
    elif radius is not None and clip is not None:
        length = radius / clip
    else:
        raise TermsError(
            'learning.step = "auto": expected a public sample, bounds of every feature, or radius and clip to derive it from; '
            "or give a number"
        )
    # Six digits: readable, and the same on machines whose linear algebra differs in the last bits.
    return float(f"{length:.6g}") * step_unit(terms.learning, terms.learning.horizon)


def step_unit(learning: Learning, horizon: int) -> float:
    """The `step` whose first round moves by one gradient: Algorithm 1 divides its rho by T^2, Algorithm 2 its c by nothing."""
    return float(horizon**2) if learning.algorithm == "gradient-descent" else 1.0
