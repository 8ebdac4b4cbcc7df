"""A small certificate authority for a consortium: who is who on the wire.

Every member makes its own key and sends only a request; the authority signs names. A certificate says one name (as in the terms), and
its fingerprint is that of the key, so it survives a renewal and two people can compare it by phone. Keys are P-256. What the authority
takes back is on a list that it signs (an X.509 revocation list); the authority's folder keeps a copy of everything it ever signed, so
that taking a name back takes all its certificates back.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.durable import PRIVATE, create, exposed, make_folder, replace_text
from parley.errors import CertificateError
from parley.identity.settings import Identity
from parley.terms import PARTY

AUTHORITY = "ca"  # its files in its folder: ca.crt, ca.key and ca.crl
PUBLIC = 0o644  # the permissions of what everybody may read
ISSUED = "issued"  # in its folder: a copy of every certificate, named after its serial number
SKEW = timedelta(minutes=5)  # clocks that run behind accept a fresh certificate
SOON = 30  # days before its end from which a certificate or a list is called for renewal
LIST_DAYS = 365  # how long a revocation list is good for, if nobody says otherwise


def make_authority(folder: Path, title: str, days: int) -> x509.Certificate:
    """A new authority in `folder`: ca.crt and an empty list ca.crl for everybody, ca.key for nobody else."""
    _require_new(*(folder / f"{AUTHORITY}.{kind}" for kind in ("key", "crt", "crl")))
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
    _write_new(folder / f"{AUTHORITY}.crt", _pem(certificate), PUBLIC)
    revoke(folder, None, LIST_DAYS)  # empty: who has the file from the start has only to replace it when a key is stolen
    return certificate


def make_request(folder: Path, name: str) -> x509.CertificateSigningRequest:
    """A member's new key (NAME.key, which never leaves the member) and its request (NAME.csr, for the authority)."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _checked_name(name))])
    files = folder / f"{name}.key", folder / f"{name}.csr"
    _require_new(*files, advice="for a new key move the old one away, or write elsewhere with --out")
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    _write_key(files[0], key)
    _write_new(files[1], request.public_bytes(serialization.Encoding.PEM), PUBLIC)
    return request


def issue(authority: Path, request: Path, days: int) -> tuple[Path, x509.Certificate]:
    """Sign a member's request; each name is issued once, also when capitals differ, so nobody gets a second key for it.

    What counts is everything that was ever signed and not taken back, wherever the certificate's file is now.
    """
    content = read_request(request)
    name = requested_name(content)
    good, taken = _standing(authority)
    held = [known for certificate in good for known in names(certificate)] + [file.stem for file in authority.glob("*.crt")]
    if name.casefold() in (known.casefold() for known in held):
        raise CertificateError(f"{authority}: a certificate for {name!r} exists; renew it, or revoke it if its key was lost")
    if any(fingerprint(certificate) == fingerprint(content) for certificate in taken):
        raise CertificateError(f"{request}: a certificate of this key was revoked; have a request with a new key made")
    certificate = _sign(authority, name, content.public_key(), days)
    path = authority / f"{name}.crt"
    _write_new(path, _pem(certificate), PUBLIC)
    return path, certificate


def renew(authority: Path, path: Path, days: int) -> x509.Certificate:
    """A certificate for the same name and key with a later end, in the place of the old one."""
    old = read_certificate(path)
    if not issued_by(old, read_certificate(authority / f"{AUTHORITY}.crt")):
        raise CertificateError(f"{path}: not a certificate of this authority; expected one that it issued")
    if not names(old):
        raise CertificateError(f"{path}: it names no member; an authority is not renewed but replaced (parley certs init)")
    if any(fingerprint(certificate) == fingerprint(old) for certificate in _standing(authority)[1]):
        raise CertificateError(f"{path}: it was revoked; have a request with a new key made")
    _keep(authority, old)
    certificate = _sign(authority, names(old)[0], old.public_key(), days)
    replace_text(path, _pem(certificate).decode(), PUBLIC)
    return certificate


def revoke(authority: Path, name: str | None, days: int) -> x509.CertificateRevocationList:
    """Take back every certificate of this name, on the list ca.crl that members hold beside ca.crt; without a name, only date it anew.

    The name is free afterwards for a request with a new key. The list is good for `days`: who uses it wants a later one by then.
    """
    ca, path = read_certificate(authority / f"{AUTHORITY}.crt"), authority / f"{AUTHORITY}.crl"
    before = read_revocations(path, ca) if path.exists() else None
    taken = {} if before is None else {entry.serial_number: entry for entry in before}
    if name is not None:
        of_name = [c for c in _signed(authority, ca) if name.casefold() in (known.casefold() for known in names(c))]
        if not of_name:
            raise CertificateError(f"{authority}: no certificate for {name!r} was issued here")
        now = datetime.now(UTC)
        for c in of_name:
            entry = x509.RevokedCertificateBuilder().serial_number(c.serial_number).revocation_date(now).build()
            taken.setdefault(c.serial_number, entry)
            _keep(authority, c)
    made, until = _dates(days)
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(made).next_update(until)
    for entry in taken.values():
        builder = builder.add_revoked_certificate(entry)
    number = x509.CRLNumber(1 if before is None else list_number(before) + 1)
    builder = builder.add_extension(number, critical=False).add_extension(_issuer(ca), critical=False)
    revocations = builder.sign(_read_key(authority / f"{AUTHORITY}.key"), hashes.SHA256())
    replace_text(path, revocations.public_bytes(serialization.Encoding.PEM).decode(), PUBLIC)
    if name is not None:  # only now: the list is on the disk
        for known in authority.glob("*.crt"):
            if known.stem.casefold() == name.casefold():
                known.unlink()
    return revocations


def read_revocations(path: Path, ca: x509.Certificate) -> x509.CertificateRevocationList:
    """The list in a PEM file, if the authority signed it and it has a number, by which a later list is known."""
    try:
        revocations = x509.load_pem_x509_crl(_sole_block(path, "the authority's revocation list (ask it for its ca.crl)"))
        sound = revocations.issuer == ca.subject and revocations.is_signature_valid(_elliptic(ca))
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
    until, now, ask = revocations.next_update_utc, datetime.now(UTC), "ask the authority for a later ca.crl (parley certs revoke)"
    if until is None or until <= now:
        raise CertificateError(f"{path}: this revocation list is out of date; {ask}")
    left = (until - now).days
    return f"{path}: this revocation list is good for {left} more days, until {until:%Y-%m-%d}; {ask}" if left < SOON else None


def revocations_in_force(identity: Identity) -> x509.CertificateRevocationList | None:
    """The list that the settings name, signed and in date; none where they name none."""
    if identity.revoked is None:
        return None
    revocations = read_revocations(identity.revoked, read_certificate(identity.authority))
    list_warning(identity.revoked, revocations)
    return revocations


def revoked_serials(identity: Identity) -> frozenset[int]:
    """The serial numbers of the certificates that the authority took back, by a list that is signed and in date; none without a list."""
    return frozenset(entry.serial_number for entry in revocations_in_force(identity) or ())


def check_identity(identity: Identity, name: str) -> None:
    """Refuse an identity with which nobody would talk, before anything listens or asks.

    The key is the party's own secret and belongs to its certificate; that is one to trust, and for this name.
    """
    require_private(identity.key)
    own, key = trusted_certificate(identity.certificate, identity), _read_key(identity.key)
    if key.public_key() != own.public_key():
        raise CertificateError(f"{identity.key}: not the key of {identity.certificate}; expected the one its request was made with")
    if name not in names(own):
        raise CertificateError(f"{identity.certificate}: it is for {', '.join(names(own)) or 'an authority'}, not for {name!r}")


def trusted_certificate(path: Path, identity: Identity) -> x509.Certificate:
    """The certificate in the file, if the identity's authority issued it, both are in date, and it was not taken back."""
    ca, certificate = read_certificate(identity.authority), read_certificate(path)
    if not issued_by(certificate, ca):
        raise CertificateError(f"{path}: not issued by the authority in {identity.authority}")
    for place, dated in ((identity.authority, ca), (path, certificate)):
        if dated.not_valid_before_utc > datetime.now(UTC):
            raise CertificateError(f"{place}: not good before {dated.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; is the clock right?")
        expiry_warning(place, dated)
    if certificate.serial_number in revoked_serials(identity):
        raise CertificateError(f"{path}: the authority revoked it; have a request with a new key issued")
    return certificate


def require_private(key: Path) -> None:
    """Refuse a key that others can read."""
    if exposed(key):
        raise CertificateError(f"{key}: other accounts may read this key; chmod 600 {key}")


def issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the authority signed it."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_certificate(path: Path) -> x509.Certificate:
    """The certificate in a PEM file, which holds no other: TLS would trust them all."""
    try:
        return x509.load_pem_x509_certificate(_sole_block(path, "a certificate"))
    except ValueError:
        raise CertificateError(f"{path}: not a certificate in PEM form") from None


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """The request in a PEM file, if whoever made it holds its key."""
    try:
        request = x509.load_pem_x509_csr(_sole_block(path, "a certificate request"))
        sound = request.is_signature_valid
    except ValueError:
        raise CertificateError(f"{path}: not a certificate request in PEM form") from None
    if not sound:
        raise CertificateError(f"{path}: its signature does not fit its key; have it made again")
    return request


def requested_name(request: x509.CertificateSigningRequest) -> str:
    """Whom the request asks a certificate for."""
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return _checked_name(str(found[0].value) if len(found) == 1 else "")


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


def expiry_warning(path: Path, certificate: x509.Certificate | None = None) -> str | None:
    """One sentence if the certificate (that in the file, if none is given) ends soon; an error if it has ended."""
    certificate = certificate if certificate is not None else read_certificate(path)
    left, end = days_left(certificate), f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    advice = "have the authority renew it" if names(certificate) else "the consortium needs a new authority (parley certs init)"
    if left < 0:
        raise CertificateError(f"{path}: expired on {end}; {advice}")
    return f"{path}: expires in {left} days, on {end}; {advice}" if left < SOON else None


def _sign(authority: Path, name: str, public: object, days: int) -> x509.Certificate:
    ca = read_certificate(authority / f"{AUTHORITY}.crt")
    expiry_warning(authority / f"{AUTHORITY}.crt", ca)  # an authority that has ended signs nothing
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError(f"{name}: its key is of another kind; expected a request made by `parley certs request`")
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    both_ways = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])  # an owner may learn
    certificate = (
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
    _keep(authority, certificate)
    return certificate


def _keep(authority: Path, certificate: x509.Certificate) -> None:
    """A copy of what was signed, so that it can be revoked even when nobody else has it any more."""
    copy = authority / ISSUED / f"{certificate.serial_number:x}.crt"
    if not copy.exists():
        make_folder(copy.parent)
        create(copy, _pem(certificate), PUBLIC)


def _signed(authority: Path, ca: x509.Certificate) -> list[x509.Certificate]:
    """Everything that the authority signed, as far as its folder knows."""
    files = (*authority.glob("*.crt"), *(authority / ISSUED).glob("*.crt"))
    found = {certificate.serial_number: certificate for certificate in map(read_certificate, files)}
    return [certificate for certificate in found.values() if issued_by(certificate, ca)]


def _standing(authority: Path) -> tuple[list[x509.Certificate], list[x509.Certificate]]:
    """What the authority signed: the certificates that stand, and those that it took back."""
    path, ca = authority / f"{AUTHORITY}.crl", read_certificate(authority / f"{AUTHORITY}.crt")
    listed = {entry.serial_number for entry in read_revocations(path, ca)} if path.exists() else set[int]()
    stand, taken = list[x509.Certificate](), list[x509.Certificate]()
    for certificate in _signed(authority, ca):
        (taken if certificate.serial_number in listed else stand).append(certificate)
    return stand, taken


def _dated(days: int) -> x509.CertificateBuilder:
    begin, end = _dates(days)
    dated = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    return dated.not_valid_before(begin).not_valid_after(end)


def _dates(days: int) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return min(now, end) - SKEW, end


def _issuer(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    key = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key)


def _checked_name(name: str) -> str:
    """A name as the terms spell owners and learners; "ca" is the authority's own, and TLS takes four numbers for an address."""
    if re.fullmatch(r"\d+(\.\d+){3}", name):
        raise CertificateError(f"name = {name!r}: it looks like an IP address, which TLS would not take for a name; choose another")
    if not re.fullmatch(PARTY, name) or name.casefold() == AUTHORITY:
        raise CertificateError(f"name = {name!r}: expected letters, digits, '-', '_' and '.', at most 100, and not {AUTHORITY!r}")
    return name


def _elliptic(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """Its key, which is of the kind that `parley certs` makes."""
    public = certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError("ca.crt: its key is of another kind; expected an authority made by `parley certs init`")
    return public


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateError(f"{path}: not a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path}: a key of another kind; expected one made by `parley certs`")
    return key


def _sole_block(path: Path, expected: str) -> bytes:
    """What is in a file of one PEM block; of two, this program would see the first and TLS perhaps both."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file; expected {expected}") from None
    if content.count(b"-----BEGIN ") > 1:
        raise CertificateError(f"{path}: it holds more than one thing; expected {expected} alone")
    return content


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    _write_new(path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain), PRIVATE)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet."""
    try:
        create(path, content, mode)
    except FileExistsError:
        _require_new(path)
        raise


def _require_new(*paths: Path, advice: str = "choose another folder") -> None:
    """Refuse before the first of several files is written."""
    known = next((path for path in paths if path.exists()), None)
    if known is not None:
        raise CertificateError(f"{known}: exists already; nothing was overwritten; {advice}")


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
