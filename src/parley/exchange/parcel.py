"""What travels when one noise is shared: an owner's parcels to three hosts, and the hosts' openings to the learner.

Share j of an owner's words lies at the hosts j and j - 1. Shares 0 and 1 are seeds (`sharing.ring.expand`), share 2 is words: so a parcel
needs no marks that say which is which.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import Malformed
from parley.mechanisms.recipe import Law
from parley.mechanisms.random_words import Words

HOSTS = 3
SEED = 32  # bytes
WORDS = np.dtype("<u8")
CONTENT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Shape:
    """What has to be drawn: noise of this law, 2^exponent grid units in size, for so many numbers."""

    law: Law
    exponent: int
    size: int

    @property
    def bytes(self) -> int:
        """How long so many words are."""
        return WORDS.itemsize * self.size


@dataclass(frozen=True, eq=False)
class Parcel:
    """Two of the three shares of one owner's answer, for one host."""

    terms_hash: str
    round: int
    content: str  # of the question, as the owner got it
    owner: str
    records: int
    shape: Shape
    shares: tuple[bytes, bytes]


@dataclass(frozen=True, eq=False)
class Opening:
    """One host's part of an opened sum: its first share in full, of its second the digest (another host sends that one in full)."""

    terms_hash: str
    round: int
    content: str
    owners: tuple[str, ...]
    words: Words
    digest: bytes


def share_length(number: int, shape: Shape) -> int:
    """How many bytes share `number` has."""
    return shape.bytes if number == HOSTS - 1 else SEED


def pack(terms_hash: str, round: int, content: str, owner: str, records: int, shape: Shape, shares: Sequence[bytes]) -> list[Parcel]:  # noqa: A002
    """The parcels for hosts 0, 1 and 2 with an owner's three shares, two in each."""
    pairs = [(shares[i], shares[(i + 1) % HOSTS]) for i in range(HOSTS)]
    return [Parcel(terms_hash, round, content, owner, records, shape, pair) for pair in pairs]


def to_bytes(words: Words) -> bytes:
    """Little-endian, eight bytes a word."""
    return np.ascontiguousarray(words, dtype=WORDS).tobytes()


def to_words(content: bytes, size: int) -> Words:
    """The words in these bytes, exactly so many."""
    if len(content) != WORDS.itemsize * size:
        raise Malformed(f"words: expected {size} of eight bytes")
    return np.frombuffer(content, dtype=WORDS).astype(np.uint64, copy=False)
