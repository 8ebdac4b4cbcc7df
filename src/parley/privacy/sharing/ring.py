"""Words modulo 2^64, streams of them from a key, and shares held twice."""

import hashlib
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms.random_words import Words

KEY = 32  # bytes of a seed or key
# words of one stream, 2^36 blocks of AES: four of one key are told from random words with an advantage below 2^-52
LIMIT = 1 << 37


class Keystream:
    """AES-256-CTR: independent uniform words from a key, each given once.

    Streams of one key with different purposes start 2^120 blocks apart, and none is longer than 2^36: they never meet.
    """

    def __init__(self, key: bytes, purpose: int = 0) -> None:
        if len(key) != KEY:
            raise SettingError(f"key: {len(key)} bytes; expected {KEY}")
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes([purpose]) + bytes(15))).encryptor()
        self.given = 0

    def words(self, *shape: int) -> Words:
        """The next words of the stream."""
        size = int(np.prod(shape, dtype=object))
        if not self.given + size <= LIMIT:
            raise GuaranteeError(
                f"keystream: {LIMIT} words of one key are given and none is given twice; agree on fresh keys"
            )
        self.given += size
        return np.frombuffer(self._cipher.update(bytes(8 * size)), dtype="<u8").reshape(shape)


def expand(seed: bytes, size: int) -> Words:
    """The share that a seed of 32 random bytes stands for. A seed is for one vector ever."""
    return Keystream(seed).words(size)


def last_share(words: Words, seeds: tuple[bytes, ...]) -> Words:
    """The last share of a vector whose other shares are `expand`ed from seeds: one, or two.

    Formal guarantee: all shares but any one are uniform and independent of the words.
    """
    rest = words.copy()
    for seed in seeds:
        rest -= expand(seed, words.size)
    return rest


def digest(words: Words) -> bytes:
    """SHA-256 of the words, little-endian, after their number."""
    return hashlib.sha256(words.size.to_bytes(8, "little") + to_bytes(words)).digest()


def to_bytes(words: Words) -> bytes:
    """The words as bytes, eight each, the lowest first on every machine."""
    return words.astype("<u8", copy=False).tobytes()


@dataclass(frozen=True)
class Replicated:
    """What one host holds of a shared array: shares i and i + 1."""

    first: Words
    second: Words

    def __add__(self, other: "Replicated") -> "Replicated":
        """Shares of the sum of both secrets, made without a message."""
        if self.first.shape != other.first.shape:
            raise SettingError(
                f"shares: sizes {self.first.shape} and {other.first.shape} cannot be added; send vectors of one size"
            )
        return Replicated(self.first + other.first, self.second + other.second)
