"""What travels when one noise is shared: an owner's share bundles to three hosts or two, and the hosts' openings to the
learner.

Of three hosts, share j of an owner's words lies at the hosts j and j - 1; of two, share j at host j, with a tag that
both get. The last share is words, those before it are seeds (`sharing.ring.expand`): so a share bundle needs no marks
that say which is which.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from parley.errors import GuaranteeError, Malformed, SettingError, TooLate
from parley.owner.ledger.account import Account
from parley.owner.owner import Owner
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import Law, SharedNoise
from parley.privacy.sharing.ring import Shares, to_bytes
from parley.protocol.queries import Answer, Query
from parley.terms import Host

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
            _pair(shares.for_host(place)),
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


PATIENCE = 20.0  # seconds for one host to take a share bundle


class HostConnection(Protocol):
    """A host that takes share bundles."""

    def deliver(self, bundle: ShareBundle, timeout: float) -> None: ...
    def close(self) -> None: ...


class Group(Protocol):
    """The hosts of some terms (`HostGroup`)."""

    @property
    def connections(self) -> Mapping[str, HostConnection]: ...


class HostGroups(Protocol):
    """How hosts are reached (`HostConnections`)."""

    def group(self, hosts: Sequence[Host]) -> Group: ...
    def close(self) -> None: ...


class Delivery:
    """An owner's connections to hosts."""

    def __init__(self, connections: HostGroups) -> None:
        self._connections = connections
        self._pool = ThreadPoolExecutor(HOSTS, thread_name_prefix="parley-delivery")

    def require(self, hosts: Sequence[Host]) -> None:
        """Refuse before anything is debited if it is not known where a host is, or which key it has."""
        self._connections.group(hosts)

    def send(self, hosts: Sequence[Host], bundles: Sequence[ShareBundle]) -> None:
        """Each host its share bundle, all at once. For a round that is settled already it came in vain, which the
        learner will see."""
        connections = self._connections.group(hosts).connections
        calls = [
            self._pool.submit(connections[host.name].deliver, bundle, PATIENCE)
            for host, bundle in zip(hosts, bundles, strict=True)
        ]
        failures = [
            error for call in calls if (error := call.exception()) is not None and not isinstance(error, TooLate)
        ]
        for error in failures:
            raise error

    def close(self) -> None:
        """Close all connections to hosts, and end the threads that use them."""
        self._connections.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def answer_or_deliver(owner: Owner, query: Query, delivery: Delivery | None) -> tuple[Answer, Account]:
    """The owner's noisy answer; by terms with one noise for all an answer without numbers, once its shares are with the
    hosts."""
    terms = owner.agreement(query.terms_hash).setup.terms
    if not terms.noise.hosts:
        return owner.answer_with_account(query)
    if delivery is None:
        raise SettingError(
            "owner.toml: hosts: missing; under these terms shares go to hosts over a network, which requires "
            "certificates"
        )
    delivery.require(terms.hosts)
    contribution, account = owner.contribute(query)
    if contribution.shares is None:
        raise GuaranteeError(f"{owner.name}: an owner in a simulation sends no shares to hosts")
    delivery.send(terms.hosts, pack(query, owner.name, contribution.noise, contribution.shares))
    return Answer(query.id, owner.name, contribution.noise.records, np.empty(0)), account
