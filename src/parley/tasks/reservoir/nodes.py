"""The reservoir: nodes in a ring, each of which takes from the one before it and from the inputs (a simple cycle
reservoir, Rodan and Tino 2011).

x[t] = (1 - a) x[t-1] + a tanh(r P x[t-1] + s V (1, u[t])), P the ring, a the leak, r the spectral radius, s the scale
of inputs. All eigenvalues of r P have the size r, and it makes no vector longer than r times: nothing is scaled by a
computed eigenvalue. What a state began with is forgotten by a factor 1 - a (1 - r) a step.

Formal guarantee: weights are whole numbers of a hash, and states are made of `data.rowwise`: the same to the bit on
every machine, whatever recordings stand beside one.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.data import rowwise
from parley.data.rounding import settle
from parley.terms.feature_maps import Reservoir
from parley.validate import Floats


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
