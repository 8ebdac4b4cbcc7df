"""Three hosts in threads with keys of the test's choice, and the same noise computed in the open."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from parley.privacy.mechanisms.tabled_recipe import AliasTable, TabledRecipe
from parley.privacy.sharing import secret_noise
from parley.privacy.sharing.party import Channel, Party, run_in_threads, wires
from parley.privacy.sharing.ring import Keystream, Replicated

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


def parties(keys: Keys, kind: type[Party] = Party) -> tuple[list[Party], list[Recorded]]:
    channels = [Recorded(w) for w in wires(timeout=20)]
    return [kind(c, (keys[c.index], keys[(c.index + 1) % 3])) for c in channels], channels


def all_three(keys: Keys, task: Callable[[Party], T], kind: type[Party] = Party) -> tuple[T, ...]:
    ends = wires(timeout=20)
    hosts = [kind(c, (keys[c.index], keys[(c.index + 1) % 3])) for c in ends]
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
    """Digits [digits, size], lowest first, as words."""
    value = np.zeros(bits.shape[1], dtype=np.uint64)
    for digit in bits[::-1]:
        value = value * np.uint64(2) + digit
    return value


def numbers_of(recipe: TabledRecipe, bits: np.ndarray) -> np.ndarray:
    """The numbers that random bits [planes, size] stand for, by the recipe's definition."""
    exponent = recipe.recipe.top.bit_length() - 1

    def drawn(table: AliasTable, start: int) -> np.ndarray:
        place = number(bits[start : start + 7]).astype(np.int64)
        return table.numbers(place, number(bits[start + 7 : start + 71][::-1]))

    at = 71 * (1 + len(recipe.digits))
    sign = 1 - 2 * bits[at].astype(np.int64)
    total = recipe.recipe.offset + (sign * drawn(recipe.top, 0) << exponent)
    for k, each in enumerate(recipe.digits, start=1):
        digits = drawn(each.table, 71 * k) << each.exponent
        total += -digits if each.subtracted else digits
    for k in range(recipe.uniforms):
        start = at + 1 + k * exponent
        total += number(bits[start : start + exponent]).astype(np.int64)
    return total


def planes_drawn(recipe: TabledRecipe) -> int:
    """How many random bits a number takes."""
    return 71 * (1 + len(recipe.digits)) + 1 + recipe.uniforms * (recipe.recipe.top.bit_length() - 1)


def with_all_keys(recipe: TabledRecipe, keys: Keys, size: int) -> list[int]:
    """The noise that hosts with these keys draw first, by the recipe's definition: what two hosts can do together."""
    streams, numbers = [Keystream(key, 1) for key in keys], list[int]()
    for start in range(0, size, secret_noise.BATCH_COORDINATES):
        count = min(secret_noise.BATCH_COORDINATES, size - start)
        # masks come first
        drawn = [stream.words(64 + planes_drawn(recipe), -(-count // 64))[64:] for stream in streams]
        numbers += numbers_of(recipe, bits_of(drawn[0] ^ drawn[1] ^ drawn[2], count)).tolist()
    return numbers
