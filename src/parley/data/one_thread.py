"""Forecasts, plans and training by one thread of linear algebra.

Their matrices are small, or cut into blocks that have threads of their own (`blocks`): more threads wait for each other
longer than they compute, take the processor from whoever else works on the machine, and what they add up comes out in
another order.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache, wraps
from threading import Lock
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

from parley.data.blocks import one_thread_for_all

Given = ParamSpec("Given")
Found = TypeVar("Found")


_limiting = Lock()  # who holds it has limited the process, and gives back what was found


def one_thread(work: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same work, while which linear algebra has one thread; of several pieces of work at once the first one to
    begin limits the process, until it ends, and the others what is theirs alone."""
    return _limited(work, None)


def one_blas(work: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same for BLAS alone: networks keep their threads."""
    return _limited(work, "blas")


def _limited(work: Callable[Given, Found], libraries: str | None) -> Callable[Given, Found]:
    @wraps(work)
    def alone(*given: Given.args, **named: Given.kwargs) -> Found:
        every = _libraries(len(sys.modules))
        if not _limiting.acquire(blocking=False):
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
            _limiting.release()

    return alone


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries with threads that are loaded, looked for again when something was imported since."""
    return ThreadpoolController()
