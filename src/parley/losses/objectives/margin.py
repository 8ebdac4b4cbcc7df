"""Costs of the margin, the mean over records of w loss(theta.x, y), with g1 = r/2 |theta|^2 (W section IV-B). A
record's gradient is the derivative of its loss times x, so its norm is |derivative| times that of x, and clipping it
means clipping the derivative. A batch of parameters [..., p] costs two matrix products."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF, pooled
from parley.data.rowwise import SETTLE_GRID
from parley.losses.local_update import LocallyUpdated, margin_rounding
from parley.losses.loss import (
    ClipNorm,
    Hinge,
    Limits,
    Logistic,
    Loss,
    Poisson,
    RecordBound,
    bound_norm,
    clip,
    derivative_limit,
    tightest,
)
from parley.losses.objective import EmpiricalRisk, batched
from parley.losses.objective_perturbation import LinearTermLaw, Perturbable
from parley.losses.objectives.newton import optimum_by_newton
from parley.validate import Floats


@dataclass(frozen=True)
class MarginObjective(EmpiricalRisk, LocallyUpdated):
    """A convex loss of the margin theta.x, and r/2 |theta|^2.

    >>> from parley.losses.loss import Squared
    >>> MarginObjective(loss=Squared()).mean_gradient(Design(np.eye(2), np.array([1.0, 2.0]), np.ones(2)), np.zeros(2))
    array([-1., -2.])
    """

    loss: Loss = field(kw_only=True)

    def parameters(self, preparation: Preparation) -> int:
        return preparation.width

    def scores(self, X: Floats, theta: Floats) -> Floats:
        return X @ theta if theta.ndim == 1 else theta @ X.T

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss.loss(block.margins(flat), block.y) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / design.divisor + self.penalty(theta))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(self.loss.loss(self.scores(design.X, theta), design.y) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return clipped_derivatives(self.loss, block, block.y, flat, bound) @ block.X

        return batched(part, design, theta) / design.divisor

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """A clipped derivative still never falls and rises no faster: it belongs to a convex, no less smooth cost."""
        return self.mean_gradient(design, theta, bound)

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """Return the bound on rounding. A derivative given its margin is off by at most 32 u Xi: a few roundings and
        scipy's expit come within 16 u of it, and where that lifts it over the clip both are clipped. A margin of p
        products is off by 2 (p + 8) u sum |theta_j| |x_j|; a derivative moves by the largest curvature times that."""
        return 32 * UNIT_ROUNDOFF * bound.value + margin_rounding(self.loss.largest_curvature, preparation, limits)

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        derivative = self.loss.gradient(design.X @ theta, design.y) * design.weight
        return np.asarray(design.X * derivative[:, None])

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        derivative = self.loss.gradient(design.X @ theta, design.y) * design.weight
        return np.asarray(np.abs(derivative) * design.row_norms(norm))

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        implied, features = np.inf, preparation.feature_bound
        if features is not None:
            total = float(features.sum())
            reach = total * limits.radius if limits.radius is not None else (np.inf if total > 0 else 0.0)
            size = bound_norm(features, norm)
            largest = self.largest_derivative(preparation, limits, reach)
            implied = largest * size * (1 + 1e-12) if size > 0 else 0.0
        return tightest(limits.clip, implied, norm)

    def largest_derivative(self, preparation: Preparation, limits: Limits, reach: float) -> float:
        """Return the largest size of a record's weighted derivative at margins up to `reach`."""
        return self.loss.largest_derivative(reach, preparation.target_bound) * limits.largest_weight

    def record_curvatures(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(self.loss.hessian(design.X @ theta, design.y) * design.weight)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design) -> Floats:
            curvature = self.record_curvatures(block, theta)
            active = curvature != 0
            return block.curved(curvature) if active.all() else block.where(active).curved(curvature[active])

        return design.sum(part) / design.divisor + self.regularisation * np.eye(design.width)

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        return self._newton(designs, radius, np.zeros(designs[0].width) if start is None else start)

    def _newton(self, designs: Sequence[Summable], radius: float | None, start: Floats) -> Floats:
        return optimum_by_newton(self, designs, radius, start)


def clipped_derivatives(loss: Loss, block: Design, y: Floats, flat: Floats, bound: RecordBound | None) -> Floats:
    """Return every row's weighted derivative at parameters [R, p] and targets y [n] -> [R, n], clipped if `bound` says
    so.

    Formal guarantee: for rows drawn in secret, a function of each row alone (`Design.margins`, `Loss.gradient`);
    clipped and times x, its norm is at most Xi in the bound's norm.
    """
    derivative = loss.gradient(block.margins(flat), y, block)
    if block.weighted:
        derivative *= block.weight
    if bound is not None and bound.clips:
        clip(derivative, derivative_limit(block, bound))
    return derivative


@dataclass(frozen=True)
class LogisticRegression(MarginObjective, Perturbable):
    """Logistic regression: the margin is the log-odds of class 1."""

    loss: Logistic = field(default=Logistic(), kw_only=True)

    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        return LinearTermLaw(2, several=False), np.ones((1, 1))


@dataclass(frozen=True)
class LinearSVM(MarginObjective):
    """The linear support vector machine; its hinge is smoothed where a second derivative is needed."""

    loss: Hinge = field(default=Hinge(), kw_only=True)

    @property
    def smoothed(self) -> "LinearSVM":
        return self if self.loss.smoothing > 0 else replace(self, loss=self.loss.smoothed())

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        """Return the second derivative of the hinge with its corner smoothed."""
        return super(LinearSVM, self.smoothed).hessian(design, theta)

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        """Search by liblinear's dual solver, or if a box binds or nothing is regularised by ever sharper smoothings of
        the hinge: the minimum at width m lies within m/2 of the hinge's, down to this precision of the cost."""
        dual = self._liblinear(pooled([design.in_memory() for design in designs]), np.inf if radius is None else radius)
        if dual is not None:
            return dual
        theta, width = np.zeros(designs[0].width) if start is None else start, 1.0
        while width >= precision:
            theta = replace(self, loss=self.loss.smoothed(width))._newton(designs, radius, theta)
            width /= 10
        return theta

    def _liblinear(self, design: Design, radius: float) -> Floats | None:
        """Return the optimum by dual coordinate descent, or None if that does not apply or converge."""
        both = np.unique(design.y).size == 2
        if not self.regularisation > 0 or not both:
            return None
        from sklearn.exceptions import ConvergenceWarning  # a library that other objectives need not wait for
        from sklearn.svm import LinearSVC

        solver = LinearSVC(
            loss="hinge",
            C=1 / (design.divisor * self.regularisation),
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


@dataclass(frozen=True)
class PoissonRegression(MarginObjective):
    """Poisson regression: w loss(theta.x, y) is half the deviance of the count from w e^(theta.x). The target is the
    rate y = count/w; the weight w is the exposure, in units of the typical rate (`data.targets`)."""

    loss: Poisson = field(default=Poisson(), kw_only=True)

    def bounded_by(self, preparation: Preparation) -> Self:
        return replace(self, loss=Poisson.within(preparation))

    def largest_derivative(self, preparation: Preparation, limits: Limits, reach: float) -> float:
        """Formal guarantee: a weighted derivative is w rate - w y. The first term is at most the largest weight times
        the largest rate, the second the largest count. Neither is negative, so the difference is at most the larger."""
        above = self.loss.rate_within(reach) * limits.largest_weight
        return max(above, _largest_count(preparation, limits))

    def curvature(self, design: Summable) -> float:
        """Return the largest eigenvalue of f's Hessian if every record has the larger of the typical rate, at which a
        search begins, and its own; at rates up to the ceiling it may be larger."""

        def part(block: Design) -> Floats:
            return block.curved(block.weight * np.maximum(1.0, block.y))

        return float(np.linalg.eigvalsh(design.sum(part) / design.divisor)[-1]) + self.regularisation

    def walked_curvature(self, preparation: Preparation, limits: Limits) -> float | None:
        """Formal guarantee: a record's clipped derivative is d = w rate - w y with |d| <= Xi/|x|. Where it is not
        clipped, it rises by w rate = d + w y <= Xi/|x| + C per unit of the margin, C the largest count. So along theta
        a record's cost bends by at most (Xi/|x| + C) |x|^2 <= Xi |f| + C |f|^2, f the bounds of x."""
        largest, bound = self.largest_curvature(preparation), self.record_bound(preparation, limits, "l2")
        features = preparation.feature_bound
        if largest is None or bound is None or features is None:
            return largest
        size = float(np.sqrt(np.sum(features**2)))
        walked = (bound.value + _largest_count(preparation, limits) * size) * size * (1 + 1e-12)
        return min(largest, walked + self.regularisation)

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """Return the bound on rounding. Given the margin, exponential and three operations come within 16 u of w rate +
        w y, at most Xi/|x| + 2 C where nothing is clipped (`walked_curvature`); where rounding lifts a derivative over
        the clip both are clipped. A margin is off by 2 (p + 8) u sum |theta_j| |x_j|; a derivative moves Xi/|x| + C
        times that."""
        features, radius = preparation.feature_bound, limits.radius
        if features is None or radius is None:
            return np.inf
        count = _largest_count(preparation, limits) * float(np.sqrt(np.sum(features**2)))
        margin = 2 * (preparation.width + 8) * UNIT_ROUNDOFF * radius * float(features.sum())
        return 32 * UNIT_ROUNDOFF * (bound.value + 2 * count) + margin * (bound.value + count)


def _largest_count(preparation: Preparation, limits: Limits) -> float:
    """Return the largest w y: y was rounded to a grid after the count was divided by w."""
    return preparation.target_bounds[1] * (1 + 1e-12) + limits.largest_weight * SETTLE_GRID
