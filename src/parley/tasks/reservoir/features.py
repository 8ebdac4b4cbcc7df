"""What the read-out takes: states turned so that made-up inputs would move each as much as the others.

Nodes say nearly the same, and noise drowns what little tells them apart. What they say under inputs that anybody can
make up is public: so they are driven once by evenly drawn inputs, and the mean m and the covariance C = L L' of their
states (with a ridge) give f = cut(G L^-1 (x - m)) to [-1, 1]. Where owners' own inputs differ from the made-up ones, f
is turned less well, and bounded all the same.

Formal guarantee: no private row is looked at for m and L, and both are the same to the bit on every machine.

The nodes form a ring, each of which takes from the one before it and from the inputs (a simple cycle reservoir, Rodan
and Tino 2011): x[t] = (1 - a) x[t-1] + a tanh(r P x[t-1] + s V (1, u[t])), P the ring, a the leak, r the spectral
radius, s the scale of inputs. All eigenvalues of r P have the size r, and it makes no vector longer than r times:
nothing is scaled by a computed eigenvalue. What a state began with is forgotten by a factor 1 - a (1 - r) a step.

Formal guarantee: weights are whole numbers of a hash, and states are made of `data.rowwise`: the same to the bit on
every machine, whatever recordings stand beside one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from parley.data import rowwise
from parley.data.rowwise import settle
from parley.terms.columns import Reservoir
from parley.validate import Floats

DRIVES, SAMPLES, SKIPPED = 16, 500, 250  # of made-up inputs; the first samples of each are left out
RIDGE = 0.01  # of the mean variance of a state: directions that move by less are not made larger
LEAST = 2.0**-40  # that the ridge is at least
GAIN = 0.3  # the deviation of a turned state under made-up inputs: beyond 1 it is cut


def drawn(words: str, *shape: int) -> Floats:
    """Numbers evenly from -1 to 1, of 52 bits each, that these words alone decide.

    >>> drawn("", 2).round(6).tolist()
    [-0.794183, -0.629332]
    """
    bits = hashlib.shake_256(f"parley reservoir {words}".encode()).digest(8 * int(np.prod(shape)))
    return np.asarray((np.frombuffer(bits, dtype="<u8") >> 12) * 2.0**-51 - 1).reshape(shape)


@dataclass(frozen=True)
class Nodes:
    """The nodes of the terms' reservoir, for so many inputs."""

    settings: Reservoir
    inputs: int

    @cached_property
    def weights(self) -> Floats:
        """s V [inputs + 1, nodes], the constant's first."""
        shape = self.inputs + 1, self.settings.nodes
        return self.settings.input_scale * drawn(f"weights {self.settings.seed} {shape}", *shape)

    def states(self, inputs: Floats) -> Floats:
        """x[t] [recordings, samples, nodes] of recordings' inputs [recordings, samples, inputs], all of them from -1 to
        1."""
        recordings, samples, _ = inputs.shape
        found = np.empty((recordings, samples, self.settings.nodes))
        state = np.zeros((recordings, self.settings.nodes))
        for t in range(samples):
            state = found[:, t] = self._next(state, inputs[:, t])
        return found

    def _next(self, state: Floats, inputs: Floats) -> Floats:
        """The states [recordings, nodes] after these inputs [recordings, inputs]."""
        reached = self.settings.spectral_radius * np.roll(state, 1, axis=1) + self.weights[0]
        for place in range(self.inputs):
            reached += inputs[:, place : place + 1] * self.weights[place + 1]
        leak = self.settings.leak
        return settle((1 - leak) * state + leak * (2 * rowwise.logistic(2 * reached) - 1), -1.0, 1.0)


@dataclass(frozen=True)
class Features:
    """The p numbers of every sample: turned states, inputs, a constant."""

    nodes: Nodes

    @classmethod
    def of(cls, settings: Reservoir, inputs: int) -> "Features":
        """Of the terms' reservoir with so many inputs; made once."""
        return _features(settings, inputs)

    @property
    def width(self) -> int:
        return self.nodes.settings.nodes + self.nodes.inputs + 1

    @cached_property
    def turn(self) -> tuple[Floats, Floats]:
        """(m [nodes], G L^-1 [nodes, nodes])."""
        nodes = self.nodes
        words = f"inputs {nodes.settings.seed} {nodes.inputs}"
        driven = nodes.states(drawn(words, DRIVES, SAMPLES, nodes.inputs))[:, SKIPPED:].reshape(
            -1, nodes.settings.nodes
        )
        mean = rowwise.folded(driven.copy()) / len(driven)
        away = np.ascontiguousarray((driven - mean).T)
        covariance = rowwise.products(away, away) / len(driven)
        ridge = RIDGE * rowwise.folded(covariance.diagonal().copy()[:, None]) / len(covariance) + LEAST
        return mean, GAIN * inverse_root(covariance + ridge * np.eye(len(covariance)))

    def rows(self, recordings: Sequence[Floats]) -> list[Floats]:
        """(f[t], u[t], 1) [samples, p] of each recording's inputs [samples, inputs], from -1 to 1, as these are.

        Formal guarantee: a recording's rows are a function of its own inputs, to the bit. They are driven together,
        element by element, as long as the longest, and turned each at its own length: products round by shape.
        """
        mean, turn = self.turn
        found = []
        for inputs, states in zip(recordings, self.nodes.states(_padded(recordings)), strict=True):
            turned = settle((states[: len(inputs)] - mean) @ turn.T, -1.0, 1.0)
            found.append(np.column_stack([turned, inputs, np.ones(len(inputs))]))
        return found


def _padded(recordings: Sequence[Floats]) -> Floats:
    """Recordings' inputs [recordings, samples of the longest, inputs], zeros behind their ends."""
    padded = np.zeros((len(recordings), max(map(len, recordings)), recordings[0].shape[1]))
    for place, inputs in enumerate(recordings):
        padded[place, : len(inputs)] = inputs
    return padded


@lru_cache(maxsize=8)
def _features(settings: Reservoir, inputs: int) -> Features:
    return Features(Nodes(settings, inputs))


def inverse_root(matrix: Floats) -> Floats:
    """L^-1 of a positive definite matrix L L', L lower triangular, by single operations in a fixed order.

    >>> inverse_root(np.array([[4.0, 0.0], [0.0, 0.25]])).tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """
    size = len(matrix)
    L, inverse = np.zeros_like(matrix), np.eye(size)
    for k in range(size):
        rest = matrix[k:, k] - rowwise.products(L[k:, :k], L[k : k + 1, :k])[0]
        L[k:, k] = rest / np.sqrt(rest[0])
        inverse[k] = (inverse[k] - rowwise.folded(L[k, :k, None] * inverse[:k])) / L[k, k]
    return inverse
