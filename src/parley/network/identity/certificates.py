"""Certificates: whom they name, by which key, until when.

A certificate says one name (as in the terms), and its fingerprint is that of the key, so it survives a renewal and two
people can compare it by phone.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.durable import PRIVATE, create
from parley.errors import CertificateError
from parley.numerals import counted

AUTHORITY = "ca"  # its files in its folder: ca.crt, ca.key and ca.crl
PUBLIC = 0o644  # the permissions of what everybody may read


def sole_block(path: Path, expected: str) -> bytes:
    """What is in a file of one PEM block; of two, this program would see the first and TLS perhaps both."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file; expected {expected}") from None
    if content.count(b"-----BEGIN ") > 1:
        raise CertificateError(f"{path}: it holds more than one thing; expected {expected} alone")
    return content


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: not a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path}: a key of another kind; expected one made by `parley certs`")
    return key


def elliptic_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """Its key, which is of the kind that `parley certs` makes."""
    public = certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError("ca.crt: its key is of another kind; expected an authority made by `parley certs init`")
    return public


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    write_new(path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain), PRIVATE)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet."""
    try:
        create(path, content, mode)
    except FileExistsError:
        require_new(path)
        raise


def require_new(*paths: Path, advice: str = "choose another folder") -> None:
    """Refuse before the first of several files is written."""
    known = next((path for path in paths if path.exists()), None)
    if known is not None:
        raise CertificateError(f"{known}: exists already; nothing was overwritten; {advice}")


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


SOON = 30  # days before its end from which a certificate or a list is called for renewal


def read_certificate(path: Path) -> x509.Certificate:
    """The certificate in a PEM file, which holds no other: TLS would trust them all."""
    try:
        return x509.load_pem_x509_certificate(sole_block(path, "a certificate"))
    except ValueError:
        raise CertificateError(f"{path}: not a certificate in PEM form") from None


def certificate_in(text: str, place: Path) -> x509.Certificate:
    """The certificate in a PEM text that was read from this place."""
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise CertificateError(f"{place}: it holds no certificate in PEM form") from None


def names(certificate: x509.Certificate) -> Sequence[str]:
    """Whom the certificate is for; empty for an authority."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(extension.value.get_values_for_type(x509.DNSName))


def fingerprint(certified: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key, 64 hexadecimal digits."""
    public = certified.public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def grouped(digits: str) -> str:
    """A fingerprint in groups of four, for the telephone.

    >>> grouped("00ff12ab")
    '00ff 12ab'
    """
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the authority signed it."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def days_left(certificate: x509.Certificate) -> int:
    """Whole days until its end; negative afterwards."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)).days


def expiry_warning(path: Path, certificate: x509.Certificate | None = None) -> str | None:
    """One sentence if the certificate (that in the file, if none is given) ends soon; an error if it has ended."""
    certificate = certificate if certificate is not None else read_certificate(path)
    left, end = days_left(certificate), f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    advice = (
        "have the authority renew it"
        if names(certificate)
        else "the consortium needs a new authority (parley certs init)"
    )
    if left < 0:
        raise CertificateError(f"{path}: expired on {end}; {advice}")
    return f"{path}: expires in {counted(left, 'day')}, on {end}; {advice}" if left < SOON else None
