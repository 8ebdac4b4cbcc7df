"""Certificates: whom they name, by which key, until when. Each says one name, as in the terms; its fingerprint is that
of the key, so it survives a renewal and two people can compare it by phone."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.durable import PRIVATE_MODE, create, exposed, file_version
from parley.errors import CertificateError
from parley.network.identity.settings import Identity
from parley.numerals import counted
from parley.owner.ledger.witnessed import Signature

AUTHORITY_FILE_STEM = "ca"  # its files in its folder: ca.crt, ca.key and ca.crl
PUBLIC_FILE_MODE = 0o644  # the permissions of what everybody may read


def sole_block(path: Path, expected: str) -> bytes:
    """Return a file's only PEM block; of two, this program would see the first and TLS perhaps both."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file; expected {expected}") from None
    if content.count(b"-----BEGIN ") > 1:
        raise CertificateError(f"{path}: the file contains more than one PEM block; expected only {expected}")
    return content


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: expected a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path}: the key is of the wrong kind; use a key made by `parley certs`")
    return key


def elliptic_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """Return the certificate's key, of the kind that `parley certs` makes."""
    public = certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError(
            "ca.crt: the key of the authority is of the wrong kind; use an authority made by `parley certs init`"
        )
    return public


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    write_new(
        path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain), PRIVATE_MODE
    )


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet."""
    try:
        create(path, content, mode)
    except FileExistsError:
        require_new(path)
        raise


def require_new(*paths: Path, advice: str = "choose another folder") -> None:
    """Refuse existing files, before the first of several is written."""
    known = next((path for path in paths if path.exists()), None)
    if known is not None:
        raise CertificateError(f"{known}: the file already exists and was not overwritten; {advice}")


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


EXPIRY_WARNING_DAYS = 30  # days before its end from which a certificate or a list is called for renewal


def read_certificate(path: Path) -> x509.Certificate:
    """Return the only certificate in a PEM file; TLS would trust several."""
    try:
        return x509.load_pem_x509_certificate(sole_block(path, "a certificate"))
    except ValueError:
        raise CertificateError(f"{path}: expected a certificate in PEM form") from None


def certificate_in(text: str, place: Path) -> x509.Certificate:
    """Return the certificate in a PEM text that was read from this place."""
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise CertificateError(f"{place}: expected a certificate in PEM form") from None


def names(certificate: x509.Certificate) -> Sequence[str]:
    """Return the names a certificate is for; empty for an authority."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(extension.value.get_values_for_type(x509.DNSName))


def fingerprint(certified: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return the SHA-256 of the public key, 64 hexadecimal digits."""
    public = certified.public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def grouped(digits: str) -> str:
    """Return a fingerprint in groups of four, for the telephone.

    >>> grouped("00ff12ab")
    '00ff 12ab'
    """
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the authority signed the certificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def days_left(certificate: x509.Certificate) -> int:
    """Return the whole days until its end; negative afterwards."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)).days


def expiry_warning(path: Path, certificate: x509.Certificate | None = None) -> str | None:
    """Return a warning if the certificate (default: the file's) ends soon, or None; refuse one that has ended."""
    certificate = certificate if certificate is not None else read_certificate(path)
    left, end = days_left(certificate), f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    advice = (
        "have the authority renew it"
        if names(certificate)
        else "the consortium needs a new authority (parley certs init)"
    )
    if left < 0:
        raise CertificateError(f"{path}: the certificate expired on {end}; {advice}")
    reminder = f"{path}: the certificate expires in {counted(left, 'day')}, on {end}; {advice}"
    return reminder if left < EXPIRY_WARNING_DAYS else None


def read_revocations(path: Path, ca: x509.Certificate) -> x509.CertificateRevocationList:
    """Return the list in a PEM file, if the authority signed it and it has a number."""
    try:
        revocations = x509.load_pem_x509_crl(
            sole_block(path, "the authority's revocation list (ask it for its ca.crl)")
        )
        sound = revocations.issuer == ca.subject and revocations.is_signature_valid(elliptic_key(ca))
    except (ValueError, TypeError):
        raise CertificateError(
            f"{path}: expected a revocation list in PEM form; ask the authority for its ca.crl"
        ) from None
    if not sound:
        raise CertificateError(
            f"{path}: the authority did not sign this revocation list; ask the authority for its ca.crl"
        )
    try:
        list_number(revocations)
    except (x509.ExtensionNotFound, ValueError):
        raise CertificateError(
            f"{path}: the revocation list has no number; expected a list that `parley certs revoke` made"
        ) from None
    return revocations


def list_number(revocations: x509.CertificateRevocationList) -> int:
    """Return the list's number; later lists of an authority have higher ones."""
    return int(revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)


def list_warning(path: Path, revocations: x509.CertificateRevocationList) -> str | None:
    """Return a warning if the list ends soon, or None; refuse one that is out of date."""
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
        if left < EXPIRY_WARNING_DAYS
        else None
    )


def revocations_in_force(identity: Identity) -> x509.CertificateRevocationList | None:
    """Return the list that the settings name, signed and in date, or None."""
    if identity.revoked is None:
        return None
    revocations = read_revocations(identity.revoked, read_certificate(identity.authority))
    list_warning(identity.revoked, revocations)
    return revocations


def revoked_serials(identity: Identity) -> frozenset[int]:
    """Return the revoked serial numbers, by a list that is signed and in date; empty without a list."""
    return frozenset(entry.serial_number for entry in revocations_in_force(identity) or ())


class Revocations:
    """Whom a running daemon turns away although TLS let them in: the authority's list, reread when its file changes. A
    list that is damaged, not the authority's or out of date is refused at the start.

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
        """Whether this certificate is revoked, by the latest list that the file has held."""
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
        """Take the file's list, if it is later than the one in force."""
        revocations = read_revocations(path, self._authority)
        if self._list is not None and revocations != self._list and list_number(revocations) <= list_number(self._list):
            raise CertificateError(
                f"{path}: this revocation list is not newer than the list in force; ask the authority for its latest "
                "ca.crl"
            )
        self._apply(revocations)

    def _apply(self, revocations: x509.CertificateRevocationList | None) -> None:
        self._list = revocations
        self._serials = frozenset(entry.serial_number for entry in revocations or ())


def check_identity(identity: Identity, name: str) -> None:
    """Refuse, before anything listens or asks, a key that others can read or that is not the certificate's, and a
    certificate that is not trusted or not for this name."""
    require_private(identity.key)
    own, key = trusted_certificate(identity.certificate, identity), read_key(identity.key)
    if key.public_key() != own.public_key():
        raise CertificateError(
            f"{identity.key}: the key does not belong to {identity.certificate}; use the key with which this "
            "certificate was requested"
        )
    if name not in names(own):
        raise CertificateError(
            f"{identity.certificate}: the certificate is for {', '.join(names(own)) or 'an authority'}, not for "
            f"{name!r}"
        )


def trusted_certificate(path: Path, identity: Identity) -> x509.Certificate:
    """Return the file's certificate, if the authority issued it, both are in date, and it was not revoked."""
    certificate = read_certificate(path)
    require_trusted(certificate, path, identity)
    return certificate


def require_trusted(certificate: x509.Certificate, path: Path, identity: Identity) -> None:
    """Refuse a certificate unless the authority issued it, both are in date, and it was not revoked."""
    ca = read_certificate(identity.authority)
    if not issued_by(certificate, ca):
        raise CertificateError(f"{path}: the authority in {identity.authority} did not issue this certificate")
    for place, dated in ((identity.authority, ca), (path, certificate)):
        if dated.not_valid_before_utc > datetime.now(UTC):
            raise CertificateError(
                f"{place}: the certificate is not valid before {dated.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check "
                "the clock of this machine"
            )
        expiry_warning(place, dated)
    if certificate.serial_number in revoked_serials(identity):
        raise CertificateError(f"{path}: the authority revoked this certificate; request a certificate for a new key")


def require_private(key: Path) -> None:
    """Refuse a key that others can read."""
    if exposed(key):
        raise CertificateError(f"{key}: other accounts may read this key; run chmod 600 {key}")


class Signer:
    """Signs as one party and checks what others signed. A renewed certificate is taken up without a restart."""

    def __init__(self, identity: Identity) -> None:
        self._identity, self._lock = identity, threading.Lock()
        self._authority, self._revoked = read_certificate(identity.authority), revoked_serials(identity)
        self._version = self._file_versions()
        self._key, self._certificate = self._read()

    @property
    def name(self) -> str:
        """The name on this party's certificate."""
        return names(_parsed(self._certificate))[0]

    def sign(self, text: bytes, second: bytes = b"") -> Signature:
        """Return this party's signature of the text, and the same key's of its `second` form, if it has one."""
        with self._lock:
            version = self._file_versions()
            if version != self._version:
                try:
                    self._key, self._certificate = self._read()
                    self._version = version
                except (CertificateError, OSError):
                    pass  # half renewed: the pair that was read before signs meanwhile
            key, certificate = self._key, self._certificate
        signed = [key.sign(each, ec.ECDSA(hashes.SHA256())) if each else b"" for each in (text, second)]
        return Signature(certificate, *signed)

    def certified(self, signature: Signature, texts: tuple[bytes, bytes], party: str, key: str | None = None) -> bool:
        """Whether somebody signed both forms of a text whom the authority certified under the party's name, and did not
        revoke; with a `key`, only the holder of that one. An empty second form needs no signature."""
        return self.once_certified(signature, texts, party) and (
            _parsed(signature.certificate).serial_number not in self._revoked
            and key in (None, fingerprint(_parsed(signature.certificate)))
        )

    def once_certified(self, signature: Signature, texts: tuple[bytes, bytes], party: str) -> bool:
        """Whether a key that the authority ever certified under this name signed both forms, expired or revoked by now
        or not: for what a party signed itself, long ago."""
        if not signature.fits():
            return False
        try:
            certificate = _parsed(signature.certificate)
            public = certificate.public_key()
        except (ValueError, TypeError):
            return False
        if party not in names(certificate) or not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        try:
            for text, value in zip(texts, (signature.value, signature.second), strict=True):
                if text:
                    public.verify(value, text, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return _issued(signature.certificate, self._authority)

    def _read(self) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
        key, certificate = read_key(self._identity.key), read_certificate(self._identity.certificate)
        if key.public_key() != certificate.public_key():
            raise CertificateError(f"{self._identity.key}: the key does not belong to {self._identity.certificate}")
        return key, certificate.public_bytes(serialization.Encoding.DER)

    def _file_versions(self) -> tuple[object, ...]:
        return tuple(file_version(path) for path in (self._identity.key, self._identity.certificate))


@lru_cache(maxsize=64)
def _issued(certificate: bytes, authority: x509.Certificate) -> bool:
    return issued_by(_parsed(certificate), authority)


@lru_cache(maxsize=64)
def _parsed(certificate: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(certificate)
