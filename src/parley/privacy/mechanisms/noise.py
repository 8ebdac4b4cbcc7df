"""Sources of randomness: fast noise with a seed for studies, safe noise without one for whatever leaves an owner.
Floating-point Laplace samples have gaps that depend on the value they are added to, and enough low bits tell
neighbouring tables apart (Mironov 2012). Safe noise, exact and from a cryptographic generator, has none."""

import os
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parley.errors import GuaranteeError
from parley.privacy.mechanisms import stable_law
from parley.privacy.mechanisms.exact_samplers import add_gaussian, add_laplace, discrete_laplace
from parley.validate import Floats

Integers = NDArray[np.int64]

VECTOR_SAMPLER_FROM = 16  # coordinates from which the vectorised sampler is the faster one


class Noise(Protocol):
    """A source of noise. `safe` says whether its output may leave the owner."""

    @property
    def safe(self) -> bool: ...

    def laplace(self, value: Floats, scale: float, sensitivity: float) -> Floats:
        """Return `value`, of this L1 sensitivity, plus independent Laplace noise of this scale in every coordinate."""
        ...

    def gaussian(self, value: Floats, sigma: float) -> Floats:
        """Return `value` plus independent normal noise of this standard deviation in every coordinate."""
        ...

    def geometric(self, value: Integers, scale: float) -> Integers:
        """Return whole numbers plus independent two-sided geometric noise, P(k) proportional to exp(-|k|/scale)."""
        ...

    def stable(self, value: Floats, alpha: float, scale: float) -> Floats:
        """Return `value` plus independent symmetric alpha-stable noise in every coordinate."""
        ...

    def seed(self) -> bytes:
        """Return 32 bytes that nobody else knows, for a secret draw of records."""
        ...

    def choose(self, scores: Floats, scale: float) -> int:
        """Return the place of the largest score + Gumbel noise: i with P proportional to exp(score_i/scale)."""
        ...


class FastNoise:
    """Seeded NumPy noise for studies: any shape, about 20 ns a number. Not for release.

    >>> FastNoise(7).laplace(np.zeros(2), 1.0, 1.0).shape
    (2,)
    """

    safe = False

    def __init__(self, seed: int | np.random.SeedSequence | np.random.Generator | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._weights: Floats = np.ones(1)

    def combined(self, weights: Floats) -> "FastNoise":
        """Return the same source, giving for each draw of Y one of sum_i w_i Y_i, the Y_i independent and like Y, all
        weights positive: the noise of many owners' weighted mean, without drawing that of each. Laplace and geometric
        noise cost a draw for each different weight; weights within 1e-9 of each other count as the same."""
        other = FastNoise(self._rng)
        other._weights = np.asarray(weights, dtype=np.float64)
        return other

    @cached_property
    def _weight_counts(self) -> list[tuple[float, int]]:
        """The different weights, and how many have each; their squares add up as before."""
        _, place, counts = np.unique(np.rint(1e9 * np.log(self._weights)), return_inverse=True, return_counts=True)
        squares = np.bincount(place, self._weights**2) / counts
        return [(float(np.sqrt(square)), int(count)) for square, count in zip(squares, counts, strict=True)]

    def laplace(self, value: Floats, scale: float, sensitivity: float) -> Floats:
        for weight, count in self._weight_counts:
            value = value + self._laplaces(count, weight * scale, value.shape)
        return value

    def gaussian(self, value: Floats, sigma: float) -> Floats:
        return value + self._rng.normal(scale=sigma * np.linalg.norm(self._weights), size=value.shape)

    def geometric(self, value: Integers, scale: float) -> NDArray[Any]:
        stop = -np.expm1(-1 / scale)
        noisy: NDArray[Any] = value
        for weight, count in self._weight_counts:
            drawn = self._geometric_sums(count, stop, value.shape) - self._geometric_sums(count, stop, value.shape)
            noisy = noisy + (drawn if weight == 1 else weight * drawn)
        return noisy

    def stable(self, value: Floats, alpha: float, scale: float) -> Floats:
        return value + stable_law.sample(
            alpha, scale * float(np.sum(self._weights**alpha)) ** (1 / alpha), value.shape, self._rng
        )

    def _laplaces(self, count: int, scale: float, shape: tuple[int, ...]) -> Floats:
        """Return sums of `count` Laplace numbers."""
        if count == 1:
            return self._rng.laplace(scale=scale, size=shape)
        return scale * (self._rng.standard_gamma(count, size=shape) - self._rng.standard_gamma(count, size=shape))

    def _geometric_sums(self, count: int, stop: float, shape: tuple[int, ...]) -> Integers:
        """Return sums of `count` geometric numbers, up to a constant."""
        return (
            self._rng.geometric(stop, size=shape)
            if count == 1
            else self._rng.negative_binomial(count, stop, size=shape)
        )

    def seed(self) -> bytes:
        return self._rng.bytes(32)

    def choose(self, scores: Floats, scale: float) -> int:
        return int(np.argmax(scores + self._rng.gumbel(scale=scale, size=scores.shape)))


class SafeNoise:
    """Exact samplers without a seed or floating-point gaps: OpenDP's (about 40 us a number), or our own where faster.

    Formal guarantee: with no floating-point term left over, for every finite value,

    - Laplace noise on L1 sensitivity S is S/scale-DP. Below `VECTOR_SAMPLER_FROM` coordinates OpenDP adds noise of the
      exact two-sided geometric law on a grid of 2^-1074 on which every float lies; longer vectors go to
      `exact_samplers`, which pays for its coarser grid.
    - Gaussian noise is the normal law itself, rounded to a grid after it was added (`exact_samplers`): a function of
      value + sigma N alone. So whatever is proved for exact Gaussian noise in any dimension, delta(eps) and zCDP, holds
      as it stands.
    """

    safe = True

    def laplace(self, value: Floats, scale: float, sensitivity: float) -> Floats:
        if value.size >= VECTOR_SAMPLER_FROM:
            return add_laplace(value, scale, sensitivity)
        flat = np.ascontiguousarray(value, dtype=np.float64).reshape(-1)
        return np.asarray(opendp_laplace(scale)(flat), dtype=np.float64).reshape(value.shape)

    def gaussian(self, value: Floats, sigma: float) -> Floats:
        return add_gaussian(value, sigma)

    def geometric(self, value: Integers, scale: float) -> Integers:
        if value.size >= VECTOR_SAMPLER_FROM and scale.is_integer():
            return value + discrete_laplace(int(scale), value.size).reshape(value.shape)
        from opendp.measurements import make_laplace

        noisy = make_laplace(*_opendp_vectors("l1", T="i64"), scale=scale)
        return np.asarray(noisy(np.ascontiguousarray(value, dtype=np.int64).reshape(-1)), dtype=np.int64).reshape(
            value.shape
        )

    def stable(self, value: Floats, alpha: float, scale: float) -> Floats:
        raise GuaranteeError(
            "stable noise has no exact sampler, so Parley releases no value with stable noise; use laplace or gaussian "
            "noise"
        )

    def seed(self) -> bytes:
        return os.urandom(32)

    def choose(self, scores: Floats, scale: float) -> int:
        from opendp.measurements import make_noisy_max
        from opendp.measures import zero_concentrated_divergence

        space = _opendp_vectors("linf", T=float, nan=False)
        return int(make_noisy_max(*space, zero_concentrated_divergence(), scale=scale)(scores.tolist()))


def _opendp_vectors(norm: str, T: Any, **numbers: bool) -> tuple[Any, Any]:
    """Return OpenDP's domain of vectors of such numbers, and their distance, without its slow prelude."""
    from opendp import domains, metrics, mod

    mod.enable_features("contrib")
    return domains.vector_domain(domains.atom_domain(T=T, **numbers)), getattr(metrics, f"{norm}_distance")(T=T)


@lru_cache(maxsize=16)
def opendp_laplace(scale: float) -> Any:
    """Return OpenDP's Laplace measurement on float vectors; `.map(sensitivity)` is its own upper bound on epsilon."""
    from opendp.measurements import make_laplace

    return make_laplace(*_opendp_vectors("l1", T=float, nan=False), scale=scale)
