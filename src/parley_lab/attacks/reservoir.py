"""Federated echo-state networks (Z section 6.3, after Bacciu et al.): a fixed random reservoir, a ridge read-out from
sums that owners send, and how far a guessed series misses those sums, with its exact gradient.

From x[1] = 0 the states are x[t+1] = (1 - a) x[t] + a tanh(W x[t] + w u[t]). A row is z[t] = (1, u[t], x[t+1]), its
target u[t+1]; an owner sends A = sum of u[t+1] z[t] and B = sum of z[t] z[t]' + beta I.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.data.design import UNIT_ROUNDOFF, summation_slack
from parley.errors import SettingError
from parley.losses import RecordBound
from parley.losses.moments import moments_sensitivity
from parley.privacy.mechanisms import Bounded, FastNoise, Gaussian
from parley.validate import Floats, exact, positive


@dataclass(frozen=True, eq=False)
class Sums:
    """What an owner sends of its series: A [n + 2] and B [n + 2, n + 2], without beta, which everybody knows."""

    A: Floats
    B: Floats


@dataclass(frozen=True, eq=False)
class Reservoir:
    """Weights W [n, n] of the states and w [n] of the input, and the leak a; all of them public."""

    W: Floats
    w: Floats
    leak: float = 0.3

    @classmethod
    def make(cls, seed: int, nodes: int = 100, sparse: float = 0.8, radius: float = 0.9) -> "Reservoir":
        """Normal weights, this share of those between states zero, W of this spectral radius."""
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(nodes, nodes)) * (rng.random((nodes, nodes)) >= sparse)
        return cls(W * (radius / np.abs(np.linalg.eigvals(W)).max()), rng.normal(size=nodes))

    def rows(self, u: Floats) -> Floats:
        """(1, u[t], x[t+1]) of a series u [T], for each t but the last [T - 1, n + 2]."""
        return self._rows(u)[0]

    def next_rows(self, state: Floats, inputs: Floats) -> Floats:
        """The row that would follow a state x[t] [n] for each of several inputs [k] -> [k, n + 2]."""
        moved = self.leak * np.tanh(self.W @ state + inputs[:, None] * self.w) + (1 - self.leak) * state
        return np.column_stack([np.ones(len(inputs)), inputs, moved])

    def sums(self, u: Floats) -> Sums:
        """What an owner of this series sends."""
        Z = self.rows(u)
        return Sums(u[1:] @ Z, Z.T @ Z)

    def misfit(self, u: Floats, sent: Sums) -> tuple[float, Floats]:
        """(L, dL/du [T]): by how much the sums of a guessed series miss what was sent, squared and added up over A and
        the upper triangle of B (Z eq. 6.16), and its gradient by the adjoint of the states."""
        Z, slopes = self._rows(u)
        off_A, off_B = u[1:] @ Z - sent.A, Z.T @ Z - sent.B
        diagonal = off_B.diagonal().copy()
        value = float(off_A @ off_A + (np.vdot(off_B, off_B) + diagonal @ diagonal) / 2)
        off_B.flat[:: len(diagonal) + 1] *= 2
        by_row = 2 * (Z @ off_B) + np.outer(2 * u[1:], off_A)
        gradient = np.zeros(len(u))
        gradient[1:] = 2 * (Z @ off_A)
        gradient[:-1] += by_row[:, 1]
        passed, back = np.empty_like(slopes), np.zeros(len(self.w))
        for t in range(len(slopes) - 1, -1, -1):
            back = back + by_row[t, 2:]
            passed[t] = slopes[t] * back
            back = (1 - self.leak) * back + passed[t] @ self.W
        gradient[:-1] += passed @ self.w
        return value, gradient

    def _rows(self, u: Floats) -> tuple[Floats, Floats]:
        """The rows, and a (1 - tanh^2) at each step [T - 1, n]."""
        Z, inner = np.empty((len(u) - 1, len(self.w) + 2)), np.outer(u[:-1], self.w)
        Z[:, 0], Z[:, 1] = 1.0, u[:-1]
        state = np.zeros(len(self.w))
        for t in range(len(inner)):
            inner[t] += self.W @ state
            np.tanh(inner[t], out=inner[t])
            state = Z[t, 2:] = (1 - self.leak) * state + self.leak * inner[t]
        return Z, self.leak * (1 - inner**2)


def read_out(sent: Sequence[Sums], beta: float) -> Floats:
    """The ridge weights [n + 2] of all owners' series together, from their sums alone (Z eq. 6.12)."""
    A, B = np.sum([each.A for each in sent], axis=0), np.sum([each.B for each in sent], axis=0)
    return np.asarray(np.linalg.solve(B + len(sent) * beta * np.eye(len(B)), A))


def private_sums(
    reservoir: Reservoir, series: Floats, reach: float, epsilon: float, delta: float, noise: FastNoise
) -> Sums:
    """The mean sums of an owner's series [series, T], each cut to |u| <= reach, as it would release them.

    Formal guarantee: (eps, delta)-DP for replacing a whole series. Rows (u[t+1]/reach, 1, u[t]/reach, x[t+1]) have w =
    n + 3 numbers of at most 1: a state is a convex combination of values of tanh. So the mean of r r' over a series has
    a norm of at most Xi = w, as a positive semidefinite matrix, and replacing one of N series moves the mean by at most
    sqrt 2 Xi/N (`losses.moments`); entries off the diagonal are sent times sqrt 2, so that the L2 norm is the matrix's.
    Rounding of a row is a few units in the last place, below 1e-12; of r r' over T rows, as of recordings of a plant
    (`tasks.dynamics.question`). The states of the cut series are public functions of it.
    """
    if series.ndim != 2 or series.shape[1] < 3 or not len(series):
        raise SettingError("series: expected one or more of at least 3 samples each")
    cut, width = np.clip(series, -positive(reach, "reach"), reach), len(reservoir.w) + 3
    i, j = np.triu_indices(width)
    packed = np.where(i == j, 1.0, np.sqrt(2)) * np.mean([_moments(reservoir, u, reach)[i, j] for u in cut], axis=0)
    sensitivity = sums_sensitivity(width, len(series), series.shape[1])
    mechanism = Gaussian.calibrate(exact(epsilon), delta, sensitivity)
    released = mechanism.release(Bounded(packed, sensitivity, "l2"), noise) / np.where(i == j, 1.0, np.sqrt(2))
    moments = np.empty((width, width))
    moments[i, j] = moments[j, i] = released * (series.shape[1] - 1)
    unit = np.ones(width - 1)
    unit[1] = reach
    return Sums(moments[0, 1:] * reach * unit, moments[1:, 1:] * np.outer(unit, unit))


def sums_sensitivity(width: int, series: int, samples: int) -> float:
    """How far replacing one of so many series moves the mean of their moments of `width` numbers, in L2."""
    bound = RecordBound(width * (1 + 1e-12), "l2", clips=False)
    off = 1 + 2 * width * (samples + 8) * UNIT_ROUNDOFF
    return moments_sensitivity(bound, series, summation_slack(series, width * (width + 1) // 2)) * off


def _moments(reservoir: Reservoir, u: Floats, reach: float) -> Floats:
    """The mean of r r' over one series."""
    Z = reservoir.rows(u)
    rows = np.column_stack([u[1:] / reach, Z])
    rows[:, 2] /= reach
    return np.asarray(rows.T @ rows / len(rows))


def noisy_sums(sent: Sums, ratio: float, rng: np.random.Generator) -> Sums:
    """The sums with Gaussian noise of this signal-to-noise ratio, in power, as Z adds it; it promises nothing."""
    half = np.triu(rng.normal(size=sent.B.shape))
    symmetric = half + half.T - np.diag(half.diagonal())
    A, B = (np.sqrt(np.mean(each**2) / ratio) for each in (sent.A, sent.B))
    return Sums(sent.A + A * rng.normal(size=sent.A.shape), sent.B + B * symmetric)
