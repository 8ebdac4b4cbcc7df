"""How often a daemon does work for a member that comes to nothing, before the member has to wait."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from parley.errors import Refusal
from parley.network.serving.acceptance import Caller

MANY = 8  # proposals at once that come to nothing
EVERY = 2.0  # seconds, after which one more
KNOWN = 4096  # names that are remembered


class Patience:
    """What came to nothing of each party's, by its names, whatever certificates it shows: `MANY` at once, and then one
    in `EVERY` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._until: OrderedDict[str, float] = OrderedDict()  # when all of it is forgotten

    def require(self, caller: Caller) -> None:
        """Refuse a member that has to wait."""
        with self._lock:
            until = max(self._until.get(name, 0.0) for name in caller.party)
            if until > self._clock() + (MANY - 1) * EVERY:
                raise Refusal("too many proposals of this learner were refused or withdrawn; wait a few seconds")

    def wasted(self, caller: Caller) -> None:
        """One more of this member's came to nothing."""
        with self._lock:
            for name in caller.party:
                self._until[name] = max(self._until.pop(name, 0.0), self._clock()) + EVERY
            while len(self._until) > KNOWN:
                self._until.popitem(last=False)
