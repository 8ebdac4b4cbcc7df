"""The files in which keys and certificates lie: PEM, one thing a file, P-256 keys; a key is readable by its account
alone."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.durable import PRIVATE, create
from parley.errors import CertificateError

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
