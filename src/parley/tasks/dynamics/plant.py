"""A linear plant whose inputs arrive late: x' = A x + B u(t - r), driven by a zero-order hold (Z eq. 9.15)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from parley.errors import SettingError
from parley.validate import Floats, positive, whole

Numbers = NDArray[Any]  # floats, or complex numbers where a derivative is taken by a complex step


def transition(A: Numbers, B: Numbers, time: Numbers | float) -> tuple[Numbers, Numbers]:
    """(e^(A t), integral of e^(A s) B ds over 0..t): what the state and a constant input become after time t (Z eq.
    9.5, 9.6).

    One exponential of [[A, B], [0, 0]] t gives both; A needs no inverse.
    """
    n, m = B.shape
    joined = np.zeros((n + m, n + m), dtype=np.result_type(A, B, float))
    joined[:n, :n], joined[:n, n:] = A, B
    power = expm(joined * time)
    return power[:n, :n], power[:n, n:]


def input_blocks(A: Numbers, B: Numbers, delays: Numbers, period: float, lags: int) -> tuple[Numbers, Numbers]:
    """A_d [n, n] and the blocks B^(0) ... B^(lags) side by side [n, (lags + 1) m] of the plant sampled every `period`.

    x[k+1] = A_d x[k] + sum over j of B^(j) u[k-j] (Z eq. 9.62-9.65). Input i has the delay `delays[i]`; with w whole
    periods and a fraction p only its columns of B^(w) and B^(w+1) differ from zero.
    """
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
        """The plant, its parts checked; one delay for all inputs or one for each."""
        a, b = np.atleast_2d(np.asarray(A, dtype=float)), np.atleast_2d(np.asarray(B, dtype=float))
        if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape[0] != a.shape[0]:
            raise SettingError(f"A is {a.shape} and B is {b.shape}: expected [n, n] and [n, m]")
        delays = np.broadcast_to(np.asarray(delay, dtype=float), (b.shape[1],))
        if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(delays).all() and (delays >= 0).all()):
            raise SettingError("the plant's matrices must be finite and its delays finite and not negative")
        return cls(a, b, delays, positive(period, "period"))

    @property
    def whole(self) -> int:
        """The whole periods in the shortest delay."""
        return int(np.min(self.delays) / self.period)

    @property
    def lags(self) -> int:
        """How many earlier inputs a sample depends on, beside the present one."""
        return int(np.ceil(np.max(self.delays) / self.period))

    def sampled(self, lags: int | None = None) -> tuple[Floats, Floats]:
        """A_d [n, n] and the input blocks [n, (lags + 1) m]."""
        lags = self.lags if lags is None else whole(lags, "lags", self.lags)
        return input_blocks(self.A, self.B, self.delays, self.period, lags)

    def at_once(self) -> tuple[Floats, Floats]:
        """A_d and B_d of the plant without its delay: what feedback gains are designed for."""
        return transition(self.A, self.B, self.period)

    def delayed(self, delay: float | Sequence[float]) -> "Plant":
        """The same plant with other delays."""
        return Plant.of(self.A, self.B, delay, self.period)

    def within(self, substeps: int) -> tuple[Floats, Floats]:
        """Where a period's states lie, exactly, at `substeps` equal moments: A [substeps, n, n], blocks [substeps, n,
        (lags + 1) m].

        At the moment s of period k the inputs that arrived so far act as in a period of length s that began at k.
        """
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
        """The states [samples * substeps + 1, n] under `inputs` [samples, m] from `start`; inputs before the first are
        zero.

        Exact between samples, too: no step size enters.
        """
        u = np.asarray(inputs, dtype=float)
        if u.ndim != 2 or u.shape[1] != self.B.shape[1]:
            raise SettingError(f"inputs are {u.shape}: expected [samples, {self.B.shape[1]}]")
        powers, blocks = self.within(whole(substeps, "substeps"))
        history = np.concatenate([np.zeros((self.lags, u.shape[1])), u])
        states = np.empty((len(u) * substeps + 1, len(self.A)))
        states[0] = np.asarray(start, dtype=float)
        for k in range(len(u)):
            recent = history[k : k + self.lags + 1][::-1].reshape(-1)  # u[k], u[k-1], ...
            states[k * substeps + 1 : (k + 1) * substeps + 1] = powers @ states[k * substeps] + blocks @ recent
        return states
