"""Channels between the hosts of one agreement over their daemons, and the thread that draws noise through them.

Host 0 opens a channel under a random name; the first message of its to each of the others brings it to them. A channel has one life: any
failure, a message out of order, or a newer channel ends it, and with it the session and all noise drawn in it.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from queue import Empty, SimpleQueue

from parley.errors import OutOfOrder, ParleyError, Unavailable
from parley.exchange.remote_host import RemoteHost
from parley.hosting.drawing import Session
from parley.hosting.duty import Duty
from parley.hosting.pool import Pool
from parley.serving.log import Log

PATIENCE = 10.0  # seconds for a message of another host
SENDING = 10.0  # seconds for one to be taken
FULL = 1 << 26  # bytes from one host that wait to be read
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before host 0 tries again


class NetworkChannel:
    """One host's end (`sharing.channel.Channel`): messages go to the others' daemons and wait here to be read."""

    def __init__(self, index: int, name: str, terms: str, peers: Mapping[int, RemoteHost]) -> None:
        self.index, self.name = index, name
        self._terms, self._peers = terms, peers
        self._queues = {other: SimpleQueue[bytes | None]() for other in peers}
        self._lock = threading.Lock()
        self._sent, self._received, self._waiting = Counter[int](), Counter[int](), Counter[int]()
        self.closed = False

    def send(self, to: int, payload: bytes) -> None:
        """Returns when the other has it, which does not mean that it was read."""
        if self.closed:
            raise Unavailable("this channel is closed; start again with a new one")
        number = self._sent[to]
        self._sent[to] += 1
        try:
            self._peers[to].carry(self._terms, self.name, number, payload, SENDING)
        except ParleyError:
            self.close()
            raise

    def receive(self, source: int) -> bytes:
        try:
            payload = self._queues[source].get(timeout=PATIENCE)
        except Empty:
            self.close()
            raise Unavailable(f"host {source}: no message within {PATIENCE:g} s") from None
        if payload is None:
            self._queues[source].put(None)
            raise Unavailable("this channel is closed; start again with a new one")
        with self._lock:
            self._waiting[source] -= len(payload)
        return payload

    def put(self, source: int, number: int, payload: bytes) -> None:
        """A message that came; out of order, or too much at once, it ends the channel."""
        with self._lock:
            sound = not self.closed and number == self._received[source] and self._waiting[source] + len(payload) <= FULL
            if sound:
                self._received[source] += 1
                self._waiting[source] += len(payload)
                self._queues[source].put(payload)
        if not sound:
            self.close()
            raise OutOfOrder("this channel is closed; start again with a new one")

    def close(self) -> None:
        """Whoever waits here is told."""
        with self._lock:
            self.closed = True
        for queue in self._queues.values():
            queue.put(None)


class Drawer:
    """Keeps the noise of one agreement drawn ahead, with the other hosts, until it is closed."""

    def __init__(self, duty: Duty, index: int, pool: Pool, peers: Mapping[int, RemoteHost], log: Log) -> None:
        self._duty, self._index, self._pool, self._peers, self._log = duty, index, pool, peers, log
        self._changed = threading.Condition()
        self._channel: NetworkChannel | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if index == 0:
            self._thread = threading.Thread(target=self._lead, name="parley-drawing", daemon=True)
            self._thread.start()

    def take(self, source: int, name: str, number: int, payload: bytes) -> None:
        """A message of another host."""
        if source == 0 and number == 0:
            self._follow(name)
        with self._changed:
            self._changed.wait_for(lambda: self._known(name) or self._over.is_set(), PATIENCE)
            channel = self._channel if self._known(name) else None
        if channel is None:
            raise Unavailable("no such channel; start again with a new one")
        channel.put(source, number, payload)

    def close(self) -> None:
        """End it."""
        self._over.set()
        with self._changed:
            if self._channel is not None:
                self._channel.close()
            self._changed.notify_all()
        self._pool.begin(None)

    def _known(self, name: str) -> bool:
        return self._channel is not None and self._channel.name == name

    def _install(self, name: str) -> NetworkChannel:
        channel = NetworkChannel(self._index, name, self._duty.terms_hash, self._peers)
        with self._changed:
            if self._channel is not None:
                self._channel.close()
            self._channel = channel
            self._pool.begin(None)
            self._changed.notify_all()
        return channel

    def _follow(self, name: str) -> None:
        """Host 0 has opened a channel."""
        with self._changed:
            if self._index == 0 or self._known(name) or self._over.is_set():
                raise OutOfOrder("a channel is opened once, by host 0")
        channel = self._install(name)
        threading.Thread(target=self._draw, args=(channel,), name="parley-drawing", daemon=True).start()

    def _lead(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.is_set():
            drawn = self._draw(self._install(secrets.token_hex(32)))
            pause = FIRST_PAUSE if drawn else min(2 * pause, LONGEST_PAUSE)
            self._over.wait(pause)

    def _draw(self, channel: NetworkChannel) -> bool:
        """One session, from its first message to its end; whether it began."""
        session: Session | None = None
        try:
            session = Session(channel, self._duty, self._pool)
            self._log("session", terms=self._duty.terms_hash)
            if self._index == 0:
                session.lead(self._over)
            else:
                session.follow(self._over)
        except ParleyError as error:
            if not self._over.is_set():
                self._log.rate_limited("session-ended", terms=self._duty.terms_hash, reason=str(error))
        except Exception as error:  # its text could quote anything
            self._log("trouble", terms=self._duty.terms_hash, reason=type(error).__name__)
        finally:
            channel.close()
            if session is not None:
                session.end()
        return session is not None
