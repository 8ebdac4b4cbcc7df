"""Noise in shares: every owner adds a part of it to a sum that hides single answers. For comparison; terms cannot name
it."""

from dataclasses import dataclass

import numpy as np

from parley.protocol.aggregation.mean import Members
from parley.protocol.aggregation.one_noise import OneNoise
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class DistributedNoise:
    """v_S = k/(k - t) times that of one noise, in a coalition of k owners of whom t may pool what they drew.

    The shares of the other k - t must make the whole noise by themselves, so each is a (k - t)-th of it; where nobody
    but the curious would be left, everybody adds all of it. Both laws can be had as such sums: normal numbers, and
    differences of gamma numbers for Laplace's.

    >>> noise = DistributedNoise(OneNoise(np.ones(4), np.full(4, 9.0)))
    >>> noise.variance(np.tri(3, 4, dtype=bool)).tolist()
    [9.0, 4.5, 1.5]
    """

    one: OneNoise
    curious: int = 1

    @property
    def all_together(self) -> float:
        """The variance of the combined answer of all owners."""
        return float(self.variance(np.ones(len(self.one.records), dtype=bool)))

    def variance(self, members: Members) -> Floats:
        """The variance v_S of the combined answer of each coalition [..., N]."""
        owners = members.sum(axis=-1)
        return np.asarray(self.one.variance(members) * owners / np.maximum(owners - self.curious, 1))
