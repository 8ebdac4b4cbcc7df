"""Hosts as others reach them: addresses, keys and calls, and the protobuf messages of both sides. A host's key follows
from the terms, this party's settings, or both. Sizes, names and numbers in messages are checked before use."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cryptography import x509

from parley.data.public_numbers import PublicNumbers
from parley.errors import CertificateError, ContradictionError, Malformed, Refusal, SettingError
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange import host_pb2 as wire
from parley.network.exchange.messages import (
    Piece,
    parsed,
    put_numbers,
    read_outcome,
    read_piece,
    write_agreement,
)
from parley.network.exchange.remote import RemoteDaemon
from parley.network.exchange.share_bundle import CONTENT_PATTERN, Opening, Shape, ShareBundle, to_words
from parley.network.exchange.witnesses import DIGEST, MAX_ENTRIES, put_end, read_end, read_reported, trusted
from parley.network.identity.certificates import Signer, fingerprint, names, read_certificate, revoked_serials
from parley.network.identity.settings import Identity, Pinned
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import Ends, SignedEnd
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.sharing.ring import to_bytes
from parley.terms import PARTY, Host

SERVICE = "parley.v1.Host"
MAX_ROUND = 1 << 31
MAX_NUMBERS = MAX_MESSAGE_BYTES // 8

Question = tuple[str, int, str]  # the hash of the terms, the round, the hash of what was asked


def write_question(terms: str, number: int, content: str, seen: SignedEnd | None = None) -> bytes:
    """Return the message that asks about a round; `seen`: the end of the host's journal that a learner saw."""
    message = wire.SharedQuestion(terms=terms, round=number, content=content)
    if seen is not None:
        put_end(seen, message.seen)
    return bytes(message.SerializeToString())


def read_question(content: bytes) -> Question:
    """Return the question in a message, or refuse it."""
    return _question(parsed(wire.SharedQuestion, content))


def read_seen(content: bytes) -> SignedEnd | None:
    """Return the end of the host's journal that a learner's question says it saw; None if it says none."""
    message = parsed(wire.SharedQuestion, content)
    return read_end(message.seen) if message.HasField("seen") else None


def write_share_bundle(bundle: ShareBundle) -> bytes:
    """Return the message that brings a share bundle."""
    question = wire.SharedQuestion(terms=bundle.terms_hash, round=bundle.round, content=bundle.content)
    shape, (first, second) = bundle.shape, bundle.shares
    return bytes(
        wire.Parcel(
            question=question, owner=bundle.owner, records=bundle.records, law=shape.law, exponent=shape.exponent,
            size=shape.size, first=first, second=second,
        ).SerializeToString()
    )  # fmt: skip


def read_share_bundle(content: bytes) -> ShareBundle:
    """Return the share bundle in a message, or refuse it; the host checks that it fits the terms."""
    message = parsed(wire.Parcel, content)
    terms, number, content_hash = _question(message.question)
    if not re.fullmatch(PARTY, message.owner) or not 1 <= message.size <= MAX_NUMBERS or message.law not in tuple(Law):
        raise Malformed("share bundle: expected an owner's name, a known noise law and a size")
    shape = Shape(Law(message.law), message.exponent, message.size)
    return ShareBundle(
        terms, number, content_hash, message.owner, message.records, shape, (message.first, message.second)
    )


def write_frame(terms: str, channel: str, number: int, payload: bytes) -> bytes:
    """Return the bytes of one numbered message of a channel between hosts."""
    return bytes(wire.Frame(terms=terms, channel=channel, number=number, payload=payload).SerializeToString())


def read_frame(content: bytes) -> tuple[str, str, int, bytes]:
    """Return (terms, channel, number, payload), or refuse the message."""
    message = parsed(wire.Frame, content)
    if not CONTENT_PATTERN.fullmatch(message.terms) or not CONTENT_PATTERN.fullmatch(message.channel):
        raise Malformed("frame: expected the hash of the terms and the name of a channel")
    return message.terms, message.channel, message.number, message.payload


def write_reply(**outcome: bool | str) -> bytes:
    """Return a reply of one word: `done=True`, `alive=NAME`, `proposal=TEXT` or `record=DIGEST`."""
    return bytes(wire.HostReply(**outcome).SerializeToString())  # type: ignore[arg-type]


def write_refusal(refusal: Refusal) -> bytes:
    """Return a refusal: a code for programs, a sentence for people."""
    return bytes(wire.HostReply(refusal=wire.HostRefusal(code=refusal.code, sentence=str(refusal))).SerializeToString())


def write_opening(opening: Opening) -> bytes:
    """Return the reply with a host's part of the noisy sum."""
    question = wire.SharedQuestion(terms=opening.terms_hash, round=opening.round, content=opening.content)
    part = wire.HostOpening(
        question=question, owners=opening.owners, words=to_bytes(opening.words), digest=opening.digest
    )
    if opening.end is not None:
        put_end(opening.end, part.end)
    part.earlier = opening.earlier or ""
    return bytes(wire.HostReply(opening=part).SerializeToString())


def write_ends(ends: Ends) -> bytes:
    """Return the message that tells a witness."""
    message = wire.Ends()
    _put_ends(ends, message)
    return bytes(message.SerializeToString())


def write_ends_reply(ends: Ends) -> bytes:
    """Return the witness's reply."""
    reply = wire.HostReply()
    _put_ends(ends, reply.ends)
    return bytes(reply.SerializeToString())


def read_ends(content: bytes) -> Ends:
    """Return what a party tells, or refuse the message."""
    return _read_ends(parsed(wire.Ends, content))


def read_ends_reply(content: bytes, party: str) -> Ends:
    """Return what a witness replied, or raise its refusal."""
    reply = read_outcome(wire.HostReply, content, party, "ends")
    return trusted(lambda: _read_ends(reply.ends), party)


def _put_ends(ends: Ends, message: wire.Ends) -> None:
    message.terms = ends.terms
    if ends.own is not None:
        put_end(ends.own, message.own)
    if ends.earlier is not None:
        message.earlier_entries, message.earlier = ends.earlier.entries, ends.earlier.hash
    if ends.kept is not None:
        put_end(ends.kept, message.kept)


def _read_ends(message: wire.Ends) -> Ends:
    earlier = None
    if message.earlier_entries:
        earlier = Head(message.earlier_entries, message.earlier)
        if message.earlier_entries > MAX_ENTRIES or not DIGEST.fullmatch(message.earlier):
            raise Malformed("end of a book: expected a number of rows and a digest")
    if not DIGEST.fullmatch(message.terms):
        raise Malformed("ends of books: expected the hash of the terms, 64 hexadecimal digits")
    return Ends(
        message.terms,
        read_end(message.own) if message.HasField("own") else None,
        earlier,
        read_end(message.kept) if message.HasField("kept") else None,
    )


def write_numbers(numbers: PublicNumbers, first: int) -> bytes:
    """Return the reply with a host's public numbers from place `first` on."""
    reply = wire.HostReply()
    put_numbers(numbers, first, reply.numbers)
    return bytes(reply.SerializeToString())


def read_numbers(content: bytes, host: str) -> Piece:
    """Return the public numbers in a reply, or raise its refusal."""
    return read_piece(read_outcome(wire.HostReply, content, host, "numbers").numbers, host)


def read_done(content: bytes, host: str) -> None:
    """Accept a confirmation, or raise the refusal."""
    if not read_outcome(wire.HostReply, content, host, "done").done:
        raise ContradictionError(f"{host}: expected a confirmation, received another reply")


def read_opening(content: bytes, host: str, size: int) -> Opening:
    """Return the opening of `size` words in a reply, or raise its refusal."""
    message = read_outcome(wire.HostReply, content, host, "opening").opening
    try:
        question, words = _question(message.question), to_words(message.words, size)
    except Malformed:
        raise ContradictionError(
            f"{host}: this host's part of the sum cannot be read; contact the host's operator"
        ) from None
    if len(message.digest) != 32 or not all(re.fullmatch(PARTY, owner) for owner in message.owners):
        raise ContradictionError(f"{host}: this host's part of the sum cannot be read; contact the host's operator")
    end = read_reported(message.end, host) if message.HasField("end") else None
    return Opening(*question, tuple(message.owners), words, message.digest, end, message.earlier or None)


def _question(message: wire.SharedQuestion) -> Question:
    if (
        not CONTENT_PATTERN.fullmatch(message.terms)
        or not CONTENT_PATTERN.fullmatch(message.content)
        or not 1 <= message.round < MAX_ROUND
    ):
        raise Malformed(
            "question: expected the hash of the terms, a round from 1 and the hash of what the learner asked"
        )
    return message.terms, message.round, message.content


TWO_HOSTS_WARNING = "a party that is two hosts can read every answer, without noise"


class RemoteHost(RemoteDaemon):
    """A host on another machine, called through its daemon."""

    service = SERVICE

    def deliver(self, bundle: ShareBundle, timeout: float) -> None:
        """Hand over a share bundle; the same one again changes nothing."""
        read_done(self._call("Deliver", write_share_bundle(bundle), timeout), self.name)

    def open(
        self, terms: str, number: int, content: str, size: int, timeout: float, seen: SignedEnd | None = None
    ) -> Opening:
        """Return the host's part of the noisy sum for this question; the host hears which end of its journal was
        `seen`."""
        return read_opening(self._call("Open", write_question(terms, number, content, seen), timeout), self.name, size)

    def exchange_ends(self, ends: Ends, timeout: float) -> Ends:
        """Tell the host where this party's book ends, and return what it tells."""
        return read_ends_reply(self._call("Witness", write_ends(ends), timeout), self.name)

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece:
        """Return the host's public numbers from place `first` on."""
        return read_numbers(self._call("Stand", write_agreement(terms, learner, numbers=first), timeout), self.name)

    def propose(self, terms: str, number: int, content: str, timeout: float) -> str:
        """Return what the host holds for this round, as its journal has it."""
        reply = self._call("Propose", write_question(terms, number, content), timeout)
        return str(read_outcome(wire.HostReply, reply, self.name, "proposal").proposal)

    def record(self, terms: str, number: int, timeout: float) -> str:
        """Return the digest of what the host recorded."""
        reply = self._call("Record", write_question(terms, number, "0" * 64), timeout)
        return str(read_outcome(wire.HostReply, reply, self.name, "record").record)

    def carry(self, terms: str, channel: str, number: int, payload: bytes, timeout: float) -> None:
        """Send one numbered message of a channel to the host."""
        content = write_frame(terms, channel, number, payload)
        if len(content) > MAX_MESSAGE_BYTES:
            raise Malformed(f"noise: a message of {len(content)} bytes exceeds the limit of {MAX_MESSAGE_BYTES} bytes")
        read_done(self._call("Carry", content, timeout), self.name)


class HostGroup:
    """The hosts of some terms as one party knows them: the keys they must show (None: unknown), the keys they showed,
    and connections to all except the party itself (`own`).

    Formal guarantee: no two of them are asked or heard under one certificate or one key: a certificate with the names
    of two is refused, and a key that one of them showed is refused from another, whether it is called or calls.
    """

    def __init__(self, keys: Mapping[str, str | None], own: str | None = None) -> None:
        self.keys, self.own = keys, own
        self.connections: dict[str, RemoteHost] = {}
        self._lock = threading.Lock()
        self._shown: dict[str, str] = {name: key for name, key in keys.items() if key is not None}

    def meet(self, name: str, carried: Sequence[str], shown: str) -> str | None:
        """Return why a party with these names and this key cannot be host `name`; else remember the key as its own."""
        twice = [other for other in self.keys if other in carried and other != name]
        if twice:
            return f"the certificate of {name!r} names the host {twice[0]!r}, too: {TWO_HOSTS_WARNING}"
        with self._lock:
            same = next((other for other, key in self._shown.items() if key == shown and other != name), None)
            if same is not None:
                return f"the key of {name!r}, {shown[:16]}…, is that of the host {same!r}: {TWO_HOSTS_WARNING}"
            self._shown[name] = shown
        return None

    def vet(self, name: str, certificate: x509.Certificate) -> None:
        """Refuse a certificate shown for the host `name` that cannot be its own alone."""
        refusal = self.meet(name, names(certificate), fingerprint(certificate))
        if refusal is not None:
            raise CertificateError(f"{refusal}; nothing was sent. Ask the authority")


class HostConnections:
    """Connections to hosts; nobody is called yet. Messages name `place` as where the addresses are written.

    Formal guarantee: a host for which the terms or the settings give a key is asked, and its answers are read, only if
    it proves that it holds that key (`RemoteDaemon`), whatever the authority certified. Where they give different keys,
    or two hosts the same, no connection is made. Nobody is two hosts (`HostGroup`).
    """

    def __init__(self, addresses: Mapping[str, str | Pinned], identity: Identity, place: str) -> None:
        self._addresses, self._identity, self._place = addresses, identity, place
        self._revoked = revoked_serials(identity)
        self._lock = threading.Lock()
        self._groups: dict[tuple[Host, ...], HostGroup] = {}

    def signer(self) -> Signer:
        """Return what signs as this party."""
        return Signer(self._identity)

    def group(self, hosts: Sequence[Host], own: str | None = None) -> HostGroup:
        """Return all hosts of some terms; refuse one without an address. `own`: this party itself."""
        with self._lock:
            if tuple(hosts) not in self._groups:
                self._groups[tuple(hosts)] = self._make(hosts, own)
            return self._groups[tuple(hosts)]

    def _make(self, hosts: Sequence[Host], own: str | None) -> HostGroup:
        keys = host_keys(hosts, self._addresses, self._place)
        if own is not None:
            mine = read_certificate(self._identity.certificate)
            keys = host_keys(hosts, self._addresses, self._place, {own: fingerprint(mine)})
        group = HostGroup(keys, own)
        if own is not None:
            group.vet(own, mine)
        for host in hosts:
            if host.name != own:
                group.connections[host.name] = self._connect(host.name, keys[host.name], partial(group.vet, host.name))
        return group

    def _connect(self, name: str, key: str | None, vet: Callable[[x509.Certificate], None]) -> RemoteHost:
        if name not in self._addresses:
            raise SettingError(f"{self._place}: expected the address of {name!r}, a host in the terms")
        where = self._addresses[name]
        address = where.address if isinstance(where, Pinned) else where
        return RemoteHost(name, address, self._identity, key, self._revoked, vet)

    def close(self) -> None:
        """Close the connections to all hosts."""
        with self._lock:
            for group in self._groups.values():
                for connection in group.connections.values():
                    connection.close()


def host_keys(
    hosts: Sequence[Host], addresses: Mapping[str, str | Pinned], place: str, own: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """Return the hosts' keys by terms, addresses and own certificate; refuse contradictory or equal ones."""
    keys = {host.name: host_key(host, addresses, place) for host in hosts} | dict(own or {})
    known: dict[str, str] = {}
    for name, key in keys.items():
        if key is not None and known.setdefault(key, name) != name:
            raise SettingError(
                f"{place}: {known[key]} and {name} have the same key, {key[:16]}…: {TWO_HOSTS_WARNING}; compare the "
                "hosts' fingerprints over the phone (parley certs show)"
            )
    return keys


def host_key(host: Host, addresses: Mapping[str, str | Pinned], place: str) -> str | None:
    """Return a host's key by the terms or these addresses; refuse contradictory ones."""
    where = addresses.get(host.name)
    pin = where.fingerprint if isinstance(where, Pinned) else None
    if pin is not None and host.key is not None and pin != host.key:
        raise SettingError(
            f"{place}: {host.name}: the fingerprint is {pin[:16]}…, but the terms state {host.key[:16]}…; compare "
            "fingerprints over the phone (parley certs show)"
        )
    return host.key if pin is None else pin
