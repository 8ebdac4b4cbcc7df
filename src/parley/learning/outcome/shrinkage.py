"""Minimisers of a table's mean loss, each pulled towards its own centre, many at once.

Each minimises f(theta) + 1/2 sum_j s_j (theta_j - c_j)^2, for a batch of centres c and strengths s [B, P]. One
eigendecomposition of second derivatives serves the whole batch (`Curvature`). For squared losses its step is the
answer; other losses of a margin continue with a quasi-Newton method.

With few rows and many parameters, the search is in the space that the rows span (`RowSpace`). There theta = c + S^-1 X'
a for some a [n], because any other difference from the centre changes no margin and is pulled back to 0. Margins are X
c + K a with K = X S^-1 X', the pull costs 1/2 a.K a, and with the derivatives g and the curvatures W of the mean loss
by margins the minimum is where g + a = 0. Newton's step is -(I + W K)^-1 (g + a) = -(r - W^1/2 B^-1 W^1/2 K r), with r
= g + a and B = I + W^1/2 K W^1/2, which has no eigenvalue below 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from parley.data import Design
from parley.data.design import BLOCK_ROWS
from parley.losses import EmpiricalRisk
from parley.losses.loss import Loss
from parley.losses.objectives.margin import MarginObjective
from parley.losses.objectives.newton import projected_newton
from parley.validate import Floats

# of the decrease that the last step brings, relative to the cost: what it leaves is of the order of its square
ROW_PRECISION = 1e-6
MAX_NEWTON_STEPS = 100

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Rows, and models pulled with these strengths [B, P], the same in all parameters marked in `equal` [P]."""

    loss: Loss
    rows: Design
    strengths: Floats
    alike: Mask
    products: Floats  # X X' of the columns that are pulled alike [n, n]

    @classmethod
    def from_rows(cls, loss: Loss, rows: Design, strengths: Floats, alike: Mask) -> "RowSpace":
        own = rows.X[:, alike]
        return cls(loss, rows, strengths, alike, own @ own.T)

    def minimisers(self, centres: Floats, starts: Floats | None) -> Floats:
        """Return the minimisers [B, P] for these centres, searched from the margins of `starts`, or from the
        centres."""
        base = centres @ self.rows.X.T
        a = np.zeros_like(base) if starts is None else self._begin(base, starts @ self.rows.X.T)
        raised, left = self._kernel_product(a, slice(None)), np.arange(len(a))
        value = self._cost(base + raised) + 0.5 * np.sum(a * raised, axis=1)
        for _ in range(MAX_NEWTON_STEPS):
            step, lift, fall = self._step(base[left] + raised[left], a[left], left)
            length = self._length(base[left] + raised[left], a[left], raised[left], step, lift, fall, value[left])
            a[left] += length[:, None] * step
            raised[left] += length[:, None] * lift
            value[left] = self._cost(base[left] + raised[left]) + 0.5 * np.sum(a[left] * raised[left], axis=1)
            left = left[(fall > ROW_PRECISION * (np.abs(value[left]) + 1e-300)) & (length > 0)]
            if not left.size:
                break
        return np.asarray(centres + a @ self.rows.X / self.strengths)

    def _begin(self, base: Floats, margins: Floats) -> Floats:
        """Return a after a Newton step from margins [B, n] that no a need have; 0 if the centre costs less."""
        root = self._roots(margins)
        wanted = root**2 * (margins - base) - self._slopes(margins)
        a = wanted - root * self._solved(root, root * self._kernel_product(wanted, slice(None)), np.arange(len(base)))
        raised = self._kernel_product(a, slice(None))
        better = self._cost(base + raised) + 0.5 * np.sum(a * raised, axis=1) < self._cost(base)
        return np.where(better[:, None], a, 0.0)

    def _step(self, margins: Floats, a: Floats, models: Places) -> tuple[Floats, Floats, Floats]:
        """Return Newton's step, its change of margins, and twice its expected saving, for models [b, n]."""
        root, rest = self._roots(margins), self._slopes(margins) + a
        step = root * self._solved(root, root * self._kernel_product(rest, models), models) - rest
        lift = self._kernel_product(step, models)
        return step, lift, -np.sum(rest * lift, axis=1)

    def _solved(self, root: Floats, towards: Floats, models: Places) -> Floats:
        """Apply B^-1 to `towards` [b, n], given the roots of the models' curvatures."""
        solutions, own = np.empty_like(towards), self.rows.X[:, ~self.alike]
        for place, model in enumerate(models):
            strength = self.strengths[model]
            scaled = root[place] / np.sqrt(strength.max())
            matrix = self.products * scaled
            matrix *= scaled[:, None]
            for unequal_column in (
                root[place][:, None] * own / np.sqrt(strength[~self.alike])
            ).T:  # an intercept, as a rule
                matrix += unequal_column[:, None] * unequal_column
            matrix.flat[:: len(scaled) + 1] += 1.0
            factor = cho_factor(matrix.T, overwrite_a=True, check_finite=False)  # as LAPACK lays it out: no copy
            solutions[place] = cho_solve(factor, towards[place], check_finite=False)
        return solutions

    def _length(
        self, margins: Floats, a: Floats, raised: Floats, step: Floats, lift: Floats, fall: Floats, value: Floats
    ) -> Floats:
        """Halve each step until the cost falls; return the lengths, 0 where rounding leaves nothing to gain."""
        length = np.ones(len(a))
        for _ in range(60):
            moved, lifted = a + length[:, None] * step, length[:, None] * lift
            trial_cost = self._cost(margins + lifted) + 0.5 * np.sum(moved * (raised + lifted), axis=1)
            short = ~(trial_cost <= value - 1e-4 * length * fall + 1e-15 * np.abs(value))
            if not short.any():
                return length
            length[short] /= 2
        length[short] = 0.0
        return length

    def _kernel_product(self, a: Floats, models: Places | slice) -> Floats:
        """Return K a [b, n]."""
        own, strengths = self.rows.X[:, ~self.alike], self.strengths[models]
        return np.asarray(
            a @ self.products / strengths.max(axis=1, keepdims=True) + (a @ own / strengths[:, ~self.alike]) @ own.T
        )

    def _cost(self, margins: Floats) -> Floats:
        return np.asarray(self.loss.loss(margins, self.rows.y) @ self._share)

    def _slopes(self, margins: Floats) -> Floats:
        """Return derivatives of the mean loss by margins [b, n]."""
        return self.loss.gradient(margins.copy(), self.rows.y) * self._share

    def _roots(self, margins: Floats) -> Floats:
        """Return the roots of the mean loss's curvatures by margins [b, n]."""
        return np.asarray(np.sqrt(self.loss.hessian(margins, self.rows.y) * self._share))

    @property
    def _share(self) -> Floats:
        return self.rows.weight / len(self.rows)


DECREASE_TOLERANCE = 1e-9  # of the decrease that the last step brings, relative to the cost
STEPS_PER_CURVATURE = 32  # with the same second derivatives; then who has not arrived gets others
MAX_GROUP_MARGINS = 2**23  # numbers that the margins of a group may have
MAX_CURVATURES = 100  # of such steps, for each model
MAX_SLOPE_LEFT = 0.5  # of the slope along a step, at most, where it ends


def pulled(
    objective: EmpiricalRisk,
    rows: Design,
    centres: Floats,
    strengths: Floats,
    starts: Floats | None = None,
    second: Floats | None = None,
) -> Floats:
    """Find the minimisers [B, P], searched from `starts` [B, P] or from the centres. The objective has no penalty.

    `second` [P, P] are second derivatives of the mean loss near the minimisers, if known (`without_each`).
    """
    begin = centres if starts is None else starts
    if not isinstance(objective, MarginObjective):
        return _one_by_one(objective, rows, centres, strengths, starts)
    if _few_rows(rows, strengths):
        if objective.quadratic:
            return _solve_in_span(objective, rows, centres, strengths)
        return RowSpace.from_rows(objective.loss, rows, strengths, _equal_strengths(strengths)).minimisers(
            centres, starts
        )
    # at the first start: what is found for the first models does not depend on which others are asked for
    second = _second(objective, rows, begin[0]) if second is None else second
    curvature = Curvature.from_second_derivatives(second, _equal_strengths(strengths))
    if objective.quadratic:
        return _solve_closed_form(objective, rows, centres, strengths, curvature)
    return _Search(objective, rows, centres, strengths).minimisers(begin, curvature)


def without_each(objective: EmpiricalRisk, parts: Sequence[Design], thetas: Floats) -> list[Floats | None]:
    """Return second derivatives [P, P] of the mean loss without each part, at the middle parameter of `thetas` [B, P];
    None where `pulled` does not use them."""
    many = np.array([len(part) for part in parts])
    if not isinstance(objective, MarginObjective) or len(parts) < 2 or 2 * many.sum() <= thetas.shape[1]:
        return [None] * len(parts)
    each = [_second(objective, part, thetas[len(thetas) // 2]) * len(part) for part in parts]
    total = np.sum(each, axis=0)
    return [(total - own) / (many.sum() - len(part)) for own, part in zip(each, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives H [P, P], decomposed once for all strengths. The block of parameters that are pulled alike is
    diagonal along `directions`; the others, usually an intercept, are eliminated by their Schur complement."""

    alike: Mask
    values: Floats  # eigenvalues of the block that is pulled alike, none below 0
    directions: Floats
    mixed: Floats  # [those alike, others], along the directions
    own: Floats  # [others, others]

    @classmethod
    def from_second_derivatives(cls, second: Floats, alike: Mask) -> "Curvature":
        values, directions = np.linalg.eigh(second[np.ix_(alike, alike)])
        mixed = directions.T @ second[np.ix_(alike, ~alike)]
        return cls(alike, np.maximum(values, 0.0), directions, mixed, second[np.ix_(~alike, ~alike)])

    def solved(self, gradient: Floats, strengths: Floats) -> Floats:
        """Apply (H + diag s)^-1 to gradients, for strengths s [b, P]."""
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
    """Minimisers of a loss that is not squared, by L-BFGS.

    All models begin with the same second derivatives. Those unfinished after `STEPS_PER_CURVATURE` steps continue in
    halves, each with the second derivatives of its middle model.
    """

    objective: MarginObjective
    rows: Design
    centres: Floats
    strengths: Floats

    def minimisers(self, starts: Floats, curvature: Curvature) -> Floats:
        """Return the minimisers [B, P], searched from `starts` [B, P] with this curvature first."""
        theta, many = starts.copy(), -(-len(starts) * len(self.rows) // MAX_GROUP_MARGINS)
        groups = [(group, curvature, 1) for group in np.array_split(np.arange(len(starts)), many)]
        while groups:
            group, curvature, tries = groups.pop()
            theta[group], arrived = self._steps(theta[group], group, curvature)
            for half in np.array_split(group[~arrived], 2):
                if half.size and tries < MAX_CURVATURES:
                    second = _second(self.objective, self.rows, theta[half[len(half) // 2]])
                    groups.append((half, Curvature.from_second_derivatives(second, curvature.alike), tries + 1))
        return theta

    def _steps(self, theta: Floats, group: Places, curvature: Curvature) -> tuple[Floats, Mask]:
        """Return a group's models [b, P] after some steps from `theta`, and which have converged."""
        next_theta, at, arrived = theta.copy(), np.arange(len(group)), np.zeros(len(group), dtype=bool)
        centres, strengths, margins = self.centres[group], self.strengths[group], theta @ self.rows.X.T
        slopes, pull, past = self._slopes(margins.copy()), strengths * (theta - centres), list[tuple[Floats, Floats]]()
        gradient = slopes @ self.rows.X + pull
        for _ in range(STEPS_PER_CURVATURE):
            step = -_quasi_newton(curvature, past, gradient, strengths)
            left = np.sum(gradient * step, axis=1) < -DECREASE_TOLERANCE * np.abs(slopes).sum(axis=1)
            next_theta[at], arrived[at] = theta + np.where(left[:, None], 0.0, step), ~left
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
        return next_theta, arrived

    def _length(
        self, margins: Floats, lift: Floats, begin: Floats, pull: Floats, bend: Floats
    ) -> tuple[Floats, Floats]:
        """Return step lengths [b, 1] that leave at most `MAX_SLOPE_LEFT` of the slope `begin` [b] (false position), and
        the derivatives by margins there [b, n]. `pull` is the pull's part of the slope, which changes by `bend`."""
        length, slopes, far = np.ones(len(lift)), np.empty_like(lift), np.ones(len(lift), dtype=bool)
        low, under, high, over = np.zeros(len(lift)), begin, *np.full((2, len(lift)), np.inf)
        for _ in range(60):
            some = slice(None) if far.all() else far
            slopes[some] = self._slopes(margins[some] + length[some, None] * lift[some])
            end = np.einsum("bn,bn->b", slopes, lift) + pull + length * bend
            far = ~(np.abs(end) <= MAX_SLOPE_LEFT * np.abs(begin))
            if not far.any():
                break
            short = end < 0
            low, under = np.where(short, length, low), np.where(short, end, under)
            high, over = np.where(short, high, length), np.where(short, over, end)
            inner = low + (high - low) * np.clip(np.nan_to_num(under / (under - over)), 0.1, 0.9)
            length = np.where(far, np.where(np.isinf(high), 4 * length, inner), length)
        return length[:, None], slopes

    def _slopes(self, margins: Floats) -> Floats:
        """Return derivatives of the mean loss by margins [b, n], overwriting the margins."""
        slopes = self.objective.loss.gradient(margins, self.rows.y)
        slopes *= self.rows.weight / len(self.rows)
        return slopes


def _quasi_newton(
    curvature: Curvature, past: list[tuple[Floats, Floats]], gradient: Floats, strengths: Floats
) -> Floats:
    """Return B^-1 g for gradients g [b, P], where B is the pulled curvature updated with past moves."""
    direction, parts = gradient, list[Floats]()
    weights = [1 / np.maximum(np.sum(moved * changed, axis=1, keepdims=True), 1e-300) for moved, changed in past]
    for (moved, changed), weight in zip(past[::-1], weights[::-1], strict=True):
        parts.append(weight * np.sum(moved * direction, axis=1, keepdims=True))
        direction = direction - parts[-1] * changed
    direction = curvature.solved(direction, strengths)
    for (moved, changed), weight, part in zip(past, weights, parts[::-1], strict=True):
        direction = direction + (part - weight * np.sum(changed * direction, axis=1, keepdims=True)) * moved
    return direction


def _equal_strengths(strengths: Floats) -> NDArray[np.bool_]:
    """Mark the parameters [P] that every model pulls as strongly as its others: all except intercepts."""
    return np.asarray((strengths == strengths.max(axis=1, keepdims=True)).all(axis=0))


def _few_rows(rows: Design, strengths: Floats) -> bool:
    """Whether there are few enough rows to search in their span."""
    return 2 * len(rows) <= int(np.count_nonzero(_equal_strengths(strengths)))


def _solve_in_span(objective: MarginObjective, rows: Design, centres: Floats, strengths: Floats) -> Floats:
    """Return minimisers of squared losses, searched in the rows' span around the centres; parameters with pulls of
    their own keep their own axes."""
    equal, many = _equal_strengths(strengths), len(rows)
    unequal_count = int(np.count_nonzero(~equal))
    basis = np.zeros((rows.width, many + unequal_count))
    basis[equal, :many] = np.linalg.qr(rows.X[:, equal].T)[0]
    basis[~equal, many:] = np.eye(unequal_count)
    inner = np.repeat(strengths.max(axis=1, keepdims=True), basis.shape[1], axis=1)
    inner[:, many:] = strengths[:, ~equal]
    centres_in_span = centres @ basis
    turned = replace(rows, X=rows.X @ basis)
    curvature = Curvature.from_second_derivatives(
        _second(objective, turned, centres_in_span[0]), _equal_strengths(inner)
    )
    moved = _solve_closed_form(objective, turned, centres_in_span, inner, curvature) - centres_in_span
    return np.asarray(centres + moved @ basis.T)


def _solve_closed_form(
    objective: MarginObjective, rows: Design, centres: Floats, strengths: Floats, curvature: Curvature
) -> Floats:
    """Solve (H + diag s)(theta - c) = -gradient at c."""

    def part(block: Design) -> Floats:
        return (objective.loss.gradient(centres @ block.X.T, block.y) * block.weight) @ block.X

    return centres - curvature.solved(_mean(part, rows), strengths)


def _second(objective: MarginObjective, rows: Design, theta: Floats) -> Floats:
    """Return second derivatives [P, P] of the mean loss at parameters [P]."""
    return _mean(lambda block: block.curved(objective.record_curvatures(block, theta)), rows)


def _mean(part: Callable[[Design], Floats], rows: Design) -> Floats:
    """Add up part(block) over all rows and divide by their number; few rows are one block, without threads."""
    return (part(rows) if len(rows) <= BLOCK_ROWS else rows.sum(part)) / len(rows)


def _one_by_one(
    objective: EmpiricalRisk, rows: Design, centres: Floats, strengths: Floats, starts: Floats | None
) -> Floats:
    """Minimise each, starting where the last one ended if their centres are the same."""
    found: list[Floats] = []
    for place, (centre, strength) in enumerate(zip(centres, strengths, strict=True)):
        near = found[-1] if place > 0 and np.array_equal(centre, centres[place - 1]) else centre
        found.append(_minimise_one(objective, rows, centre, strength, near if starts is None else starts[place]))
    return np.array(found)


def _minimise_one(objective: EmpiricalRisk, rows: Design, centre: Floats, strength: Floats, start: Floats) -> Floats:
    """Return one minimiser of a cost that is not one of a margin, searched from `start`."""

    def cost(theta: Floats) -> float:
        return float(objective.cost(rows, theta)) + 0.5 * float(strength @ (theta - centre) ** 2)

    def gradient(theta: Floats) -> Floats:
        return objective.mean_gradient(rows, theta) + strength * (theta - centre)

    curve = objective.hessian(rows, start)
    if curve is None:  # too many parameters to write it out
        minimum = minimize(
            lambda t: (cost(t), gradient(t)), start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-7}
        )
        return np.asarray(minimum.x)
    return projected_newton(cost, gradient, lambda t: objective.hessian(rows, t) + np.diag(strength), start, np.inf)  # type: ignore[operator]
