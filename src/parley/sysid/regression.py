"""From trajectories to A_d and the input blocks: one regression of the next state on this state and the last inputs (Z eq. 9.19-9.21)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import DataError
from parley.validate import Floats

# Below this ratio of singular values (columns scaled to length one) rounding alone leaves the coefficients fewer than four digits.
RICH = 1e-12


@dataclass(frozen=True)
class Layout:
    """The columns of a row of moments: u[k] ... u[k-lags-1], x[k-1], x[k], x[k+1].

    The instruments come first: a triangular factor of such rows then holds their projections (`Regression.of`).
    """

    states: int
    inputs: int
    lags: int

    @property
    def held(self) -> int:
        """The inputs that the next state may depend on: u[k] ... u[k-lags]."""
        return self.inputs * (self.lags + 1)

    @property
    def instruments(self) -> int:
        """u[k] ... u[k-lags-1] and x[k-1]."""
        return self.inputs * (self.lags + 2) + self.states

    @property
    def width(self) -> int:
        return self.instruments + 2 * self.states

    @property
    def regressors(self) -> list[int]:
        """The columns of x[k], u[k] ... u[k-lags]."""
        return [*range(self.instruments, self.instruments + self.states), *range(self.held)]

    @property
    def regressors_before(self) -> list[int]:
        """The columns of x[k-1], u[k-1] ... u[k-lags-1]."""
        first = self.instruments - self.states
        return [*range(first, first + self.states), *range(self.inputs, self.inputs + self.held)]

    def rows(self, states: Floats, inputs: Floats) -> Floats:
        """The rows [samples - lags - 2, width] of one trajectory (none where it is too short)."""
        first, last = self.lags + 1, len(states) - 1
        if last <= first:
            return np.empty((0, self.width))
        held = [inputs[first - j : last - j] for j in range(self.lags + 2)]
        return np.hstack([*held, states[first - 1 : last - 1], states[first:last], states[first + 1 : last + 1]])


def trajectories(states: ArrayLike | Sequence[ArrayLike], inputs: ArrayLike | Sequence[ArrayLike]) -> list[tuple[Floats, Floats]]:
    """Pairs (states [samples, n], inputs [samples, m]) of one trajectory or a list of them, checked."""
    several = isinstance(states, list | tuple) and np.ndim(states[0]) == 2
    pairs = list(zip(states, inputs, strict=True)) if several else [(states, inputs)]  # type: ignore[arg-type]
    checked = []
    for number, (x, u) in enumerate(pairs, 1):
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        if x.ndim != 2 or u.ndim != 2 or len(x) != len(u):
            raise DataError(
                f"trajectory {number}: states {x.shape} and inputs {u.shape} must be [samples, n] and [samples, m] of equal length"
            )
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            raise DataError(f"trajectory {number} holds NaN or infinity: drop those samples or split the trajectory there")
        checked.append((x, u))
    if len({(x.shape[1], u.shape[1]) for x, u in checked}) != 1:
        raise DataError("the trajectories have different numbers of states or inputs")
    return checked


def triangular(rows: Floats) -> Floats:
    """The triangular factor R of rows = Q R: all that a regression needs of them, at the precision of the rows themselves."""
    return np.linalg.qr(rows, mode="r")  # type: ignore[return-value, unused-ignore]


@dataclass(frozen=True, eq=False)
class Regression:
    """x[k+1] = F (x[k], u[k], ..., u[k-lags]) with F = `coefficients` [n, n + held].

    `weight` is a triangular factor of the regressors' moments: the coefficients that suit the data nearly as well are those near F in
    the norm |weight (F - F')^T|. `covariance` [n (n + held), same] is that of the coefficients, row by row.
    """

    layout: Layout
    coefficients: Floats
    weight: Floats
    covariance: Floats
    noise: Floats  # covariance of the residuals [n, n]

    @classmethod
    def of(cls, layout: Layout, factor: Floats, rows: int, instruments: bool = True) -> "Regression":
        """Two-stage least squares with the state before as instrument, or plain least squares, from a triangular factor of `rows` rows.

        Measured states carry noise of their own, so that plain least squares is biased: noise in x[k] pulls A_d towards zero. The noise of
        x[k-1] has nothing to do with that of x[k] and x[k+1], whether the noise is in the measurement or drives the plant, so that with
        x[k-1] and the inputs as instruments the estimate is consistent for either; without noise both are exact.
        """
        require_enough(layout, rows)
        known = (
            factor[: layout.instruments] if instruments else factor
        )  # the first rows of the factor: what the instruments explain
        design, target = known[:, layout.regressors], known[:, -layout.states :]
        require_rich(design)
        coefficients = np.asarray(np.linalg.lstsq(design, target, rcond=None)[0].T, dtype=float)
        weight = triangular(design)
        degrees = max(rows - weight.shape[1], 1)
        now, before = _residuals(layout, factor, coefficients)
        noise, neighbours = now.T @ now / degrees, now.T @ before / degrees
        shifted = design.T @ known[:, layout.regressors_before]
        return cls(layout, coefficients, weight, _sandwich(noise, neighbours, weight, shifted), noise)

    @property
    def A_d(self) -> Floats:  # noqa: N802 - the field's name
        return self.coefficients[:, : self.layout.states]

    @property
    def blocks(self) -> Floats:
        return self.coefficients[:, self.layout.states :]


def _residuals(layout: Layout, factor: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    """Residuals of x[k+1] and of x[k], in the coordinates of the factor's rows."""
    now = factor[:, -layout.states :] - factor[:, layout.regressors] @ coefficients.T
    before = factor[:, -2 * layout.states : -layout.states] - factor[:, layout.regressors_before] @ coefficients.T
    return now, before


def _sandwich(noise: Floats, neighbours: Floats, weight: Floats, shifted: Floats) -> Floats:
    """Covariance of the coefficients, row by row.

    Noise of measurement makes neighbouring residuals e[k+1] - A e[k] and e[k] - A e[k-1] dependent, so the products at distance one
    count, too: sum over distances of (covariance of residuals) x (products of the regressors).
    """
    middle = np.kron(noise, weight.T @ weight) + np.kron(neighbours, shifted) + np.kron(neighbours.T, shifted.T)
    inverse = np.linalg.inv(weight)
    bread = np.kron(np.eye(len(noise)), inverse @ inverse.T)
    covariance = bread @ middle @ bread
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)  # a sum cut after distance one may dip below zero
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def require_enough(layout: Layout, rows: int) -> None:
    """Refuse fewer rows than unknowns."""
    unknowns = layout.states + layout.held
    if rows < unknowns + layout.states + layout.inputs:
        raise DataError(
            f"{rows} samples with {layout.lags + 1} inputs before them cannot determine {unknowns} coefficients of each state: "
            f"record at least {unknowns + layout.states + layout.inputs + layout.lags + 2} samples, or lower the largest delay"
        )


def require_rich(design: Floats) -> None:
    """Refuse inputs that left coefficients undetermined (Z section 9.4.1: the data matrix must have full rank)."""
    lengths = np.linalg.norm(design, axis=0)
    scaled = design / np.where(lengths > 0, lengths, 1.0)
    values = np.linalg.svd(scaled, compute_uv=False)
    rank = int((values > RICH * values[0]).sum())
    if rank < design.shape[1]:
        condition = "infinite" if not values[-1] > 0 else f"{values[0] / values[-1]:.1e}"
        raise DataError(
            f"the input was not rich enough: the data matrix has rank {rank} of {design.shape[1]} (condition {condition}); drive every "
            "input with noise or with several frequencies of its own, or lower the largest delay"
        )
