"""Minimisers of a table's mean loss, each pulled towards a centre of its own: many at once.

The minimiser of f(theta) + 1/2 sum_j s_j (theta_j - c_j)^2 for every row of a batch of centres c and strengths s [B,
P]. Squared losses have it in closed form, by one decomposition for the whole batch; other losses of a margin by
Newton's method. Second derivatives take nearly all of its time: they serve for several steps, and those of nearly the
same rows (`curvatures`) to begin with. Where rows are fewer than parameters, as with leaves of many trees, everything
happens in the space that the rows span (`row_space`).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from parley.data import Design, Summable
from parley.learning.outcome.row_space import PRECISION, RowSpace
from parley.losses import EmpiricalRisk
from parley.losses.objectives.margin import MarginObjective
from parley.losses.objectives.newton import projected_newton
from parley.validate import Floats

# as `PRECISION`, of steps by second derivatives from elsewhere, which leave a part of it and not its square
LENT_PRECISION = 1e-10
# of the decrease that the step before brought: more, and a model gets second derivatives of its own, where it is
QUICKLY = 0.2
KEPT = 2**24  # numbers that kept second derivatives may have
ENTRIES = 2**21  # numbers that second derivatives may have that are computed at once


def pulled(
    objective: EmpiricalRisk,
    rows: Summable,
    centres: Floats,
    strengths: Floats,
    starts: Floats | None = None,
    curves: Floats | None = None,
) -> Floats:
    """The minimisers [B, P], searched from `starts` [B, P], or from the centres.

    `curves` [B, P, P]: second derivatives of the mean loss of nearly the same rows near the minimisers (`curvatures`).
    """
    if not isinstance(objective, MarginObjective):
        return _one_by_one(objective, rows, centres, strengths, starts)
    if isinstance(rows, Design) and objective.regularisation == 0 and _few(rows, strengths):
        if not objective.quadratic:
            return RowSpace.of(objective.loss, rows, strengths, _alike(strengths)).minimisers(centres, starts)
        return _spanned(objective, rows, centres, strengths)
    if objective.quadratic:
        return _closed(objective, rows, centres, strengths)
    begin = centres if starts is None else starts
    solved = [
        _newton(objective, rows, centres[part], strengths[part], begin[part], None if curves is None else curves[part])
        for part in _parts(centres)
    ]
    return np.concatenate(solved)


def curvatures(objective: EmpiricalRisk, rows: Summable, thetas: Floats) -> Floats | None:
    """Second derivatives of the mean loss at these parameters [B, P] -> [B, P, P], for fits of nearly the same rows;
    None where such fits need none, or all of them would not be held."""
    if (
        not isinstance(objective, MarginObjective)
        or objective.quadratic
        or thetas.shape[0] * thetas.shape[1] ** 2 > KEPT
    ):
        return None
    return np.concatenate([_curves(objective, rows, thetas[part]) for part in _parts(thetas)])


def _parts(centres: Floats) -> list[slice]:
    """Parts of the batch whose second derivatives can be held at once."""
    some = max(1, ENTRIES // centres.shape[1] ** 2)
    return [slice(first, first + some) for first in range(0, len(centres), some)]


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
    plain = replace(objective, origin=None)  # a ridge of strength 0 has none
    moved = _closed(plain, replace(rows, X=rows.X @ basis), within, inner) - within
    return np.asarray(centres + moved @ basis.T)


def _closed(objective: MarginObjective, rows: Summable, centres: Floats, strengths: Floats) -> Floats:
    """(H + diag s)(theta - c) = -gradient at c. The block of H whose parameters are pulled alike is decomposed once for
    all models; the others, an intercept as a rule, are eliminated through their Schur complement."""
    curve, gradient, alike = (
        objective.hessian(rows, centres[0]),
        objective.mean_gradient(rows, centres),
        _alike(strengths),
    )
    values, directions = np.linalg.eigh(curve[np.ix_(alike, alike)])
    shrunk = 1 / (np.maximum(values, 0.0) + strengths.max(axis=1, keepdims=True))  # [B, those alike]
    mixed, along = directions.T @ curve[np.ix_(alike, ~alike)], gradient[:, alike] @ directions
    own = curve[np.ix_(~alike, ~alike)] + strengths[:, ~alike, None] * np.eye(mixed.shape[1])
    own = own - np.matmul(mixed.T * shrunk[:, None, :], mixed)
    step = np.empty_like(gradient)
    step[:, ~alike] = np.linalg.solve(own, (gradient[:, ~alike] - (along * shrunk) @ mixed)[:, :, None])[:, :, 0]
    step[:, alike] = ((along - step[:, ~alike] @ mixed.T) * shrunk) @ directions.T
    return np.asarray(centres - step)


def _newton(
    objective: MarginObjective,
    rows: Summable,
    centres: Floats,
    strengths: Floats,
    starts: Floats,
    curves: Floats | None,
) -> Floats:
    """Newton's method, steps halved until the cost falls; who has arrived is left out of the next step.

    Second derivatives serve as long as what a step brings falls quickly: those in `curves` first, where a model gets
    its own only if, say, a rare name is in none of these rows; then those of some steps ago.
    """

    def cost(theta: Floats, at: NDArray[np.int64]) -> Floats:
        return np.asarray(
            objective.cost(rows, theta) + 0.5 * np.sum(strengths[at] * (theta - centres[at]) ** 2, axis=-1)
        )

    theta, at = starts.copy(), np.arange(len(centres), dtype=np.int64)
    value, eye = cost(theta, at), np.eye(centres.shape[1])
    kept = np.empty((len(centres), *eye.shape)) if curves is None else curves.copy()
    stale, before = np.full(len(centres), curves is None), np.full(len(centres), np.inf)
    for _ in range(100):
        here, fresh = theta[at], stale[at]
        gradient = objective.mean_gradient(rows, here) + strengths[at] * (here - centres[at])
        if fresh.any():
            kept[at[fresh]] = _curves(objective, rows, here[fresh])
        curve = kept[at] + strengths[at][:, :, None] * eye
        # The ridge turns flat directions into gradient steps and vanishes with the gradient: it changes the path, not
        # the goal.
        ridge = 1e-8 * np.linalg.norm(gradient, axis=1) + 1e-14 * np.trace(curve, axis1=1, axis2=2) + 1e-300
        step = -np.linalg.solve(curve + ridge[:, None, None] * eye, gradient[:, :, None])[:, :, 0]
        fall = -np.sum(gradient * step, axis=1)
        length = np.ones(len(at))
        for _ in range(60):
            there = cost(here + length[:, None] * step, at)
            short = there > value[at] - 1e-4 * length * fall + 1e-15 * np.abs(value[at])
            if not short.any():
                break
            length[short] /= 2
        length[short] = 0.0  # rounding leaves nothing to gain
        theta[at] = here + length[:, None] * step
        value[at] = np.where(short, value[at], there)
        # No step brings more than by the pull alone: where that is little too, nothing lies in a direction in which
        # others have curvature and these none.
        size, most = np.abs(value[at]) + 1e-300, np.sum(gradient**2 / strengths[at], axis=1)
        arrived = np.where(
            fresh, fall <= PRECISION * size, (fall <= LENT_PRECISION * size) & (most <= PRECISION * size)
        )
        stale[at] = short | (fall > QUICKLY * before[at]) | (fall <= LENT_PRECISION * size)
        before[at] = fall
        at = at[~arrived & ~(short & fresh)]
        if not at.size:
            break
    return theta


def _curves(objective: MarginObjective, rows: Summable, theta: Floats) -> Floats:
    """Second derivatives of the mean loss at every parameter [B, P] -> [B, P, P]."""

    def part(block: Design) -> Floats:
        curves = objective.loss.hessian(theta @ block.X.T, block.y) * block.weight
        total = np.empty((len(theta), rows.width, rows.width))
        for place, curve in enumerate(curves):
            total[place] = block.curved(curve)
        return total

    return rows.sum(part) / len(rows)


def _one_by_one(
    objective: EmpiricalRisk, rows: Summable, centres: Floats, strengths: Floats, starts: Floats | None
) -> Floats:
    """Each searched from where the last one ended, if their centres are the same."""
    found: list[Floats] = []
    for place, (centre, strength) in enumerate(zip(centres, strengths, strict=True)):
        near = found[-1] if place > 0 and np.array_equal(centre, centres[place - 1]) else centre
        found.append(_single(objective, rows, centre, strength, near if starts is None else starts[place]))
    return np.array(found)


def _single(objective: EmpiricalRisk, rows: Summable, centre: Floats, strength: Floats, start: Floats) -> Floats:
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
