"""Costs of several classes: mean over records of w loss(Theta x, y), Theta [classes, p] kept as one row of numbers.

A record's gradient is that of its loss over the classes, times x'. So its norm is the product of their norms, in L1, L2
and Linf: no per-record gradient is ever materialised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.errors import NoOptimumError
from parley.losses.class_loss import ClassLoss, over_classes
from parley.losses.objective import LARGEST_HESSIAN, EmpiricalRisk, batched
from parley.losses.record_bound import ClipNorm, Limits, RecordBound, bound_norm, derivative_limit, tightest
from parley.validate import SMALLEST, Floats


@dataclass(frozen=True)
class ClassesObjective(EmpiricalRisk):
    """A convex loss of one raw prediction for each class; targets are the places of their classes, 0, 1, 2, ...

    >>> from parley.losses.class_loss import Multinomial
    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> ClassesObjective(loss=Multinomial()).mean_gradient(design, np.zeros(3)).round(3)
    array([-0.167,  0.333, -0.167])
    """

    loss: ClassLoss = field(kw_only=True)

    def residuals(self, block: Design, flat: Floats) -> Floats:
        """w d loss/d scores [R, classes, n] at parameters [R, P].

        Formal guarantee: of rows that were drawn in secret, a function of each row alone (`Design.margins`,
        `ClassLoss.gradient`).
        """
        residual = self.loss.gradient(class_margins(block, flat), block.y, block)
        if block.weighted:
            residual *= block.weight
        return residual

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Whether a longer theta is better, for ever: the cost has no minimum."""
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
                limit = derivative_limit(block, bound) * (1 - (residual.shape[1] + 8) * UNIT)
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
            implied = largest * limits.largest_weight * size * (1 + 1e-12 + 8 * classes * UNIT) if size > 0 else 0.0
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
        """By L-BFGS-B within the box. Adding one vector to every class may change nothing, so without a penalty there
        may be many; the search from zero finds the one whose classes add up to zero. Without `start` there are as many
        classes as the rows name."""
        total = sum(d.divisor for d in designs)
        begin = np.zeros(_named(designs) * designs[0].width) if start is None else start
        limit = None if radius is None else [(-radius, radius)] * len(begin)

        def value(theta: Floats) -> tuple[float, Floats]:
            cost = sum(d.divisor / total * float(self.cost(d, theta)) for d in designs)
            gradient = self.penalty_gradient(theta) + sum(
                d.divisor / total * self.mean_gradient(d, theta) for d in designs
            )
            return cost, gradient

        options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": precision * 1e-3, "gtol": 1e-8}
        found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=limit, options=options)
        if radius is None and not self.regularisation > 0 and self.separates(designs, found.x):
            raise NoOptimumError(
                "the cost has no finite minimum on these data (classes that separate perfectly?): set model.radius or "
                "model.regularisation"
            )
        return np.asarray(found.x)


def class_margins(block: Design, flat: Floats) -> Floats:
    """Every class's margins [R, classes, n] at parameters [R, P]."""
    return block.margins(flat.reshape(-1, block.width)).reshape(len(flat), -1, len(block))


def _named(designs: Sequence[Summable]) -> int:
    """How many classes the rows name."""
    return 1 + max(int(design.in_memory().y.max()) for design in designs)


def _norms(residual: Floats, norm: ClipNorm) -> Floats:
    """Of every record's residual over the classes [R, n]."""
    if norm == "linf":
        return np.asarray(np.abs(residual).max(axis=1))
    if norm == "l1":
        return over_classes(np.abs(residual))
    return np.asarray(np.sqrt(over_classes(np.square(residual))))
