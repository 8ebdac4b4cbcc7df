"""Speed settings that change no result: sums on all cores, and slow work on public numbers done once in a process."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache, wraps
from threading import Event, Lock
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from parley.validate import Floats

Given = ParamSpec("Given")
Found = TypeVar("Found")
P = TypeVar("P")

_limit_lock = Lock()  # who holds it has limited the process, and gives back what was found
one_thread_for_all = Event()  # set while BLAS of the whole process is limited to one thread: nobody has to ask it


def sum_blocks(part: Callable[[P], Floats], blocks: Sequence[P]) -> Floats:
    """Return the sum of part(block), added up in the order of the blocks whichever thread computed them."""
    # blocks are small: BLAS threads would cost more than they bring, and fight ours
    with one_blas_thread():
        return add(_pool(os.getpid()).map(part, blocks) if len(blocks) > 1 and _cores() > 1 else map(part, blocks))


def sum_pieces(part: Callable[[P], Floats], pieces: Sequence[P]) -> Floats:
    """Like `sum_blocks` for pieces on a disk: few at a time, and on a cluster if joblib has one (`parallel_config`)."""
    import joblib  # only tables on disk need it, and it takes a while to load

    readers = _cores() + 1  # one of them waits for the disk while the others compute
    work = joblib.Parallel(n_jobs=readers, prefer="threads", return_as="generator", pre_dispatch="2*n_jobs")
    with one_blas_thread():
        return add(work(joblib.delayed(part)(piece) for piece in pieces))


def add(parts: Iterable[Floats]) -> Floats:
    """Add up from the first to the last."""
    total: Floats | None = None
    for value in parts:
        total = value if total is None else total + value
    if total is None:
        raise ValueError("there are no rows to sum")
    return total


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _pool(pid: int) -> ThreadPoolExecutor:
    """Return this process's pool: threads do not survive a fork."""
    return ThreadPoolExecutor(_cores(), thread_name_prefix="parley-blocks")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread in this context. It asks first, because setting takes ten times longer."""
    if one_thread_for_all.is_set():
        return nullcontext()
    libraries = _blas()
    already = all(library.num_threads == 1 for library in libraries.lib_controllers)
    return nullcontext() if already else libraries.limit(limits=1)


def one_thread(work: Callable[Given, Found]) -> Callable[Given, Found]:
    """Run forecasts, plans and training with one thread of linear algebra: for their small matrices or blocks
    (`blocks`) more threads wait longer than they compute, and add up in another order. If several run at once, the
    first limits the whole process until it ends, and the others limit their own threads."""
    return _limited(work, None)


def one_blas(work: Callable[Given, Found]) -> Callable[Given, Found]:
    """Like `one_thread` for BLAS alone: networks keep their threads."""
    return _limited(work, "blas")


def _limited(work: Callable[Given, Found], libraries: str | None) -> Callable[Given, Found]:
    @wraps(work)
    def alone(*given: Given.args, **named: Given.kwargs) -> Found:
        every = _libraries(len(sys.modules))
        if not _limit_lock.acquire(blocking=False):
            with nullcontext() if libraries == "blas" else every.select(user_api="openmp").limit(limits=1):
                return work(*given, **named)
        try:
            with every.limit(limits=1, user_api=libraries):
                blas = every.select(user_api="blas").lib_controllers
                if all(library.num_threads == 1 for library in blas):  # else another thread has its own limit just now
                    one_thread_for_all.set()
                try:
                    return work(*given, **named)
                finally:
                    one_thread_for_all.clear()
        finally:
            _limit_lock.release()

    return alone


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the loaded libraries with threads; a new number of modules looks again."""
    return ThreadpoolController()


T = TypeVar("T")


class Remembered(Generic[T]):
    """A thread-safe cache of the last `max_entries` results. Arrays in it are read-only.

    >>> squares = Remembered[int](max_entries=2)
    >>> [squares.get(str(n).encode(), lambda n=n: n * n) for n in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries, self._known, self._lock = max_entries, dict[bytes, T](), Lock()

    def get(self, key: bytes, make: Callable[[], T]) -> T:
        """Return the result under this key, else that of `make`; the key must name all that it depends on."""
        with self._lock:
            if key in self._known:
                return self._known[key]
        made = make()
        if isinstance(made, np.ndarray):
            made.flags.writeable = False
        with self._lock:
            while len(self._known) >= self._max_entries:
                self._known.pop(next(iter(self._known)))
            self._known[key] = made
        return made


def content_key(setting: object, *arrays: NDArray[np.generic]) -> bytes:
    """Return a hash of this setting, by its text, and of these arrays."""
    digest = hashlib.sha256(repr((setting, [(each.shape, each.dtype.str) for each in arrays])).encode())
    for each in arrays:
        digest.update(np.ascontiguousarray(each).data)
    return digest.digest()
