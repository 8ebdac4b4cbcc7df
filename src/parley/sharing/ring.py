"""Whole numbers modulo 2^64, as words; and words that a short seed stands for."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.mechanisms.random_words import Words

__all__ = ["Words", "digest", "expand", "third_share"]


def expand(seed: bytes, size: int) -> Words:
    """`size` words of the AES-256 keystream of this 32-byte seed. A seed stands for one vector, ever."""
    cipher = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8")


def third_share(words: Words, seeds: tuple[bytes, bytes]) -> Words:
    """What two seeds leave of these words."""
    return words - expand(seeds[0], words.size) - expand(seeds[1], words.size)


def digest(words: Words) -> bytes:
    """SHA-256 of the words and their number."""
    return hashlib.sha256(words.size.to_bytes(8, "little") + np.ascontiguousarray(words, dtype="<u8").tobytes()).digest()
