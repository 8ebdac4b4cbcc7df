"""Random words of the operating system's cryptographic generator: all that the exact samplers draw from."""

import os

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


def random_words(size: int) -> Words:
    """`size` independent uniform 64-bit words; there is no seed."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
