"""The calls that callers have under way at a daemon."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from parley.network.serving.acceptance import Caller


class CallSlots:
    """The calls that each caller has under way: `each` at most, and `patience` seconds for each to send its message.

    Who opens calls and never ends them blocks itself, for a while, and not the others.
    """

    def __init__(self, each: int, patience: float) -> None:
        self._each, self._patience, self._lock = each, patience, threading.Lock()
        self._taken: Counter[Caller] = Counter()
        self._sending: dict[Any, float] = {}

    def acquire(self, caller: Caller) -> bool:
        """Take a place for a call of this caller; whether there was one."""
        with self._lock:
            free = self._taken[caller] < self._each
            self._taken[caller] += free
        return free

    def release(self, caller: Caller) -> None:
        """Give back the place of a call that ended."""
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]

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
