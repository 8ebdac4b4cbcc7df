"""One host's side of every protocol: two keys, what follows from them without a message, and the message that completes
a share. Key j is known to hosts j and j - 1, like share j: host i has keys i and i + 1, and never sees key i + 2. A
host sends `opening_of` the sum of the owners' shares and the noise's once (its keeper sees to that). All three openings
give the sum."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.errors import ContradictionError, ExchangeError, SettingError, Unavailable
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.ring import KEY_BYTES, Keystream, Replicated, digest

HOST_COUNT = 3

T = TypeVar("T")


class Channel(Protocol):
    """One host's end: messages between a pair arrive whole, in order and unread by others (over a network: TLS). `send`
    never waits for the receiver to read (all three send before they receive). `receive` waits, and raises `Unavailable`
    when the other does not send in time or is gone."""

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
            raise Unavailable(
                f"host {source}: this host sent no message within {self._timeout:g} s; try again later"
            ) from None
        if payload is None:
            self._queues[source, self.index].put(None)
            raise Unavailable(f"host {source}: the channel to this host is closed; start the run again")
        return payload

    def close(self) -> None:
        """Tell whoever waits for this host, now or later, that it is gone."""
        for (source, _), queue in self._queues.items():
            if source == self.index:
                queue.put(None)


def wires(timeout: float = 60.0, hosts: int = HOST_COUNT) -> list[Wire]:
    """Return the ends of some hosts' channels within one process, in the order of the hosts."""
    queues: dict[tuple[int, int], SimpleQueue[bytes | None]] = {
        (i, j): SimpleQueue() for i in range(hosts) for j in range(hosts) if i != j
    }
    return [Wire(index, queues, timeout) for index in range(hosts)]


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


def run_in_threads(*tasks: Callable[[], T], wires: Sequence[Wire] = ()) -> tuple[T, ...]:
    """Run the hosts' tasks in threads. The first error closes the wires, so that nobody waits, and is raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(task) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = [f for f in done if f.exception() is not None]
        if failed:
            for wire in wires:
                wire.close()
            raise failed[0].exception() or AssertionError
    return tuple(f.result() for f in futures)


DIGEST_WORDS = 4  # words of a SHA-256
MESSAGE_WORDS = 1 << 18  # words of a message, at most: half of what any host takes
_SHARES, _ZEROS, _ORDERS = 1, 2, 3  # what a stream is for


class Party:
    """A host with its keys: `keys` = (key i, in common with the host before; key i + 1, in common with the next).

    All three call the same methods with the same shapes in the same order, one thread each. After any failure the
    hosts' streams may be out of step, so the party refuses to go on.

    Formal guarantee: no word of a stream is used twice; every message that a host receives from `complete` has been
    masked by words of the key that it does not know.
    """

    def __init__(self, channel: Channel, keys: tuple[bytes, bytes]) -> None:
        if channel.index not in range(HOST_COUNT):
            raise SettingError(f"host {channel.index}: expected a host number from 0 to 2")
        self.index = channel.index
        self.before, self.next = (self.index + 2) % HOST_COUNT, (self.index + 1) % HOST_COUNT
        self._channel = channel
        self._streams = {
            (j, purpose): Keystream(keys[j], purpose) for j in (0, 1) for purpose in (_SHARES, _ZEROS, _ORDERS)
        }
        self._sent, self._received = Counter[int](), Counter[int]()
        self._broken = False

    def random(self, *shape: int) -> Replicated:
        """Return shares of uniform words that nobody knows: host i lacks share i + 2, like its key. Nothing is sent."""
        return self._run_once(lambda: Replicated(self._words(0, _SHARES, shape), self._words(1, _SHARES, shape)))

    def zero_bits(self, *shape: int) -> Words:
        """Return this host's part of words whose exclusive or is 0; to a host, either other part is uniform."""
        return self._run_once(lambda: self._words(0, _ZEROS, shape) ^ self._words(1, _ZEROS, shape))

    def zero_words(self, *shape: int) -> Words:
        """Return this host's part of words whose sum over the three hosts is 0."""
        return self._run_once(lambda: self._words(0, _ZEROS, shape) - self._words(1, _ZEROS, shape))

    def complete(self, part: Words) -> Replicated:
        """Make replicated shares: part i is share i and goes to host i - 1. Parts must be masked by zeros."""
        return self._run_once(lambda: Replicated(part, self._pass(self.before, part, self.next, part.shape)))

    def shuffled(self, rows: Replicated, pair: int) -> Replicated:
        """Return fresh shares (exclusive or) of rows [n, ...] in an order that hosts `pair` and `pair` + 1 draw.

        Formal guarantee: the third host knows nothing of the order, and receives nothing. With i = `pair`, host i holds
        shares i and i + 1 and host i + 1 share i + 2. Both put what they hold in the order and add a fresh share that
        the other does not know, of key i or i + 2, before they send it: what they receive is uniform, and the sum of
        both messages is the new share i + 1.
        """
        return self._run_once(lambda: self._shuffle(rows, pair))

    def _shuffle(self, rows: Replicated, pair: int) -> Replicated:
        place, shape = (self.index - pair) % HOST_COUNT, rows.first.shape
        if place == 2:
            return Replicated(self._words(0, _SHARES, shape), self._words(1, _SHARES, shape))
        order = self._order(1 - place, len(rows.first))
        own, fresh = (rows.first ^ rows.second, 0) if place == 0 else (rows.second, 1)
        mask = self._words(fresh, _SHARES, shape)
        message, other = own[order] ^ mask, (pair + 1 - place) % HOST_COUNT
        made = message ^ self._pass(other, message, other, shape)
        return Replicated(mask, made) if place == 0 else Replicated(made, mask)

    def _order(self, which: int, size: int) -> NDArray[np.intp]:
        """Return a uniform order of `size` things: that of as many different words."""
        while True:
            words = self._words(which, _ORDERS, (size,))
            order = np.argsort(words)
            if not np.any(words[order[1:]] == words[order[:-1]]):
                return order

    def conjunction(self, x: Replicated, y: Replicated) -> Replicated:
        """Return shares of x AND y, word by word.

        Formal guarantee: the message, x_i y_i + x_i y_{i+1} + x_{i+1} y_i plus a part of zero, is uniform to the host
        that receives it, because the part of zero holds a word of the key that this host lacks.
        """
        part = (x.first & (y.first ^ y.second)) ^ (x.second & y.first)
        part ^= self.zero_bits(*part.shape)
        return self.complete(part)

    def reveal_to_holders(self, words: Replicated) -> Words | None:
        """Return shared words (exclusive or) at hosts 0 and 2, None at host 1, which is sent nothing.

        Formal guarantee: if at most one host says something else than what it holds, hosts 0 and 2 have the words or
        `LyingHostError`. Each gets the share that it lacks from one host, and its digest from the other.
        """

        def act() -> Words | None:
            size = words.first.size
            if self.index == 0:  # lacks share 2, the first of host 2 and the second of host 1
                self._send(2, np.frombuffer(digest(words.second), dtype="<u8"))
                lacking, vouched = self._receive(2, size), self._receive(1, DIGEST_WORDS)
            elif self.index == 1:
                self._send(2, words.first)
                self._send(0, np.frombuffer(digest(words.second), dtype="<u8"))
                return None
            else:  # lacks share 1, the first of host 1 and the second of host 0
                self._send(0, words.first)
                lacking, vouched = self._receive(1, size), self._receive(0, DIGEST_WORDS)
            if digest(lacking) != vouched.tobytes():
                raise LyingHostError((ordered_pair(self.before, self.next),))
            return np.asarray(words.first ^ words.second ^ lacking.reshape(words.first.shape))

        return self._run_once(act)

    def reveal(self, words: Replicated) -> Words:
        """Return shared words (exclusive or) at all three hosts, after their ANDs are verified.

        Formal guarantee: if at most one host says something else than what it holds, all have the words, or
        `LyingHostError`. Host i gets share i - 1 from the host before, and its digest from the next.
        """
        self.verify()

        def act() -> Words:
            lacking = self._pass(self.next, words.first, self.before, words.first.shape)
            self._send(self.before, np.frombuffer(digest(words.second), dtype="<u8"))
            if digest(lacking) != self._receive(self.next, DIGEST_WORDS).tobytes():
                raise LyingHostError((ordered_pair(self.before, self.next),))
            return np.asarray(words.first ^ words.second ^ lacking)

        return self._run_once(act)

    def hold_same(self, words: Replicated) -> bool:
        """Return whether hosts hold the same of what both should hold; all three learn whether any two differ.

        Formal guarantee: a host hears digests of words that it should hold itself, and whether others differ.
        """

        def act() -> bool:
            own = np.frombuffer(digest(words.first), dtype="<u8")
            told = self._pass(self.before, own, self.next, (DIGEST_WORDS,))
            same = np.array([told.tobytes() == digest(words.second)], dtype=np.uint64)
            self._send(self.before, same)
            self._send(self.next, same)
            return bool(same[0] and self._receive(self.before, 1)[0] and self._receive(self.next, 1)[0])

        return self._run_once(act)

    def verify(self) -> None:
        """Make sure of all ANDs so far; hosts that follow the protocol have nothing to check."""

    def give_up(self) -> None:
        """Use these keys no more: a protocol was left half-way."""
        self._broken = True

    def _words(self, which: int, purpose: int, shape: tuple[int, ...]) -> Words:
        return self._streams[which, purpose].words(*shape)

    def _pass(self, to: int, words: Words, source: int, shape: tuple[int, ...]) -> Words:
        """Send words one way and receive words from the other."""
        self._send(to, words)
        return self._receive(source, int(np.prod(shape))).reshape(shape)

    def _send(self, to: int, words: Words) -> None:
        """Send words, in messages that any host takes; the messages' numbers tell when hosts are out of step."""
        flat = np.ascontiguousarray(words, dtype="<u8").reshape(-1)
        for start in range(0, max(flat.size, 1), MESSAGE_WORDS):
            self._sent[to] += 1
            label = self._sent[to].to_bytes(8, "little")
            self._channel.send(to, b"".join((label, flat[start : start + MESSAGE_WORDS].data)))

    def _receive(self, source: int, size: int) -> Words:
        sizes = [min(MESSAGE_WORDS, size - start) for start in range(0, max(size, 1), MESSAGE_WORDS)]
        parts = [self._receive_part(source, each) for each in sizes]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _receive_part(self, source: int, size: int) -> Words:
        self._received[source] += 1
        payload = self._channel.receive(source)
        due = 8 + 8 * size
        if len(payload) != due or payload[:8] != self._received[source].to_bytes(8, "little"):
            raise ExchangeError(
                f"host {source}: message {self._received[source]} of this host is wrong ({due} bytes expected); start "
                "the run again"
            )
        return np.frombuffer(payload, dtype="<u8", offset=8)

    def _run_once(self, act: Callable[[], T]) -> T:
        if self._broken:
            raise ExchangeError(
                f"host {self.index}: an earlier protocol failed, and its keys cannot be used again; agree on new keys"
            )
        self._broken = True
        result = act()
        self._broken = False
        return result


def ordered_pair(one: int, other: int) -> tuple[int, int]:
    """Return two hosts, the lower number first."""
    return min(one, other), max(one, other)


def agree_keys(channel: Channel) -> tuple[bytes, bytes]:
    """Return fresh keys i and i + 1: host i sends key i to host i - 1, over a channel that nobody else reads."""
    key = os.urandom(KEY_BYTES)
    channel.send((channel.index + 2) % HOST_COUNT, key)
    other = channel.receive((channel.index + 1) % HOST_COUNT)
    if len(other) != KEY_BYTES:
        raise ExchangeError(
            f"host {(channel.index + 1) % HOST_COUNT}: expected a key of {KEY_BYTES} bytes, but this host sent "
            f"{len(other)} bytes; start the run again"
        )
    return key, other


class LyingHostError(ContradictionError):
    """`pairs` of hosts disagree about a share that both hold; `host` is set if only one can have lied alone."""

    def __init__(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.pairs = pairs
        common = set.intersection(*(set(p) for p in pairs))
        self.host = common.pop() if len(common) == 1 else None
        disagreements = "; ".join(f"hosts {a} and {b} disagree about share {b}" for a, b in pairs)
        super().__init__(f"opening: {disagreements}, so the sum is not used; contact the hosts' operators")


@dataclass(frozen=True)
class Opening:
    """Host i's words: share i in full, and the digest of share i + 1."""

    words: Words
    digest: bytes


def opening_of(total: Replicated) -> Opening:
    """Return what a host sends of its shares of the noisy sum."""
    return Opening(total.first, digest(total.second))


def open_words(openings: Sequence[Opening]) -> Words:
    """Return the sum, from the openings of hosts 0, 1 and 2, or of two hosts.

    Formal guarantee: if at most one host says something else than what it holds, the words are the sum of the three
    shares, or `LyingHostError` names the pairs that disagree, with the liar in each (SHA-256 being free of collisions).
    Two hosts hold no share in common; all that is compared is that they recorded the same.
    """
    if len(openings) == HOST_COUNT - 1:
        if len({each.digest for each in openings}) > 1:
            raise ContradictionError(
                "opening: the two hosts recorded different answers, so the sum is not used; find the faulty host"
            )
        return np.asarray(openings[0].words + openings[1].words)
    first, second, third = openings
    pairs = tuple(
        (i, (i + 1) % HOST_COUNT)
        for i in range(HOST_COUNT)
        if openings[i].digest != digest(openings[(i + 1) % HOST_COUNT].words)
    )
    if pairs:
        raise LyingHostError(pairs)
    return np.asarray(first.words + second.words + third.words)
