"""A linear plant with delayed inputs, x' = A x + B u(t - r), driven by a zero-order hold (Z eq. 9.15), and feedback for
it (Z sections 9.3 and 9.4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm, solve_discrete_are
from scipy.signal import place_poles

from parley.errors import SettingError
from parley.validate import Floats, positive, whole

Numbers = NDArray[Any]  # floats, or complex numbers where a derivative is taken by a complex step


def transition(A: Numbers, B: Numbers, time: Numbers | float) -> tuple[Numbers, Numbers]:
    """Return (e^(A t), integral of e^(A s) B ds over 0..t), from one matrix exponential (Z eq. 9.5, 9.6)."""
    n, m = B.shape
    joined = np.zeros((n + m, n + m), dtype=np.result_type(A, B, float))
    joined[:n, :n], joined[:n, n:] = A, B
    power = expm(joined * time)
    return power[:n, :n], power[:n, n:]


def input_blocks(A: Numbers, B: Numbers, delays: Numbers, period: float, lags: int) -> tuple[Numbers, Numbers]:
    """Return A_d [n, n] and the blocks B^(0) ... B^(lags) side by side [n, (lags + 1) m] of the plant sampled every
    `period`: x[k+1] = A_d x[k] + sum over j of B^(j) u[k-j] (Z eq. 9.62-9.65). A delay of w whole periods and a
    fraction gives nonzero columns in B^(w) and B^(w+1) alone."""
    n, m = B.shape
    A_d, all_of_it = transition(A, B, period)
    blocks = np.zeros((n, lags + 1, m), dtype=all_of_it.dtype)
    for delay in dict.fromkeys(delays.tolist()):
        these = np.flatnonzero(delays == delay)
        w = min(int(delay.real / period), lags)
        _, newer = transition(A, B[:, these], (w + 1) * period - delay)
        blocks[:, w, these] = newer
        if w < lags:
            blocks[:, w + 1, these] = all_of_it[:, these] - newer
    return A_d, blocks.reshape(n, -1)


@dataclass(frozen=True, eq=False)
class Plant:
    """x' = A x + B u(t - delay), its input held over each `period`; `delays` [m] in units of time, one for each input.

    >>> rotor = Plant.of([[0, 1.1], [-1.1, 0]], [[1, -1], [-1, 2]], delay=2.5, period=2)
    >>> rotor.whole, rotor.lags
    (1, 2)
    >>> rotor.sampled()[1].round(2)[:, 2:]  # the blocks of u[k-1] and u[k-2]
    array([[-0.07,  1.06, -0.63,  1.1 ],
           [-1.89,  2.79, -0.29,  0.12]])
    """

    A: Floats
    B: Floats
    delays: Floats
    period: float

    @classmethod
    def of(cls, A: ArrayLike, B: ArrayLike, delay: float | Sequence[float], period: float) -> "Plant":
        """Return the checked plant, with one delay for all inputs or one for each."""
        a, b = np.atleast_2d(np.asarray(A, dtype=float)), np.atleast_2d(np.asarray(B, dtype=float))
        if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape[0] != a.shape[0]:
            raise SettingError(f"A and B have the shapes {a.shape} and {b.shape}: expected [n, n] and [n, m]")
        delays = np.broadcast_to(np.asarray(delay, dtype=float), (b.shape[1],))
        if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(delays).all() and (delays >= 0).all()):
            raise SettingError("the plant's matrices must be finite, and its delays must be finite and not negative")
        return cls(a, b, delays, positive(period, "period"))

    @property
    def whole(self) -> int:
        """The whole periods in the shortest delay."""
        return int(np.min(self.delays) / self.period)

    @property
    def lags(self) -> int:
        """The number of earlier inputs that a sample depends on."""
        return int(np.ceil(np.max(self.delays) / self.period))

    def sampled(self, lags: int | None = None) -> tuple[Floats, Floats]:
        """Return A_d [n, n] and the input blocks [n, (lags + 1) m]."""
        lags = self.lags if lags is None else whole(lags, "lags", self.lags)
        return input_blocks(self.A, self.B, self.delays, self.period, lags)

    def at_once(self) -> tuple[Floats, Floats]:
        """Return A_d and B_d of the plant without its delay, for which feedback gains are designed."""
        return transition(self.A, self.B, self.period)

    def delayed(self, delay: float | Sequence[float]) -> "Plant":
        """Return the same plant with other delays."""
        return Plant.of(self.A, self.B, delay, self.period)

    def within(self, substeps: int) -> tuple[Floats, Floats]:
        """Return exact maps to `substeps` moments of a period: A [substeps, n, n], blocks [substeps, n, (lags+1) m]."""
        moments = self.period * np.arange(1, substeps + 1) / substeps
        m, lags = self.B.shape[1], self.lags
        powers = np.empty((substeps, *self.A.shape))
        blocks = np.zeros((substeps, self.A.shape[0], lags + 1, m))
        for at, moment in enumerate(moments):
            powers[at], _ = transition(self.A, self.B, moment)
            for i, delay in enumerate(self.delays):
                w = int(delay / self.period)
                arrival = min(delay - w * self.period, moment)  # until then the older input acts
                column = self.B[:, i : i + 1]
                blocks[at, :, w, i] = transition(self.A, column, moment - arrival)[1][:, 0]
                if w < lags:
                    blocks[at, :, w + 1, i] = transition(self.A, column, moment)[1][:, 0] - blocks[at, :, w, i]
        return powers, blocks.reshape(substeps, self.A.shape[0], -1)

    def simulate(self, start: ArrayLike, inputs: ArrayLike, substeps: int = 1) -> Floats:
        """Return the exact states [samples * substeps + 1, n] under `inputs` [samples, m]; earlier inputs are zero."""
        u = np.asarray(inputs, dtype=float)
        if u.ndim != 2 or u.shape[1] != self.B.shape[1]:
            raise SettingError(f"inputs have the shape {u.shape}: expected [samples, {self.B.shape[1]}]")
        powers, blocks = self.within(whole(substeps, "substeps"))
        history = np.concatenate([np.zeros((self.lags, u.shape[1])), u])
        states = np.empty((len(u) * substeps + 1, len(self.A)))
        states[0] = np.asarray(start, dtype=float)
        for k in range(len(u)):
            recent = history[k : k + self.lags + 1][::-1].reshape(-1)  # u[k], u[k-1], ...
            states[k * substeps + 1 : (k + 1) * substeps + 1] = powers @ states[k * substeps] + blocks @ recent
        return states


def pole_placement(A_d: Floats, B_d: Floats, poles: Sequence[complex]) -> Floats:
    """Return the gain K [m, n] that gives A_d - B_d K these eigenvalues."""
    try:
        return np.asarray(place_poles(A_d, B_d, poles).gain_matrix, dtype=float)
    except ValueError as error:
        raise SettingError(f"these poles cannot be placed: {error}") from None


def linear_quadratic(
    A_d: Floats, B_d: Floats, state_cost: ArrayLike | None = None, input_cost: ArrayLike | None = None
) -> Floats:
    """Return the gain K that minimises the sum of x'Qx + u'Ru.

    Parameters
    ----------
    A_d, B_d
        The sampled plant [n, n], [n, m].
    state_cost, input_cost
        Q [n, n] and R [m, m]; default: identities.

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
            "no gain stabilises this plant at finite cost: the plant has an unstable mode that no input affects"
        ) from None
    return np.asarray(np.linalg.solve(R + B_d.T @ X @ B_d, B_d.T @ X @ A_d))


class Controller(Protocol):
    """A rule for the next input from the present state and the inputs still on their way, newest first."""

    @property
    def lags(self) -> int: ...

    def __call__(self, state: Floats, sent: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class PredictiveFeedback:
    """Feedback u[k] = -K x(kT + r) on the state that the input will meet when it arrives (Z eq. 9.13, 9.70-9.74).

    `plant` predicts that state; its inputs share one delay. With the true delay the closed loop is that of the plant
    without delay, x -> (A_d - B_d K) x. With the delay cut to whole periods it is Z's truncated controller.
    """

    plant: Plant
    gain: Floats  # [m, n]

    def __post_init__(self) -> None:
        if np.ptp(self.plant.delays) > 0:
            raise SettingError(
                "the inputs have different delays: use DelayedQuadratic, which handles a delay for each input"
            )

    @property
    def lags(self) -> int:
        return self.plant.lags

    def __call__(self, state: Floats, sent: Floats) -> Floats:
        """Return the next input; `sent` [lags, m] is u[k-1], u[k-2], ..."""
        return -self.gain @ self.arrival(state, sent)

    def arrival(self, state: Floats, sent: Floats) -> Floats:
        """Return x(kT + r) from x(kT) and the inputs on their way."""
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
    """The linear-quadratic regulator of the state and the inputs on their way; delays may differ."""

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
    """Return exact states [samples * substeps + 1, n] and inputs [samples, m] under this controller."""
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
