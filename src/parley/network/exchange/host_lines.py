"""Where the hosts of some terms are, and which key each must show: by the terms themselves, by this party's own settings, or both."""

import threading
from collections.abc import Mapping

from parley.errors import SettingError
from parley.network.exchange.remote_host import RemoteHost
from parley.network.identity.revocation_list import revoked_serials
from parley.network.identity.settings import Identity, Pinned
from parley.terms import Host


class HostLines:
    """Lines to hosts; nobody is called yet. `place` says in messages where the addresses are written.

    Formal guarantee: a host for which the terms or the settings give a key is asked, and its answers are read, only if it proves that it
    holds that key (`RemoteDaemon`), whatever the authority certified. Where they give different keys no line is made.
    """

    def __init__(self, addresses: Mapping[str, str | Pinned], identity: Identity, place: str) -> None:
        self._addresses, self._identity, self._place = addresses, identity, place
        self._revoked = revoked_serials(identity)
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str | None], RemoteHost] = {}

    def key(self, host: Host) -> str | None:
        """The only key that this host may show; None where nobody says one."""
        return host_key(host, self._addresses, self._place)

    def line(self, host: Host) -> RemoteHost:
        """The line to this host; refused if it is not known where it is."""
        if host.name not in self._addresses:
            raise SettingError(f"{self._place}: expected the address of {host.name!r}, whom the terms name as a host")
        where, key = self._addresses[host.name], self.key(host)
        address = where.address if isinstance(where, Pinned) else where
        with self._lock:
            if (host.name, key) not in self._lines:
                self._lines[host.name, key] = RemoteHost(host.name, address, self._identity, key, self._revoked)
            return self._lines[host.name, key]

    def close(self) -> None:
        """Let go of the lines."""
        with self._lock:
            for line in self._lines.values():
                line.close()


def host_key(host: Host, addresses: Mapping[str, str | Pinned], place: str) -> str | None:
    """The key of a host by the terms or by these addresses; refused if they contradict each other."""
    where = addresses.get(host.name)
    pin = where.fingerprint if isinstance(where, Pinned) else None
    if pin is not None and host.key is not None and pin != host.key:
        raise SettingError(
            f"{place}: {host.name}: the fingerprint is {pin[:16]}…, the terms say {host.key[:16]}…; compare it over the phone "
            "(parley certs show)"
        )
    return host.key if pin is None else pin
