"""How often a daemon looks at what a member sends and has to refuse, before the member has to wait."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from parley.errors import Refusal
from parley.network.serving.acceptance import Caller

MANY = 8  # refusals at once
EVERY = 2.0  # seconds, after which one more
KNOWN = 4096  # members that are remembered


class Patience:
    """The refusals of each member: `MANY` at once, and then one in `EVERY` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._until: OrderedDict[Caller, float] = OrderedDict()  # when all of somebody's refusals are forgotten

    def require(self, caller: Caller) -> None:
        """Refuse a member that has to wait."""
        with self._lock:
            if self._until.get(caller, 0.0) > self._clock() + (MANY - 1) * EVERY:
                raise Refusal("too many proposals of this learner were refused; wait a few seconds")

    def refused(self, caller: Caller) -> None:
        """One more refusal of this member."""
        with self._lock:
            self._until[caller] = max(self._until.pop(caller, 0.0), self._clock()) + EVERY
            if len(self._until) > KNOWN:
                self._until.popitem(last=False)
