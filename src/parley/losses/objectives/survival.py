"""Discrete-time survival: a logistic hazard for every period, with its own baseline and shared coefficients. Theta is
the baselines [K], then the coefficients [p]; the log-odds of period k are baseline_k + coefficients.x. A subject's
gradient is (r_1, ..., r_K, S x), r_k its loss's derivative in period k and S their sum. Periods are never clipped or
counted on their own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF
from parley.losses.class_loss import Hazards, over_classes, periods
from parley.losses.loss import ClipNorm, Limits, RecordBound, bound_norm, tightest
from parley.losses.objective import EmpiricalRisk, batched
from parley.losses.objectives.newton import optimum_by_newton
from parley.terms.outcomes import SurvivalModel
from parley.validate import SMALLEST, Floats


@dataclass(frozen=True)
class Survival(EmpiricalRisk):
    """The mean over subjects, never over periods: the number of periods in a table is private, that of subjects is not.

    >>> design = Design(np.array([[1.0], [1.0]]), np.array([1.0, 4.0]), np.ones(2))
    >>> Survival().mean_gradient(design, np.zeros(3))
    array([0.  , 0.25, 0.25])
    """

    loss: Hazards = field(default=Hazards(), kw_only=True)
    alike: ClassVar[bool] = False

    def parameters(self, preparation: Preparation) -> int:
        return _period_count(preparation) + preparation.width

    def constants(self, preparation: Preparation) -> Floats:
        return np.append(np.ones(_period_count(preparation)), np.zeros(preparation.width))

    def start(self, preparation: Preparation) -> Floats:
        """Return baselines at which half of the subjects survive all periods, in the box; coefficients are 0."""
        baseline, radius = math.log(math.expm1(math.log(2) / _period_count(preparation))), preparation.model.radius
        return (baseline if radius is None else max(baseline, -radius)) * self.constants(preparation)

    def scores(self, X: Floats, theta: Floats) -> Floats:
        """Return the log-odds of every period for every row [..., n, K]."""
        split = theta.shape[-1] - X.shape[1]
        return np.asarray((theta[..., split:] @ X.T)[..., None] + theta[..., None, :split])

    def cost(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design, flat: Floats) -> Floats:
            return np.asarray(self.loss.loss(_log_odds(block, flat), block.y) @ block.weight)

        total = batched(part, design, theta)
        return np.asarray(total / design.divisor + self.penalty(theta))

    def record_losses(self, design: Design, theta: Floats) -> Floats:
        losses = self.loss.loss(_log_odds(design, theta.reshape(-1, theta.shape[-1])), design.y)
        return np.asarray(losses.reshape(*theta.shape[:-1], -1) * design.weight)

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        """Formal guarantee: a subject's share has norm at most Xi in the bound's norm. All its periods are scaled down
        together, slightly below Xi over their norm, which is computed with relative error at most (K + p + 8) u; the
        product with the share adds three roundings. The divisor, the number of subjects, is public. For rows drawn in
        secret a share is a function of each row alone."""

        def part(block: Design, flat: Floats) -> Floats:
            residual, total = self._residuals(block, flat)
            if bound is not None and bound.clips:
                limit = bound.value * (1 - 2 * (residual.shape[1] + block.width + 16) * UNIT_ROUNDOFF)
                share = np.minimum(1.0, limit / np.maximum(_norms(residual, total, block, bound.norm), SMALLEST))
                residual *= share[:, None]
                total *= share
            return np.concatenate([residual.sum(axis=-1), total @ block.X], axis=-1)

        return batched(part, design, theta) / design.divisor

    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        residual, total = self._residuals(design, theta[None])
        return np.asarray(np.concatenate([residual[0].T, total[0][:, None] * design.X], axis=1))

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        return np.asarray(_norms(*self._residuals(design, theta[None]), design, norm)[0])

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Formal guarantee: no derivative in a period exceeds 1, so their sum is at most K, and no subject within the
        bounds f has a larger norm than (1, ..., 1, K f)."""
        implied, features, many = np.inf, preparation.feature_bound, _period_count(preparation)
        if features is not None:
            alone, size = self.loss.largest_derivative(norm, many, np.inf), many * bound_norm(features, norm)
            together = {"l1": alone + size, "l2": math.hypot(alone, size), "linf": max(alone, size)}
            implied = together[norm] * limits.largest_weight * (1 + 1e-12)
        return tightest(limits.clip, implied, norm)

    def record_curvatures(self, design: Design, theta: Floats) -> Floats:
        curves = self.loss.hessian(_log_odds(design, theta[None])[0], design.y)
        return np.asarray(sum(curve for _, _, curve in curves) * design.weight)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        def part(block: Design) -> Floats:
            curves = self.loss.hessian(_log_odds(block, theta[None])[0], block.y)
            return _sum_curvatures(np.array([curve * block.weight for _, _, curve in curves]), block)

        return design.sum(part) / design.divisor + self.regularisation * np.eye(len(theta))

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        begin = np.zeros(_reached_periods(designs) + designs[0].width) if start is None else start
        return optimum_by_newton(self, designs, radius, begin)

    def curvature(self, design: Summable) -> float:
        many = _reached_periods([design])

        def part(block: Design) -> Floats:
            return _sum_curvatures(periods(block.y, many)[0] * block.weight, block)

        largest = float(np.linalg.eigvalsh(design.sum(part) / design.divisor)[-1])
        return self.loss.largest_curvature * largest + self.regularisation

    def largest_curvature(self, preparation: Preparation) -> float | None:
        """Formal guarantee: a subject's second derivative is at most a quarter of Z'Z, the rows of Z being z_k = (e_k,
        x). Z Z' is the identity plus |x|^2 times a matrix of ones, so its largest eigenvalue is at most 1 + K |x|^2."""
        features = preparation.feature_bound
        if features is None:
            return None
        largest = 1 + _period_count(preparation) * float(np.sum(features**2))
        return self.loss.largest_curvature * preparation.largest_weight * largest + self.regularisation

    def _residuals(self, block: Design, flat: Floats) -> tuple[Floats, Floats]:
        """Return every subject's weighted derivatives [R, K, n], and their sums over its periods [R, n]."""
        residual = self.loss.gradient(_log_odds(block, flat), block.y, block)
        if block.weighted:
            residual *= block.weight
        return residual, over_classes(residual.copy())


def _log_odds(block: Design, flat: Floats) -> Floats:
    """Return the log-odds of every period [R, K, n] at parameters [R, P]."""
    split = flat.shape[-1] - block.width
    return np.asarray(block.margins(np.ascontiguousarray(flat[:, split:]))[:, None] + flat[:, :split, None])


def _norms(residual: Floats, total: Floats, block: Design, norm: ClipNorm) -> Floats:
    """Return the norm of every subject's whole gradient [R, n]."""
    shared = np.abs(total) * block.row_norms(norm)
    if norm == "linf":
        return np.asarray(np.maximum(np.abs(residual).max(axis=1), shared))
    if norm == "l1":
        return np.asarray(over_classes(np.abs(residual)) + shared)
    return np.asarray(np.sqrt(over_classes(np.square(residual)) + shared**2))


def _sum_curvatures(curves: Floats, block: Design) -> Floats:
    """Sum curves [K, n] times z z', z = (e_k, x) [P, P], over rows and periods."""
    many, across = len(curves), curves @ block.X
    found = np.empty((many + block.width,) * 2)
    found[:many, :many], found[:many, many:], found[many:, :many] = np.diag(curves.sum(axis=1)), across, across.T
    found[many:, many:] = block.curved(curves.sum(axis=0))
    return found


def _period_count(preparation: Preparation) -> int:
    """Return K, the number of periods in the terms."""
    return len(SurvivalModel.expect(preparation.model).periods)


def _reached_periods(designs: Sequence[Summable]) -> int:
    """Return the number of periods that some subject reached."""
    return max(int(design.in_memory().y.max(initial=0.0) + 1) // 2 for design in designs)
