"""A daemon on another machine: an owner as a learner sees it, and what speaking to any of them takes."""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from parley.errors import CertificateError, NotOffered, ParleyError, Refusal, SettingError, Unavailable
from parley.network.exchange import MAX_MESSAGE_BYTES, messages
from parley.network.exchange.messages import (
    MAX_TEXT_BYTES,
    SERVICE,
    AccountStatement,
    AnswerReply,
    Piece,
    ProposalState,
    State,
    read_state,
    write_proposal,
)
from parley.network.exchange.share_bundle import Delivery, answer_or_deliver
from parley.network.exchange.witnesses import Witnesses, countersigned
from parley.network.identity.certificates import Signer, check_identity, fingerprint, names, revoked_serials
from parley.network.identity.settings import Identity, OwnTable, Pinned, load_addresses
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.owner.owner import Owner
from parley.protocol.queries import Query
from parley.terms import Terms
from parley.validate import printable

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.per_message_decompression", 0),  # a small message could unpack to a large one
    ("grpc.keepalive_time_ms", 10_000),  # a machine that vanished without a word is noticed
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 20_000),  # for one attempt: under load, or far away, a handshake is slow
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
INSPECTION_TIMEOUT_S = 20.0  # seconds for looking at a certificate
# What may pass by itself; asking the same question again is right and costs nothing more.
_TRANSIENT_CODES = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


class Peer(Protocol):
    """An owner that can be asked: over a network, or in the learner's own process."""

    @property
    def name(self) -> str: ...
    def ask(self, query: Query, records: int, size: int, timeout: float) -> AnswerReply: ...
    def statement(self, terms: str, learner: str, timeout: float, entries: int = 0) -> AccountStatement: ...
    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece | None: ...
    def close(self) -> None: ...


class Seen:
    """What a learner says with each question: the latest end that it saw of the party's ledger (None: none yet)."""

    name: str
    seen: Callable[[], Head | None] = staticmethod(lambda: None)

    def seen_end(self, query: Query, signer: Signer | None = None) -> SignedEnd | None:
        """Return the end that the question brings, signed if this learner can."""
        head = self.seen()
        if head is None:
            return None
        end = SignedEnd(self.name, "ledger", query.terms_hash, "", head)
        return end if signer is None else countersigned(end, signer.name, signer)


class RemoteDaemon:
    """A connection to one party's daemon and no other: its certificate must carry the party's name, whatever the
    address. With a fingerprint, revocations or `vet`, the certificate is inspected first, in its own TLS connection,
    and gRPC then trusts only that one.

    Formal guarantee: nobody is asked, and nobody's answer is read, except who holds the key of a certificate that the
    authority issued for this name, that is not among `revoked`, whose key has this `fingerprint`, and against which
    `vet` has nothing. (A certificate that is no authority's vouches only for itself, and TLS proves the key.)
    """

    service: ClassVar[str]  # that it offers, as gRPC names it

    def __init__(
        self,
        name: str,
        address: str,
        identity: Identity | None,
        fingerprint: str | None = None,
        revoked: frozenset[int] = frozenset(),
        vet: Callable[[x509.Certificate], None] | None = None,
    ) -> None:
        """`vet` raises `CertificateError` for a certificate that its party may not show."""
        self.name = name
        self._address, self._identity, self._fingerprint, self._revoked = address, identity, fingerprint, revoked
        self._vet = vet
        plain = address.startswith("unix:") or identity is None
        self._inspects = not plain and (fingerprint is not None or bool(revoked) or vet is not None)
        if self._inspects and not re.fullmatch(r".+:\d+", address):
            raise SettingError(f"address of {name} = {address!r}: expected host:port")
        self._lock, self._closed = threading.Lock(), False
        self._channel: Any = None
        self._methods: dict[str, tuple[Any, Any]] = {}  # each of the channel that it was made for
        if plain:
            self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        elif identity is not None and not self._inspects:
            self._channel = self._secure_channel(identity)

    @cached_property
    def signer(self) -> Signer | None:
        """What signs as this party; None without an identity."""
        return None if self._identity is None else Signer(self._identity)

    def close(self) -> None:
        """Close the connection; calls under way end."""
        with self._lock:
            self._closed = True
            if self._channel is not None:
                self._channel.close()

    def _call(self, method: str, content: bytes, timeout: float) -> bytes:
        channel = self._open_channel(timeout)
        if self._methods.get(method, (None,))[0] is not channel:
            self._methods[method] = channel, channel.unary_unary(f"/{self.service}/{method}")
        try:
            return bytes(self._methods[method][1](content, timeout=timeout))
        except grpc.RpcError as error:
            if self._inspects and error.code() is grpc.StatusCode.UNAVAILABLE:
                self._drop(channel)  # it may come back with a renewed certificate, which must be checked again
            sentence = f"{self.name}: {printable(str(error.details() or error.code().name), 200)}"
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise NotOffered(sentence) from None
            raise (Unavailable if error.code() in _TRANSIENT_CODES else Refusal)(sentence) from None
        except ValueError:  # the channel was closed under the call
            raise Unavailable(f"{self.name}: the run no longer waits for this party") from None

    def _open_channel(self, timeout: float) -> Any:
        """Return the channel, made only when needed if the certificate is inspected first."""
        channel = self._current()
        if channel is None and self._identity is not None:
            channel = self._install(
                self._secure_channel(
                    self._identity, self._inspected(self._identity, min(timeout, INSPECTION_TIMEOUT_S))
                )
            )
        return channel

    def _current(self) -> Any:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self.name}: the run no longer waits for this party")
            return self._channel

    def _install(self, made: Any) -> Any:
        """Keep the new channel, unless another thread was first or nobody waits."""
        with self._lock:
            if self._channel is None and not self._closed:
                self._channel = made
            else:
                made.close()
        return self._current()

    def _drop(self, channel: Any) -> None:
        with self._lock:
            if self._channel is channel and not self._closed:
                self._channel = None
                channel.close()

    def _secure_channel(self, identity: Identity, trusted: bytes | None = None) -> Any:
        named = ("grpc.ssl_target_name_override", self.name)
        return grpc.secure_channel(
            self._address, channel_credentials(identity, trusted), options=(*CHANNEL_OPTIONS, named)
        )

    def _inspected(self, identity: Identity, timeout: float) -> bytes:
        """Return the owner's certificate (PEM), if it is one to trust."""
        try:
            shown = peer_certificate(self._address, identity, timeout)
        except (OSError, ValueError) as error:
            raise Unavailable(f"{self.name}: {printable(str(error), 200) or type(error).__name__}") from None
        if self.name not in names(shown):
            raise CertificateError(
                f"{self.name}: the certificate shown at {self._address} is for {', '.join(names(shown))}; check the "
                "address"
            )
        if shown.serial_number in self._revoked:
            raise CertificateError(f"{self.name}: the authority revoked the certificate shown at {self._address}")
        if self._fingerprint is not None and fingerprint(shown) != self._fingerprint:
            raise CertificateError(
                f"{self.name}: the key shown at {self._address} has the fingerprint {fingerprint(shown)[:16]}…, "
                f"expected {self._fingerprint[:16]}…; if the owner says that it changed its key, compare the new "
                "fingerprint over the phone"
            )
        if self._vet is not None:
            self._vet(shown)
        return shown.public_bytes(serialization.Encoding.PEM)


class RemoteOwner(RemoteDaemon, Seen):
    """An owner on another machine, asked through its daemon."""

    service = SERVICE

    def ask(self, query: Query, records: int, size: int, timeout: float) -> AnswerReply:
        """Return its answer; `Refusal` if it will not answer, `Unavailable` if asking again may help."""
        return messages.read_answer(
            self._call("Ask", messages.write_query(query, self.seen_end(query, self.signer)), timeout),
            query,
            self.name,
            records,
            size,
        )

    def statement(self, terms: str, learner: str, timeout: float, entries: int = 0) -> AccountStatement:
        """Return where the agreement stands here, with its chain's hash at this many `entries` (0: not asked)."""
        return messages.read_statement(
            self._call("Stand", messages.write_agreement(terms, learner, entries), timeout), self.name
        )

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece | None:
        """Return its public numbers from place `first` on; None if it does not report them."""
        asked = messages.write_agreement(terms, learner, numbers=first)
        return messages.read_numbers(self._call("Stand", asked, timeout), self.name)

    def propose(self, terms: str, text: str, timeout: float) -> ProposalState:
        """Propose terms by their `text`, or without it only ask; return what became of them."""
        return read_state(self._call("Propose", write_proposal(terms, text), timeout), self.name, terms)

    def withdraw(self, terms: str, timeout: float) -> ProposalState:
        """Withdraw the terms with this hash if they are open; return what became of them."""
        return read_state(self._call("Withdraw", write_proposal(terms), timeout), self.name, terms)


def remote_owner(
    name: str, where: str | Pinned, identity: Identity | None, revoked: frozenset[int] = frozenset()
) -> RemoteOwner:
    """Return the owner at an address, with the only key it may show there if one is given; nobody is called."""
    if isinstance(where, Pinned):
        return RemoteOwner(name, where.address, identity, where.fingerprint, revoked)
    return RemoteOwner(name, where, identity, revoked=revoked)


class LocalOwner:
    """The learner's own table in its own process, with ledger and noise as usual, because its answers travel."""

    def __init__(self, owner: Owner, delivery: Delivery | None = None, witnesses: Witnesses | None = None) -> None:
        self._owner, self._turn, self._delivery, self._witnesses = owner, threading.Lock(), delivery, witnesses
        self.name = owner.name

    def ask(self, query: Query, records: int, size: int, timeout: float) -> AnswerReply:
        if not self._turn.acquire(timeout=timeout):
            raise Unavailable(f"{self.name}: this owner is still answering an earlier question; ask again later")
        try:
            answer, account = answer_or_deliver(self._owner, query, self._delivery, self._witnesses)
        finally:
            self._turn.release()
        return AnswerReply(answer, AccountStatement.from_account(account))

    def statement(self, terms: str, learner: str, timeout: float, entries: int = 0) -> AccountStatement:
        ledger = self._owner.ledger
        return AccountStatement.from_account(ledger.account(terms), ledger.hash_at(entries) if entries else None)

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece | None:
        own = self._owner.agreement(terms).setup.numbers
        return Piece(own.names, own.shapes, own.data[first - 1 :])

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


def channel_credentials(identity: Identity, trusted: bytes | None = None) -> Any:
    """Return TLS credentials with the learner's certificate that trust only `trusted` (PEM; default: the authority)."""
    return grpc.ssl_channel_credentials(
        root_certificates=identity.authority.read_bytes() if trusted is None else trusted,
        private_key=identity.key.read_bytes(),
        certificate_chain=identity.certificate.read_bytes(),
    )


def peer_certificate(address: str, identity: Identity, timeout: float) -> x509.Certificate:
    """Return the authority's certificate whose key the listener there holds; gRPC does not report it."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # an owner is known by its name in the terms, wherever it lives
    context.load_verify_locations(identity.authority)
    # as gRPC does: the authority may be an intermediate one of a larger PKI
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(identity.certificate, identity.key)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host.strip("[]"), int(port)), timeout) as connection,
        context.wrap_socket(connection) as tls,
    ):
        return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")


MAX_PARALLEL_OWNERS = 16  # owners
NO_PROPOSALS_REASON = (
    "its daemon takes no proposals: it has no inbox, its Parley is an earlier one, or this is a relay's socket; send "
    "the terms file to its people"
)


@dataclass(frozen=True)
class Proposed:
    """What one owner says became of proposed terms; without a `state`, the reason why it was not told."""

    owner: str
    state: State | None
    reason: str = ""


def propose(
    terms: Terms, addresses: Path, to: Collection[str] = (), timeout: float = 20.0, ask: bool = False
) -> list[Proposed]:
    """Propose these terms to every owner they name (or those in `to`), or only `ask`; return what became of them.
    Nobody's budget is touched."""
    terms.require_shared_sample()
    terms.require_release()
    if len(terms.canonical.encode()) > MAX_TEXT_BYTES:
        raise SettingError(
            f"these terms are too long for an inbox, which accepts up to {MAX_TEXT_BYTES:,} bytes; send each owner the "
            "terms file"
        )
    text = "" if ask else terms.canonical
    return _tell_owners(_owners(terms, addresses, to), lambda owner: owner.propose(terms.hash, text, timeout))


def withdraw(terms: Terms, addresses: Path, to: Collection[str] = (), timeout: float = 20.0) -> list[Proposed]:
    """Withdraw these terms, where open, at all owners they name (or those in `to`); return what became of them."""
    return _tell_owners(_owners(terms, addresses, to), lambda owner: owner.withdraw(terms.hash, timeout))


def _tell_owners(owners: Sequence[RemoteOwner], call: Callable[[RemoteOwner], ProposalState]) -> list[Proposed]:
    def tell(owner: RemoteOwner) -> Proposed:
        try:
            state = call(owner)
        except NotOffered:
            return Proposed(owner.name, None, NO_PROPOSALS_REASON)
        except ParleyError as error:
            return Proposed(owner.name, None, str(error).removeprefix(f"{owner.name}: "))
        finally:
            owner.close()
        return Proposed(owner.name, state.state, state.reason)

    with ThreadPoolExecutor(MAX_PARALLEL_OWNERS) as pool:
        return list(pool.map(tell, owners))


def _owners(terms: Terms, addresses: Path, to: Collection[str]) -> list[RemoteOwner]:
    """Return connections to the owners that are told; nobody is called yet."""
    known = load_addresses(addresses)
    if known.identity is None:
        raise SettingError(f"{addresses}: identity: missing; proposing terms requires a certificate (parley certs)")
    check_identity(known.identity, terms.learning.learner)
    revoked = revoked_serials(known.identity)
    owners = []
    for name in to or [part.name for part in terms.owners]:
        where = known.owners.get(terms.owner(name).name)
        if where is None:
            raise SettingError(f"{addresses}: owners: expected the address of {name!r}, an owner in the terms")
        if not isinstance(where, OwnTable):  # its own people need no letter
            owners.append(remote_owner(name, where, known.identity, revoked))
    return owners
