"""What a daemon does beside answering."""

import os
import threading
import time
from collections.abc import Callable, Sequence

from parley.network.serving.call_slots import CallSlots
from parley.network.serving.log import Log
from parley.network.serving.network import Network

LOOK = 1.0  # seconds between two looks at what may have changed
DAY = 86400.0  # seconds between two reminders of what runs out
SERVING_ENDED = 1  # the exit status: a restart mends it


def exit_if_dead(serving: Sequence[threading.Thread], network: Network | None, log: Log) -> None:
    """End the process if a thread has died without which no call is answered: whoever watches over it starts it again.

    It ends at once, as by a kill: calls under way would be waited for in vain. What was debited is stored.
    """
    if all(thread.is_alive() for thread in serving) and (network is None or network.alive):
        return
    log("serving-ended", reason="a thread died without which no call is answered; the process ends")
    log.close()
    if network is not None:
        network.remove_folder()
    os._exit(SERVING_ENDED)


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
