"""Forecasts and plans by one thread of linear algebra.

Their matrices are small, public rows times columns: threads wait for each other longer than they compute, take the
processor from whoever else works on the machine, and what they add up comes out in another order.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

Given = ParamSpec("Given")
Found = TypeVar("Found")


def one_thread(work: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same work, while which linear algebra has one thread."""

    @wraps(work)
    def alone(*given: Given.args, **named: Given.kwargs) -> Found:
        with threadpool_limits(1):
            return work(*given, **named)

    return alone
