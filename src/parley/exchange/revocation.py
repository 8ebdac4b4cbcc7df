"""Whom a running daemon turns away although TLS let them in: the authority's list, read again whenever the file changes."""

import threading
from collections.abc import Callable

from cryptography import x509

from parley.errors import CertificateError
from parley.exchange.certificates import read_certificate, read_revocations, revoked_serials
from parley.exchange.settings import Identity


class Revocations:
    """The serial numbers on `identity.revoked`. A list that is damaged, not the authority's or out of date is refused at the start.

    Formal guarantee: a certificate on any list that was read is turned away until a later list of the authority's own leaves it out.
    A file that vanishes or is damaged while the daemon runs changes nothing: the last good list stays, and `warn` hears of it once.
    """

    def __init__(self, identity: Identity, warn: Callable[[str], None]) -> None:
        self._identity, self._warn, self._lock = identity, warn, threading.Lock()
        self._authority, self._version = read_certificate(identity.authority), self._found()
        self._serials = revoked_serials(identity)

    def hold(self, certificate: x509.Certificate) -> bool:
        """Whether this certificate was taken back, by the file as it is now."""
        path = self._identity.revoked
        if path is None:
            return False
        with self._lock:
            version = self._found()
            if version != self._version:
                self._version = version
                try:
                    self._serials = frozenset(entry.serial_number for entry in read_revocations(path, self._authority))
                except (CertificateError, OSError) as error:
                    self._warn(f"{error}; the revocation list read before stays in force")
            return certificate.serial_number in self._serials

    def _found(self) -> tuple[int, int, int] | None:
        """What tells one version of the file from another."""
        try:
            about = self._identity.revoked.stat() if self._identity.revoked is not None else None
        except OSError:
            return None
        return None if about is None else (about.st_mtime_ns, about.st_size, about.st_ino)
