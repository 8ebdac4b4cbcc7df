"""From trajectories to A_d and the input blocks: one regression of the next state on this state and the last inputs (Z
eq. 9.19-9.21)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import DataError
from parley.validate import Floats

# Below this ratio of singular values (columns scaled to length one) rounding alone leaves the coefficients three digits
# or fewer.
RICH = 1e-13


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


def trajectories(
    states: ArrayLike | Sequence[ArrayLike], inputs: ArrayLike | Sequence[ArrayLike]
) -> list[tuple[Floats, Floats]]:
    """Pairs (states [samples, n], inputs [samples, m]) of one trajectory or a list of them, checked."""
    several = isinstance(states, list | tuple) and np.ndim(states[0]) == 2
    pairs = list(zip(states, inputs, strict=True)) if several else [(states, inputs)]  # type: ignore[arg-type]
    checked = []
    for number, (x, u) in enumerate(pairs, 1):
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        if x.ndim != 2 or u.ndim != 2 or len(x) != len(u):
            raise DataError(
                f"trajectory {number}: states {x.shape} and inputs {u.shape} must be [samples, n] and [samples, m] of "
                f"equal length"
            )
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            raise DataError(
                f"trajectory {number} holds NaN or infinity: drop those samples or split the trajectory there"
            )
        checked.append((x, u))
    if len({(x.shape[1], u.shape[1]) for x, u in checked}) != 1:
        raise DataError("the trajectories have different numbers of states or inputs")
    return checked


def triangular(rows: Floats) -> Floats:
    """The triangular factor R of rows = Q R: all that a regression needs of them, at the precision of the rows
    themselves."""
    return np.linalg.qr(rows, mode="r")  # type: ignore[return-value, unused-ignore]


def factor_of(layout: Layout, moments: Floats, lift: float = 0.0) -> Floats:
    """The same from second moments [width, width], which noise may have made indefinite.

    Eigenvalues of the instruments' moments are first raised to `lift` at least; of what the instruments do not explain,
    which is noise alone, a negative part counts as none.
    """
    z = layout.instruments
    values, vectors = np.linalg.eigh(moments[:z, :z])
    values = np.maximum(values, max(lift, 1e-14 * float(values[-1])))
    explained = (vectors / np.sqrt(values)).T @ moments[:z]
    explained[:, :z] = (vectors * np.sqrt(values)).T
    rest = moments[z:, z:] - explained[:, z:].T @ explained[:, z:]
    spread, directions = np.linalg.eigh(rest)
    unexplained = (directions * np.sqrt(np.maximum(spread, 0.0))).T
    return np.vstack([explained, np.hstack([np.zeros((len(rest), z)), unexplained])])


@dataclass(frozen=True, eq=False)
class Regression:
    """x[k+1] = F (x[k], u[k], ..., u[k-lags]) with F = `coefficients` [n, n + held].

    `covariance` [n (n + held), same] is that of the coefficients, row by row. `whitening` measures how far other
    coefficients are from what the data say: |whitening vec(F - F')|.
    """

    layout: Layout
    coefficients: Floats
    covariance: Floats
    whitening: Floats

    @classmethod
    def of(
        cls,
        layout: Layout,
        factor: Floats,
        rows: float,
        instruments: bool = True,
        noise: Callable[[Floats, Floats], Floats] | None = None,
    ) -> "Regression":
        """Two-stage least squares with the state before as instrument, or plain least squares, from a factor of the
        moments of `rows` rows.

        Measured states carry noise of their own, so that plain least squares is biased: noise in x[k] pulls A_d towards
        zero. The noise of x[k-1] has nothing to do with that of x[k] and x[k+1], whether the noise is in the
        measurement or drives the plant, so that with x[k-1] and the inputs as instruments the estimate is consistent
        for either; without noise both are exact.

        `noise` is the covariance that noise in the moments themselves adds, given the coefficients and the matrix [n +
        held, instruments] that carries a change of the instruments' moments with the residuals to the coefficients.
        """
        require_enough(layout, rows)
        # the first rows of the factor: what the instruments explain
        known = factor[: layout.instruments] if instruments else factor
        design, target = known[:, layout.regressors], known[:, -layout.states :]
        require_rich(design)
        coefficients = np.asarray(np.linalg.lstsq(design, target, rcond=None)[0].T, dtype=float)
        weight = triangular(design)
        degrees = max(rows - weight.shape[1], 1.0)
        now, before = _residuals(layout, factor, coefficients)
        spread, neighbours = now.T @ now / degrees, now.T @ before / degrees
        covariance = _sandwich(spread, neighbours, weight, design.T @ known[:, layout.regressors_before])
        if noise is None:
            whitening = np.asarray(np.kron(np.linalg.cholesky(np.linalg.inv(_shape(spread))).T, weight), dtype=float)
            return cls(layout, coefficients, covariance, whitening)
        carried = np.linalg.pinv(design) @ np.linalg.inv(factor[: layout.instruments, : layout.instruments]).T
        covariance = covariance + noise(coefficients, carried)
        return cls(layout, coefficients, covariance, _inverse_root(covariance))

    @property
    def A_d(self) -> Floats:  # noqa: N802 - the field's name
        return self.coefficients[:, : self.layout.states]

    @property
    def blocks(self) -> Floats:
        return self.coefficients[:, self.layout.states :]


def _shape(spread: Floats) -> Floats:
    """The residuals' covariance up to a factor, kept away from singular; without noise all states weigh alike."""
    size = float(np.trace(spread)) / len(spread)
    return np.eye(len(spread)) if not size > 0 else spread / size + 1e-6 * np.eye(len(spread))


def _inverse_root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T)


def _residuals(layout: Layout, factor: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    """Residuals of x[k+1] and of x[k], in the coordinates of the factor's rows."""
    now = factor[:, -layout.states :] - factor[:, layout.regressors] @ coefficients.T
    before = factor[:, -2 * layout.states : -layout.states] - factor[:, layout.regressors_before] @ coefficients.T
    return now, before


def _sandwich(spread: Floats, neighbours: Floats, weight: Floats, shifted: Floats) -> Floats:
    """Covariance of the coefficients, row by row.

    Noise of measurement makes neighbouring residuals e[k+1] - A e[k] and e[k] - A e[k-1] dependent, so the products at
    distance one count, too: sum over distances of (covariance of residuals) x (products of the regressors).
    """
    middle = np.kron(spread, weight.T @ weight) + np.kron(neighbours, shifted) + np.kron(neighbours.T, shifted.T)
    inverse = np.linalg.inv(weight)
    bread = np.kron(np.eye(len(spread)), inverse @ inverse.T)
    covariance = bread @ middle @ bread
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)  # a sum cut after distance one may dip below zero
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def require_enough(layout: Layout, rows: float) -> None:
    """Refuse fewer rows than unknowns."""
    unknowns = layout.states + layout.held
    if rows < unknowns + layout.states + layout.inputs:
        raise DataError(
            f"{rows:.0f} samples with {layout.lags + 1} inputs before them cannot determine {unknowns} coefficients "
            f"of each state: record at least {unknowns + layout.states + layout.inputs + layout.lags + 2} samples, "
            "or lower the largest delay"
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
            f"the input was not rich enough: the data matrix has rank {rank} of {design.shape[1]} (condition "
            f"{condition}); drive every input with noise or with several frequencies of its own, or lower the "
            "largest delay"
        )
