"""Dynamic mode decomposition, with control (Z eq. 9.4-9.11) and with delayed inputs (DMDidc, Z chapter 9)."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from parley.errors import SettingError
from parley.tasks.dynamics.delay import (
    Layout,
    Regression,
    identify,
    require_enough,
    require_rich,
    trajectories,
    triangular,
)
from parley.validate import Floats, positive, whole


class DelayedDMD(BaseEstimator):  # type: ignore[misc]
    """Find A, B and the delay r of x' = A x + B u(t - r) from samples of its states and inputs.

    Parameters
    ----------
    max_delay
        The longest delay considered, in whole sampling periods.
    rank
        Keeps only this many leading modes; `A_` and `B_` then act on the coordinates `modes_`.T @ x.
    delays
        "each" gives every input its own delay.
    method
        "instruments" is consistent with white noise in measurements and plant; "least-squares" is Z's regression, which
        measurement noise biases.

    Examples
    --------
    >>> from parley.tasks.dynamics import Plant
    >>> rotor = Plant.of([[0, 1.1], [-1.1, 0]], [[1, -1], [-1, 2]], delay=2.5, period=2)
    >>> inputs = np.random.default_rng(1).normal(size=(60, 2))
    >>> found = DelayedDMD(max_delay=3).fit(rotor.simulate([0, 0], inputs)[:-1], inputs, period=2)
    >>> round(found.delay_, 9), found.B_.round(9).tolist()
    (2.5, [[1.0, -1.0], [-1.0, 2.0]])
    """

    def __init__(
        self, max_delay: int, rank: int | None = None, delays: str = "common", method: str = "instruments"
    ) -> None:
        self.max_delay = max_delay
        self.rank = rank
        self.delays = delays
        self.method = method

    def fit(self, states: ArrayLike, inputs: ArrayLike, period: float) -> Self:
        """Fit states [samples, n] and the inputs [samples, m] held after each sample, or lists of such."""
        if self.delays not in ("common", "each"):
            raise SettingError(f"delays = {self.delays!r}: expected 'common' or 'each'")
        if self.method not in ("instruments", "least-squares"):
            raise SettingError(f"method = {self.method!r}: expected 'instruments' or 'least-squares'")
        lags, period = whole(self.max_delay, "max_delay"), positive(period, "period")
        pairs = trajectories(states, inputs)
        self.modes_ = leading_modes(np.concatenate([x for x, _ in pairs]), self.rank)
        pairs = [(x @ self.modes_, u) for x, u in pairs]
        layout = Layout(self.modes_.shape[1], pairs[0][1].shape[1], lags)
        if not layout.inputs:
            raise SettingError("without inputs there is no delay to find: use DMD")
        rows = np.concatenate([layout.rows(x, u) for x, u in pairs])
        require_enough(layout, len(rows))
        regression = Regression.from_factor(layout, triangular(rows), len(rows), self.method == "instruments")
        return self._keep(regression, period)

    def _keep(self, regression: Regression, period: float) -> Self:
        common = self.delays == "common"
        identified = identify(regression, period, common)
        self.period_ = period
        self.plant_ = identified.plant
        self.A_, self.B_ = identified.plant.A, identified.plant.B
        self.Ad_, blocks = identified.plant.sampled(regression.layout.lags)
        m = regression.layout.inputs
        self.input_blocks_ = blocks.reshape(len(self.A_), -1, m).transpose(1, 0, 2)  # [max_delay + 1, n, m]
        self.regression_ = regression
        self.covariance_ = identified.covariance
        self.delay_: float | Floats = float(identified.plant.delays[0]) if common else identified.plant.delays
        self.delay_std_: float | Floats = float(identified.delay_std[0]) if common else identified.delay_std
        return self

    def delay_interval(self, level: float = 0.9) -> tuple[float | Floats, float | Floats]:
        """Return the delay's confidence interval by the normal law, cut at 0 and `max_delay`."""
        if not 0 < level < 1:
            raise SettingError(f"level = {level!r}: expected a number between 0 and 1")
        reach = ndtri((1 + level) / 2) * np.asarray(self.delay_std_)
        low = np.maximum(self.delay_ - reach, 0.0)
        high = np.minimum(self.delay_ + reach, self.max_delay * self.period_)
        return (float(low), float(high)) if self.delays == "common" else (low, high)

    def predict(self, states: ArrayLike, inputs: ArrayLike) -> Floats:
        """Predict one step ahead: row k is sample max_delay + k + 1, from the samples before it."""
        ((x, u),) = trajectories(states, inputs)
        lags = self.max_delay
        held = np.stack([u[lags - j : len(u) - j] for j in range(lags + 1)])  # [lags + 1, rows, m]
        moved = x[lags:] @ self.modes_ @ self.Ad_.T + np.einsum("jnm,jrm->rn", self.input_blocks_, held)
        return np.asarray(moved @ self.modes_.T)

    def simulate(self, start: ArrayLike, inputs: ArrayLike, substeps: int = 1) -> Floats:
        """Return the plant's states [samples * substeps + 1, n] under inputs [samples, m], exact between samples."""
        return self.plant_.simulate(np.asarray(start, dtype=float) @ self.modes_, inputs, substeps) @ self.modes_.T


def leading_modes(states: Floats, rank: int | None) -> Floats:
    """Return an orthonormal basis [n, rank] of the directions in which states move most; None keeps all."""
    n = states.shape[1]
    if rank is None:
        return np.eye(n)
    if whole(rank, "rank") > n:
        raise SettingError(f"rank = {rank}: expected at most {n}, the number of states in the table")
    return np.linalg.svd(states, full_matrices=False)[2][:rank].T


class DMDc(BaseEstimator):  # type: ignore[misc]
    """x[k+1] = A_d x[k] + B_d u[k] by least squares (Z eq. 9.10). With `rank`, A_d and B_d act on the coordinates
    `modes_`.T @ x of the leading modes.

    >>> rng = np.random.default_rng(1)
    >>> u = rng.normal(size=(50, 1)); x = np.zeros((50, 2))
    >>> for k in range(49): x[k + 1] = [[0.9, 0.2], [0, 0.8]] @ x[k] + [0, 1] * u[k]
    >>> DMDc().fit(x, u).Ad_.round(6)
    array([[0.9, 0.2],
           [0. , 0.8]])
    """

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank

    def fit(self, states: ArrayLike, inputs: ArrayLike | None = None) -> Self:
        """Fit snapshots [samples, n] and the inputs [samples, m] held after each, or lists of such."""
        pairs = trajectories(states, _no_inputs(states) if inputs is None else inputs)
        now, then = np.concatenate([x[:-1] for x, _ in pairs]), np.concatenate([x[1:] for x, _ in pairs])
        held = np.concatenate([u[:-1] for _, u in pairs])
        self.modes_ = leading_modes(np.concatenate([x for x, _ in pairs]), self.rank)
        design = np.hstack([now @ self.modes_, held])
        require_rich(design)
        solution = np.linalg.lstsq(design, then @ self.modes_, rcond=None)[0].T
        kept = self.modes_.shape[1]
        self.Ad_, self.Bd_ = solution[:, :kept], solution[:, kept:]
        self.eigenvalues_ = np.linalg.eigvals(self.Ad_)
        return self

    def predict(self, states: ArrayLike, inputs: ArrayLike | None = None) -> Floats:
        """Return the predicted next state of each row."""
        x = np.asarray(states, dtype=float)
        u = np.zeros((len(x), self.Bd_.shape[1])) if inputs is None else np.asarray(inputs, dtype=float)
        return np.asarray((x @ self.modes_ @ self.Ad_.T + u @ self.Bd_.T) @ self.modes_.T)


class DMD(DMDc):
    """x[k+1] = A_d x[k] by least squares; `eigenvalues_` and `dynamic_modes_` describe the oscillations."""

    def fit(self, states: ArrayLike, inputs: ArrayLike | None = None) -> Self:
        if inputs is not None:
            raise SettingError("DMD takes no inputs: use DMDc, or DelayedDMD if the inputs act with a delay")
        super().fit(states)
        self.eigenvalues_, vectors = np.linalg.eig(self.Ad_)
        self.dynamic_modes_ = self.modes_ @ vectors
        return self


def _no_inputs(states: ArrayLike | Sequence[ArrayLike]) -> list[Floats] | Floats:
    if isinstance(states, list | tuple) and np.ndim(states[0]) == 2:
        return [np.zeros((len(np.asarray(x)), 0)) for x in states]
    return np.zeros((len(np.asarray(states)), 0))
