"""Feedback for plants whose inputs arrive late (Z sections 9.3 and 9.4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_are
from scipy.signal import place_poles

from parley.errors import SettingError
from parley.tasks.dynamics.plant import Plant, transition
from parley.validate import Floats, whole


def pole_placement(A_d: Floats, B_d: Floats, poles: Sequence[complex]) -> Floats:
    """The gain K [m, n] that gives A_d - B_d K these eigenvalues."""
    try:
        return np.asarray(place_poles(A_d, B_d, poles).gain_matrix, dtype=float)
    except ValueError as error:
        raise SettingError(f"these poles cannot be placed: {error}") from None


def linear_quadratic(
    A_d: Floats, B_d: Floats, state_cost: ArrayLike | None = None, input_cost: ArrayLike | None = None
) -> Floats:
    """The gain K that minimises the sum of x'Qx + u'Ru.

    Parameters
    ----------
    A_d, B_d
        Of the sampled plant [n, n], [n, m].
    state_cost, input_cost
        Q [n, n] and R [m, m]; identities where left out.

    Returns
    -------
    array [m, n]
        K.

    Examples
    --------
    >>> linear_quadratic(np.array([[1.0]]), np.array([[1.0]])).round(3)  # the golden ratio's inverse
    array([[0.618]])
    """
    Q = np.eye(A_d.shape[0]) if state_cost is None else np.asarray(state_cost, dtype=float)
    R = np.eye(B_d.shape[1]) if input_cost is None else np.asarray(input_cost, dtype=float)
    try:
        X = solve_discrete_are(A_d, B_d, Q, R)
    except (np.linalg.LinAlgError, ValueError):
        raise SettingError(
            "no gain stabilises this plant at finite cost: an unstable mode is not moved by any input"
        ) from None
    return np.asarray(np.linalg.solve(R + B_d.T @ X @ B_d, B_d.T @ X @ A_d))


class Controller(Protocol):
    """Chooses the next input from the present state and the inputs still on their way, newest first."""

    @property
    def lags(self) -> int: ...

    def __call__(self, state: Floats, sent: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class PredictiveFeedback:
    """u[k] = -K x(kT + r): feedback on the state that the input will meet when it arrives (Z eq. 9.13, 9.70-9.74).

    The state is predicted from `plant`, whose inputs share one delay. With the true delay the closed loop is that of
    the plant without delay, x -> (A_d - B_d K) x, whole delay or not; with the delay cut to whole periods it is Z's
    truncated controller.
    """

    plant: Plant
    gain: Floats  # [m, n]

    def __post_init__(self) -> None:
        if np.ptp(self.plant.delays) > 0:
            raise SettingError("the inputs have different delays: use DelayedQuadratic, which plans with each of them")

    @property
    def lags(self) -> int:
        return self.plant.lags

    def __call__(self, state: Floats, sent: Floats) -> Floats:
        """`sent` [lags, m]: u[k-1], u[k-2], ..."""
        return -self.gain @ self.arrival(state, sent)

    def arrival(self, state: Floats, sent: Floats) -> Floats:
        """x(kT + r), from x(kT) and the inputs on their way."""
        period, delay = self.plant.period, float(self.plant.delays[0])
        fraction = delay - self.plant.whole * period
        A, B = self.plant.A, self.plant.B
        oldest_first = sent[::-1]
        if fraction > 0:  # the oldest acts for a fraction of a period only, all others for a whole one
            power, block = transition(A, B, fraction)
            state = power @ state + block @ oldest_first[0]
            oldest_first = oldest_first[1:]
        power, block = transition(A, B, period)
        for past in oldest_first:
            state = power @ state + block @ past
        return state


@dataclass(frozen=True, eq=False)
class DelayedQuadratic:
    """The linear-quadratic regulator of the state and the inputs on their way together; every input may have a delay of
    its own."""

    plant: Plant
    gain: Floats  # [m, n + lags m]

    @classmethod
    def of(
        cls, plant: Plant, state_cost: ArrayLike | None = None, input_cost: ArrayLike | None = None
    ) -> "DelayedQuadratic":
        A_d, blocks = plant.sampled()
        (n, m), lags = plant.B.shape, plant.lags
        size = n + lags * m
        A, B, Q = np.zeros((size, size)), np.zeros((size, m)), np.zeros((size, size))
        A[:n, :n], A[:n, n:], B[:n] = A_d, blocks[:, m:], blocks[:, :m]
        A[n + m :, n : size - m] = np.eye(size - n - m) if lags else A[n + m :, n : size - m]
        B[n : n + m] = np.eye(m)[: size - n]
        Q[:n, :n] = np.eye(n) if state_cost is None else np.asarray(state_cost, dtype=float)
        return cls(plant, linear_quadratic(A, B, Q, input_cost))

    @property
    def lags(self) -> int:
        return self.plant.lags

    def __call__(self, state: Floats, sent: Floats) -> Floats:
        return np.asarray(-self.gain @ np.concatenate([state, sent.reshape(-1)]))


def closed_loop(
    plant: Plant, controller: Controller, start: ArrayLike, samples: int, substeps: int = 1
) -> tuple[Floats, Floats]:
    """States [samples * substeps + 1, n] and inputs [samples, m] of the plant under this controller, exact between
    samples."""
    samples, lags = whole(samples, "samples"), max(plant.lags, controller.lags)
    powers, blocks = plant.within(whole(substeps, "substeps"))
    inputs = np.zeros((lags + samples, plant.B.shape[1]))
    states = np.empty((samples * substeps + 1, len(plant.A)))
    states[0] = np.asarray(start, dtype=float)
    for k in range(samples):
        state = states[k * substeps]
        at = lags + k
        inputs[at] = controller(state, inputs[at - controller.lags : at][::-1])
        recent = inputs[at - plant.lags : at + 1][::-1].reshape(-1)
        states[k * substeps + 1 : (k + 1) * substeps + 1] = powers @ state + blocks @ recent
    return states, inputs[lags:]
