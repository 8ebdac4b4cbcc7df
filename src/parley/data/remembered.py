"""Slow work on public numbers, done once in a process however often somebody asks for it."""

import hashlib
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Remembered(Generic[T]):
    """The results of the last so many different pieces of work; several threads may ask, and an array that is shared
    among them is not to be written to.

    >>> squares = Remembered[int](most=2)
    >>> [squares.of(str(n).encode(), lambda n=n: n * n) for n in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most: int) -> None:
        self._most, self._known, self._lock = most, dict[bytes, T](), Lock()

    def of(self, key: bytes, make: Callable[[], T]) -> T:
        """What `make` gives, made where nothing of this key is known; a key has to name all that it hangs on."""
        with self._lock:
            if key in self._known:
                return self._known[key]
        made = make()
        if isinstance(made, np.ndarray):
            made.flags.writeable = False
        with self._lock:
            while len(self._known) >= self._most:
                self._known.pop(next(iter(self._known)))
            self._known[key] = made
        return made


def named_by(setting: object, *arrays: NDArray[np.generic]) -> bytes:
    """A key that tells this setting, by its text, and these arrays from any others."""
    found = hashlib.sha256(repr((setting, [(each.shape, each.dtype.str) for each in arrays])).encode())
    for each in arrays:
        found.update(np.ascontiguousarray(each).data)
    return found.digest()
