"""Whom to trust: certificates of the consortium's authority, in date and not revoked; and whether one's own files are
such."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from parley.durable import exposed
from parley.errors import CertificateError
from parley.network.identity.certificates import expiry_warning, issued_by, names, read_certificate
from parley.network.identity.pem import read_key
from parley.network.identity.revocation_list import revoked_serials
from parley.network.identity.settings import Identity


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
