"""The calls that callers have under way at a daemon."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from parley.network.serving.acceptance import Caller

OF_MEMBER = 2  # of the places that all members share


class CallSlots:
    """The calls that each caller has under way: `each` at most, and `patience` seconds for each to send its message.

    Who opens calls and never ends them blocks itself, for a while, and not the others. The calls that any member may
    make have `each` places in all beside these, and `OF_MEMBER` of them a certificate.
    """

    def __init__(self, each: int, patience: float) -> None:
        self._each, self._patience, self._lock = each, patience, threading.Lock()
        self._taken: Counter[Caller] = Counter()
        self._shared: Counter[Caller] = Counter()
        self._sending: dict[Any, float] = {}

    def acquire(self, caller: Caller, shared: bool = False) -> bool:
        """Take a place for a call of this caller, its own or one that all members share; whether there was one."""
        with self._lock:
            if shared:
                free = self._shared[caller] < OF_MEMBER and self._shared.total() < self._each
            else:
                free = self._taken[caller] < self._each
            if free:
                (self._shared if shared else self._taken)[caller] += 1
        return free

    def release(self, caller: Caller, shared: bool = False) -> None:
        """Give back the place of a call that ended."""
        taken = self._shared if shared else self._taken
        with self._lock:
            taken[caller] -= 1
            if not taken[caller]:
                del taken[caller]

    def sharers(self) -> str:
        """The names of those who hold places that all members share."""
        with self._lock:
            return ", ".join(sorted({",".join(caller.names) for caller in self._shared}))

    def message(self, sent: Iterator[bytes], context: Any) -> bytes:
        """The one message of a call, read while it has a place."""
        self._sending[context] = time.monotonic()
        try:
            return next(sent, b"")
        finally:
            del self._sending[context]

    def cancel_overdue(self) -> None:
        """End calls whose message does not come."""
        for context, began in list(self._sending.items()):
            if time.monotonic() - began > self._patience:
                context.cancel()
