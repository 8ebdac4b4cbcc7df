"""Minimisers of a table's mean loss, each pulled towards a centre of its own: many at once.

Each minimises f(theta) + 1/2 sum_j s_j (theta_j - c_j)^2, for a batch of centres c and strengths s [B, P]. One
eigendecomposition of second derivatives serves the whole batch, whatever the strengths (`Curvature`). For squared
losses its step is the answer. For other losses of a margin it begins a quasi-Newton method, whose steps take two matrix
products for all models together. Where rows are fewer than parameters, as with leaves of many trees, everything happens
in the space that the rows span (`row_space`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from parley.data import Design
from parley.data.design import BLOCK
from parley.learning.outcome.row_space import RowSpace
from parley.losses import EmpiricalRisk
from parley.losses.objectives.margin import MarginObjective
from parley.losses.objectives.newton import projected_newton
from parley.validate import Floats

PRECISION = 1e-9  # of the decrease that the last step brings, relative to the cost
STEPS = 32  # with the same second derivatives; then who has not arrived gets others
MARGINS = 2**23  # numbers that the margins of a group may have
ROUNDS = 100  # of such steps, for each model
LEFT = 0.5  # of the slope along a step, at most, where it ends

Marked = NDArray[np.bool_]
Places = NDArray[np.int64]


def pulled(
    objective: EmpiricalRisk,
    rows: Design,
    centres: Floats,
    strengths: Floats,
    starts: Floats | None = None,
    second: Floats | None = None,
) -> Floats:
    """The minimisers [B, P], searched from `starts` [B, P], or from the centres. The objective has no penalty.

    `second` [P, P]: second derivatives of the mean loss near the minimisers, where they are known (`without_each`).
    """
    begin = centres if starts is None else starts
    if not isinstance(objective, MarginObjective):
        return _one_by_one(objective, rows, centres, strengths, starts)
    if _few(rows, strengths):
        if objective.quadratic:
            return _spanned(objective, rows, centres, strengths)
        return RowSpace.of(objective.loss, rows, strengths, _alike(strengths)).minimisers(centres, starts)
    # at the first start: what is found for the first models does not depend on which others are asked for
    second = _second(objective, rows, begin[0]) if second is None else second
    curvature = Curvature.of(second, _alike(strengths))
    if objective.quadratic:
        return _closed(objective, rows, centres, strengths, curvature)
    return _Search(objective, rows, centres, strengths).minimisers(begin, curvature)


def without_each(objective: EmpiricalRisk, parts: Sequence[Design], thetas: Floats) -> list[Floats | None]:
    """Second derivatives [P, P], at the middle one of these parameters [B, P], of the mean loss of all rows without
    each part; None where `pulled` has no use for them. Each part is summed over once."""
    many = np.array([len(part) for part in parts])
    if not isinstance(objective, MarginObjective) or len(parts) < 2 or 2 * many.sum() <= thetas.shape[1]:
        return [None] * len(parts)
    each = [_second(objective, part, thetas[len(thetas) // 2]) * len(part) for part in parts]
    total = np.sum(each, axis=0)
    return [(total - own) / (many.sum() - len(part)) for own, part in zip(each, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives H [P, P], decomposed for all strengths at once. The block of H whose parameters are pulled
    alike is diagonal along `directions`; the others, an intercept as a rule, are eliminated through their Schur
    complement."""

    alike: Marked
    values: Floats  # eigenvalues of the block that is pulled alike, none below 0
    directions: Floats
    mixed: Floats  # [those alike, others], along the directions
    own: Floats  # [others, others]

    @classmethod
    def of(cls, second: Floats, alike: Marked) -> "Curvature":
        values, directions = np.linalg.eigh(second[np.ix_(alike, alike)])
        mixed = directions.T @ second[np.ix_(alike, ~alike)]
        return cls(alike, np.maximum(values, 0.0), directions, mixed, second[np.ix_(~alike, ~alike)])

    def solved(self, gradient: Floats, strengths: Floats) -> Floats:
        """(H + diag s)^-1 g of gradients g and strengths s [b, P]."""
        alike, mixed = self.alike, self.mixed
        shrunk = 1 / (self.values + strengths.max(axis=1, keepdims=True))  # [b, those alike]
        along = gradient[:, alike] @ self.directions
        own = self.own + strengths[:, ~alike, None] * np.eye(len(self.own))
        own = own - np.matmul(mixed.T * shrunk[:, None, :], mixed)
        found = np.empty_like(gradient)
        found[:, ~alike] = np.linalg.solve(own, (gradient[:, ~alike] - (along * shrunk) @ mixed)[:, :, None])[:, :, 0]
        found[:, alike] = ((along - found[:, ~alike] @ mixed.T) * shrunk) @ self.directions.T
        return found


@dataclass(frozen=True, eq=False)
class _Search:
    """Minimisers of a loss that is not squared, by the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno.

    All models begin with the same second derivatives. Those that have not arrived after `STEPS` go on in halves, each
    half with the second derivatives of its middle model: in the end each alone, with its own.
    """

    objective: MarginObjective
    rows: Design
    centres: Floats
    strengths: Floats

    def minimisers(self, starts: Floats, curvature: Curvature) -> Floats:
        """The minimisers [B, P], searched from `starts` [B, P] and with this curvature first."""
        theta, many = starts.copy(), -(-len(starts) * len(self.rows) // MARGINS)
        groups = [(group, curvature, 1) for group in np.array_split(np.arange(len(starts)), many)]
        while groups:
            group, curvature, tries = groups.pop()
            theta[group], arrived = self._steps(theta[group], group, curvature)
            for half in np.array_split(group[~arrived], 2):
                if half.size and tries < ROUNDS:
                    second = _second(self.objective, self.rows, theta[half[len(half) // 2]])
                    groups.append((half, Curvature.of(second, curvature.alike), tries + 1))
        return theta

    def _steps(self, theta: Floats, group: Places, curvature: Curvature) -> tuple[Floats, Marked]:
        """(models [b, P] of a group after some steps from `theta`, which of them have arrived)."""
        found, at, arrived = theta.copy(), np.arange(len(group)), np.zeros(len(group), dtype=bool)
        centres, strengths, margins = self.centres[group], self.strengths[group], theta @ self.rows.X.T
        slopes, pull, past = self._slopes(margins.copy()), strengths * (theta - centres), list[tuple[Floats, Floats]]()
        gradient = slopes @ self.rows.X + pull
        for _ in range(STEPS):
            step = -_quasi_newton(curvature, past, gradient, strengths)
            left = np.sum(gradient * step, axis=1) < -PRECISION * np.abs(slopes).sum(axis=1)
            found[at], arrived[at] = theta + np.where(left[:, None], 0.0, step), ~left
            if not left.all():
                kept = (each[left] for each in (at, theta, centres, strengths, margins, pull, gradient, step))
                at, theta, centres, strengths, margins, pull, gradient, step = kept
                past = [(moved[left], changed[left]) for moved, changed in past]
            if not at.size:
                break
            lift, before = step @ self.rows.X.T, gradient
            fall, bend = np.sum(gradient * step, axis=1), np.sum(strengths * step**2, axis=1)
            length, slopes = self._length(margins, lift, fall, np.sum(pull * step, axis=1), bend)
            theta, margins = theta + length * step, margins + length * lift
            pull = strengths * (theta - centres)
            gradient = slopes @ self.rows.X + pull
            past.append((length * step, gradient - before))
        return found, arrived

    def _length(
        self, margins: Floats, lift: Floats, begin: Floats, pull: Floats, bend: Floats
    ) -> tuple[Floats, Floats]:
        """(how far to go along each step [b, 1], derivatives by margins there [b, n]): to where at most `LEFT` of the
        slope `begin` [b] is left, by the rule of false position. Of the slope the pull has its part, which bends."""
        length, slopes, far = np.ones(len(lift)), np.empty_like(lift), np.ones(len(lift), dtype=bool)
        low, under, high, over = np.zeros(len(lift)), begin, *np.full((2, len(lift)), np.inf)
        for _ in range(60):
            some = slice(None) if far.all() else far
            slopes[some] = self._slopes(margins[some] + length[some, None] * lift[some])
            end = np.einsum("bn,bn->b", slopes, lift) + pull + length * bend
            far = ~(np.abs(end) <= LEFT * np.abs(begin))
            if not far.any():
                break
            short = end < 0
            low, under = np.where(short, length, low), np.where(short, end, under)
            high, over = np.where(short, high, length), np.where(short, over, end)
            inner = low + (high - low) * np.clip(np.nan_to_num(under / (under - over)), 0.1, 0.9)
            length = np.where(far, np.where(np.isinf(high), 4 * length, inner), length)
        return length[:, None], slopes

    def _slopes(self, margins: Floats) -> Floats:
        """Derivatives of the mean loss by margins [b, n], which are overwritten."""
        slopes = self.objective.loss.gradient(margins, self.rows.y)
        slopes *= self.rows.weight / len(self.rows)
        return slopes


def _quasi_newton(
    curvature: Curvature, past: list[tuple[Floats, Floats]], gradient: Floats, strengths: Floats
) -> Floats:
    """B^-1 g of gradients g [b, P]: B is the pulled curvature, made to agree with what past moves did to gradients."""
    found, parts = gradient, list[Floats]()
    weights = [1 / np.maximum(np.sum(moved * changed, axis=1, keepdims=True), 1e-300) for moved, changed in past]
    for (moved, changed), weight in zip(past[::-1], weights[::-1], strict=True):
        parts.append(weight * np.sum(moved * found, axis=1, keepdims=True))
        found = found - parts[-1] * changed
    found = curvature.solved(found, strengths)
    for (moved, changed), weight, part in zip(past, weights, parts[::-1], strict=True):
        found = found + (part - weight * np.sum(changed * found, axis=1, keepdims=True)) * moved
    return found


def _alike(strengths: Floats) -> NDArray[np.bool_]:
    """Which parameters every model pulls as strongly as its others [P]: all but intercepts."""
    return np.asarray((strengths == strengths.max(axis=1, keepdims=True)).all(axis=0))


def _few(rows: Design, strengths: Floats) -> bool:
    """Whether rows span so little that their space is worth finding."""
    return 2 * len(rows) <= int(np.count_nonzero(_alike(strengths)))


def _spanned(objective: MarginObjective, rows: Design, centres: Floats, strengths: Floats) -> Floats:
    """The same minimisers of squared losses, found among parameters that differ from their centres by what the rows
    span: no other difference changes a margin, and each is pulled back to nothing. Pulls that are alike are alike along
    every basis; parameters with pulls of their own stay as they are."""
    alike, many = _alike(strengths), len(rows)
    apart = int(np.count_nonzero(~alike))
    basis = np.zeros((rows.width, many + apart))
    basis[alike, :many] = np.linalg.qr(rows.X[:, alike].T)[0]
    basis[~alike, many:] = np.eye(apart)
    inner = np.repeat(strengths.max(axis=1, keepdims=True), basis.shape[1], axis=1)
    inner[:, many:] = strengths[:, ~alike]
    within = centres @ basis
    turned = replace(rows, X=rows.X @ basis)
    curvature = Curvature.of(_second(objective, turned, within[0]), _alike(inner))
    moved = _closed(objective, turned, within, inner, curvature) - within
    return np.asarray(centres + moved @ basis.T)


def _closed(
    objective: MarginObjective, rows: Design, centres: Floats, strengths: Floats, curvature: Curvature
) -> Floats:
    """(H + diag s)(theta - c) = -gradient at c."""

    def part(block: Design) -> Floats:
        return (objective.loss.gradient(centres @ block.X.T, block.y) * block.weight) @ block.X

    return centres - curvature.solved(_mean(part, rows), strengths)


def _second(objective: MarginObjective, rows: Design, theta: Floats) -> Floats:
    """Second derivatives [P, P] of the mean loss at parameters [P]."""
    return _mean(lambda block: block.curved(objective.record_curvatures(block, theta)), rows)


def _mean(part: Callable[[Design], Floats], rows: Design) -> Floats:
    """part(block) added up over all rows, divided by their number; few of them are a block, and not worth threads."""
    return (part(rows) if len(rows) <= BLOCK else rows.sum(part)) / len(rows)


def _one_by_one(
    objective: EmpiricalRisk, rows: Design, centres: Floats, strengths: Floats, starts: Floats | None
) -> Floats:
    """Each searched from where the last one ended, if their centres are the same."""
    found: list[Floats] = []
    for place, (centre, strength) in enumerate(zip(centres, strengths, strict=True)):
        near = found[-1] if place > 0 and np.array_equal(centre, centres[place - 1]) else centre
        found.append(_single(objective, rows, centre, strength, near if starts is None else starts[place]))
    return np.array(found)


def _single(objective: EmpiricalRisk, rows: Design, centre: Floats, strength: Floats, start: Floats) -> Floats:
    """One minimiser of a cost that is none of a margin, searched from `start`."""

    def cost(theta: Floats) -> float:
        return float(objective.cost(rows, theta)) + 0.5 * float(strength @ (theta - centre) ** 2)

    def gradient(theta: Floats) -> Floats:
        return objective.mean_gradient(rows, theta) + strength * (theta - centre)

    curve = objective.hessian(rows, start)
    if curve is None:  # too many parameters to write it out
        found = minimize(
            lambda t: (cost(t), gradient(t)), start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-7}
        )
        return np.asarray(found.x)
    return projected_newton(cost, gradient, lambda t: objective.hessian(rows, t) + np.diag(strength), start, np.inf)  # type: ignore[operator]
