"""Channels between the hosts of one agreement over their daemons, and the thread that draws noise through them.

Host 0 opens a channel under a random name with its first message to each of the others. Any failure, a message out of
order or a newer channel ends it, and with it the session and all noise drawn in it.

Hosts that run and reach each other always get to a session. A host's channel and its pool's attempt change
together, under one lock, and an earlier channel's thread cannot begin, fill or end anything later. So at a host without
keys either the channel is closed, or its thread is agreeing on keys, which ends within the patience for each message.
Host 0 says at least every second that it is there; if the channel is closed elsewhere it cannot, and opens the next.
Who ends a channel of host 0, or begins afresh, tells the others (`CLOSE_NOTICE_NAME`); if that is lost, patience
ends. So patience can be long, for a machine under load.
"""

import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from parley.errors import OutOfOrder, ParleyError, Unavailable
from parley.network.hosting.pool import Pool, Session
from parley.network.hosting.proposal import HostAssignment
from parley.network.serving.log import Log

MESSAGE_TIMEOUT_S = 60.0  # seconds for a message of another host
SEND_TIMEOUT_S = 30.0  # seconds for one to be taken
EARLY_MESSAGE_WAIT_S = 10.0  # of these for a message that came before its channel
NOTICE_TIMEOUT_S = 5.0  # seconds for word that a channel is over
# no channel's name: the message says which channel is over, or (nothing) that its sender has begun afresh
CLOSE_NOTICE_NAME = "0" * 64
MAX_PAST_CHANNELS = 64  # names of channels that were, and are not opened again
MAX_WAITING_BYTES = 1 << 26  # bytes from one host that wait to be read
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before host 0 tries again


class Carrier(Protocol):
    """Another host's daemon, as drawing uses it (`exchange.host_connections.RemoteHost`)."""

    def carry(self, terms: str, channel: str, number: int, payload: bytes, timeout: float) -> None: ...


class NetworkChannel:
    """One host's end (`sharing.party.Channel`), sending to the others' daemons; `attempt` numbers its session."""

    def __init__(self, index: int, name: str, terms: str, peers: Mapping[int, Carrier], attempt: int) -> None:
        self.index, self.name, self.attempt = index, name, attempt
        self._terms, self._peers = terms, peers
        self._queues = {other: SimpleQueue[bytes | None]() for other in peers}
        self._lock = threading.Lock()
        self._sent, self._received, self._waiting = Counter[int](), Counter[int](), Counter[int]()
        self.closed = False

    def send(self, to: int, payload: bytes) -> None:
        """Send a message, and return when the other has it, maybe unread."""
        if self.closed:
            raise Unavailable("this channel is closed; start again with a new channel")
        number = self._sent[to]
        self._sent[to] += 1
        try:
            self._peers[to].carry(self._terms, self.name, number, payload, SEND_TIMEOUT_S)
        except ParleyError:
            self.close()
            raise

    def receive(self, source: int) -> bytes:
        try:
            payload = self._queues[source].get(timeout=MESSAGE_TIMEOUT_S)
        except Empty:
            self.close()
            raise Unavailable(f"host {source}: no message arrived within {MESSAGE_TIMEOUT_S:g} s") from None
        if payload is None:
            self._queues[source].put(None)
            raise Unavailable("this channel is closed; start again with a new channel")
        with self._lock:
            self._waiting[source] -= len(payload)
        return payload

    def put(self, source: int, number: int, payload: bytes) -> None:
        """Take a message that came; one out of order, or too much at once, ends the channel."""
        with self._lock:
            sound = (
                not self.closed
                and number == self._received[source]
                and self._waiting[source] + len(payload) <= MAX_WAITING_BYTES
            )
            if sound:
                self._received[source] += 1
                self._waiting[source] += len(payload)
                self._queues[source].put(payload)
        if not sound:
            self.close()
            raise OutOfOrder("this channel is closed; start again with a new channel")

    def close(self) -> None:
        """Close the channel, and wake whoever waits for a message."""
        with self._lock:
            self.closed = True
        for queue in self._queues.values():
            queue.put(None)


class Drawer:
    """Keeps the noise of one agreement drawn ahead, with the other hosts, until it is closed."""

    def __init__(
        self, assignment: HostAssignment, index: int, pool: Pool, peers: Mapping[int, Carrier], log: Log
    ) -> None:
        self._assignment, self._index, self._pool, self._peers, self._log = assignment, index, pool, peers, log
        self._changed = threading.Condition()
        self._channel: NetworkChannel | None = None
        self._past: deque[str] = deque(maxlen=MAX_PAST_CHANNELS)
        self._over = threading.Event()
        self._start(self._lead if index == 0 else self._arrive)

    def take(self, source: int, name: str, number: int, payload: bytes) -> None:
        """Pass another host's message to the channel that waits for it."""
        if name == CLOSE_NOTICE_NAME:
            self._hear(payload)
            return
        if source == 0 and number == 0:
            self._follow(name)
        with self._changed:
            self._changed.wait_for(
                lambda: self._known(name) or name in self._past or self._over.is_set(), EARLY_MESSAGE_WAIT_S
            )
            channel = self._channel if self._known(name) else None
        if channel is None:
            raise Unavailable("this host does not know the channel; start again with a new channel")
        channel.put(source, number, payload)

    def close(self) -> None:
        """Stop drawing, close the channel and drop the noise that was drawn."""
        with self._changed:
            self._over.set()
            if self._channel is not None:
                self._channel.close()
            self._pool.renew()
            self._changed.notify_all()

    def _known(self, name: str) -> bool:
        return self._channel is not None and self._channel.name == name

    def _install(self, name: str) -> NetworkChannel:
        """Put a new channel in place of the last, with a new attempt in the pool."""
        with self._changed:
            if self._over.is_set():
                raise Unavailable("this host is stopping; start again with a new channel")
            if self._channel is not None:
                self._channel.close()
                self._past.append(self._channel.name)
            attempt = self._pool.renew()
            self._channel = NetworkChannel(self._index, name, self._assignment.terms_hash, self._peers, attempt)
            self._changed.notify_all()
            return self._channel

    def _follow(self, name: str) -> None:
        """Draw on the channel that host 0 opened; refuse one opened before."""
        with self._changed:
            if self._index == 0 or self._known(name) or name in self._past:
                raise OutOfOrder("only host 0 may open a channel, and host 0 may open each channel only once")
            channel = self._install(name)
        self._start(partial(self._draw, channel))

    def _lead(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.is_set():
            try:
                drawn = self._draw(self._install(secrets.token_hex(32)))
            except Unavailable:
                return  # it is over
            pause = FIRST_PAUSE if drawn else min(2 * pause, LONGEST_PAUSE)
            self._over.wait(pause)

    def _draw(self, channel: NetworkChannel) -> bool:
        """Run one session from its first message to its end; return whether it began."""
        begun = False
        try:
            session = Session(channel, self._assignment, self._pool, channel.attempt)
            begun = True
            self._log("session", terms=self._assignment.terms_hash)
            if self._index == 0:
                session.lead(self._over)
            else:
                session.follow(self._over)
        except ParleyError as error:
            if not self._over.is_set():
                self._log.rate_limited("session-ended", terms=self._assignment.terms_hash, reason=str(error))
        except Exception as error:  # its text could quote anything
            self._log("trouble", terms=self._assignment.terms_hash, reason=type(error).__name__)
        finally:
            channel.close()
            self._pool.end(channel.attempt)
            if self._index != 0 and self._known(channel.name):  # host 0 opens the next one instead
                self._tell(channel.name.encode())
        return begun

    def _arrive(self) -> None:
        """Tell the others that this host began afresh, unless host 0 knows."""
        if self._channel is None:
            self._tell(b"")

    def _tell(self, word: bytes) -> None:
        """Tell the others what is over; who is not reached finds out for itself."""
        if not self._over.is_set():
            for peer in self._peers.values():
                with suppress(ParleyError):
                    peer.carry(self._assignment.terms_hash, CLOSE_NOTICE_NAME, 0, word, NOTICE_TIMEOUT_S)

    def _hear(self, word: bytes) -> None:
        """Close the channel if another host says that it is over, or began afresh."""
        with self._changed:
            if self._channel is not None and word in (b"", self._channel.name.encode()):
                self._channel.close()

    @staticmethod
    def _start(work: Callable[[], object]) -> None:
        threading.Thread(target=work, name="parley-drawing", daemon=True).start()
