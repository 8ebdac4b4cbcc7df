"""A small certificate authority for a consortium: who is who on the wire.

Every member makes its own key and sends only a request; the authority signs names. A certificate says one name (as in the terms), and
its fingerprint is that of the key, so it survives a renewal and two people can compare it by phone. Keys are P-256.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.errors import CertificateError
from parley.terms import PARTY

AUTHORITY = "ca"  # its files in its folder: ca.crt and ca.key
SKEW = timedelta(minutes=5)  # clocks that run behind accept a fresh certificate
SOON = 30  # days before its end from which a certificate is called for renewal


def make_authority(folder: Path, title: str, days: int) -> x509.Certificate:
    """A new authority in `folder`: ca.crt for everybody, ca.key for nobody else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    usage = x509.KeyUsage(
        False, False, False, False, False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False
    )
    certificate = (
        _dated(days)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder / f"{AUTHORITY}.key", key)
    _write_new(folder / f"{AUTHORITY}.crt", _pem(certificate), 0o644)
    return certificate


def make_request(folder: Path, name: str) -> x509.CertificateSigningRequest:
    """A member's new key (NAME.key, which never leaves the member) and its request (NAME.csr, for the authority)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _checked_name(name))])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    _write_key(folder / f"{name}.key", key)
    _write_new(folder / f"{name}.csr", request.public_bytes(serialization.Encoding.PEM), 0o644)
    return request


def issue(authority: Path, request: Path, days: int) -> tuple[Path, x509.Certificate]:
    """Sign a member's request; each name is issued once, also when capitals differ, so nobody gets a second key for it."""
    content = _read_request(request)
    name = _checked_name(_common_name(content.subject))
    for known in authority.glob("*.crt"):
        if known.stem.casefold() == name.casefold():
            raise CertificateError(f"{known}: a certificate for {name!r} exists; renew it, or move it away if its key was lost")
    certificate = _sign(authority, name, content.public_key(), days)
    path = authority / f"{name}.crt"
    _write_new(path, _pem(certificate), 0o644)
    return path, certificate


def renew(authority: Path, path: Path, days: int) -> x509.Certificate:
    """A certificate for the same name and key with a later end, in the place of the old one."""
    old, ca = read_certificate(path), read_certificate(authority / f"{AUTHORITY}.crt")
    try:
        old.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        raise CertificateError(f"{path}: not a certificate of this authority; expected one that it issued") from None
    certificate = _sign(authority, names(old)[0], old.public_key(), days)
    fresh = path.with_suffix(".crt.new")
    _write_new(fresh, _pem(certificate), 0o644)
    fresh.replace(path)
    return certificate


def read_certificate(path: Path) -> x509.Certificate:
    """The certificate in a PEM file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise CertificateError(f"{path}: not a certificate in PEM form") from None


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


def spoken(digits: str) -> str:
    """A fingerprint in groups of four, for the telephone.

    >>> spoken("00ff12ab")
    '00ff 12ab'
    """
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def days_left(certificate: x509.Certificate) -> int:
    """Whole days until its end; negative afterwards."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)).days


def expiry_warning(path: Path) -> str | None:
    """One sentence if the certificate ends soon; an error if it has ended."""
    certificate = read_certificate(path)
    left = days_left(certificate)
    if left < 0:
        raise CertificateError(f"{path}: expired on {certificate.not_valid_after_utc:%Y-%m-%d}; have the authority renew it")
    if left < SOON:
        return f"{path}: expires in {left} days, on {certificate.not_valid_after_utc:%Y-%m-%d}; have the authority renew it"
    return None


def _sign(authority: Path, name: str, public: object, days: int) -> x509.Certificate:
    ca = read_certificate(authority / f"{AUTHORITY}.crt")
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError(f"{name}: its key is of another kind; expected a request made by `parley certs request`")
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    both_ways = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])  # an owner may learn
    return (
        _dated(min(days, days_left(ca)))
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .public_key(public)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(both_ways, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_issuer(ca), critical=False)
        .sign(_read_key(authority / f"{AUTHORITY}.key"), hashes.SHA256())
    )


def _dated(days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    dated = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    return dated.not_valid_before(min(now, now + timedelta(days=days)) - SKEW).not_valid_after(now + timedelta(days=days))


def _issuer(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    key = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key)


def _checked_name(name: str) -> str:
    """A name as the terms spell owners and learners; "ca" is the authority's own."""
    if not re.fullmatch(PARTY, name) or name.casefold() == AUTHORITY:
        raise CertificateError(f"name = {name!r}: expected letters, digits, '-', '_' and '.', at most 100, and not {AUTHORITY!r}")
    return name


def _common_name(subject: x509.Name) -> str:
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
    except ValueError:
        raise CertificateError(f"{path}: not a certificate request in PEM form") from None
    if not request.is_signature_valid:
        raise CertificateError(f"{path}: its signature does not fit its key; have it made again")
    return request


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: not a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path}: a key of another kind; expected one made by `parley certs`")
    return key


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    _write_new(path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain), 0o600)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet, with exactly these permissions from its first byte."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise CertificateError(f"{path}: exists already; nothing was overwritten") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
