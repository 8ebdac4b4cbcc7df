"""What travels when one noise is shared: an owner's share bundles to three hosts or two, and the hosts' openings to the
learner.

Of three hosts, share j of an owner's words lies at the hosts j and j - 1; of two, share j at host j, with a tag that
both get. The last share is words, those before it are seeds (`sharing.ring.expand`): so a share bundle needs no marks
that say which is which."""

import re
from dataclasses import dataclass

import numpy as np

from parley.errors import Malformed
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import Law, SharedNoise
from parley.privacy.sharing.ring import Shares, to_bytes
from parley.protocol.queries import Query

HOSTS = 3  # at most
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
        """How many bytes the numbers of this shape take as words."""
        return WORDS.itemsize * self.size


@dataclass(frozen=True, eq=False)
class ShareBundle:
    """Two of the three shares of one owner's answer, for one host; of two hosts, its share and the tag of both."""

    terms_hash: str
    round: int
    content: str  # of the question, as the owner got it
    owner: str
    records: int
    shape: Shape
    shares: tuple[bytes, bytes]


@dataclass(frozen=True, eq=False)
class Opening:
    """One host's part of an opened sum: its first share in full, of its second the digest (another host sends that one
    in full); of two hosts, its only share, and the digest of what both recorded."""

    terms_hash: str
    round: int
    content: str
    owners: tuple[str, ...]
    words: Words
    digest: bytes


def shape_of(noise: SharedNoise) -> Shape:
    """Of the noise that joins answers of this kind."""
    return Shape(noise.recipe.law, noise.recipe.exponent, noise.size)


def pack(query: Query, owner: str, noise: SharedNoise, shares: Shares) -> list[ShareBundle]:
    """The share bundles for all hosts, in their order."""
    return [
        ShareBundle(
            query.terms_hash,
            query.round,
            query.content,
            owner,
            noise.records,
            shape_of(noise),
            _pair(shares.of_host(place)),
        )
        for place in range(shares.hosts)
    ]


def _pair(parts: tuple[bytes | Words, bytes | Words]) -> tuple[bytes, bytes]:
    first, second = (part if isinstance(part, bytes) else to_bytes(part) for part in parts)
    return first, second


def to_words(content: bytes, size: int) -> Words:
    """The words in these bytes, exactly so many."""
    if len(content) != WORDS.itemsize * size:
        raise Malformed(f"words: expected {size} of eight bytes")
    return np.frombuffer(content, dtype=WORDS).astype(np.uint64, copy=False)
