"""Every mechanism as a `release` that `lower_bound` can attack: by the fast noise of studies, or by the exact samplers
that owners release with."""

import numpy as np

from parley.audit.black_box import Release
from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Bounded, Exponential, FastNoise, Geometric, Mechanism, SafeNoise, Stable
from parley.privacy.mechanisms.recipe import draw_plainly
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.validate import Floats


def release_of(mechanism: Mechanism | Geometric | Stable | Exponential | SharedNoise, safe: bool = False) -> Release:
    """Releases of this mechanism: a value [d] to so many noisy ones [size, d]; of choices among candidates, rows that
    are 1 at the chosen one.

    `safe`: by the samplers that owners release with, which take tens of microseconds each and no seed; else by NumPy's.
    One noise for all is drawn as studies draw it, once: of two hosts one knows its own and takes it off. That three
    hosts draw the same is for tests of `sharing`.
    """
    if isinstance(mechanism, Exponential):
        return _choices(mechanism, safe)
    if isinstance(mechanism, SharedNoise):
        if safe:
            raise GuaranteeError("safe: one noise for all is drawn by three hosts; here it is drawn as in studies")
        return _sums(mechanism)
    kind = mechanism

    def exact(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        noise, bounded = SafeNoise(), Bounded(value, kind.sensitivity, kind.norm)
        return np.array([kind.release(bounded, noise) for _ in range(size)], dtype=np.float64)

    def fast(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        many = np.broadcast_to(value, (size, *value.shape))
        return np.asarray(kind.release(Bounded(many, kind.sensitivity, kind.norm), FastNoise(rng)), dtype=np.float64)

    return exact if safe else fast


def _choices(mechanism: Exponential, safe: bool) -> Release:
    def release(scores: Floats, size: int, rng: np.random.Generator) -> Floats:
        noise = SafeNoise() if safe else FastNoise(rng)
        chosen = np.array([mechanism.choose(scores, noise) for _ in range(size)])
        return np.asarray(np.eye(len(scores))[chosen])

    return release


def _sums(noise: SharedNoise) -> Release:
    def release(value: Floats, size: int, rng: np.random.Generator) -> Floats:
        words = noise.encode(Bounded(np.broadcast_to(value, (size, *value.shape)), noise.sensitivity, noise.norm))
        return noise.decode(words + draw_plainly(noise.recipe, words.shape, rng).view(np.uint64))

    return release
