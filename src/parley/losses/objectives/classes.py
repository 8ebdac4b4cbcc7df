"""Costs of several classes: the mean over records of w loss(Theta x, y), with Theta [classes, p] kept flat. A record's
gradient is its loss's gradient over the classes times x', so its norm is the product of theirs in L1, L2 and Linf. No
per-record gradient is ever materialised."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF
from parley.errors import NoOptimumError
from parley.losses.class_loss import MAX_RESIDUAL_NORMS, ClassLoss, EachClass, Multinomial, over_classes
from parley.losses.local_update import LocallyUpdated, margin_rounding
from parley.losses.loss import (
    ClipNorm,
    Limits,
    Logistic,
    RecordBound,
    Squared,
    bound_norm,
    clip,
    derivative_limit,
    tightest,
)
from parley.losses.moments import SufficientMoments
from parley.losses.objective import LARGEST_HESSIAN, EmpiricalRisk, SplitBatches, batched
from parley.losses.objective_perturbation import LinearTermLaw, Perturbable, zero_sum_basis
from parley.losses.objectives.margin import clipped_derivatives
from parley.validate import SMALLEST, Floats


@dataclass(frozen=True)
class ClassesObjective(EmpiricalRisk):
    """A convex loss of one raw prediction for each class; targets are the numbers 0, 1, 2, ... of classes.

    >>> from parley.losses.class_loss import Multinomial
    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> ClassesObjective(loss=Multinomial()).mean_gradient(design, np.zeros(3)).round(3)
    array([-0.167,  0.333, -0.167])
    """

    loss: ClassLoss = field(kw_only=True)

    def residuals(self, block: Design, flat: Floats) -> Floats:
        """Return w d loss/d scores [R, classes, n] at parameters [R, P].

        Formal guarantee: for rows drawn in secret, a function of each row alone (`Design.margins`,
        `ClassLoss.gradient`).
        """
        residual = self.loss.gradient(class_margins(block, flat), block.y, block)
        if block.weighted:
            residual *= block.weight
        return residual

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Return whether the cost keeps falling as theta grows, so that it has no minimum."""
        return False

    def parameters(self, preparation: Preparation) -> int:
        return len(preparation.classes) * preparation.width

    def scores(self, X: Floats, theta: Floats) -> Floats:
        matrices = theta.reshape(*theta.shape[:-1], -1, X.shape[1])
        return np.moveaxis(matrices @ X.T, -2, -1)

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss.loss(class_margins(block, flat), block.y) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / design.divisor + self.penalty(theta))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        losses = self.loss.loss(class_margins(design, theta.reshape(-1, theta.shape[-1])), design.y)
        return np.asarray(losses.reshape(*theta.shape[:-1], -1) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            residual = self.residuals(block, flat)
            if bound is not None and bound.clips:
                # A hair below Xi/|x| again: the norm over the classes is rounded too.
                limit = derivative_limit(block, bound) * (1 - (residual.shape[1] + 8) * UNIT_ROUNDOFF)
                residual *= np.minimum(1.0, limit / np.maximum(_norms(residual, bound.norm), SMALLEST))[:, None]
            return (residual @ block.X).reshape(len(flat), -1)

        return batched(part, design, theta) / design.divisor

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        residual = self.residuals(design, theta[None])[0]
        return np.asarray(np.einsum("cn,nj->ncj", residual, design.X)).reshape(len(design), -1)

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        return np.asarray(_norms(self.residuals(design, theta[None]), norm)[0] * design.row_norms(norm))

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        implied, features, classes = np.inf, preparation.feature_bound, len(preparation.classes)
        if features is not None:
            total, size = float(features.sum()), bound_norm(features, norm)
            reach = total * limits.radius if limits.radius is not None else (np.inf if total > 0 else 0.0)
            largest = self.loss.largest_derivative(norm, classes, reach)
            implied = (
                largest * limits.largest_weight * size * (1 + 1e-12 + 8 * classes * UNIT_ROUNDOFF) if size > 0 else 0.0
            )
        return tightest(limits.clip, implied, norm)

    def record_curvatures(self, design: Design, theta: Floats) -> Floats:
        pairs = self.loss.hessian(class_margins(design, theta[None])[0], design.y)
        return np.asarray(sum(curvature for c, d, curvature in pairs if c == d) * design.weight)

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        width, count = design.width, len(theta)
        if count > LARGEST_HESSIAN:
            return None

        def part(block: Design) -> Floats:
            total = np.zeros((count // width, width, count // width, width))
            for c, d, curvature in self.loss.hessian(class_margins(block, theta[None])[0], block.y):
                total[c, :, d] = total[d, :, c] = (block.X * (block.weight * curvature)[:, None]).T @ block.X
            return total.reshape(count, count)

        return design.sum(part) / design.divisor + self.regularisation * np.eye(count)

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        """Search by L-BFGS-B within the box. Without a penalty, adding one vector to every class may change nothing; a
        search from zero finds the optimum whose classes add up to zero. Without `start` the rows name the classes."""
        total = sum(d.divisor for d in designs)
        begin = np.zeros(_class_count(designs) * designs[0].width) if start is None else start
        box = None if radius is None else [(-radius, radius)] * len(begin)

        def value(theta: Floats) -> tuple[float, Floats]:
            cost = sum(d.divisor / total * float(self.cost(d, theta)) for d in designs)
            gradient = self.penalty_gradient(theta) + sum(
                d.divisor / total * self.mean_gradient(d, theta) for d in designs
            )
            return cost, gradient

        options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": precision * 1e-3, "gtol": 1e-8}
        solution = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=box, options=options)
        if radius is None and not self.regularisation > 0 and self.separates(designs, solution.x):
            raise NoOptimumError(
                "the cost has no finite minimum on the data, perhaps because the classes are separable; set "
                "model.radius or model.regularisation"
            )
        return np.asarray(solution.x)


def class_margins(block: Design, flat: Floats) -> Floats:
    """Return every class's margins [R, classes, n] at parameters [R, P]."""
    return block.margins(flat.reshape(-1, block.width)).reshape(len(flat), -1, len(block))


def _class_count(designs: Sequence[Summable]) -> int:
    return 1 + max(int(design.in_memory().y.max()) for design in designs)


def _norms(residual: Floats, norm: ClipNorm) -> Floats:
    """Return the norm over the classes of every record's residual [R, n]."""
    if norm == "linf":
        return np.asarray(np.abs(residual).max(axis=1))
    if norm == "l1":
        return over_classes(np.abs(residual))
    return np.asarray(np.sqrt(over_classes(np.square(residual))))


@dataclass(frozen=True)
class SoftmaxRegression(ClassesObjective, LocallyUpdated, Perturbable):
    """Multinomial logistic regression; adding one number to all scores changes nothing.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> SoftmaxRegression().mean_gradient(design, np.zeros(3)).round(3)
    array([-0.167,  0.333, -0.167])
    """

    loss: Multinomial = field(default=Multinomial(), kw_only=True)

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Return whether every record's class alone has the highest score: then the cost falls forever along theta."""

        def wrong(block: Design) -> Floats:
            scores, rows, own = class_margins(block, theta[None])[0], np.arange(len(block)), block.y.astype(np.intp)
            right = scores[own, rows].copy()
            scores[own, rows] = -np.inf
            return np.array([np.count_nonzero(~(right > scores.max(axis=0)) & (block.weight > 0))], dtype=np.float64)

        return not any(design.sum(wrong).any() for design in designs)

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Return the gradient of the plain convex cost of rows shortened until sqrt 2 w |x| <= Xi; nothing is clipped.
        A softmax gradient scaled down as a whole belongs to no convex cost: steps along it can drive points apart (by 9
        % in an example), so one record may move a local update further than a gradient."""

        def part(block: Design, flat: Floats) -> Floats:
            X = block.X
            if bound.clips:
                room = derivative_limit(block, bound) / (MAX_RESIDUAL_NORMS["l2"] * np.maximum(block.weight, SMALLEST))
                X = X * np.minimum(1.0, room * (1 - 16 * UNIT_ROUNDOFF))[:, None]
            return (self.residuals(replace(block, X=X), flat) @ X).reshape(len(flat), -1)

        return batched(part, design, theta) / design.divisor

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """Given the scores, exponentials, a sum over C classes and a division put each probability off by (C + 32) u,
        together at most that times Xi. Scores of p products are off by 2 (p + 8) u sum |theta_j| |x_j|, over C classes
        sqrt C times that in L2, and probabilities move by half of it."""
        classes = len(preparation.classes)
        margins = margin_rounding(self.loss.largest_curvature, preparation, limits) * math.sqrt(classes)
        return (classes + 32) * UNIT_ROUNDOFF * bound.value + margins

    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        classes = len(preparation.classes)
        return LinearTermLaw(classes, several=True), zero_sum_basis(classes)


@dataclass(frozen=True)
class OneVsAll(ClassesObjective, SplitBatches):
    """The sum of logistic regressions of each class (target 1) against all others (-1); the highest margin is
    predicted. A batch is split into one part per class (A), so one record moves one binary gradient, of norm
    |derivative| |x|.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> OneVsAll().mean_gradient(design, np.zeros(3))
    array([0. , 0.5, 0. ])
    """

    loss: EachClass = field(default=EachClass(Logistic(), own=1.0, other=-1.0), kw_only=True)

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Return whether some class is separated from all others without a mistake."""

        def wrong(block: Design) -> Floats:
            margins = class_margins(block, theta[None])[0]
            mistaken = ~(self.loss.targets(block.y, len(margins)) * margins > 0) & (block.weight > 0)
            return np.asarray(np.count_nonzero(mistaken, axis=1), dtype=np.float64)

        return not np.sum([design.sum(wrong) for design in designs], axis=0).all()

    def parts(self, preparation: Preparation) -> int:
        return len(preparation.classes)

    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        features = preparation.feature_bound
        implied = np.inf if features is None else limits.largest_weight * bound_norm(features, norm) * (1 + 1e-12)
        return tightest(limits.clip, implied, norm)

    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """Return the norms in the part where they are largest."""
        return np.asarray(np.abs(self.residuals(design, theta[None])[0]).max(axis=0) * design.row_norms(norm))

    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """Sum the parts. Formal guarantee: a record of part c adds at most Xi in `bound.norm`, only to block c."""
        total = np.zeros_like(theta)
        for place, rows in enumerate(parts):
            own = slice(place * rows.width, (place + 1) * rows.width)

            def part(block: Design, flat: Floats, place: int = place) -> Floats:
                sign = np.where(block.y == place, 1.0, -1.0)
                return clipped_derivatives(self.loss.of, block, sign, flat, bound) @ block.X

            if len(rows):
                total[..., own] = batched(part, rows, theta[..., own])
        return total


@dataclass(frozen=True)
class LeastSquaresClasses(ClassesObjective, LocallyUpdated, SufficientMoments):
    """The sum over classes of (theta_c.x - [y = c])^2; the largest score wins (Z's squared-loss SVM). Second moments of
    [x, classes as 0 and 1] determine it; it always has a minimum.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> LeastSquaresClasses().mean_gradient(design, np.zeros(3))
    array([-1.,  0., -1.])
    """

    loss: EachClass = field(default=EachClass(Squared(), own=1.0, other=0.0), kw_only=True)

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats]:
        return partial(_class_indicators, classes=len(preparation.classes))

    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Clip each class's derivative to its share Xi/(sqrt C |x|). It still never falls as its margin grows and rises
        no faster, so the sum belongs to a convex, no less smooth cost and has L2 norm at most Xi."""

        def part(block: Design, flat: Floats) -> Floats:
            derivative = self.residuals(block, flat)
            if bound.clips:
                classes = derivative.shape[1]
                clip(
                    derivative,
                    derivative_limit(block, bound) / math.sqrt(classes) * (1 - (classes + 8) * UNIT_ROUNDOFF),
                )
            return np.asarray(derivative.reshape(-1, len(block)) @ block.X).reshape(len(flat), -1)

        return batched(part, design, theta) / design.divisor

    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """Return the bound on rounding: 32 u Xi for derivatives given their margins, over all classes. Margins are off
        by 2 (p + 8) u sum |theta_j| |x_j| each, sqrt C times that in L2; derivatives move by the largest curvature
        times that."""
        margins = margin_rounding(self.loss.largest_curvature, preparation, limits) * math.sqrt(
            len(preparation.classes)
        )
        return 32 * UNIT_ROUNDOFF * bound.value + margins

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        if len(theta) > LARGEST_HESSIAN:
            return None
        one = 2 * design.statistics[0]
        return np.asarray(np.kron(np.eye(len(theta) // design.width), one) + self.regularisation * np.eye(len(theta)))


def _class_indicators(block: Design, classes: int) -> Floats:
    """Return 1 where a record is of the class, else 0 [n, classes]."""
    return np.asarray(block.y[:, None] == np.arange(classes), dtype=np.float64)
