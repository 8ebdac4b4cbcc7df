"""theta*: the best model without privacy, to which relative fitness compares (W eq. 13).

Smooth costs: Newton's method projected on the box (Bertsekas 1982). The SVM: liblinear's dual solver through scikit-learn; where a
box binds or there is no regularisation, ever sharper smoothings of the hinge, whose minimum at width m lies within m/2 of the
hinge's own.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from parley.data import Design
from parley.data.design import pooled
from parley.errors import SettingError
from parley.objectives.linear_svm import LinearSVM
from parley.objectives.margin import MarginObjective
from parley.validate import Floats

Cost = Callable[[Floats], float]
Gradient = Callable[[Floats], Floats]

TOLERANCE = 1e-13  # of the decrease that another step would still bring, relative to the cost


def optimum(objective: MarginObjective, designs: Sequence[Design], radius: float | None = None, precision: float = 1e-10) -> Floats:
    """The minimiser of the cost over all rows of all designs, inside the box |theta| <= radius; the SVM's to this precision of its cost."""
    total = sum(len(d) for d in designs)
    shares = [len(d) / total for d in designs]

    def minimise(objective: MarginObjective, start: Floats) -> Floats:
        return _projected_newton(
            lambda t: float(sum(s * float(objective.cost(d, t)) for s, d in zip(shares, designs, strict=True))),
            lambda t: (
                objective.penalty_gradient(t) + sum(s * objective.mean_gradient(d, t) for s, d in zip(shares, designs, strict=True))
            ),
            lambda t: sum((s * objective.hessian(d, t) for s, d in zip(shares, designs, strict=True)), start=np.array(0.0)),
            start,
            np.inf if radius is None else radius,
        )

    theta = np.zeros(designs[0].width)
    if not isinstance(objective, LinearSVM):
        return minimise(objective, theta)
    dual = _liblinear(objective, pooled(list(designs)), np.inf if radius is None else radius)
    if dual is not None:
        return dual
    width = 1.0
    while width >= precision:
        theta = minimise(replace(objective, smoothing=width), theta)
        width /= 10
    return theta


def _liblinear(objective: LinearSVM, design: Design, radius: float) -> Floats | None:
    """The SVM's optimum by dual coordinate descent, or None if that does not apply or does not converge."""
    both = np.unique(design.y).size == 2
    if not objective.regularisation > 0 or not both:
        return None
    solver = LinearSVC(
        loss="hinge",
        C=1 / (len(design) * objective.regularisation),
        fit_intercept=False,
        tol=1e-9,
        max_iter=2000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            theta = solver.fit(design.X, design.y, sample_weight=design.weight).coef_[0]
        except ConvergenceWarning:
            return None
    return theta if np.abs(theta).max() <= radius else None


def _projected_newton(cost: Cost, gradient: Gradient, hessian: Gradient, start: Floats, radius: float) -> Floats:
    theta, value = start, cost(start)
    for _ in range(200):
        slope, curve = gradient(theta), hessian(theta)
        held = ((theta >= radius) & (slope < 0)) | ((theta <= -radius) & (slope > 0))
        free = np.flatnonzero(~held)
        if not free.size:
            return theta
        inner = curve[np.ix_(free, free)]
        # The ridge turns flat directions into gradient steps and vanishes with the gradient: it bends the path, not the goal.
        ridge = 1e-8 * float(np.linalg.norm(slope[free])) + 1e-14 * float(np.trace(inner))
        step = np.zeros_like(theta)
        step[free] = -np.linalg.solve(inner + (ridge + 1e-300) * np.eye(free.size), slope[free])
        if -(slope @ step) <= TOLERANCE * (abs(value) + 1e-300):
            last = np.clip(theta + step, -radius, radius)
            return last if cost(last) <= value + TOLERANCE * abs(value) else theta
        for halving in range(60):
            moved = np.clip(theta + step * 0.5**halving, -radius, radius)
            there = cost(moved)
            if there <= value + 1e-4 * float(slope @ (moved - theta)):
                break
        else:
            return theta  # rounding leaves nothing to gain
        theta, value = moved, there
    if radius == np.inf:
        raise SettingError(
            "the cost has no finite minimum on these data (classes that separate perfectly?): set model.radius or "
            "model.regularisation"
        )
    return theta
