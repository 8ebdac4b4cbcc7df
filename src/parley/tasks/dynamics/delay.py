"""From trajectories to the plant: A_d and the input blocks by one regression (Z eq. 9.19-9.21), then A by the
logarithm, B and the delay (Z section 9.4.2)."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm, logm
from scipy.optimize import minimize_scalar

from parley.errors import DataError
from parley.tasks.dynamics.plant import Numbers, Plant, input_blocks, transition
from parley.validate import Floats

# Below this ratio of singular values (columns scaled to length one) rounding alone leaves the coefficients three digits
# or fewer.
MIN_SINGULAR_RATIO = 1e-13


@dataclass(frozen=True)
class Layout:
    """The columns of a row of moments: instruments u[k] ... u[k-lags-1] and x[k-1] first, then x[k] and x[k+1]."""

    states: int
    inputs: int
    lags: int

    @property
    def held(self) -> int:
        """The number of inputs that the next state may depend on: u[k] ... u[k-lags]."""
        return self.inputs * (self.lags + 1)

    @property
    def instruments(self) -> int:
        """The number of columns u[k] ... u[k-lags-1] and x[k-1]."""
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
        """Return the rows [samples - lags - 2, width] of one trajectory; none if it is too short."""
        first, last = self.lags + 1, len(states) - 1
        if last <= first:
            return np.empty((0, self.width))
        held = [inputs[first - j : last - j] for j in range(self.lags + 2)]
        return np.hstack([*held, states[first - 1 : last - 1], states[first:last], states[first + 1 : last + 1]])


def trajectories(
    states: ArrayLike | Sequence[ArrayLike], inputs: ArrayLike | Sequence[ArrayLike]
) -> list[tuple[Floats, Floats]]:
    """Return checked pairs (states [samples, n], inputs [samples, m]) of one trajectory or a list of them."""
    several = isinstance(states, list | tuple) and np.ndim(states[0]) == 2
    pairs = list(zip(states, inputs, strict=True)) if several else [(states, inputs)]  # type: ignore[arg-type]
    checked = []
    for number, (x, u) in enumerate(pairs, 1):
        x, u = np.asarray(x, dtype=float), np.asarray(u, dtype=float)
        if x.ndim != 2 or u.ndim != 2 or len(x) != len(u):
            raise DataError(
                f"trajectory {number}: expected states [samples, n] and inputs [samples, m] of equal length, found "
                f"shapes {x.shape} and {u.shape}"
            )
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            raise DataError(
                f"trajectory {number} contains NaN or infinity: drop the samples with these values, or split the "
                "trajectory at them"
            )
        checked.append((x, u))
    if len({(x.shape[1], u.shape[1]) for x, u in checked}) != 1:
        raise DataError(
            "the trajectories have different numbers of states or inputs; give all trajectories the same columns"
        )
    return checked


def triangular(rows: Floats) -> Floats:
    """Return R of rows = Q R: all that a regression needs, at the rows' own precision."""
    return np.linalg.qr(rows, mode="r")  # type: ignore[return-value, unused-ignore]


def factor_of(layout: Layout, moments: Floats, lift: float = 0.0) -> Floats:
    """Return a factor of second moments [width, width] that noise may have made indefinite. Eigenvalues of the
    instruments' moments are raised to at least `lift`; negative parts of what they do not explain become 0."""
    z = layout.instruments
    values, vectors = np.linalg.eigh(moments[:z, :z])
    values = np.maximum(values, max(lift, 1e-14 * float(values[-1])))
    explained = (vectors / np.sqrt(values)).T @ moments[:z]
    explained[:, :z] = (vectors * np.sqrt(values)).T
    residual_moments = moments[z:, z:] - explained[:, z:].T @ explained[:, z:]
    spread, directions = np.linalg.eigh(residual_moments)
    unexplained = (directions * np.sqrt(np.maximum(spread, 0.0))).T
    return np.vstack([explained, np.hstack([np.zeros((len(residual_moments), z)), unexplained])])


@dataclass(frozen=True, eq=False)
class Regression:
    """x[k+1] = F (x[k], u[k], ..., u[k-lags]) with F = `coefficients` [n, n + held]. `covariance` [n (n + held), same]
    is theirs, row by row; |whitening vec(F - F')| is the distance of other coefficients from the data."""

    layout: Layout
    coefficients: Floats
    covariance: Floats
    whitening: Floats

    @classmethod
    def from_factor(
        cls,
        layout: Layout,
        factor: Floats,
        rows: float,
        instruments: bool = True,
        noise: Callable[[Floats, Floats], Floats] | None = None,
    ) -> "Regression":
        """Fit by two-stage least squares, or by plain least squares, from a factor of the moments of `rows` rows.

        Noise in measured x[k] biases plain least squares: it pulls A_d towards zero. The noise of x[k-1] is independent
        of that of x[k] and x[k+1], so the instruments x[k-1] and inputs give a consistent estimate for noise in
        measurements or plant. `noise` returns the covariance that noise in the moments adds, given the coefficients and
        the matrix [n + held, instruments] that maps changed moments of instruments with residuals to coefficients.
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
    """Return the residuals' covariance up to a factor, kept nonsingular; without noise all states weigh alike."""
    size = float(np.trace(spread)) / len(spread)
    return np.eye(len(spread)) if not size > 0 else spread / size + 1e-6 * np.eye(len(spread))


def _inverse_root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T)


def _residuals(layout: Layout, factor: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    now = factor[:, -layout.states :] - factor[:, layout.regressors] @ coefficients.T
    before = factor[:, -2 * layout.states : -layout.states] - factor[:, layout.regressors_before] @ coefficients.T
    return now, before


def _sandwich(spread: Floats, neighbours: Floats, weight: Floats, shifted: Floats) -> Floats:
    """Return the covariance of the coefficients, row by row. Measurement noise makes residuals e[k+1] - A e[k] and e[k]
    - A e[k-1] dependent, so it sums (residual covariance) x (regressor products) over distances 0 and 1."""
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
            f"{rows:.0f} samples, each with {layout.lags + 1} earlier inputs, cannot determine {unknowns} coefficients "
            f"of each state. Record at least {unknowns + layout.states + layout.inputs + layout.lags + 2} samples, or "
            "lower the largest delay"
        )


def require_rich(design: Floats) -> None:
    """Refuse inputs that leave coefficients undetermined: the data matrix must have full rank (Z section 9.4.1)."""
    lengths = np.linalg.norm(design, axis=0)
    scaled = design / np.where(lengths > 0, lengths, 1.0)
    values = np.linalg.svd(scaled, compute_uv=False)
    rank = int((values > MIN_SINGULAR_RATIO * values[0]).sum())
    if rank < design.shape[1]:
        condition = "infinite" if not values[-1] > 0 else f"{values[0] / values[-1]:.1e}"
        raise DataError(
            f"the inputs vary too little: the data matrix has rank {rank} of {design.shape[1]} (condition "
            f"{condition}). Drive every input with noise or with its own frequencies, or lower the largest delay"
        )


COMPLEX_STEP = 1e-30  # of the complex derivative: exact to rounding, since nothing is subtracted
MIN_SQUARED_RESIDUAL = 1e-300
MAX_LOGARITHM_ERROR = 1e-6  # of a matrix, by which the exponential of its logarithm may miss it
# of a period: refined delays keep this far from the kinks at whole periods, where the model has no derivative
KINK_MARGIN = 1e-9


def continuous(A_d: Floats, period: float) -> Floats:
    """Return A with e^(A period) = A_d and imaginary parts of its eigenvalues within +- pi / period. It is real and
    unique if no eigenvalue of A_d is zero or negative (Culver 1966); faster oscillations do not show in samples."""
    eigenvalues = np.linalg.eigvals(A_d)
    if (np.abs(eigenvalues) < 1e-12).any():
        raise DataError(
            "the sampled plant has an eigenvalue of 0, so its continuous-time dynamics cannot be determined: sample "
            "faster, or keep fewer modes (`rank`)"
        )
    if ((np.abs(eigenvalues.imag) < 1e-12 * np.abs(eigenvalues)) & (eigenvalues.real < 0)).any():
        raise DataError(
            "the sampled plant has a negative eigenvalue, which no real continuous-time plant has: sample faster, "
            "record more samples, or keep fewer modes (`rank`)"
        )
    with warnings.catch_warnings():  # SciPy's own begin at 2e-13: whether one comes depends on the machine's last bits
        warnings.simplefilter("ignore", RuntimeWarning)
        logarithm = np.asarray(np.real(logm(A_d)), dtype=float)
    if not np.abs(expm(logarithm) - A_d).max() <= MAX_LOGARITHM_ERROR * np.abs(A_d).max():
        raise DataError(
            "Parley cannot compute the logarithm of the sampled plant's matrix, so the continuous-time dynamics are "
            "unknown: sample faster, or keep fewer modes (`rank`)"
        )
    return logarithm / period


@dataclass(frozen=True, eq=False)
class Identified:
    """A plant and the covariance of (A, B, distinct delays), row by row."""

    plant: Plant
    covariance: Floats
    misfit: float  # what the plant's structure does not explain, in the regression's norm

    @property
    def delay_std(self) -> Floats:
        """The standard error of each distinct delay."""
        n, m = self.plant.B.shape
        return np.sqrt(np.diag(self.covariance)[n * n + n * m :])


def identify(regression: Regression, period: float, common: bool = True) -> Identified:
    """Return the plant whose sampled form is nearest to the regression, in the regression's own norm. Every period is
    searched for the best delay of each input (or of all, if `common`). Then A, B and delays are refined together, near
    an edge in both periods."""
    layout = regression.layout
    A = continuous(regression.A_d, period)
    columns = regression.blocks.reshape(layout.states, layout.lags + 1, layout.inputs).transpose(1, 0, 2)
    groups = [columns] if common else [columns[:, :, i : i + 1] for i in range(layout.inputs)]
    searched = [_search(A, group, period) for group in groups]
    B = np.hstack([found[1] for found in searched])
    delays = np.array([found[0] for found in searched])
    fits = [
        _refine(regression, A, B, delays, np.array(w), period)
        for w in product(*(_periods(r / period, layout.lags) for r in delays))
    ]
    best = min(fits, key=lambda fit: fit.misfit)
    return Identified(best.plant, _covariance(regression, best), best.misfit)


def _periods(delay: float, lags: int) -> Sequence[int]:
    """Return the periods in which the delay may lie."""
    near = {int(np.clip(np.floor(delay + shift), 0, lags - 1)) for shift in (-0.15, 0.0, 0.15)}
    return sorted(near)


def _search(A: Floats, columns: Floats, period: float) -> tuple[float, Floats]:
    """Return the best delay for these blocks [lags + 1, n, m] at fixed A, and B [n, m] for it."""
    identity = np.eye(len(A))
    _, whole_period = transition(A, identity, period)

    def suit(w: int, fraction: float) -> tuple[float, Floats]:
        _, newer = transition(A, identity, (1 - fraction) * period)
        stack = np.vstack([newer, whole_period - newer])
        seen = columns[w : w + 2].reshape(-1, columns.shape[2])
        B = np.linalg.lstsq(stack, seen, rcond=None)[0]
        unexplained = (columns**2).sum() - (seen**2).sum()
        return float(unexplained + ((seen - stack @ B) ** 2).sum()), B

    best = []
    for w in range(len(columns) - 1):
        grid = np.linspace(0, 1, 9)
        at = int(np.argmin([suit(w, f)[0] for f in grid]))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 8)]
        fraction = float(
            minimize_scalar(
                lambda f, w=w: suit(w, f)[0], bounds=(low, high), method="bounded", options={"xatol": 1e-10}
            ).x
        )
        best.append((*suit(w, fraction), (w + fraction) * period))
    _, B, delay = min(best, key=lambda found: found[0])
    return delay, B


@dataclass(frozen=True, eq=False)
class _Fit:
    plant: Plant
    misfit: float
    jacobian: Floats  # of the coefficients, row by row, in (A, B, delays)


def _refine(regression: Regression, A: Floats, B: Floats, delays: Floats, whole: Floats, period: float) -> _Fit:
    """Gauss-Newton over A, B and the distinct delays, each kept within its period."""
    n, m = B.shape
    cut = n * n + n * m
    low, high = (whole + KINK_MARGIN) * period, (whole + 1 - KINK_MARGIN) * period

    def coefficients(theta: Numbers) -> Numbers:
        a, b = theta[: n * n].reshape(n, n), theta[n * n : cut].reshape(n, m)
        with np.errstate(all="ignore"):  # a step too far may overflow; it is not taken
            return np.hstack(input_blocks(a, b, np.broadcast_to(theta[cut:], (m,)), period, regression.layout.lags))

    def weighted(difference: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(regression.whitening @ difference.reshape(-1))

    def derivatives(theta: Floats) -> list[Floats]:
        return [coefficients(theta + 1j * COMPLEX_STEP * unit).imag / COMPLEX_STEP for unit in np.eye(len(theta))]

    theta = np.concatenate([A.reshape(-1), B.reshape(-1), np.clip(delays, low, high)])
    residual = weighted(coefficients(theta) - regression.coefficients)
    for _ in range(50):
        jacobian = np.column_stack([weighted(d) for d in derivatives(theta)])
        step = -_solve(jacobian, residual)
        stuck = (theta[cut:] + step[cut:] < low) & (theta[cut:] <= low) | (theta[cut:] + step[cut:] > high) & (
            theta[cut:] >= high
        )
        if stuck.any():  # a delay at the edge of its period stays there; the others move as if it were known
            free = np.concatenate([np.ones(cut, dtype=bool), ~stuck])
            step = np.zeros_like(theta)
            step[free] = -_solve(jacobian[:, free], residual)
        for _ in range(30):
            trial = theta + step
            trial[cut:] = np.clip(trial[cut:], low, high)
            change = weighted(coefficients(trial) - regression.coefficients)
            if _square(change) <= residual @ residual:  # false for NaN
                break
            step = step / 2
        else:
            break
        moved, gained = (
            np.linalg.norm(trial - theta) / np.linalg.norm(theta),
            1 - _square(change) / max(_square(residual), MIN_SQUARED_RESIDUAL),
        )
        theta, residual = trial, change
        if moved < 1e-13 or gained < 1e-13:
            break
    jacobian = np.column_stack([d.reshape(-1) for d in derivatives(theta)])
    theta[cut:] = np.where(
        theta[cut:] <= low, whole * period, np.where(theta[cut:] >= high, (whole + 1) * period, theta[cut:])
    )
    plant = Plant(
        theta[: n * n].reshape(n, n), theta[n * n : cut].reshape(n, m), np.broadcast_to(theta[cut:], (m,)), period
    )
    return _Fit(plant, float(residual @ residual), jacobian)


def _square(vector: Floats) -> float:
    with np.errstate(all="ignore"):
        return float(vector @ vector)


def _solve(jacobian: Floats, residual: Floats) -> Floats:
    """Least squares with columns scaled to length one: A, B and delays have different units."""
    lengths = np.linalg.norm(jacobian, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.linalg.lstsq(jacobian / lengths, residual, rcond=None)[0] / lengths)


def _covariance(regression: Regression, fit: _Fit) -> Floats:
    """Return the covariance of (A, B, delays), propagated through the weighted least squares."""
    pull = np.linalg.pinv(regression.whitening @ fit.jacobian) @ regression.whitening
    return np.asarray(pull @ regression.covariance @ pull.T)
