"""Three hosts in threads with keys of the test's choice, and the same noise computed in the open."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from parley.privacy.mechanisms.shared_noise import Recipe
from parley.privacy.sharing.party import Channel, Party, run_in_threads, wires
from parley.privacy.sharing.ring import Keystream, Replicated
from parley.privacy.sharing.secret_noise import doubling_chains

T = TypeVar("T")
Keys = tuple[bytes, bytes, bytes]


def make_keys(seed: object) -> Keys:
    first, second, third = (hashlib.sha256(f"{seed} {j}".encode()).digest() for j in range(3))
    return first, second, third


class Recorded:
    """A channel that keeps what this host receives."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.index = channel.index
        self.send = channel.send
        self.received: list[bytes] = []

    def receive(self, source: int) -> bytes:
        payload = self._channel.receive(source)
        self.received.append(payload)
        return payload


def parties(keys: Keys) -> tuple[list[Party], list[Recorded]]:
    channels = [Recorded(w) for w in wires(timeout=20)]
    return [Party(c, (keys[c.index], keys[(c.index + 1) % 3])) for c in channels], channels


def all_three(keys: Keys, task: Callable[[Party], T]) -> tuple[T, ...]:
    ends = wires(timeout=20)
    hosts = [Party(c, (keys[c.index], keys[(c.index + 1) % 3])) for c in ends]
    return run_in_threads(*[lambda h=h: task(h) for h in hosts], wires=ends)


def split(values: np.ndarray, rng: np.random.Generator, xor: bool) -> list[Replicated]:
    """Replicated shares of words, as the three hosts hold them."""
    a, b = (rng.integers(0, 2**64, size=values.shape, dtype=np.uint64) for _ in range(2))
    shares = [a, b, values ^ a ^ b if xor else values - a - b]
    return [Replicated(shares[i], shares[(i + 1) % 3]) for i in range(3)]


def joined(shares: tuple[Replicated, ...], xor: bool) -> np.ndarray:
    """The shared words; each share must be the same with both its holders."""
    for i in range(3):
        np.testing.assert_array_equal(shares[i].second, shares[(i + 1) % 3].first)
    a, b, c = (s.first for s in shares)
    return a ^ b ^ c if xor else a + b + c


def bits_of(planes: np.ndarray, size: int) -> np.ndarray:
    """[rows, words] -> [rows, size] of 0 and 1, by shifts."""
    return (planes[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).reshape(len(planes), -1)[:, :size]


def planes_of(bits: np.ndarray) -> np.ndarray:
    """[rows, size] of 0 and 1 -> [rows, words]."""
    padded = np.zeros((bits.shape[0], -(-bits.shape[1] // 64) * 64), dtype=np.uint64)
    padded[:, : bits.shape[1]] = bits
    return np.bitwise_or.reduce(padded.reshape(len(bits), -1, 64) << np.arange(64, dtype=np.uint64), axis=2)


def number(bits: np.ndarray) -> np.ndarray:
    """Digits [digits, size], most significant first, as words."""
    value = np.zeros(bits.shape[1], dtype=np.uint64)
    for digit in bits:
        value = value * np.uint64(2) + digit
    return value


def with_all_keys(recipe: Recipe, keys: Keys, size: int) -> list[int]:
    """The noise that hosts with these keys draw first, by the recipe's definition: what two hosts can do together."""
    singles = [(t, w) for t, w in recipe.singles if 0 < t < 2**64]
    chains = doubling_chains(recipe.fair)
    rows = 64 * (len(singles) + bool(recipe.ladder)) + bool(recipe.ladder)
    streams = [Keystream(k, 1).words(rows + sum(length for _, length in chains), -(-size // 64)) for k in keys]
    secret = bits_of(streams[0] ^ streams[1] ^ streams[2], size)
    total = [recipe.offset + sum(w for t, w in recipe.singles if t == 2**64)] * size
    for k, (threshold, weight) in enumerate(singles):
        word = number(secret[64 * k : 64 * k + 64])
        total = [x + weight * (int(r) < threshold) for x, r in zip(total, word, strict=True)]
    if recipe.ladder:
        word, sign = number(secret[rows - 65 : rows - 1]), secret[rows - 1]
        steps = [sum(int(r) < t for t in recipe.ladder) for r in word]
        total = [x + recipe.step * (-n if s else n) for x, n, s in zip(total, steps, sign, strict=True)]
    u, c = bits_of(streams[0] ^ streams[1], size), bits_of(streams[2], size)
    for weight, length in chains:
        drawn = [
            (int(a) + int(b)) % 2**length
            for a, b in zip(number(u[rows : rows + length]), number(c[rows : rows + length]), strict=True)
        ]
        total = [x + weight * n for x, n in zip(total, drawn, strict=True)]
        rows += length
    return total
