"""How the three hosts reach each other: a channel each. Here inside
one process; over a network, whoever keeps the promise of `Channel`."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from parley.errors import Unavailable

HOSTS = 3

T = TypeVar("T")


class Channel(Protocol):
    """One host's end: messages between a pair arrive whole, in order and unread by others (over a network: TLS).

    `send` never waits for the receiver to read (all three send before they receive); `receive` waits, and raises
    `Unavailable` when the other does not send in time or is gone.
    """

    @property
    def index(self) -> int: ...

    def send(self, to: int, payload: bytes) -> None: ...

    def receive(self, source: int) -> bytes: ...


class Wire:
    """A channel between threads of one process."""

    def __init__(self, index: int, queues: dict[tuple[int, int], "SimpleQueue[bytes | None]"], timeout: float) -> None:
        self.index = index
        self._queues = queues
        self._timeout = timeout

    def send(self, to: int, payload: bytes) -> None:
        self._queues[self.index, to].put(payload)

    def receive(self, source: int) -> bytes:
        try:
            payload = self._queues[source, self.index].get(timeout=self._timeout)
        except Empty:
            raise Unavailable(f"host {source}: no message within {self._timeout:g} s; try again later") from None
        if payload is None:
            self._queues[source, self.index].put(None)
            raise Unavailable(f"host {source}: its channel is closed; start again with new ones")
        return payload

    def close(self) -> None:
        """Whoever waits for this host, now or later, is told that it is gone."""
        for (source, _), queue in self._queues.items():
            if source == self.index:
                queue.put(None)


def wires(timeout: float = 60.0) -> tuple[Wire, Wire, Wire]:
    """The ends of three hosts' channels within one process, in the order of the hosts."""
    queues: dict[tuple[int, int], SimpleQueue[bytes | None]] = {
        (i, j): SimpleQueue() for i in range(HOSTS) for j in range(HOSTS) if i != j
    }
    return Wire(0, queues, timeout), Wire(1, queues, timeout), Wire(2, queues, timeout)


class Counted:
    """A channel that counts what is sent through it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.index = channel.index
        self.messages = 0
        self.bytes = 0

    def send(self, to: int, payload: bytes) -> None:
        self.messages += 1
        self.bytes += len(payload)
        self._channel.send(to, payload)

    def receive(self, source: int) -> bytes:
        return self._channel.receive(source)


def together(*tasks: Callable[[], T], wires: Sequence[Wire] = ()) -> tuple[T, ...]:
    """Run the hosts' tasks in threads of their own. The first error
    closes the wires, so that nobody waits for ever, and is raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(task) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = [f for f in done if f.exception() is not None]
        if failed:
            for wire in wires:
                wire.close()
            raise failed[0].exception() or AssertionError
    return tuple(f.result() for f in futures)
