"""theta*, the best model without privacy (W eq. 13), by Newton's method projected on the box."""

from collections.abc import Callable, Sequence

import numpy as np

from parley.data import Summable
from parley.errors import NoOptimumError
from parley.losses.objective import EmpiricalRisk
from parley.validate import Floats

Cost = Callable[[Floats], float]
Gradient = Callable[[Floats], Floats]

DECREASE_TOLERANCE = (
    1e-11  # of the decrease that another step would still bring, relative to the cost; one more is taken
)


def optimum_by_newton(
    objective: EmpiricalRisk, designs: Sequence[Summable], radius: float | None, start: Floats
) -> Floats:
    """Return the minimiser [P] in the box, over all rows of all designs, of an objective with a second derivative."""
    total = sum(design.divisor for design in designs)
    shares = [(design.divisor / total, design) for design in designs]

    def hessian(theta: Floats) -> Floats:
        curves = [objective.hessian(design, theta) for _, design in shares]
        weighted_hessians = [
            share * curve for (share, _), curve in zip(shares, curves, strict=True) if curve is not None
        ]
        return np.asarray(sum(weighted_hessians))

    return projected_newton(
        lambda t: float(sum(share * float(objective.cost(design, t)) for share, design in shares)),
        lambda t: objective.penalty_gradient(t) + sum(share * objective.mean_gradient(d, t) for share, d in shares),
        hessian,
        start,
        np.inf if radius is None else radius,
    )


def projected_newton(cost: Cost, gradient: Gradient, hessian: Gradient, start: Floats, radius: float) -> Floats:
    """Return the minimiser of a smooth convex cost in the box |theta| <= radius (Bertsekas 1982), or raise
    `NoOptimumError`.

    >>> cost, gradient = (lambda t: float((t - 3) @ (t - 3))), (lambda t: 2 * (t - 3))
    >>> projected_newton(cost, gradient, lambda t: 2 * np.eye(1), np.zeros(1), 2.0)
    array([2.])
    """
    theta, value = start, cost(start)
    for _ in range(200):
        first, curve = gradient(theta), hessian(theta)
        at_bound = ((theta >= radius) & (first < 0)) | ((theta <= -radius) & (first > 0))
        free = np.flatnonzero(~at_bound)
        if not free.size:
            return theta
        inner = curve[np.ix_(free, free)]
        # The ridge turns flat directions into gradient steps and vanishes with the gradient: it changes the path, not
        # the goal.
        ridge = 1e-8 * float(np.linalg.norm(first[free])) + 1e-14 * float(np.trace(inner))
        step = np.zeros_like(theta)
        step[free] = -np.linalg.solve(inner + (ridge + 1e-300) * np.eye(free.size), first[free])
        if -(first @ step) <= DECREASE_TOLERANCE * (abs(value) + 1e-300):
            last = np.clip(theta + step, -radius, radius)
            return last if cost(last) <= value + DECREASE_TOLERANCE * abs(value) else theta
        for halving in range(60):
            moved = np.clip(theta + step * 0.5**halving, -radius, radius)
            moved_value = cost(moved)
            if moved_value <= value + 1e-4 * float(first @ (moved - theta)):
                break
        else:
            return theta  # rounding leaves nothing to gain
        theta, value = moved, moved_value
    if radius == np.inf:
        raise NoOptimumError(
            "the cost has no finite minimum on the data, perhaps because the classes are separable; set model.radius "
            "or model.regularisation"
        )
    return theta
