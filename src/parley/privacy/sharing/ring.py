"""Words modulo 2^64, streams of them from a key, and shares held twice. An owner's answer travels in three shares, any
two of which say nothing, or in two, either of which says nothing. The owner writes down a nonce and a tag of the last
share; seeds follow from the nonce, the question and a key, the last share from seeds and table. The key lies beside the
ledger and is in no backup of it, so whoever reads a backup has no share, and cannot try out guesses."""

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.errors import AbortedRound, GuaranteeError, SettingError
from parley.privacy.mechanisms.exact_samplers import Words

KEY_BYTES = 32  # bytes of a seed or key
# words of one stream, 2^36 blocks of AES: four of one key are told from random words with an advantage below 2^-52
MAX_WORDS = 1 << 37


class Keystream:
    """AES-256-CTR: independent uniform words from a key, each given once. Streams of one key with different purposes
    start 2^120 blocks apart, and none is longer than 2^36: they never meet."""

    def __init__(self, key: bytes, purpose: int = 0) -> None:
        if len(key) != KEY_BYTES:
            raise SettingError(f"key: {len(key)} bytes; expected {KEY_BYTES}")
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes([purpose]) + bytes(15))).encryptor()
        self.given = 0

    def words(self, *shape: int) -> Words:
        """Return the next words of the stream."""
        size = int(np.prod(shape, dtype=object))
        if not self.given + size <= MAX_WORDS:
            raise GuaranteeError(f"keystream: all {MAX_WORDS} words of this key are used; agree on new keys")
        self.given += size
        return np.frombuffer(self._cipher.update(bytes(8 * size)), dtype="<u8").reshape(shape)


def expand_seed(seed: bytes, size: int) -> Words:
    """Return the share that a seed of 32 random bytes stands for. A seed is for one vector ever."""
    return Keystream(seed).words(size)


def last_share(words: Words, seeds: tuple[bytes, ...], bits: bool = False) -> Words:
    """Return the last share of a vector whose other shares are `expand_seed`ed from one or two seeds. Shares add up to
    the words, or (`bits`) their exclusive or gives the words.

    Formal guarantee: all shares but any one are uniform and independent of the words.
    """
    last_words = words.copy()
    for seed in seeds:
        if bits:
            last_words ^= expand_seed(seed, words.size)
        else:
            last_words -= expand_seed(seed, words.size)
    return last_words


def digest(words: Words) -> bytes:
    """Return SHA-256 of the words, little-endian, after their number."""
    return hashlib.sha256(words.size.to_bytes(8, "little") + to_bytes(words)).digest()


def to_bytes(words: Words) -> bytes:
    """Return the words as bytes, eight each, the lowest first on every machine."""
    return words.astype("<u8", copy=False).tobytes()


@dataclass(frozen=True)
class Replicated:
    """What one host holds of a shared array: shares i and i + 1."""

    first: Words
    second: Words

    def __add__(self, other: "Replicated") -> "Replicated":
        """Return shares of the sum of both secrets, made without a message."""
        if self.first.shape != other.first.shape:
            raise SettingError(
                f"shares: vectors of sizes {self.first.shape} and {other.first.shape} cannot be added; use equal sizes"
            )
        return Replicated(self.first + other.first, self.second + other.second)

    def __xor__(self, other: "Replicated") -> "Replicated":
        """Return shares of the exclusive or of both secrets, made without a message."""
        return Replicated(self.first ^ other.first, self.second ^ other.second)

    def __getitem__(self, at: Any) -> "Replicated":
        """Return shares of some of the words, chosen as in an array."""
        return Replicated(self.first[at], self.second[at])

    def map(self, change: Callable[[Words], Words]) -> "Replicated":
        """Return shares that are changed alike: words moved, or bits of all of them."""
        return Replicated(change(self.first), change(self.second))

    @staticmethod
    def concatenate(parts: Sequence["Replicated"], axis: int = 0) -> "Replicated":
        """Return shares of secrets put one after the other."""
        return Replicated(
            np.concatenate([part.first for part in parts], axis), np.concatenate([part.second for part in parts], axis)
        )


NONCE_BYTES = 32  # bytes


@dataclass(frozen=True, eq=False)
class Shares:
    """x = the sum of all expand(seed) + last, modulo 2^64, or (`bits`) their exclusive or; `record` is written down.

    Formal guarantee: a seed is HMAC-SHA-256 of a fresh nonce and of the question, under the owner's key, and stands for
    this one vector. One of three hosts gets two of seed 0, seed 1 and last; one of two gets seed 0 or last, and the
    tag, which is HMAC-SHA-256 of the nonce, the question and the last share. This tells nothing of x to anybody who
    cannot tell HMAC-SHA-256 and AES-256 in counter mode from random functions.
    """

    seeds: tuple[bytes, ...]
    last: Words
    record: Words

    @classmethod
    def from_words(cls, words: Words, key: bytes, content: str, hosts: int = 3, bits: bool = False) -> "Shares":
        """Make fresh shares of the answer to the question with this content, for `hosts` hosts."""
        return cls._split(words, key, content, os.urandom(NONCE_BYTES), hosts, bits)

    @classmethod
    def from_record(
        cls, record: Words, words: Words, key: bytes, content: str, hosts: int = 3, bits: bool = False
    ) -> "Shares":
        """Return the recorded shares of words that were computed again; raise `AbortedRound` if they differ."""
        shares = cls._split(words, key, content, to_bytes(record)[:NONCE_BYTES], hosts, bits)
        if not hmac.compare_digest(to_bytes(shares.record), to_bytes(record)):
            raise AbortedRound(
                "the recomputed answer differs from the answer shared before: the machine, a library's version or the "
                "ledger's secret has changed. This round is aborted and its debit is spent; start a new round"
            )
        return shares

    @property
    def hosts(self) -> int:
        """How many hosts the shares are for."""
        return len(self.seeds) + 1

    def for_host(self, place: int) -> tuple[bytes | Words, bytes | Words]:
        """Return what a host gets: of three, shares `place` and `place` + 1; of two, share `place` and the tag, by
        which they see that theirs belong together."""
        parts: tuple[bytes | Words, ...] = (*self.seeds, self.last)
        if self.hosts == 2:
            return parts[place], to_bytes(self.record)[NONCE_BYTES:]
        return parts[place], parts[(place + 1) % 3]

    @classmethod
    def _split(cls, words: Words, key: bytes, content: str, nonce: bytes, hosts: int, bits: bool = False) -> "Shares":
        def derived(purpose: bytes, about: bytes = b"") -> bytes:
            return hmac.digest(key, purpose + nonce + bytes.fromhex(content) + about, "sha256")

        seeds = tuple(derived(b"seed %d" % number) for number in range(hosts - 1))
        last = last_share(words, seeds, bits)
        return cls(seeds, last, np.frombuffer(nonce + derived(b"tag of", to_bytes(last)), dtype="<u8"))
