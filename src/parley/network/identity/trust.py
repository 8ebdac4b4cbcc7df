"""Whom to trust: certificates of the consortium's authority, in date and not revoked; and whether one's own files are
such.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from parley.durable import exposed, file_version
from parley.errors import CertificateError
from parley.network.identity.certificates import (
    SOON,
    elliptic_key,
    expiry_warning,
    issued_by,
    names,
    read_certificate,
    read_key,
    sole_block,
)
from parley.network.identity.settings import Identity
from parley.numerals import counted


def read_revocations(path: Path, ca: x509.Certificate) -> x509.CertificateRevocationList:
    """The list in a PEM file, if the authority signed it and it has a number, by which a later list is known."""
    try:
        revocations = x509.load_pem_x509_crl(
            sole_block(path, "the authority's revocation list (ask it for its ca.crl)")
        )
        sound = revocations.issuer == ca.subject and revocations.is_signature_valid(elliptic_key(ca))
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: not a revocation list in PEM form; ask the authority for its ca.crl") from None
    if not sound:
        raise CertificateError(f"{path}: a revocation list that the authority did not sign; ask it for its ca.crl")
    try:
        list_number(revocations)
    except (x509.ExtensionNotFound, ValueError):
        raise CertificateError(
            f"{path}: a revocation list without a number; expected one that `parley certs revoke` made"
        ) from None
    return revocations


def list_number(revocations: x509.CertificateRevocationList) -> int:
    """Each list of an authority has a higher number than those before it."""
    return int(revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)


def list_warning(path: Path, revocations: x509.CertificateRevocationList) -> str | None:
    """One sentence if the authority wants to give out a later list soon; an error if it wanted to by now."""
    until, now, ask = (
        revocations.next_update_utc,
        datetime.now(UTC),
        "ask the authority for a later ca.crl (parley certs revoke)",
    )
    if until is None or until <= now:
        raise CertificateError(f"{path}: this revocation list is out of date; {ask}")
    left = (until - now).days
    return (
        f"{path}: this revocation list is good for {counted(left, 'more day')}, until {until:%Y-%m-%d}; {ask}"
        if left < SOON
        else None
    )


def revocations_in_force(identity: Identity) -> x509.CertificateRevocationList | None:
    """The list that the settings name, signed and in date; none where they name none."""
    if identity.revoked is None:
        return None
    revocations = read_revocations(identity.revoked, read_certificate(identity.authority))
    list_warning(identity.revoked, revocations)
    return revocations


def revoked_serials(identity: Identity) -> frozenset[int]:
    """The serial numbers of the certificates that the authority revoked, by a list that is signed and in date; none
    without a list."""
    return frozenset(entry.serial_number for entry in revocations_in_force(identity) or ())


class Revocations:
    """Whom a running daemon turns away although TLS let them in: the authority's list, read again whenever the file
    changes.

    The serial numbers on `identity.revoked`. A list that is damaged, not the authority's or out of date is refused
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


def check_identity(identity: Identity, name: str) -> None:
    """Refuse an identity with which nobody would talk, before anything listens or asks.

    The key is the party's own secret and belongs to its certificate; that is one to trust, and for this name.
    """
    require_private(identity.key)
    own, key = trusted_certificate(identity.certificate, identity), read_key(identity.key)
    if key.public_key() != own.public_key():
        raise CertificateError(
            f"{identity.key}: not the key of {identity.certificate}; expected the one its request was made with"
        )
    if name not in names(own):
        raise CertificateError(
            f"{identity.certificate}: it is for {', '.join(names(own)) or 'an authority'}, not for {name!r}"
        )


def trusted_certificate(path: Path, identity: Identity) -> x509.Certificate:
    """The certificate in the file, if the identity's authority issued it, both are in date, and it was not revoked."""
    certificate = read_certificate(path)
    require_trusted(certificate, path, identity)
    return certificate


def require_trusted(certificate: x509.Certificate, path: Path, identity: Identity) -> None:
    """Refuse a certificate, read from this place, unless the identity's authority issued it, both are in date, and it
    was not revoked."""
    ca = read_certificate(identity.authority)
    if not issued_by(certificate, ca):
        raise CertificateError(f"{path}: not issued by the authority in {identity.authority}")
    for place, dated in ((identity.authority, ca), (path, certificate)):
        if dated.not_valid_before_utc > datetime.now(UTC):
            raise CertificateError(
                f"{place}: not good before {dated.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; is the clock right?"
            )
        expiry_warning(place, dated)
    if certificate.serial_number in revoked_serials(identity):
        raise CertificateError(f"{path}: the authority revoked it; have a request with a new key issued")


def require_private(key: Path) -> None:
    """Refuse a key that others can read."""
    if exposed(key):
        raise CertificateError(f"{key}: other accounts may read this key; chmod 600 {key}")
