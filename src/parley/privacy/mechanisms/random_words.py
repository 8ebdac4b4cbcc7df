"""Random words of the operating system's cryptographic generator,
or of a secret seed: all that the exact samplers draw from."""

import hashlib
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Draw = Callable[[int], Words]  # so many words


def random_words(size: int) -> Words:
    """`size` independent uniform 64-bit words; there is no seed."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


class SeededWords:
    """The words that follow from a seed, one stretch after the
    other: SHAKE-256 of the seed and the number of the stretch.

    Formal guarantee: independent uniform words for whoever cannot
    tell SHAKE-256 of an unknown seed of 32 bytes from such.
    """

    def __init__(self, seed: bytes) -> None:
        self._start, self._stretches = len(seed).to_bytes(8, "little") + seed, 0

    def __call__(self, size: int) -> Words:
        self._stretches += 1
        stretch = hashlib.shake_256(self._start + self._stretches.to_bytes(8, "little")).digest(8 * size)
        return np.frombuffer(stretch, dtype="<u8").astype(np.uint64)
