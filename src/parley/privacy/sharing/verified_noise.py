"""Draws with verified ANDs, and which two hosts disagree if one fails.

A draw has keys of its own, which follow from the session's and tell nothing of others. If it fails, its numbers are not
used, so nothing about it needs to stay secret: each host states the draw's keys and the digest of every message that it
sent and received. From the keys each host replays what all three should have said. The first message that is not as
replayed, by its sender's word or by its receiver's, names the pair.

Formal guarantee: if two hosts follow the protocol, each of them names a pair that the third is in. Proof. Before that
message all were as they should be, so an honest sender would have sent it as replayed and an honest receiver would say
what it received. So one of the two has departed from the protocol or lies now; likewise if the statements of two hosts
differ about the key that both hold.
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.privacy.mechanisms.tabled_recipe import TabledRecipe
from parley.privacy.sharing.party import HOST_COUNT, Channel, run_in_threads, wires
from parley.privacy.sharing.ring import KEY_BYTES, Replicated
from parley.privacy.sharing.secret_noise import draw
from parley.privacy.sharing.verified import CheatingHostError, VerifiedParty

LONGEST_STATEMENT = 1 << 20  # bytes
MAX_LATE_MESSAGES = 64  # of a host that does not yet know that a draw failed
PREFIX = b"statement"  # no message of a draw begins so: those begin with a small number
Pair = tuple[int, int]


class DisagreeingHostsError(CheatingHostError):
    """Hosts `pair` disagree about a message of a draw, or about its keys; one of them departed from the protocol."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        super().__init__(
            f"noise: hosts {pair[0]} and {pair[1]} disagree about a message, so one of them departed from the "
            "protocol; the noise was discarded and nothing was opened. Ask the operators of both hosts"
        )


class WitnessedChannel:
    """A channel that notes the digest of each message, in the order in which this host sent and received them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.index = channel.index
        self.sent: dict[int, list[str]] = {other: [] for other in range(HOST_COUNT) if other != channel.index}
        self.received: dict[int, list[str]] = {other: [] for other in self.sent}

    def send(self, to: int, payload: bytes) -> None:
        self.sent[to].append(hashlib.sha256(payload).hexdigest())
        self._channel.send(to, payload)

    def receive(self, source: int) -> bytes:
        payload = self._channel.receive(source)
        self.received[source].append(hashlib.sha256(payload).hexdigest())
        return payload


@dataclass(frozen=True)
class Statement:
    """What host `index` says of a failed draw: its keys, and the digests of its messages to and from each other."""

    index: int
    keys: tuple[bytes, bytes]
    sent: dict[int, list[str]]
    received: dict[int, list[str]]

    def to_bytes(self) -> bytes:
        """Return the statement as JSON, after the prefix."""
        facts = [[key.hex() for key in self.keys], list(self.sent.items()), list(self.received.items())]
        return PREFIX + json.dumps(facts).encode()

    @classmethod
    def from_bytes(cls, index: int, payload: bytes) -> "Statement | None":
        """Return the statement of this host, or None if these bytes are none."""
        if len(payload) > LONGEST_STATEMENT or not payload.startswith(PREFIX):
            return None
        try:
            keys, sent, received = json.loads(payload[len(PREFIX) :])
            first, second = (bytes.fromhex(key) for key in keys)
            made = cls(index, (first, second), _digests(sent), _digests(received))
        except (ValueError, TypeError, RecursionError):
            return None
        others = {other for other in range(HOST_COUNT) if other != index}
        sound = len(first) == len(second) == KEY_BYTES and set(made.sent) == set(made.received) == others
        return made if sound else None


def draw_verified(
    channel: Channel, keys: tuple[bytes, bytes], number: int, recipe: TabledRecipe, size: int
) -> Replicated:
    """Return this host's shares of draw `number` of a session, as `secret_noise.draw` does; all hosts call it alike.

    Raise `DisagreeingHostsError` if something about the draw was wrong.
    """
    first, second = (derive_key(key, number) for key in keys)
    watched = WitnessedChannel(channel)
    try:
        return draw(VerifiedParty(watched, (first, second)), recipe, size)
    except CheatingHostError:
        statement = Statement(channel.index, (first, second), watched.sent, watched.received)
    raise DisagreeingHostsError(_disagreement(_exchange(channel, statement), recipe, size))


def derive_key(key: bytes, number: int) -> bytes:
    """Return the key of draw `number`, which tells nothing of the session's key or of other draws."""
    return hmac.digest(key, b"parley-draw" + number.to_bytes(8, "big"), "sha256")


def _exchange(channel: Channel, own: Statement) -> list[Statement]:
    """Return all hosts' statements, in order."""
    others = [other for other in range(HOST_COUNT) if other != channel.index]
    for other in others:
        channel.send(other, own.to_bytes())
    statements = {own.index: own}
    for other in others:
        for _ in range(MAX_LATE_MESSAGES):  # it may still draw, until it waits for this host in vain
            payload = channel.receive(other)
            if payload.startswith(PREFIX):
                break
        said = Statement.from_bytes(other, payload)
        if said is None:
            raise DisagreeingHostsError(_pair(own.index, other))
        statements[other] = said
    return [statements[index] for index in range(HOST_COUNT)]


def _disagreement(statements: Sequence[Statement], recipe: TabledRecipe, size: int) -> Pair:
    for number in range(HOST_COUNT):  # key j is held by hosts j and j - 1
        if statements[number].keys[0] != statements[number - 1].keys[1]:
            return _pair(number, (number - 1) % HOST_COUNT)
    for source, to, place, due in replay([statement.keys[0] for statement in statements], recipe, size):
        said = (statements[source].sent[to], statements[to].received[source])
        if any(place < len(digests) and digests[place] != due for digests in said):
            return _pair(source, to)
    raise CheatingHostError("noise: the draw failed, but all messages were as they should be; nothing was opened")


def replay(keys: Sequence[bytes], recipe: TabledRecipe, size: int) -> list[tuple[int, int, int, str]]:
    """Return all messages of a draw with these keys, each after those on which it depends: (source, destination, its
    place among those on this way, digest)."""
    order: list[tuple[int, int, int, str]] = []
    lock = threading.Lock()

    class Ordered(WitnessedChannel):
        def send(self, to: int, payload: bytes) -> None:
            with lock:
                place = len(self.sent[to])
                order.append((self.index, to, place, hashlib.sha256(payload).hexdigest()))
            super().send(to, payload)

    ends = wires()
    tasks = [
        partial(draw, VerifiedParty(Ordered(end), (keys[end.index], keys[(end.index + 1) % HOST_COUNT])), recipe, size)
        for end in ends
    ]
    run_in_threads(*tasks, wires=ends)
    return order


def _digests(pairs: Any) -> dict[int, list[str]]:
    return {int(other): [str(digest) for digest in digests] for other, digests in pairs}


def _pair(one: int, other: int) -> Pair:
    return min(one, other), max(one, other)
