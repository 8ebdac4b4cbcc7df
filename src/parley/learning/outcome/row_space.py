"""Pulled models of rows that are fewer than parameters, by Newton's method among as many numbers as there are rows.

The minimiser of the mean loss + 1/2 sum_j s_j (theta_j - c_j)^2 is theta = c + S^-1 X' a for some a [n]: whatever else
differs from the centre changes no margin, and is pulled back to nothing. Margins are then X c + K a with K = X S^-1 X',
the pull costs 1/2 a.K a, and with the derivatives g and the curvatures W of the mean loss by margins the minimum is
where g + a = 0. Newton's step is -(I + W K)^-1 (g + a) = -(r - W^1/2 B^-1 W^1/2 K r), r = g + a, of which B = I +
W^1/2 K W^1/2 has no eigenvalue below 1: no second derivatives by parameters are ever written out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from parley.data import Design
from parley.losses.loss import Loss
from parley.validate import Floats

# of the decrease that the last step brings, relative to the cost: what it leaves is of the order of its square
PRECISION = 1e-6
MOST_STEPS = 100

Marked = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Rows, and models that are pulled with these strengths [B, P], alike in the parameters that are marked [P]."""

    loss: Loss
    rows: Design
    strengths: Floats
    alike: Marked
    products: Floats  # X X' of the columns that are pulled alike [n, n]

    @classmethod
    def of(cls, loss: Loss, rows: Design, strengths: Floats, alike: Marked) -> "RowSpace":
        own = rows.X[:, alike]
        return cls(loss, rows, strengths, alike, own @ own.T)

    def minimisers(self, centres: Floats, starts: Floats | None) -> Floats:
        """The minimisers [B, P] for these centres, searched from the margins of `starts`, or from the centres."""
        base = centres @ self.rows.X.T
        a = np.zeros_like(base) if starts is None else self._begin(base, starts @ self.rows.X.T)
        raised, left = self._raised(a, slice(None)), np.arange(len(a))
        value = self._cost(base + raised) + 0.5 * np.sum(a * raised, axis=1)
        for _ in range(MOST_STEPS):
            step, lift, fall = self._step(base[left] + raised[left], a[left], left)
            length = self._length(base[left] + raised[left], a[left], raised[left], step, lift, fall, value[left])
            a[left] += length[:, None] * step
            raised[left] += length[:, None] * lift
            value[left] = self._cost(base[left] + raised[left]) + 0.5 * np.sum(a[left] * raised[left], axis=1)
            left = left[(fall > PRECISION * (np.abs(value[left]) + 1e-300)) & (length > 0)]
            if not left.size:
                break
        return np.asarray(centres + a @ self.rows.X / self.strengths)

    def _begin(self, base: Floats, margins: Floats) -> Floats:
        """Where Newton's method goes from margins [B, n] that no a need have; nothing where that costs more than the
        centres do."""
        root = self._roots(margins)
        wanted = root**2 * (margins - base) - self._slopes(margins)
        a = wanted - root * self._solved(root, root * self._raised(wanted, slice(None)), np.arange(len(base)))
        raised = self._raised(a, slice(None))
        better = self._cost(base + raised) + 0.5 * np.sum(a * raised, axis=1) < self._cost(base)
        return np.where(better[:, None], a, 0.0)

    def _step(self, margins: Floats, a: Floats, models: Places) -> tuple[Floats, Floats, Floats]:
        """(Newton's step, what it adds to margins, twice what it should save) of models [b, n]."""
        root, rest = self._roots(margins), self._slopes(margins) + a
        step = root * self._solved(root, root * self._raised(rest, models), models) - rest
        lift = self._raised(step, models)
        return step, lift, -np.sum(rest * lift, axis=1)

    def _solved(self, root: Floats, towards: Floats, models: Places) -> Floats:
        """B^-1 `towards` of models [b, n], whose curvatures have these roots."""
        found, own = np.empty_like(towards), self.rows.X[:, ~self.alike]
        for place, model in enumerate(models):
            strength = self.strengths[model]
            scaled = root[place] / np.sqrt(strength.max())
            matrix = self.products * scaled
            matrix *= scaled[:, None]
            for apart in (root[place][:, None] * own / np.sqrt(strength[~self.alike])).T:  # an intercept, as a rule
                matrix += apart[:, None] * apart
            matrix.flat[:: len(scaled) + 1] += 1.0
            factor = cho_factor(matrix.T, overwrite_a=True, check_finite=False)  # as LAPACK lays it out: no copy
            found[place] = cho_solve(factor, towards[place], check_finite=False)
        return found

    def _length(
        self, margins: Floats, a: Floats, raised: Floats, step: Floats, lift: Floats, fall: Floats, value: Floats
    ) -> Floats:
        """As much of each step as makes the cost fall: halves of it are tried in turn; 0 where rounding leaves nothing
        to gain."""
        length = np.ones(len(a))
        for _ in range(60):
            moved, lifted = a + length[:, None] * step, length[:, None] * lift
            there = self._cost(margins + lifted) + 0.5 * np.sum(moved * (raised + lifted), axis=1)
            short = ~(there <= value - 1e-4 * length * fall + 1e-15 * np.abs(value))
            if not short.any():
                return length
            length[short] /= 2
        length[short] = 0.0
        return length

    def _raised(self, a: Floats, models: Places | slice) -> Floats:
        """K a, what margins gain by a [b, n]."""
        own, strengths = self.rows.X[:, ~self.alike], self.strengths[models]
        return np.asarray(
            a @ self.products / strengths.max(axis=1, keepdims=True) + (a @ own / strengths[:, ~self.alike]) @ own.T
        )

    def _cost(self, margins: Floats) -> Floats:
        return np.asarray(self.loss.loss(margins, self.rows.y) @ self._share)

    def _slopes(self, margins: Floats) -> Floats:
        """Derivatives of the mean loss by margins [b, n]."""
        return self.loss.gradient(margins.copy(), self.rows.y) * self._share

    def _roots(self, margins: Floats) -> Floats:
        """Of the curvatures of the mean loss by margins [b, n]."""
        return np.asarray(np.sqrt(self.loss.hessian(margins, self.rows.y) * self._share))

    @property
    def _share(self) -> Floats:
        return self.rows.weight / len(self.rows)
