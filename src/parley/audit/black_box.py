"""How large epsilon is at least, from draws alone: any mechanism as a black box."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from parley.audit.distinguishing import Event, best_event
from parley.errors import SettingError
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
