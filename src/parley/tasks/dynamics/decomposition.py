"""Dynamic mode decomposition without and with control (Z eq. 9.4-9.11): least squares on snapshots, truncated to the
leading modes."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from parley.errors import SettingError
from parley.tasks.dynamics.regression import require_rich, trajectories
from parley.validate import Floats, whole


def leading_modes(states: Floats, rank: int | None) -> Floats:
    """An orthonormal basis [n, rank] of the directions in which the states [samples, n] move most; all of them where
    rank is None."""
    n = states.shape[1]
    if rank is None:
        return np.eye(n)
    if whole(rank, "rank") > n:
        raise SettingError(f"rank = {rank}: the table has {n} states")
    return np.linalg.svd(states, full_matrices=False)[2][:rank].T


class DMDc(BaseEstimator):  # type: ignore[misc]
    """x[k+1] = A_d x[k] + B_d u[k] by least squares (Z eq. 9.10); without inputs this is plain dynamic mode
    decomposition.

    `rank` keeps that many modes of the state: A_d and B_d then act on the coordinates `modes_`.T @ x.

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
        """Learn from snapshots [samples, n] and the inputs [samples, m] held after each, or from lists of such."""
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
        """The predicted next state of each row."""
        x = np.asarray(states, dtype=float)
        u = np.zeros((len(x), self.Bd_.shape[1])) if inputs is None else np.asarray(inputs, dtype=float)
        return np.asarray((x @ self.modes_ @ self.Ad_.T + u @ self.Bd_.T) @ self.modes_.T)


class DMD(DMDc):
    """x[k+1] = A_d x[k] by least squares on snapshots; `eigenvalues_` and `dynamic_modes_` say which oscillations make
    up the data."""

    def fit(self, states: ArrayLike, inputs: ArrayLike | None = None) -> Self:
        if inputs is not None:
            raise SettingError("DMD takes no inputs: use DMDc, or DelayedDMD where they arrive late")
        super().fit(states)
        self.eigenvalues_, vectors = np.linalg.eig(self.Ad_)
        self.dynamic_modes_ = self.modes_ @ vectors
        return self


def _no_inputs(states: ArrayLike | Sequence[ArrayLike]) -> list[Floats] | Floats:
    if isinstance(states, list | tuple) and np.ndim(states[0]) == 2:
        return [np.zeros((len(np.asarray(x)), 0)) for x in states]
    return np.zeros((len(np.asarray(states)), 0))
