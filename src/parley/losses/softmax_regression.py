"""Softmax (multinomial logistic) regression: loss = -ln p_y, p = softmax(Theta x), Theta [classes, p] kept as one row of numbers.

A record's gradient is (p - e_y) x', so its norm is |p - e_y| times |x|, in L1, L2 and Linf: no per-record gradient is ever materialised.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from parley.data import Design, Preparation, Summable, rowwise
from parley.data.design import UNIT
from parley.errors import NoOptimumError
from parley.losses.objective import ClipNorm, Limits, Objective, RecordBound, batched, bound_norm, slope_limit, tightest
from parley.validate import SMALLEST, Floats

FARTHEST: dict[ClipNorm, float] = {"l1": 2.0, "l2": 2.0**0.5, "linf": 1.0}  # |p - e_y| at most
LARGEST_HESSIAN = 600  # parameters up to which a second derivative is written out


@dataclass(frozen=True)
class SoftmaxRegression(Objective):
    """The smooth classifier of any number of classes; targets are the places of their classes, 0, 1, 2, ...

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([0.0, 2.0]), np.ones(2))
    >>> SoftmaxRegression().mean_gradient(design, np.zeros(3)).round(3)
    array([-0.167,  0.333, -0.167])
    """

    largest_bend: ClassVar[float] = 0.5  # the largest eigenvalue of diag(p) - p p'

    def residuals(self, block: Design, flat: Floats) -> Floats:
        """w d loss/d scores [R, classes, n] at parameters [R, P]."""
        return _residuals(block, flat)

    def separates(self, designs: Sequence[Summable], theta: Floats) -> bool:
        """Whether a longer theta is better, for ever: the cost has no minimum."""
        return all(_separates(design, theta) for design in designs)

    def farthest(self, norm: ClipNorm, classes: int) -> float:
        """The most that a record's residual measures, for a weight of 1."""
        return FARTHEST[norm]

    def parameters(self, preparation: Preparation) -> int:
        return len(preparation.classes) * preparation.width

    def scores(self, X: Floats, theta: Floats) -> Floats:
        matrices = theta.reshape(*theta.shape[:-1], -1, X.shape[1])
        return np.moveaxis(matrices @ X.T, -2, -1)

    def losses(self, block: Design, flat: Floats) -> Floats:
        """Every record's loss at parameters [R, P] -> [R, n], unweighted."""
        scores = _scores(block, flat)
        top = scores.max(axis=1)
        total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
        return np.asarray(total - scores[:, _classes(block), np.arange(len(block))])

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.losses(block, flat) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / len(design) + 0.5 * self.regularisation * np.sum(theta**2, axis=-1))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        losses = self.losses(design, theta.reshape(-1, theta.shape[-1]))
        return np.asarray(losses.reshape(*theta.shape[:-1], -1) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            residual = self.residuals(block, flat)
            if bound is not None and bound.clips:
                # A hair below Xi/|x| again: the norm over the classes is rounded too.
                limit = slope_limit(block, bound) * (1 - (residual.shape[1] + 8) * UNIT)
                residual *= np.minimum(1.0, limit / np.maximum(_norms(residual, bound.norm), SMALLEST))[:, None]
            return (residual @ block.X).reshape(len(flat), -1)

        return batched(part, design, theta) / len(design)

    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Rows are shortened until sqrt 2 w |x| <= Xi, and no gradient is clipped: the gradient of the plain convex cost of shorter rows.

        A softmax gradient that is scaled down as a whole belongs to no convex cost: steps along it can drive points apart (by 9 % in an
        example), and then one record may move a walk further than it moves a gradient.
        """

        def part(block: Design, flat: Floats) -> Floats:
            X = block.X
            if bound.clips:
                room = slope_limit(block, bound) / (FARTHEST["l2"] * np.maximum(block.weight, SMALLEST))
                X = X * np.minimum(1.0, room * (1 - 16 * UNIT))[:, None]
            return (_residuals(replace(block, X=X), flat) @ X).reshape(len(flat), -1)

        return batched(part, design, theta) / len(design)

    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """p given the scores: exponentials within a few units of rounding, their sum over the C classes and a division, (C + 32) u in
        each, together at most that times Xi. The scores: p products each, at most 2 (p + 8) u times sum |theta_j| |x_j|, over C classes
        sqrt C times as much in L2, and p moves by half of it."""
        features, radius = preparation.feature_bound, limits.radius
        if features is None or radius is None:
            return np.inf
        classes = len(preparation.classes)
        reach = self.largest_bend * limits.largest_weight * radius * float(features.sum()) * float(np.sqrt(np.sum(features**2)))
        return (classes + 32) * UNIT * bound.value + 2 * (preparation.width + 8) * UNIT * reach * math.sqrt(classes)

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        residual = self.residuals(design, theta[None])[0]
        return np.asarray(np.einsum("cn,nj->ncj", residual, design.X)).reshape(len(design), -1)

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        return np.asarray(_norms(self.residuals(design, theta[None]), norm)[0] * design.row_norms(norm))

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        implied, features = np.inf, preparation.feature_bound
        if features is not None:
            size, farthest = bound_norm(features, norm), self.farthest(norm, len(preparation.classes))
            implied = farthest * limits.largest_weight * size * (1 + 1e-12 + 8 * len(preparation.classes) * UNIT)
        return tightest(limits.clip, implied, norm)

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        width, count = design.width, len(theta)
        if count > LARGEST_HESSIAN:
            return None

        def part(block: Design) -> Floats:
            p = _probabilities(block, theta[None])[0]
            total = np.zeros((len(p), width, len(p), width))
            for c in range(len(p)):
                for d in range(c, len(p)):
                    bend = block.weight * p[c] * ((c == d) - p[d])
                    total[c, :, d] = total[d, :, c] = (block.X * bend[:, None]).T @ block.X
            return total.reshape(count, count)

        return design.sum(part) / len(design) + self.regularisation * np.eye(count)

    def optimum(
        self, designs: Sequence[Summable], radius: float | None = None, precision: float = 1e-10, start: Floats | None = None
    ) -> Floats:
        """By L-BFGS-B within the box. Adding one vector to every class changes nothing, so without a penalty there are many; the search
        from zero finds the one whose classes add up to zero. Without `start` there are as many classes as the rows name."""
        total = sum(len(d) for d in designs)
        begin = (
            np.zeros((1 + max(int(design.in_memory().y.max()) for design in designs)) * designs[0].width)
            if start is None
            else start
        )
        limit = None if radius is None else [(-radius, radius)] * len(begin)

        def value(theta: Floats) -> tuple[float, Floats]:
            cost = sum(len(d) / total * float(self.cost(d, theta)) for d in designs)
            slope = self.penalty_gradient(theta) + sum(len(d) / total * self.mean_gradient(d, theta) for d in designs)
            return cost, slope

        options = {"maxiter": 20_000, "maxfun": 40_000, "maxcor": 30, "ftol": precision * 1e-3, "gtol": 1e-8}
        found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=limit, options=options)
        if radius is None and not self.regularisation > 0 and self.separates(designs, found.x):
            raise NoOptimumError(
                "the cost has no finite minimum on these data (classes that separate perfectly?): set model.radius or "
                "model.regularisation"
            )
        return np.asarray(found.x)


def _separates(design: Summable, theta: Floats) -> bool:
    """Whether every record's class has the highest score alone: then a longer theta is better, for ever."""

    def wrong(block: Design) -> Floats:
        scores, rows = _scores(block, theta[None])[0], np.arange(len(block))
        own = scores[_classes(block), rows].copy()
        scores[_classes(block), rows] = -np.inf
        return np.array([np.count_nonzero(~(own > scores.max(axis=0)) & (block.weight > 0))], dtype=np.float64)

    return not design.sum(wrong).any()


def _classes(block: Design) -> NDArray[np.intp]:
    return block.y.astype(np.intp)


def _scores(block: Design, flat: Floats) -> Floats:
    """[R, classes, n]"""
    return block.margins(flat.reshape(-1, block.width)).reshape(len(flat), -1, len(block))


def _probabilities(block: Design, flat: Floats) -> Floats:
    """Softmax over the classes [R, classes, n]."""
    scores = _scores(block, flat)
    scores -= scores.max(axis=1, keepdims=True)
    scores = block.exp(scores)
    scores /= _over_classes(scores.copy())[:, None]
    return scores


def _over_classes(terms: Floats) -> Floats:
    """The sum over classes [R, classes, n] -> [R, n], in an order that no number of rows changes. Overwrites the terms."""
    return rowwise.folded(terms.transpose(1, 0, 2))


def _residuals(block: Design, flat: Floats) -> Floats:
    """w (p - e_y) [R, classes, n]"""
    residual = _probabilities(block, flat)
    residual[:, _classes(block), np.arange(len(block))] -= 1.0
    if block.weighted:
        residual *= block.weight
    return residual


def _norms(residual: Floats, norm: ClipNorm) -> Floats:
    """Of every record's residual over the classes [R, n]."""
    if norm == "linf":
        return np.asarray(np.abs(residual).max(axis=1))
    if norm == "l1":
        return _over_classes(np.abs(residual))
    return np.asarray(np.sqrt(_over_classes(np.square(residual))))
