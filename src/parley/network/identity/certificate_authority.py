"""A small certificate authority for a consortium. Its folder keeps a copy of everything it ever signed, so that
revoking a name revokes all its certificates, on a list that it signs (`certificates.py`)."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.durable import create, make_folder, replace_text
from parley.errors import CertificateError
from parley.network.identity.certificates import (
    AUTHORITY_FILE_STEM,
    PUBLIC_FILE_MODE,
    days_left,
    expiry_warning,
    fingerprint,
    issued_by,
    list_number,
    names,
    pem,
    read_certificate,
    read_key,
    read_revocations,
    require_new,
    sole_block,
    write_key,
    write_new,
)
from parley.terms import PARTY

ISSUED_FOLDER = "issued"  # in its folder: a copy of every certificate, named after its serial number
CLOCK_SKEW = timedelta(minutes=5)  # clocks that run behind accept a fresh certificate
REVOCATION_LIST_DAYS = 365  # how long a revocation list is good for, if nobody says otherwise


def make_authority(folder: Path, title: str, days: int) -> x509.Certificate:
    """Make an authority in `folder`: ca.crt and an empty list ca.crl for everybody, ca.key for nobody else."""
    require_new(*(folder / f"{AUTHORITY_FILE_STEM}.{kind}" for kind in ("key", "crt", "crl")))
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
    write_key(folder / f"{AUTHORITY_FILE_STEM}.key", key)
    write_new(folder / f"{AUTHORITY_FILE_STEM}.crt", pem(certificate), PUBLIC_FILE_MODE)
    # empty: who has the file from the start has only to replace it when a key is stolen
    revoke(folder, None, REVOCATION_LIST_DAYS)
    return certificate


def issue(authority: Path, request: Path, days: int) -> tuple[Path, x509.Certificate]:
    """Sign a member's request; each name, in any capitals, is issued once, so nobody gets a second key for it.
    Everything ever signed and not revoked counts, wherever the certificate's file is now."""
    content = read_request(request)
    name = requested_name(content)
    good, revoked = _issued_and_revoked(authority)
    held = [known for certificate in good for known in names(certificate)] + [
        file.stem for file in authority.glob("*.crt")
    ]
    if name.casefold() in (known.casefold() for known in held):
        raise CertificateError(
            f"{authority}: a certificate for {name!r} already exists; renew the certificate, or revoke it if its key "
            "was lost. A party that is both owner and host uses one certificate and key for both"
        )
    if any(fingerprint(certificate) == fingerprint(content) for certificate in revoked):
        raise CertificateError(
            f"{request}: the certificate for this key was revoked; ask the party for a request with a new key"
        )
    certificate = _sign(authority, name, content.public_key(), days)
    path = authority / f"{name}.crt"
    write_new(path, pem(certificate), PUBLIC_FILE_MODE)
    return path, certificate


def renew(authority: Path, path: Path, days: int) -> x509.Certificate:
    """Replace a certificate by one for the same name and key with a later end."""
    old = read_certificate(path)
    if not issued_by(old, read_certificate(authority / f"{AUTHORITY_FILE_STEM}.crt")):
        raise CertificateError(f"{path}: expected a certificate that this authority issued")
    if not names(old):
        raise CertificateError(
            f"{path}: an authority's own certificate cannot be renewed; make a new authority (parley certs init)"
        )
    if any(fingerprint(certificate) == fingerprint(old) for certificate in _issued_and_revoked(authority)[1]):
        raise CertificateError(f"{path}: the certificate was revoked; ask the party for a request with a new key")
    _archive(authority, old)
    certificate = _sign(authority, names(old)[0], old.public_key(), days)
    replace_text(path, pem(certificate).decode(), PUBLIC_FILE_MODE)
    return certificate


def revoke(authority: Path, name: str | None, days: int) -> x509.CertificateRevocationList:
    """Revoke every certificate of this name on ca.crl, the list that members hold; without a name, only renew its date.
    The name is then free for a request with a new key. Members need a later list within `days`."""
    ca, path = read_certificate(authority / f"{AUTHORITY_FILE_STEM}.crt"), authority / f"{AUTHORITY_FILE_STEM}.crl"
    before = read_revocations(path, ca) if path.exists() else None
    entries = {} if before is None else {entry.serial_number: entry for entry in before}
    if name is not None:
        of_name = [c for c in _signed(authority, ca) if name.casefold() in (known.casefold() for known in names(c))]
        if not of_name:
            raise CertificateError(f"{authority}: this authority issued no certificate for {name!r}; check the name")
        now = datetime.now(UTC)
        for c in of_name:
            entry = x509.RevokedCertificateBuilder().serial_number(c.serial_number).revocation_date(now).build()
            entries.setdefault(c.serial_number, entry)
            _archive(authority, c)
    made, until = _dates(days)
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(made).next_update(until)
    for entry in entries.values():
        builder = builder.add_revoked_certificate(entry)
    number = x509.CRLNumber(1 if before is None else list_number(before) + 1)
    builder = builder.add_extension(number, critical=False).add_extension(_issuer(ca), critical=False)
    revocations = builder.sign(read_key(authority / f"{AUTHORITY_FILE_STEM}.key"), hashes.SHA256())
    replace_text(path, revocations.public_bytes(serialization.Encoding.PEM).decode(), PUBLIC_FILE_MODE)
    if name is not None:  # only now: the list is on the disk
        for known in authority.glob("*.crt"):
            if known.stem.casefold() == name.casefold():
                known.unlink()
    return revocations


def make_request(folder: Path, name: str) -> x509.CertificateSigningRequest:
    """Make a member's key (NAME.key, which never leaves the member) and request (NAME.csr, for the authority)."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, checked_name(name))])
    files = folder / f"{name}.key", folder / f"{name}.csr"
    require_new(*files, advice="for a new key move the old one away, or write elsewhere with --out")
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    write_key(files[0], key)
    write_new(files[1], request.public_bytes(serialization.Encoding.PEM), PUBLIC_FILE_MODE)
    return request


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Return the request in a PEM file, if whoever made it holds its key."""
    try:
        request = x509.load_pem_x509_csr(sole_block(path, "a certificate request"))
        sound = request.is_signature_valid
    except ValueError:
        raise CertificateError(f"{path}: expected a certificate request in PEM form") from None
    if not sound:
        raise CertificateError(f"{path}: the signature of the request does not match its key; ask for a new request")
    return request


def requested_name(request: x509.CertificateSigningRequest) -> str:
    """Return the name that the request asks a certificate for."""
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return checked_name(str(found[0].value) if len(found) == 1 else "")


def checked_name(name: str) -> str:
    """Return a valid party's name: not the authority's own, nor four numbers, which TLS takes for an address."""
    if re.fullmatch(r"\d+(\.\d+){3}", name):
        raise CertificateError(f"name = {name!r}: TLS does not accept an IP address as a name; choose another name")
    if not re.fullmatch(PARTY, name) or name.casefold() == AUTHORITY_FILE_STEM:
        raise CertificateError(
            f"name = {name!r}: expected up to 100 letters, digits, '-', '_' and '.', but not the name "
            f"{AUTHORITY_FILE_STEM!r}"
        )
    return name


def _sign(authority: Path, name: str, public: object, days: int) -> x509.Certificate:
    ca = read_certificate(authority / f"{AUTHORITY_FILE_STEM}.crt")
    expiry_warning(authority / f"{AUTHORITY_FILE_STEM}.crt", ca)  # an authority that has ended signs nothing
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise CertificateError(
            f"{name}: the key of the request is of the wrong kind; give a request made by `parley certs request`"
        )
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    # an owner may learn
    both_ways = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
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
        .sign(read_key(authority / f"{AUTHORITY_FILE_STEM}.key"), hashes.SHA256())
    )
    _archive(authority, certificate)
    return certificate


def _archive(authority: Path, certificate: x509.Certificate) -> None:
    """Keep a copy of what was signed, so that it can be revoked without the file."""
    copy = authority / ISSUED_FOLDER / f"{certificate.serial_number:x}.crt"
    if not copy.exists():
        make_folder(copy.parent)
        create(copy, pem(certificate), PUBLIC_FILE_MODE)


def _signed(authority: Path, ca: x509.Certificate) -> list[x509.Certificate]:
    """Return everything that the authority signed, as far as its folder knows."""
    files = (*authority.glob("*.crt"), *(authority / ISSUED_FOLDER).glob("*.crt"))
    by_serial_number = {certificate.serial_number: certificate for certificate in map(read_certificate, files)}
    return [certificate for certificate in by_serial_number.values() if issued_by(certificate, ca)]


def _issued_and_revoked(authority: Path) -> tuple[list[x509.Certificate], list[x509.Certificate]]:
    path, ca = authority / f"{AUTHORITY_FILE_STEM}.crl", read_certificate(authority / f"{AUTHORITY_FILE_STEM}.crt")
    listed = {entry.serial_number for entry in read_revocations(path, ca)} if path.exists() else set[int]()
    good, revoked = list[x509.Certificate](), list[x509.Certificate]()
    for certificate in _signed(authority, ca):
        (revoked if certificate.serial_number in listed else good).append(certificate)
    return good, revoked


def _dated(days: int) -> x509.CertificateBuilder:
    begin, end = _dates(days)
    dated = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    return dated.not_valid_before(begin).not_valid_after(end)


def _dates(days: int) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return min(now, end) - CLOCK_SKEW, end


def _issuer(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    key = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key)
