"""Whom a running daemon turns away although TLS let them in: the authority's list, read again whenever the file
changes."""

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

from parley.durable import file_version
from parley.errors import CertificateError
from parley.network.identity.certificates import read_certificate
from parley.network.identity.revocation_list import list_number, read_revocations, revocations_in_force
from parley.network.identity.settings import Identity


class Revocations:
    """The serial numbers on `identity.revoked`. A list that is damaged, not the authority's or out of date is refused
    at the start.

    Formal guarantee: a certificate on any list that was read is turned away until a later list of the authority's own
    leaves it out; lists are numbered, and of two the one with the higher number is the later. A file that vanishes, is
    damaged or is put back to an earlier list while the daemon runs changes nothing: the list in force stays, and `warn`
    hears of it once. Only a running daemon remembers: at its start it takes the list that it finds, so an earlier one
    of the authority's own that is still in date passes then.
    """

    def __init__(self, identity: Identity, warn: Callable[[str], None]) -> None:
        self._identity, self._warn, self._lock = identity, warn, threading.Lock()
        self._authority, self._version = read_certificate(identity.authority), file_version(identity.revoked)
        self._apply(revocations_in_force(identity))

    @property
    def until(self) -> datetime | None:
        """When the authority wants the list in force to be replaced; None without a list."""
        return None if self._list is None else self._list.next_update_utc

    def revokes(self, certificate: x509.Certificate) -> bool:
        """Whether this certificate was revoked, by the latest list that the file has held."""
        path = self._identity.revoked
        if path is None:
            return False
        with self._lock:
            version = file_version(path)
            if version != self._version:
                self._version = version
                try:
                    self._reload(path)
                except (CertificateError, OSError) as error:
                    self._warn(f"{error}; the revocation list read before stays in force")
            return certificate.serial_number in self._serials

    def _reload(self, path: Path) -> None:
        """Take the list in the file, if it is later than the one in force."""
        found = read_revocations(path, self._authority)
        if self._list is not None and found != self._list and list_number(found) <= list_number(self._list):
            raise CertificateError(
                f"{path}: this revocation list is not later than the one in force; ask the authority for its ca.crl"
            )
        self._apply(found)

    def _apply(self, revocations: x509.CertificateRevocationList | None) -> None:
        self._list = revocations
        self._serials = frozenset(entry.serial_number for entry in revocations or ())
