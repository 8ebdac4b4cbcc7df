"""The list of what the authority revoked: an X.509 revocation list that it signs, numbers and dates."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from parley.errors import CertificateError
from parley.network.identity.certificates import SOON, read_certificate
from parley.network.identity.pem import elliptic_key, sole_block
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
