"""The calls that callers have under way at a daemon."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from parley.network.serving.acceptance import Caller

OF_PARTY = 2  # of the places that all members share
TURN = 1.0  # seconds for which a call keeps such a place while it sends nothing and others wait


class CallSlots:
    """The calls that each caller has under way: `each` at most, and `patience` seconds for each to send its message.

    Who opens calls and never ends them blocks itself, for a while, and not the others. The calls that any member may
    make share `each` places beside these, `OF_PARTY` of them for one party, whatever certificates it shows. Where all
    are taken, a party without any gets the place of the call that has sent nothing for longest, once that had its
    `TURN`.
    """

    def __init__(self, each: int, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._patience, self._clock, self._lock = each, patience, clock, threading.Lock()
        self._taken: Counter[Caller] = Counter()
        self._shared: dict[Any, Caller] = {}  # by call, the first one first
        self._sending: dict[Any, float] = {}  # likewise, and since when

    def acquire(self, caller: Caller) -> bool:
        """Take a place of this caller's own for a call; whether there was one."""
        with self._lock:
            free = self._taken[caller] < self._each
            if free:
                self._taken[caller] += 1
        return free

    def release(self, caller: Caller) -> None:
        """Give back the place of a call that ended."""
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]

    def acquire_shared(self, caller: Caller, call: Any) -> bool:
        """Take a place that all members share for this call; whether there was one, or one that somebody had to
        leave."""
        leaves = None
        with self._lock:
            theirs = sum(bool(other.party & caller.party) for other in self._shared.values())
            if theirs >= OF_PARTY:
                return False
            if len(self._shared) >= self._each:
                leaves = None if theirs else self._overdue(TURN)
                if leaves is None:
                    return False
                del self._shared[leaves]
            self._shared[call] = caller
            self._sending[call] = self._clock()
        if leaves is not None:
            leaves.cancel()
        return True

    def release_shared(self, call: Any) -> None:
        """Give back the place of a call that ended, if it still has it."""
        with self._lock:
            self._shared.pop(call, None)
            self._sending.pop(call, None)

    def sharers(self) -> str:
        """The names of those who hold places that all members share."""
        with self._lock:
            return ", ".join(sorted({",".join(caller.names) for caller in self._shared.values()}))

    def message(self, sent: Iterator[bytes], call: Any) -> bytes:
        """The one message of a call, read while it has a place."""
        with self._lock:
            self._sending.setdefault(call, self._clock())
        try:
            return next(sent, b"")
        finally:
            with self._lock:
                self._sending.pop(call, None)

    def cancel_overdue(self) -> None:
        """End calls whose message does not come."""
        with self._lock:
            now = self._clock()
            overdue = [call for call, began in self._sending.items() if now - began > self._patience]
        for call in overdue:
            call.cancel()

    def _overdue(self, seconds: float) -> Any | None:
        """Of the calls on shared places the one that has sent nothing for longest, if for longer than this."""
        began, now = self._sending, self._clock()
        silent = [call for call in self._shared if call in began and now - began[call] > seconds]
        return min(silent, key=began.__getitem__, default=None)
