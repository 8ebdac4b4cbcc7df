"""Where the hosts of some terms are, and which key each must show: by the terms themselves, by this party's own
settings, or both."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cryptography import x509

from parley.errors import CertificateError, Malformed, SettingError
from parley.network.exchange import host_messages as messages
from parley.network.exchange.messages import LARGEST_MESSAGE, Piece, write_agreement
from parley.network.exchange.remote import RemoteDaemon
from parley.network.exchange.share_bundle import Opening, ShareBundle
from parley.network.identity.certificates import fingerprint, names, read_certificate, revoked_serials
from parley.network.identity.settings import Identity, Pinned
from parley.terms import Host

TWICE = "who is two hosts reads every answer, without noise"


class RemoteHost(RemoteDaemon):
    """A host on another machine, called through its daemon."""

    service = messages.SERVICE

    def deliver(self, bundle: ShareBundle, timeout: float) -> None:
        """Hand over a share bundle; the same one again changes nothing."""
        messages.read_done(self._call("Deliver", messages.write_share_bundle(bundle), timeout), self.name)

    def open(self, terms: str, number: int, content: str, size: int, timeout: float) -> Opening:
        """The host's part of the noisy sum for this question."""
        return messages.read_opening(
            self._call("Open", messages.write_question(terms, number, content), timeout), self.name, size
        )

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece:
        """The public numbers that it resolved, from place `first` on."""
        return messages.read_numbers(
            self._call("Stand", write_agreement(terms, learner, numbers=first), timeout), self.name
        )

    def propose(self, terms: str, number: int, content: str, timeout: float) -> str:
        """What the host holds for this round, as it wrote it into its journal."""
        return messages.read_proposal(
            self._call("Propose", messages.write_question(terms, number, content), timeout), self.name
        )

    def record(self, terms: str, number: int, timeout: float) -> str:
        """The digest of what it recorded."""
        return messages.read_record(
            self._call("Record", messages.write_question(terms, number, "0" * 64), timeout), self.name
        )

    def carry(self, terms: str, channel: str, number: int, payload: bytes, timeout: float) -> None:
        """Send one numbered message of a channel to the host."""
        content = messages.write_frame(terms, channel, number, payload)
        if len(content) > LARGEST_MESSAGE:
            raise Malformed(f"noise: a message of {len(content)} bytes is longer than one may be")
        messages.read_done(self._call("Carry", content, timeout), self.name)


class HostGroup:
    """The hosts of some terms as one party knows them: the key that each must show (None where nobody says one), the
    keys that were shown, and the connections to them (to the others, where the party is itself the host `own`).

    Formal guarantee: no two of them are asked or heard under one certificate or one key: a certificate with the names
    of two is refused, and a key that one of them showed is refused from another, whether it is called or calls.
    """

    def __init__(self, keys: Mapping[str, str | None], own: str | None = None) -> None:
        self.keys, self.own = keys, own
        self.connections: dict[str, RemoteHost] = {}
        self._lock = threading.Lock()
        self._shown: dict[str, str] = {name: key for name, key in keys.items() if key is not None}

    def meet(self, name: str, carried: Sequence[str], shown: str) -> str | None:
        """One sentence if who carries these names and showed this key cannot be the host `name`; else the key is
        remembered as its own."""
        twice = [other for other in self.keys if other in carried and other != name]
        if twice:
            return f"the certificate of {name!r} names the host {twice[0]!r}, too: {TWICE}"
        with self._lock:
            same = next((other for other, key in self._shown.items() if key == shown and other != name), None)
            if same is not None:
                return f"the key of {name!r}, {shown[:16]}…, is that of the host {same!r}: {TWICE}"
            self._shown[name] = shown
        return None

    def vet(self, name: str, certificate: x509.Certificate) -> None:
        """Refuse a certificate that is shown for the host `name` and cannot be its own alone."""
        refusal = self.meet(name, names(certificate), fingerprint(certificate))
        if refusal is not None:
            raise CertificateError(f"{refusal}; nothing was sent, ask the authority")


class HostConnections:
    """Connections to hosts; nobody is called yet. `place` says in messages where the addresses are written.

    Formal guarantee: a host for which the terms or the settings give a key is asked, and its answers are read, only if
    it proves that it holds that key (`RemoteDaemon`), whatever the authority certified. Where they give different keys,
    or two hosts the same, no connection is made. Nobody is two hosts (`HostGroup`).
    """

    def __init__(self, addresses: Mapping[str, str | Pinned], identity: Identity, place: str) -> None:
        self._addresses, self._identity, self._place = addresses, identity, place
        self._revoked = revoked_serials(identity)
        self._lock = threading.Lock()
        self._groups: dict[tuple[Host, ...], HostGroup] = {}

    def group(self, hosts: Sequence[Host], own: str | None = None) -> HostGroup:
        """All hosts of some terms; refused if it is not known where one is. `own`: which of them this party is
        itself."""
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
            raise SettingError(f"{self._place}: expected the address of {name!r}, whom the terms name as a host")
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
    """The keys of the hosts of some terms, by the terms, by these addresses, or (`own`) by this party's certificate;
    refused if they contradict each other, or give two hosts the same."""
    keys = {host.name: host_key(host, addresses, place) for host in hosts} | dict(own or {})
    known: dict[str, str] = {}
    for name, key in keys.items():
        if key is not None and known.setdefault(key, name) != name:
            raise SettingError(
                f"{place}: {known[key]} and {name} have the same key, {key[:16]}…: {TWICE}; compare their "
                "fingerprints over the phone (parley certs show)"
            )
    return keys


def host_key(host: Host, addresses: Mapping[str, str | Pinned], place: str) -> str | None:
    """The key of a host by the terms or by these addresses; refused if they contradict each other."""
    where = addresses.get(host.name)
    pin = where.fingerprint if isinstance(where, Pinned) else None
    if pin is not None and host.key is not None and pin != host.key:
        raise SettingError(
            f"{place}: {host.name}: the fingerprint is {pin[:16]}…, the terms say {host.key[:16]}…; compare it over "
            "the phone (parley certs show)"
        )
    return host.key if pin is None else pin
