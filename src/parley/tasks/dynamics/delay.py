"""The continuous plant behind sampled matrices: A by the logarithm, then B and the delay from the input blocks (Z
section 9.4.2)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import expm, logm
from scipy.optimize import minimize_scalar

from parley.errors import DataError
from parley.tasks.dynamics.plant import Numbers, Plant, input_blocks, transition
from parley.tasks.dynamics.regression import Regression
from parley.validate import Floats

STEP = 1e-30  # of the complex derivative: exact to rounding, since nothing is subtracted
TINY = 1e-300
INACCURATE = 1e-6  # of a matrix, by which the exponential of its logarithm may miss it
# of a period: refined delays keep this far from the kinks at whole periods, where the model has no derivative
EDGE = 1e-9


def continuous(A_d: Floats, period: float) -> Floats:
    """A with e^(A period) = A_d and the imaginary parts of its eigenvalues within +- pi / period.

    It is real and the only one where no eigenvalue of A_d is zero or negative (Culver 1966); faster oscillations than
    half the sampling rate cannot be seen in samples at all.
    """
    eigenvalues = np.linalg.eigvals(A_d)
    if (np.abs(eigenvalues) < 1e-12).any():
        raise DataError(
            "a state forgets its past within one period, so its dynamics in continuous time cannot be told: sample "
            "faster, or keep fewer modes (`rank`)"
        )
    if ((np.abs(eigenvalues.imag) < 1e-12 * np.abs(eigenvalues)) & (eigenvalues.real < 0)).any():
        raise DataError(
            "the sampled plant has a negative eigenvalue, which no real continuous plant gives: sample faster, "
            "record more samples, or keep fewer modes (`rank`)"
        )
    with warnings.catch_warnings():  # SciPy's own begin at 2e-13: whether one comes hangs on the machine's last bits
        warnings.simplefilter("ignore", RuntimeWarning)
        logarithm = np.asarray(np.real(logm(A_d)), dtype=float)
    if not np.abs(expm(logarithm) - A_d).max() <= INACCURATE * np.abs(A_d).max():
        raise DataError(
            "the sampled plant has no logarithm that can be computed, so its dynamics in continuous time cannot be "
            "told: sample faster, or keep fewer modes (`rank`)"
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
        """One standard error of each distinct delay."""
        n, m = self.plant.B.shape
        return np.sqrt(np.diag(self.covariance)[n * n + n * m :])


def identify(regression: Regression, period: float, common: bool = True) -> Identified:
    """The plant whose sampled form lies nearest to the regression's, in the regression's own norm.

    For each input (or all together, where the delay is `common`) every period is searched for the delay that suits the
    blocks best; then A, B and the delays are refined together, in that period and, where a delay lies near its edge, in
    the neighbouring one.
    """
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
    """The periods in which the delay may really lie."""
    near = {int(np.clip(np.floor(delay + shift), 0, lags - 1)) for shift in (-0.15, 0.0, 0.15)}
    return sorted(near)


def _search(A: Floats, columns: Floats, period: float) -> tuple[float, Floats]:
    """The delay that these blocks [lags + 1, n, m] suit best with A as it is, and B [n, m] for it."""
    identity = np.eye(len(A))
    _, whole_period = transition(A, identity, period)

    def suit(w: int, fraction: float) -> tuple[float, Floats]:
        _, newer = transition(A, identity, (1 - fraction) * period)
        stack = np.vstack([newer, whole_period - newer])
        seen = columns[w : w + 2].reshape(-1, columns.shape[2])
        B = np.linalg.lstsq(stack, seen, rcond=None)[0]
        rest = (columns**2).sum() - (seen**2).sum()
        return float(rest + ((seen - stack @ B) ** 2).sum()), B

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
    """Gauss-Newton over A, B and the distinct delays, each kept within its period, from a start that the search
    found."""
    n, m = B.shape
    cut = n * n + n * m
    low, high = (whole + EDGE) * period, (whole + 1 - EDGE) * period

    def coefficients(theta: Numbers) -> Numbers:
        a, b = theta[: n * n].reshape(n, n), theta[n * n : cut].reshape(n, m)
        with np.errstate(all="ignore"):  # a step too far may overflow; it is not taken
            return np.hstack(input_blocks(a, b, np.broadcast_to(theta[cut:], (m,)), period, regression.layout.lags))

    def weighted(difference: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(regression.whitening @ difference.reshape(-1))

    def derivatives(theta: Floats) -> list[Floats]:
        return [coefficients(theta + 1j * STEP * unit).imag / STEP for unit in np.eye(len(theta))]

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
            1 - _square(change) / max(_square(residual), TINY),
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
    """Least squares with columns of length one: A, B and delays come in different units."""
    lengths = np.linalg.norm(jacobian, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.linalg.lstsq(jacobian / lengths, residual, rcond=None)[0] / lengths)


def _covariance(regression: Regression, fit: _Fit) -> Floats:
    """Of (A, B, delays): the coefficients' covariance carried through the weighted least squares."""
    pull = np.linalg.pinv(regression.whitening @ fit.jacobian) @ regression.whitening
    return np.asarray(pull @ regression.covariance @ pull.T)
