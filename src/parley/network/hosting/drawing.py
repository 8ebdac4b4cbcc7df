"""How three hosts draw noise ahead: a session of fresh keys, then one noise after the other, as host 0 calls for them.

A session is one channel from its first message to its first failure. Nothing of it is written down, so a host that
restarts has no part in it, and the others drop it as soon as they hear.
"""

import hashlib
import json
import os
import threading

from parley.errors import ExchangeError
from parley.network.exchange.share_bundle import HOSTS, Shape
from parley.network.hosting.assignment import HostAssignment
from parley.network.hosting.pool import Keys, Pool
from parley.privacy.mechanisms.shared_noise import make_recipe
from parley.privacy.sharing.channel import Channel
from parley.privacy.sharing.party import Party, agree_keys
from parley.privacy.sharing.ring import KEY
from parley.privacy.sharing.secret_noise import draw

REST = 1.0  # seconds after which host 0 says that it is still there
STILL_HERE = b"-"


class Session:
    """One host's part of a session.

    Formal guarantee: its name follows from 32 random bytes of each host, so no host that began afresh can be in an
    earlier one; the keys of its tags are known like shares, key j to the hosts j and j - 1. It has a say in the pool
    only while no later attempt was made there.
    """

    def __init__(self, channel: Channel, assignment: HostAssignment, pool: Pool, attempt: int) -> None:
        """`attempt` is the pool's number for it (`Pool.renew`)."""
        self._channel, self._assignment, self._pool, self._attempt = channel, assignment, pool, attempt
        keys, self._party = _agree(channel, assignment.terms_hash)
        self._number = 0
        pool.begin(attempt, keys)

    def draw(self, shape: Shape) -> None:
        """The next noise; all three hosts do this at once."""
        self._number += 1
        noise = draw(self._party, make_recipe(shape.law, shape.exponent), shape.size)
        self._pool.deposit(self._attempt, self._number, shape, noise)

    def lead(self, over: threading.Event) -> None:
        """Host 0: keep the pool filled until it is over."""
        others = [i for i in range(HOSTS) if i != self._channel.index]
        while not over.is_set():
            shape = self._pool.wanted()
            if shape is None:
                self._pool.wait_for_use(REST)
            for other in others:
                self._channel.send(
                    other, STILL_HERE if shape is None else json.dumps([shape.law, shape.exponent, shape.size]).encode()
                )
            if shape is not None:
                self.draw(shape)

    def follow(self, over: threading.Event) -> None:
        """The others: draw what host 0 calls for, if the terms know of it."""
        known = {
            json.dumps([shape.law, shape.exponent, shape.size]).encode(): shape for shape in self._assignment.ahead
        }
        while not over.is_set():
            called = self._channel.receive(0)
            if called == STILL_HERE:
                continue
            if called not in known:
                raise ExchangeError("host 0: called for noise that the terms do not know; start again")
            self.draw(known[called])


def _agree(channel: Channel, terms_hash: str) -> tuple[Keys, Party]:
    """Fresh keys of all kinds, and the name that nobody chose alone."""
    index, nonce, key = channel.index, os.urandom(KEY), os.urandom(KEY)
    before, after = (index + 2) % HOSTS, (index + 1) % HOSTS
    channel.send(before, nonce)
    channel.send(after, nonce)
    channel.send(before, key)
    nonces = {index: nonce, before: channel.receive(before), after: channel.receive(after)}
    second = channel.receive(after)
    if {len(part) for part in (*nonces.values(), second)} != {KEY}:
        raise ExchangeError("hosts: keys of another length came; start again")
    name = hashlib.sha256(
        b"parley-session" + terms_hash.encode() + b"".join(nonces[i] for i in range(HOSTS))
    ).hexdigest()
    return Keys(name, key, second), agree_keys(channel)
