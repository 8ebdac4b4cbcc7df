"""Sums over blocks of rows, on all cores. A speed setting: the result does not depend on how many there are."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from parley.validate import Floats


def sum_blocks(part: Callable[[slice], Floats], blocks: list[slice]) -> Floats:
    """The sum of part(block), added up in the order of the blocks whatever thread computed them."""
    if len(blocks) < 4 or _cores() < 2:
        return _add(map(part, blocks))
    with _blas().limit(limits=1, user_api="blas"):  # the blocks are the parallelism; BLAS threads would fight it
        return _add(_pool(os.getpid()).map(part, blocks))


def _add(parts: Any) -> Floats:
    total: Floats | None = None
    for value in parts:
        total = value if total is None else total + value
    if total is None:
        raise ValueError("no rows to sum")
    return total


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _pool(pid: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not survive a fork."""
    return ThreadPoolExecutor(_cores(), thread_name_prefix="parley-blocks")


@cache
def _blas() -> Any:
    return ThreadpoolController()
