"""Draws with verified ANDs, and which two hosts disagree if one fails.

A draw has keys of its own, which follow from the session's and tell nothing of others. If it fails, its numbers are not
used, so nothing about it needs to stay secret: each host states the draw's keys and the digest of every message that it
sent and received. From the keys each host replays what all three should have said. The first message that is not as
replayed, by its sender's word or by its receiver's, names the pair.

Formal guarantee: if two hosts follow the protocol, each of them names a pair that the third is in. Proof. Before that
message all were as they should be, so an honest sender would have sent it as replayed and an honest receiver would say
what it received. So one of the two has departed from the protocol or lies now; likewise if the statements of two hosts
differ about the key that both hold. (A host that sends nothing cannot be told from one that is gone: nobody is named.)
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.errors import ExchangeError, Unavailable
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe
from parley.privacy.sharing.party import HOST_COUNT, Channel, ordered_pair, run_in_threads, wires
from parley.privacy.sharing.ring import KEY_BYTES, Replicated
from parley.privacy.sharing.secret_noise import BATCH_COORDINATES, draw
from parley.privacy.sharing.verified import CheatingHostError, VerifiedParty

STATEMENT_BYTES = 1 << 16  # of a statement, for each batch of numbers, at most
MAX_LATE_MESSAGES = 64  # of a host that does not yet know that a draw failed
PREFIX = b"statement"  # no message of a draw begins so: those begin with a small number
Pair = tuple[int, int]


class DisagreeingHostsError(CheatingHostError):
    """Hosts `pair` disagree about a message of a draw, or about its keys; one of them departed from the protocol."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        super().__init__(
            f"noise: hosts {pair[0]} and {pair[1]} disagree about a message, so one of them departed from the "
            "protocol; the noise was discarded and nothing was opened. Contact the operators of both hosts"
        )


class WitnessedChannel:
    """A channel that notes the digest of each message, in the order in which this host sent and received them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.index = channel.index
        self.sent: dict[int, list[str]] = {other: [] for other in range(HOST_COUNT) if other != channel.index}
        self.received: dict[int, list[str]] = {other: [] for other in self.sent}
        self.statements: dict[int, bytes] = {}  # of hosts for which the draw failed before it did here

    def send(self, to: int, payload: bytes) -> None:
        self.sent[to].append(hashlib.sha256(payload).hexdigest())
        self._channel.send(to, payload)

    def receive(self, source: int) -> bytes:
        payload = self._channel.receive(source)
        if payload.startswith(PREFIX):
            self.statements[source] = payload
            raise ExchangeError(f"host {source}: the draw failed at this host")
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
    def from_bytes(cls, index: int, payload: bytes, size: int) -> "Statement | None":
        """Return the statement of this host about a draw of `size` numbers, or None if these bytes are none."""
        if len(payload) > STATEMENT_BYTES * (1 + size // BATCH_COORDINATES) or not payload.startswith(PREFIX):
            return None
        try:
            keys, sent, received = json.loads(payload[len(PREFIX) :])
            first, second = (bytes.fromhex(key) for key in keys)
            made = cls(index, (first, second), _digests(sent), _digests(received))
        except (ValueError, TypeError, OverflowError, RecursionError):
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
    about = f"{recipe.recipe.law} {recipe.recipe.exponent} {size}"
    first, second = (derive_key(key, number, about) for key in keys)
    watched = WitnessedChannel(channel)
    try:
        return draw(VerifiedParty(watched, (first, second)), recipe, size)
    except (ExchangeError, Unavailable) as error:
        own = Statement(channel.index, (first, second), watched.sent, watched.received)
        pair = _disagreement(_exchange(channel, own, watched.statements, size), recipe, size)
        if pair is None:
            raise error
    raise DisagreeingHostsError(pair)


def derive_key(key: bytes, number: int, about: str) -> bytes:
    """Return the key of what a session computes as its `number`, which tells nothing of the session's key or of others.

    `about` says what is computed, on what: hosts that are told different things have no key in common.
    """
    return hmac.digest(key, b"parley-draw" + number.to_bytes(8, "big") + about.encode(), "sha256")


def _exchange(channel: Channel, own: Statement, early: Mapping[int, bytes], size: int) -> dict[int, Statement]:
    """Return the hosts' statements; one that sends nothing has none."""
    others = [other for other in range(HOST_COUNT) if other != channel.index]
    statements = {own.index: own}
    for other in others:
        with suppress(Unavailable):
            channel.send(other, own.to_bytes())
    for other in others:
        try:
            payload = early.get(other, b"")
            for _ in range(MAX_LATE_MESSAGES):  # it may still draw, until it waits for this host in vain
                if payload.startswith(PREFIX):
                    break
                payload = channel.receive(other)
        except Unavailable:
            continue
        said = Statement.from_bytes(other, payload, size)
        if said is None:
            raise DisagreeingHostsError(ordered_pair(own.index, other))
        statements[other] = said
    return statements


def _disagreement(statements: Mapping[int, Statement], recipe: TabledRecipe, size: int) -> Pair | None:
    """Return the pair to name; None if all that is known to have been sent is as it should be."""
    keys = list[bytes]()
    for number in range(HOST_COUNT):  # key j is held by hosts j and j - 1
        said = [(number, 0), ((number - 1) % HOST_COUNT, 1)]
        held = {statements[host].keys[which] for host, which in said if host in statements}
        if len(held) > 1:
            return ordered_pair(number, (number - 1) % HOST_COUNT)
        keys += held
    if len(keys) < HOST_COUNT:  # this host's statement alone
        return None
    for source, to, place, due in replay(keys, recipe, size):
        told = [statements[source].sent[to]] if source in statements else []
        told += [statements[to].received[source]] if to in statements else []
        if any(place < len(digests) and digests[place] != due for digests in told):
            return ordered_pair(source, to)
    return None


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
    made = {other: [str(digest) for digest in digests] for other, digests in pairs}
    if not all(type(other) is int for other in made):
        raise TypeError("hosts have whole numbers")
    return made
