"""step = "auto": a step size from declared bounds or public data. No private record is looked at."""

from parley.errors import TermsError
from parley.protocol.setup import Setup


def step_size(setup: Setup) -> float:
    """The terms' step, or for "auto" the first of these that the terms allow:

    1. with a public sample: 1/lambda, lambda the curvature of the cost on that sample;
    2. with bounds of every feature: 1/lambda, lambda the largest curvature such records can have (cautious);
    3. with a box and a clip: radius/clip, the classical distance over gradient bound of subgradient methods.

    Algorithm 1 divides its rho by T^2 unless the terms set a `decay`, so there the result is multiplied by T^2 and the
    first step is as long.
    """
    learning, limits = setup.terms.learning, setup.limits
    if not isinstance(learning.step, str):
        return learning.step
    largest = setup.risk.largest_curvature(setup.preparation)
    if setup.public is not None:
        length = 1 / setup.risk.curvature(setup.public)
    elif largest is not None:
        length = 1 / largest
    elif limits.radius is not None and limits.clip is not None:
        length = limits.radius / limits.clip
    else:
        raise TermsError(
            'learning.step = "auto": expected a public sample, bounds of every feature, or radius and clip to derive '
            "it from; "
            "or give a number"
        )
    # Six digits: readable, and the same on machines whose linear algebra differs in the last bits.
    return float(f"{length:.6g}") * learning.rules.step_unit(learning, learning.horizon)
