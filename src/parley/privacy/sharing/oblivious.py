"""Random oblivious transfers between two hosts: the sender gets two random strings at each place, the receiver one of
them, by a bit that the sender does not learn; the receiver does not learn the other string.

128 of them are made with X25519 (the receiver sends two public keys and knows the private one of one of them), and any
number follow from these with 16 bytes each (Ishai, Kilian, Nissim and Petrank 2003).

Formal guarantee, for hosts that follow the protocol and are curious: everything that either host receives is
independent of the other's bits or strings for anybody who cannot tell X25519's keys (hashed with SHA-256), AES-256 in
counter mode, and AES with a public key from random ones. Proof. A host that knows the private key of one of its two
public keys drew the other as a multiple of a random point of the curve, whose logarithm it does not know; both are
uniform in the group, so they look alike. A column of the extension is sent as t0 xor t1 xor r; the sender knows one of
the streams t0, t1 and not the other, so the column is uniform to it. A row is t for the receiver, and t xor r s for the
sender; the string that the receiver does not get is the hash of t xor s, and s is uniform to it. The hash is pi(x) xor
x with pi an AES of public key (Guo, Katz, Wang and Yu 2020).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from parley.errors import ExchangeError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.ring import Keystream

BASE_COUNT = 128  # transfers made with X25519: the security parameter
POINT_BYTES = 32
BASE_BYTES = (2 * BASE_COUNT + 1) * POINT_BYTES  # what each host sends to begin
DrawBytes = Callable[[int], bytes]
Bits = NDArray[np.uint8]

_FIELD = 2**255 - 19
_CURVE = 486662
_CHUNK_WORDS = 512  # words of a plane turned into rows at a time: what fits a processor's cache
_HALVES = tuple((shift, (2**64 - 1) // (2**shift + 1)) for shift in (32, 16, 8, 4, 2, 1))  # 0x00000000FFFFFFFF, ...
_HASH_KEY = hashlib.sha256(b"parley: the public key of the hash of oblivious transfers").digest()[:16]


class BaseTransfers:
    """One host's part of the first 128 transfers in both directions."""

    def __init__(self, index: int, random: DrawBytes) -> None:
        self._index = index
        self._choices = np.unpackbits(np.frombuffer(random(BASE_COUNT // 8), dtype=np.uint8), bitorder="little")
        self._offer = X25519PrivateKey.from_private_bytes(random(POINT_BYTES))
        self._keys = [X25519PrivateKey.from_private_bytes(random(POINT_BYTES)) for _ in range(BASE_COUNT)]
        pairs = []
        for key, choice in zip(self._keys, self._choices, strict=True):
            pair = [key.public_key().public_bytes_raw(), unknown_key(random)]
            pairs += pair[::-1] if choice else pair
        self.message = b"".join([self._offer.public_key().public_bytes_raw(), *pairs])

    def streams(self, other: bytes) -> tuple["Sender", "Receiver"]:
        """Return both ends of the extension, after the other host's message."""
        if len(other) != BASE_BYTES:
            raise ExchangeError(f"host {1 - self._index}: the host sent keys of a wrong length; start again")
        try:
            known = self._known_streams(other)
            first, second = self._both_streams(other)
        except ValueError:  # a point of low order
            raise ExchangeError(f"host {1 - self._index}: the host sent keys that are not valid; start again") from None
        return Sender(self._choices, known), Receiver(first, second)

    def _known_streams(self, other: bytes) -> list[Keystream]:
        """Return the streams that this host chose."""
        offer = X25519PublicKey.from_public_bytes(other[:POINT_BYTES])
        return [
            Keystream(_stream_key(1 - self._index, place, other, self.message, key.exchange(offer)))
            for place, key in enumerate(self._keys)
        ]

    def _both_streams(self, other: bytes) -> list[list[Keystream]]:
        """Return both streams of each place of the transfers that this host offers: the first ones, the second ones."""
        points = [other[start : start + POINT_BYTES] for start in range(POINT_BYTES, BASE_BYTES, POINT_BYTES)]
        shared = [self._offer.exchange(X25519PublicKey.from_public_bytes(point)) for point in points]
        return [
            [
                Keystream(_stream_key(self._index, place, self.message, other, each))
                for place, each in enumerate(shared[choice::2])
            ]
            for choice in (0, 1)
        ]


@dataclass(frozen=True, eq=False)
class Strings:
    """Two random strings [m, 2 words] at each place, as the sender has them."""

    first: Words
    second: Words


class Sender:
    """The end that gets both strings; `choices` are its secret bits [128]."""

    def __init__(self, choices: Bits, streams: Sequence[Keystream]) -> None:
        self._choices, self._streams = choices, streams
        self._mask = np.packbits(choices, bitorder="little").view("<u8").astype(np.uint64)

    def extend(self, columns: Words) -> Strings:
        """Return the strings of 64 places a word, from the receiver's columns [128, words]."""
        planes = _planes(self._streams, columns.shape[1])
        planes ^= columns * self._choices[:, None].astype(np.uint64)
        rows = rows_of(planes)
        return Strings(hash_rows(rows), hash_rows(rows ^ self._mask))


class Receiver:
    """The end that chooses."""

    def __init__(self, first: Sequence[Keystream], second: Sequence[Keystream]) -> None:
        self._first, self._second = first, second

    def extend(self, choices: Words) -> tuple[Words, Words]:
        """Return (the columns to send [128, words], the chosen strings [m, 2 words]), 64 choices a word."""
        planes = _planes(self._first, choices.size)
        columns = _planes(self._second, choices.size)
        columns ^= planes
        columns ^= choices
        return columns, hash_rows(rows_of(planes))


def unknown_key(random: DrawBytes) -> bytes:
    """Return a uniform public key in the group of X25519 whose private key nobody knows: a multiple of a random point
    of the curve."""
    while True:
        u = int.from_bytes(random(POINT_BYTES), "little") % 2**255
        scalar = X25519PrivateKey.from_private_bytes(random(POINT_BYTES))
        square = (u * u * u + _CURVE * u * u + u) % _FIELD
        if u < _FIELD and pow(square, (_FIELD - 1) // 2, _FIELD) == 1:  # on the curve, not on its twist
            return scalar.exchange(X25519PublicKey.from_public_bytes(u.to_bytes(POINT_BYTES, "little")))


def rows_of(planes: Words) -> Words:
    """Return the rows [64 words, 2] of bit planes [128, words]: bit i of row j is bit j of plane i."""
    rows = np.empty((planes.shape[1], 64, 2), dtype=np.uint64)
    for start in range(0, planes.shape[1], _CHUNK_WORDS):
        some = slice(start, start + _CHUNK_WORDS)
        for half in (0, 1):
            rows[some, :, half] = _transposed(planes[64 * half : 64 * half + 64, some].copy()).T
    return rows.reshape(-1, 2)


def _transposed(squares: Words) -> Words:
    """Transpose squares of 64 times 64 bits [64, n] in place: halves change places, then their halves, and so on."""
    for shift, low_halves in _HALVES:
        pairs = squares.reshape(32 // shift, 2, shift, -1)
        first, second = pairs[:, 0], pairs[:, 1]
        moved = ((first >> np.uint64(shift)) ^ second) & np.uint64(low_halves)
        second ^= moved
        first ^= moved << np.uint64(shift)
    return squares


def hash_rows(rows: Words) -> Words:
    """Return pi(x) xor x for each row [m, 2]."""
    cipher = Cipher(algorithms.AES(_HASH_KEY), modes.ECB()).encryptor()  # noqa: S305 - a public permutation
    made = np.frombuffer(cipher.update(np.ascontiguousarray(rows, dtype="<u8").tobytes()), dtype="<u8").reshape(-1, 2)
    return made ^ rows


def _planes(streams: Sequence[Keystream], words: int) -> Words:
    return np.stack([stream.words(words) for stream in streams])


def _stream_key(offering: int, place: int, offered: bytes, chosen: bytes, shared: bytes) -> bytes:
    """Return the key of a stream from both hosts' messages and what X25519 made of two keys in them."""
    about = b"parley-base-transfer" + bytes([offering, place])
    return hashlib.sha256(about + offered + chosen + shared).digest()
