"""What a daemon does beside answering."""

import threading
import time
from collections.abc import Callable, Sequence

from parley.network.serving.call_slots import CallSlots
from parley.network.serving.log import Log
from parley.network.serving.network import Network

LOOK = 1.0  # seconds between two looks at what may have changed
DAY = 86400.0  # seconds between two reminders of what runs out


def maintain(
    network: Network | None,
    slots: CallSlots,
    reminders: Callable[[], Sequence[str]],
    stop: threading.Event,
    log: Log,
    *at_each_look: Callable[[], None],
) -> None:
    """Until it is told to stop: follow the certificate's files, end calls that take too long, and say every day what
    runs out.

    A service may have something of its own to do `at_each_look`.
    """
    due = time.monotonic()
    while not stop.is_set():
        if network is not None:
            network.credentials.reload()
        if time.monotonic() >= due:
            due += DAY
            for sentence in reminders():
                log("warning", reason=sentence)
        stop.wait(LOOK)
        slots.cancel_overdue()
        for look in at_each_look:
            look()
