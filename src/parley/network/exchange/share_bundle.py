"""What travels when one noise is shared: owners' share bundles to three hosts or two, and openings to the learner. Of
three hosts, share j of an owner's words lies at hosts j and j - 1; of two, share j at host j, with a tag that both get.
The last share is words, those before are seeds (`sharing.ring.expand_seed`), so a share bundle needs no labels."""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from parley.errors import GuaranteeError, Malformed, RolledBack, SettingError, TooLate
from parley.owner.ledger.account import Account
from parley.owner.ledger.witnessed import SignedEnd
from parley.owner.owner import Owner
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import Law, SharedNoise
from parley.privacy.sharing.ring import Shares, to_bytes
from parley.protocol.queries import Answer, Query
from parley.terms import Host

if TYPE_CHECKING:
    from parley.network.exchange.witnesses import Keeper, Witnesses

MAX_HOSTS = 3  # at most
SEED_BYTES = 32  # bytes
WORD_TYPE = np.dtype("<u8")
CONTENT_PATTERN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Shape:
    """What is drawn: noise of this law, 2^exponent grid units in size, for `size` numbers."""

    law: Law
    exponent: int
    size: int

    @property
    def bytes(self) -> int:
        """The bytes that numbers of this shape take as words."""
        return WORD_TYPE.itemsize * self.size


@dataclass(frozen=True, eq=False)
class ShareBundle:
    """Two of three shares of an owner's answer, for one host; of two hosts, its share and the tag of both."""

    terms_hash: str
    round: int
    content: str  # of the question, as the owner got it
    owner: str
    records: int
    shape: Shape
    shares: tuple[bytes, bytes]


@dataclass(frozen=True, eq=False)
class Opening:
    """One host's part of an opened sum: its first share in full and the digest of its second, which another host sends;
    of two hosts, its only share and the digest of what both recorded."""

    terms_hash: str
    round: int
    content: str
    owners: tuple[str, ...]
    words: Words
    digest: bytes
    end: SignedEnd | None = None  # of the host's journal, and its digest where the learner saw it end before
    earlier: str | None = None


def shape_of(noise: SharedNoise) -> Shape:
    """Return the shape of the noise that joins answers of this kind."""
    return Shape(noise.recipe.law, noise.recipe.exponent, noise.size)


def pack(query: Query, owner: str, noise: SharedNoise, shares: Shares) -> list[ShareBundle]:
    """Return the share bundles for all hosts, in their order."""
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
    """Return exactly `size` words from these bytes, or refuse them."""
    if len(content) != WORD_TYPE.itemsize * size:
        raise Malformed(f"words: expected {size} words of eight bytes")
    return np.frombuffer(content, dtype=WORD_TYPE).astype(np.uint64, copy=False)


DELIVERY_TIMEOUT_S = 20.0  # seconds for one host to take a share bundle
FIRST_LOOK_S, LONGEST_LOOK_S = 1.0, 3600.0  # seconds between two looks at where the hosts' journals end
LAST_LOOK_S = 7 * 86400.0  # seconds after the last share or start, once no round is left: then looks end


class HostConnection(Protocol):
    """A host that takes share bundles."""

    def deliver(self, bundle: ShareBundle, timeout: float) -> None: ...
    def close(self) -> None: ...


class Group(Protocol):
    """The hosts of some terms (`HostGroup`)."""

    @property
    def connections(self) -> Mapping[str, HostConnection]: ...
    @property
    def keys(self) -> Mapping[str, str | None]: ...


class HostGroups(Protocol):
    """How hosts are reached (`HostConnections`)."""

    def group(self, hosts: Sequence[Host]) -> Group: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Watch:
    """The hosts of an agreement, at whose journals an owner looks until some days after `begun`."""

    hosts: Sequence[Host]
    begun: float
    due: float
    pause: float

    def after_look(self, now: float) -> "Watch":
        """Return the same with the next look, after a pause twice as long."""
        pause = min(2 * self.pause, LONGEST_LOOK_S)
        return replace(self, due=now + pause, pause=pause)


class Delivery:
    """An owner's connections to hosts. With `witnesses`, hosts hear where the ledger ends before a share leaves, and
    the owner looks again and again where their journals end."""

    def __init__(
        self,
        connections: HostGroups,
        witnesses: "Witnesses | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections, self._witnesses, self._clock = connections, witnesses, clock
        self._watched: dict[str, Watch] = {}  # by terms
        self._looks: dict[tuple[str, str], Future[None]] = {}  # the last one at each host, by terms
        self._watching = threading.Lock()
        self._pool = ThreadPoolExecutor(MAX_HOSTS, thread_name_prefix="parley-delivery")
        self._looking = ThreadPoolExecutor(MAX_HOSTS, thread_name_prefix="parley-look")  # no share waits for a look

    def require(self, hosts: Sequence[Host]) -> None:
        """Refuse, before any debit, if a host's address or key is not known."""
        self._connections.group(hosts)

    def require_told(self, terms: str, hosts: Sequence[Host]) -> None:
        """Refuse, before any debit, if the ledger went back by what a host knows; once for each start."""
        if self._witnesses is not None:
            witnesses = lambda: self._keepers(hosts)  # noqa: E731
            self._witnesses.require_told(terms, witnesses, DELIVERY_TIMEOUT_S, self._all_keepers)

    def ask_once(self) -> None:
        """Ask the hosts of all agreements whether the ledger went back, once for each start; refuse if one proves
        it."""
        if self._witnesses is not None:
            self._witnesses.ask_once(self._all_keepers, DELIVERY_TIMEOUT_S)

    def send(self, hosts: Sequence[Host], bundles: Sequence[ShareBundle]) -> None:
        """Send each host its share bundle, all at once, when all keep the ledger's end with the debit; a host that had
        settled the round already is no failure."""
        if self._witnesses is not None:
            tell = partial(self._witnesses.tell, bundles[0].terms_hash, timeout=DELIVERY_TIMEOUT_S)
            self._all([partial(tell, witness, key) for witness, key in self._keepers(hosts)])
        connections = self._connections.group(hosts).connections
        self._all(
            [
                partial(connections[host.name].deliver, bundle, DELIVERY_TIMEOUT_S)
                for host, bundle in zip(hosts, bundles, strict=True)
            ]
        )
        self.watch(bundles[0].terms_hash, hosts)

    def watch(self, terms: str, hosts: Sequence[Host]) -> None:
        """Look from now on where the hosts' journals end: they may open a round that only they and the learner know of.
        Each pause is twice the one before, up to an hour."""
        now = self._clock()
        with self._watching:
            self._watched[terms] = Watch(hosts, now, now + FIRST_LOOK_S, FIRST_LOOK_S)

    def refresh(
        self,
        over: Callable[[str], bool] = lambda terms: False,
        found: Callable[[str, str, RolledBack], None] = lambda terms, host, error: None,
    ) -> None:
        """Begin the looks that are due. Looks end some days after the last share or start, where the agreement is
        `over`. Nobody waits; `found` hears, by terms and host, of a book that went back, and other trouble is met again
        with the next look or share."""
        if self._witnesses is None:
            return
        now = self._clock()
        for terms, watch in self._due(now).items():
            if now - watch.begun > LAST_LOOK_S and over(terms):
                with self._watching:
                    self._watched.pop(terms, None)
                continue
            for witness, key in self._keepers(watch.hosts):
                last = self._looks.get((terms, witness.name))
                if last is None or last.done():
                    look = self._looking.submit(self._look, terms, witness, key, found)
                    self._looks[terms, witness.name] = look

    def _look(self, terms: str, witness: Any, key: str | None, found: Callable[[str, str, RolledBack], None]) -> None:
        if self._witnesses is None:
            return
        try:
            self.ask_once()
            self._witnesses.tell(terms, witness, key, DELIVERY_TIMEOUT_S)
        except RolledBack as error:
            found(terms, witness.name, error)
            raise

    def _due(self, now: float) -> dict[str, Watch]:
        with self._watching:
            due = {terms: watch for terms, watch in self._watched.items() if watch.due <= now}
            self._watched |= {terms: watch.after_look(now) for terms, watch in due.items()}
        return due

    def _all(self, work: Sequence[Callable[[], None]]) -> None:
        calls = [self._pool.submit(each) for each in work]
        failures = [
            error for call in calls if (error := call.exception()) is not None and not isinstance(error, TooLate)
        ]
        for error in sorted(failures, key=lambda error: not isinstance(error, RolledBack)):
            raise error

    def _all_keepers(self) -> list["Keeper"]:
        with self._watching:
            watched = dict(self._watched)
        return [(terms, *keeper) for terms, watch in watched.items() for keeper in self._keepers(watch.hosts)]

    def _keepers(self, hosts: Sequence[Host]) -> list[tuple[Any, str | None]]:
        group = self._connections.group(hosts)
        return [(group.connections[host.name], group.keys[host.name]) for host in hosts]

    def close(self) -> None:
        """Close all connections to hosts, and end the threads that use them."""
        self._connections.close()
        with self._watching:
            self._watched.clear()
        for pool in (self._pool, self._looking):
            pool.shutdown(wait=False, cancel_futures=True)


def answer_or_deliver(
    owner: Owner, query: Query, delivery: Delivery | None, witnesses: "Witnesses | None" = None
) -> tuple[Answer, Account]:
    """Return the owner's noisy answer; with one noise for all an empty one, once its shares are with the hosts. A
    ledger that a witness proved to be put back answers nothing, under no agreement."""
    if witnesses is not None:
        witnesses.require_held()
    terms = owner.agreement(query.terms_hash).setup.terms
    if not terms.noise.hosts:
        if delivery is not None:
            delivery.ask_once()
        return owner.answer_with_account(query)
    if delivery is None:
        raise SettingError(
            "owner.toml: expected `hosts`, `listen` and `identity`, because under these terms the owner sends shares "
            "to hosts over a network, which requires certificates"
        )
    delivery.require(terms.hosts)
    if not owner.ledger.account(query.terms_hash).closed:
        delivery.require_told(query.terms_hash, terms.hosts)
    contribution, account = owner.contribute(query)
    if contribution.shares is None:
        raise GuaranteeError(
            f"{owner.name}: this owner has no durable ledger, so it cannot send shares to hosts; create the owner with "
            "a parley.Ledger"
        )
    delivery.send(terms.hosts, pack(query, owner.name, contribution.noise, contribution.shares))
    return Answer(query.id, owner.name, contribution.noise.records, np.empty(0)), account
