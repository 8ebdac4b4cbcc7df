"""Where randomness comes from. Studies use fast noise with a seed; whatever leaves an owner uses safe noise without one.

The two differ in more than speed. A floating-point Laplace sample has gaps that depend on the value it is added to, and an
observer who sees enough low bits can tell neighbouring tables apart (Mironov 2012). OpenDP's sampler works in exact arithmetic on
the grid of all floats with a cryptographic generator and has no such gaps.
"""

from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from parley.validate import Floats


class Noise(Protocol):
    """A source of noise. `safe` says whether its output may leave the owner."""

    @property
    def safe(self) -> bool: ...

    def laplace(self, value: Floats, scale: float) -> Floats:
        """`value` plus independent Laplace noise of this scale in every coordinate."""
        ...


class FastNoise:
    """Seeded NumPy noise for studies: any shape, about 20 ns a number. Not for release.

    >>> FastNoise(7).laplace(np.zeros(2), 1.0).shape
    (2,)
    """

    safe = False

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        self._rng = np.random.default_rng(seed)

    def laplace(self, value: Floats, scale: float) -> Floats:
        return value + self._rng.laplace(scale=scale, size=value.shape)


class SafeNoise:
    """OpenDP's exact discrete Laplace noise: no seed, no floating-point gaps, about 40 us a number.

    Formal guarantee: the released vector is, up to rounding to the nearest float afterwards, the exact value plus noise of the
    exact two-sided geometric law on a grid of 2^-1074; every float lies on that grid, so nothing is rounded before the noise.
    For L1 sensitivity S this is S/scale-DP with no floating-point term.
    """

    safe = True

    def laplace(self, value: Floats, scale: float) -> Floats:
        flat = np.ascontiguousarray(value, dtype=np.float64).reshape(-1)
        return np.asarray(opendp_laplace(scale)(flat), dtype=np.float64).reshape(value.shape)


@lru_cache(maxsize=16)
def opendp_laplace(scale: float) -> Any:
    """OpenDP's Laplace measurement on vectors of floats; `.map(sensitivity)` is its own upper bound on epsilon."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return dp.m.make_laplace(*space, scale=scale)
