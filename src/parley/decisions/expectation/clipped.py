"""The cost as clipped gradients see it: a clip that binds leads elsewhere, and along other curvatures.

For costs of the margin, records scaled down to a clip follow the gradient of another convex cost (a Huber-like one).
Its minimum and its curvature there, found on the public rows, say what a clip does once training is near its goal; how
it gets there, only a run can tell.
"""

from dataclasses import dataclass

import numpy as np

from parley.data import Design
from parley.decisions.knowledge.sources import Landscape
from parley.losses import EmpiricalRisk, RecordBound
from parley.validate import Floats

STEPS = 6
NEAR = 0.02  # of theta's size: how far apart gradients are compared for the curvature


@dataclass(frozen=True, eq=False)
class ClippedLandscape:
    """Where clipped gradients lead, and how: `goal` [p], curvatures (penalty included) and directions there, what the
    true cost makes of errors in these directions (`metric` [p, p]), and its excess at the goal."""

    bound: RecordBound
    share: float  # of the records that are scaled down at the goal
    goal: Floats
    curvature: Floats
    directions: Floats
    metric: Floats
    shift: Floats  # goal - theta* in these directions
    bias: float


def clipped_landscape(
    objective: EmpiricalRisk, design: Design, here: Landscape, bound: RecordBound
) -> ClippedLandscape | None:
    """The landscape under a clip; None where no goal is found."""
    if here.directions is None:
        return None
    r = objective.regularisation
    true = (here.directions * (here.curvature + r)) @ here.directions.T
    share = _share(objective, design, here.optimum, bound)
    if share == 0:
        return _seen(here, bound, true, here.optimum, true, 0.0)
    theta = here.optimum
    for _ in range(STEPS):
        gradient, hessian = _field(objective, design, theta, bound, here.tilt)
        try:
            step = -np.linalg.solve(hessian + 1e-9 * np.trace(hessian) / len(hessian) * np.eye(len(hessian)), gradient)
        except np.linalg.LinAlgError:
            return None
        reach = 1.0 + float(np.abs(here.optimum).max())
        theta = theta + step * min(1.0, reach / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(gradient @ step)) < 1e-8 * here.least_cost:
            break
    if not np.isfinite(theta).all():
        return None
    hessian = _field(objective, design, theta, bound, here.tilt)[1]
    return _seen(here, bound, true, theta, hessian, _share(objective, design, theta, bound))


def _share(objective: EmpiricalRisk, design: Design, theta: Floats, bound: RecordBound) -> float:
    return float(np.mean(objective.record_norms(design, theta, bound.norm) > bound.value)) if bound.clips else 0.0


def _field(
    objective: EmpiricalRisk, design: Design, theta: Floats, bound: RecordBound, tilt: Floats | None
) -> tuple[Floats, Floats]:
    """The clipped mean gradient with the penalty's, and its derivative from differences [p, p]."""
    p, width = len(theta), NEAR * max(float(np.abs(theta).max()), 0.1)
    points = np.concatenate([theta[None], theta + width * np.eye(p), theta - width * np.eye(p)])
    gradients = objective.mean_gradient(design, points, bound) + objective.penalty_gradient(points)
    hessian = (gradients[1 : p + 1] - gradients[p + 1 :]) / (2 * width)
    return gradients[0] if tilt is None else gradients[0] - tilt, (hessian + hessian.T) / 2


def _seen(
    here: Landscape, bound: RecordBound, true: Floats, goal: Floats, hessian: Floats, share: float
) -> ClippedLandscape:
    curvature, directions = np.linalg.eigh(hessian)
    away = goal - here.optimum
    metric, bias = directions.T @ true @ directions, 0.5 * float(away @ true @ away)
    return ClippedLandscape(bound, share, goal, np.maximum(curvature, 0.0), directions, metric, away @ directions, bias)
