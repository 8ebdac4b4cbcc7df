"""How large epsilon is at least, from draws alone: any mechanism as a black box."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from parley.audit.distinguishing import Event, best_event
from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import Bounded, Exponential, FastNoise, Geometric, Mechanism, SafeNoise, Stable
from parley.privacy.mechanisms.shared_noise import SharedNoise, draw_plainly
from parley.validate import Floats, finite, non_negative, whole

# (value [d...], how many, generator) -> so many released values [how many, d...]
Release = Callable[[Floats, int, np.random.Generator], ArrayLike]

CHUNK = 2**20  # numbers that are drawn at once: memory does not grow with the number of draws
PILOT = 2**21  # draws of each table that choose the event, at most


def lower_bound(
    release: Release,
    a: ArrayLike,
    b: ArrayLike,
    draws: int,
    delta: float = 0.0,
    confidence: float = 0.99,
    seed: int | None = None,
) -> float:
    """The largest epsilon that `draws` releases of each of two neighbouring exact values prove, at `delta`.

    Released values are projected on b - a, and the best threshold, in either tail and as a sign of either value, is
    chosen on other draws: as many again, up to `PILOT` of each value. 0 where nothing is proved.

    Formal guarantee: whatever `release` does, if its draws are independent, the result exceeds the eps of `release` at
    this delta with probability at most 1 - confidence: one event is fixed before the draws that are counted
    (`Event.bound`). It is a lower bound: that it is small proves nothing.

    Parameters
    ----------
    release
        The mechanism: of a value, a number of draws and a generator, so many noisy values.
    a, b
        What it would have to hide: the exact values of two neighbours.
    draws
        Of each value, that are counted.
    delta
        At which epsilon is meant.
    confidence
        That the bound holds.
    seed
        Of the generators.

    Returns
    -------
    float
        An epsilon that is certainly lost, with that confidence.

    Examples
    --------
    >>> def laplace(value, size, rng):
    ...     return value + rng.laplace(size=(size, *value.shape))
    >>> 0.8 < lower_bound(laplace, 0.0, 1.0, 20_000, seed=1) < 1
    True
    """
    value_a, value_b = finite(a, "a"), finite(b, "b")
    if value_a.shape != value_b.shape:
        raise SettingError("a, b: expected exact values of the same shape")
    draws = whole(draws, "draws")
    check_confidence(delta, confidence)
    direction = value_b - value_a
    generators = np.random.default_rng(seed).spawn(4)
    pilot_a, pilot_b = (
        np.concatenate(list(_projected(release, value, direction, min(draws, PILOT), rng)))
        for value, rng in zip((value_a, value_b), generators[:2], strict=True)
    )
    event = best_event(pilot_a, pilot_b, delta, confidence)
    hits_a, hits_b = (
        _hits(event, release, value, direction, draws, rng)
        for value, rng in zip((value_a, value_b), generators[2:], strict=True)
    )
    return event.bound(hits_a, hits_b, draws, delta, confidence)


def check_confidence(delta: float, confidence: float) -> None:
    """Refuse a delta or a confidence that is no probability."""
    if not non_negative(delta, "delta") < 1:
        raise SettingError(f"delta = {delta:g}: expected a number from 0 up to, not including, 1")
    if not 0 < confidence < 1:
        raise SettingError(f"confidence = {confidence!r}: expected a number between 0 and 1")


def release_of(mechanism: Mechanism | Geometric | Stable | Exponential | SharedNoise, safe: bool = False) -> Release:
    """Every mechanism as a `release` that `lower_bound` can attack: by the fast noise of studies, or by the exact
    samplers that owners release with.

    Releases of this mechanism: a value [d] to so many noisy ones [size, d]; of choices among candidates, rows that
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


def _hits(
    event: Event, release: Release, value: Floats, direction: Floats, draws: int, rng: np.random.Generator
) -> int:
    return sum(event.hits(chunk) for chunk in _projected(release, value, direction, draws, rng))


def _projected(
    release: Release, value: Floats, direction: Floats, draws: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """The statistic of so many releases of a value, chunk by chunk."""
    most = max(1, CHUNK // max(value.size, 1))
    for start in range(0, draws, most):
        size = min(most, draws - start)
        released = np.asarray(release(value, size, rng), dtype=np.float64)
        if released.shape != (size, *value.shape):
            raise SettingError(f"release: expected an array of shape {(size, *value.shape)}, got {released.shape}")
        yield released.reshape(size, -1) @ direction.reshape(-1)


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
