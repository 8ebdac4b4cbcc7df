"""Three hosts of whom one may do anything: every AND is verified before anything that depends on it is opened.

Formal guarantee: let one host send whatever it likes. If both others accept `verify`, all ANDs since the last one are
right, except with a probability of less than 2^-40 for each `verify` (if AES is a pseudo-random function and SHA-256
free of collisions). Until then the host has seen uniform words alone.

Method (after Furukawa, Lindell, Nof and Weinstein 2017). Let there be M words of ANDs z = x AND y, 64 gates a word.
After all were computed, the hosts make B M + B triples c = a AND b of random words, in the same way. Then they draw a
number that nobody could know before, and shuffle the triples by it. The first B are opened. Each AND gets B of the
others: with d = x xor a and e = y xor b opened, z xor c xor d b xor e a xor d e must be 0.

Proof. A message that is wrong by f makes a gate or triple wrong by f, whatever it is about: honest hosts' shares
still define every value. A word is bad if its f is not 0. If what is opened is told wrongly, its digest tells. So the
check of a gate and a triple gives the exclusive or of both f, which only 0 passes: a bad gate passes if all its B
triples are bad, a good one if all are good. Which words are bad was settled before the shuffle. With t bad gates, B t
triples must be bad, and lie just where these gates are: one of comb(B M + B, B t) places that are equally likely. For
t = 0 all is right. From t = 1 to t = M the number of places is smallest at both ends: comb(B M + B, B). B is chosen so
that this is at least 2^41. Opened d and e are masked by a and b, each used once. What has to be 0 is compared only
after all three hosts found d and e told rightly: it is then the xor of both f, known to the host that chose them.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar, cast

import numpy as np

from parley.errors import ContradictionError
from parley.privacy.mechanisms.exact_samplers import Integers, Words
from parley.privacy.sharing.party import DIGEST_WORDS, MESSAGE_WORDS, Channel, LyingHostError, Party
from parley.privacy.sharing.ring import Keystream, Replicated, to_bytes

PLACES_BITS = 41  # binary logarithm of the places among which bad triples would have to hit the right one
COIN_WORDS = 4

T = TypeVar("T")


class CheatingHostError(ContradictionError):
    """A host departed from the protocol: something that it computed is wrong. Nothing was opened."""


class VerifiedParty(Party):
    """A party whose ANDs are verified. All its openings are compared as digests, too."""

    def __init__(self, channel: Channel, keys: tuple[bytes, bytes]) -> None:
        super().__init__(channel, keys)
        self._gates: list[tuple[Replicated, Replicated, Replicated]] = []
        self._told, self._heard, self._zeros, self._due = (hashlib.sha256() for _ in range(4))

    def conjunction(self, x: Replicated, y: Replicated) -> Replicated:
        """Return shares of x AND y, to be verified."""
        z = super().conjunction(x, y)
        self._gates.append((x, y, z))
        return z

    def verify(self) -> None:
        """Refuse with `CheatingHostError` unless all ANDs so far are right."""
        gates, self._gates = self._gates, []
        if not gates:
            return
        x, y, z = (_flat([gate[side] for gate in gates]) for side in range(3))
        size = x.first.size
        depth = bucket_size(size)
        a, b = self.random(depth * (size + 1)), self.random(depth * (size + 1))
        c = _flat([super(VerifiedParty, self).conjunction(a[at], b[at]) for at in _pieces(a.first.size)])
        self._meet()
        coin = to_bytes(self._open(self.random(COIN_WORDS)))
        self._compare()  # else honest hosts could shuffle in different ways
        order = permutation(coin, a.first.size)
        opened = [each[order[:depth]] for each in (a, b, c)]
        p, q, r = (self._open(each) for each in opened)
        wrong = bool(np.any((p & q) ^ r))
        for k in range(1, depth + 1):
            chosen = order[depth + (k - 1) * size : depth + k * size]
            for at in _pieces(size):
                triple = [each[chosen[at]] for each in (a, b, c)]
                self._check(x[at], y[at], z[at], triple)
        self._compare(wrong)

    def reveal_to_holders(self, words: Replicated) -> Words | None:
        """Return shared words at hosts 0 and 2, as a party does; refuse at all three if a share was told wrongly."""
        return self._all_or_none(partial(super().reveal_to_holders, words))

    def reveal(self, words: Replicated) -> Words:
        """Return shared words at all three hosts, as a party does; refuse at all three if a share was told wrongly."""
        return self._all_or_none(partial(super().reveal, words))

    def _all_or_none(self, reveal: Callable[[], T]) -> T:
        revealed, lied = None, False
        try:
            revealed = reveal()
        except LyingHostError:
            lied, self._broken = True, False
        self._run_once(lambda: self._agree(lied))
        return cast(T, revealed)

    def _check(self, x: Replicated, y: Replicated, z: Replicated, triple: list[Replicated]) -> None:
        """Note what has to be 0 if a gate and its triple are right."""
        a, b, c = triple
        d, e = self._open(x ^ a), self._open(y ^ b)
        left = z ^ c ^ b.map(lambda side: side & d) ^ a.map(lambda side: side & e)
        both = d & e  # public: it belongs to share 0
        if self.index == 0:
            left.first[...] ^= both
        if self.index == 2:
            left.second[...] ^= both
        self._zeros.update(to_bytes(left.first ^ left.second))
        self._due.update(to_bytes(left.second))

    def _open(self, words: Replicated) -> Words:
        """Open words to all. Host i lacks share i - 1, which the host before sends and the next one vouches for."""

        def act() -> Words:
            lacking = self._pass(self.next, words.first, self.before, words.first.shape)
            self._told.update(to_bytes(words.second))
            self._heard.update(to_bytes(lacking))
            return np.asarray(words.first ^ words.second ^ lacking)

        return self._run_once(act)

    def _meet(self) -> None:
        """Wait for both others: whatever they sent before is settled."""

        def act() -> None:
            for other in (self.before, self.next):
                self._send(other, np.zeros(0, dtype=np.uint64))
            for other in (self.before, self.next):
                self._receive(other, 0)

        self._run_once(act)

    def _compare(self, wrong: bool = False) -> None:
        """Compare the digests of all that was opened, and only then of what has to be 0; go on only if nobody found
        anything. (Where an opening was told wrongly, what has to be 0 would depend on secrets.)"""

        def act() -> None:
            self._send(self.before, _words(self._told))
            vouched = self._receive(self.next, DIGEST_WORDS)
            self._agree(wrong or vouched.tobytes() != self._heard.digest())
            self._send(self.next, _words(self._zeros))
            zeros = self._receive(self.before, DIGEST_WORDS)
            self._agree(zeros.tobytes() != self._due.digest())

        self._run_once(act)

    def _agree(self, found: bool) -> None:
        """Tell the others whether something was found; refuse if anybody says so."""
        for other in (self.before, self.next):
            self._send(other, np.array([found], dtype=np.uint64))
        complaints = [int(self._receive(other, 1)[0]) for other in (self.before, self.next)]
        if found or any(complaints):
            raise CheatingHostError(
                "hosts: a host departed from the protocol; nothing was opened. Contact the hosts' operators"
            )


def bucket_size(words: int) -> int:
    """Return how many triples verify each of so many words of ANDs.

    >>> [bucket_size(words) for words in (1, 100, 10_000, 10**7)]
    [23, 6, 3, 2]
    """
    size = 2
    while math.comb(size * (words + 1), size) < 1 << PLACES_BITS:
        size += 1
    return size


def permutation(seed: bytes, size: int) -> Integers:
    """Return a uniform permutation that follows from 32 random bytes: the order of distinct random words."""
    stream = Keystream(seed)
    while True:
        words = stream.words(size)
        order = np.argsort(words)
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return np.asarray(order)


def _pieces(size: int) -> Iterator[slice]:
    """Yield what travels as one message, so that no host waits for many."""
    for start in range(0, size, MESSAGE_WORDS):
        yield slice(start, min(start + MESSAGE_WORDS, size))


def _flat(parts: list[Replicated]) -> Replicated:
    return Replicated.concatenate([part.map(lambda side: side.reshape(-1)) for part in parts])


def _words(running: "hashlib._Hash") -> Words:
    return np.frombuffer(running.digest(), dtype="<u8")
