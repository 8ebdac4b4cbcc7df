"""Signing requests: every member makes its own key and sends only a request for a name to the authority."""

import re
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parley.errors import CertificateError
from parley.network.identity.pem import AUTHORITY, PUBLIC, require_new, sole_block, write_key, write_new
from parley.terms import PARTY


def make_request(folder: Path, name: str) -> x509.CertificateSigningRequest:
    """A member's new key (NAME.key, which never leaves the member) and its request (NAME.csr, for the authority)."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, checked_name(name))])
    files = folder / f"{name}.key", folder / f"{name}.csr"
    require_new(*files, advice="for a new key move the old one away, or write elsewhere with --out")
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    write_key(files[0], key)
    write_new(files[1], request.public_bytes(serialization.Encoding.PEM), PUBLIC)
    return request


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """The request in a PEM file, if whoever made it holds its key."""
    try:
        request = x509.load_pem_x509_csr(sole_block(path, "a certificate request"))
        sound = request.is_signature_valid
    except ValueError:
        raise CertificateError(f"{path}: not a certificate request in PEM form") from None
    if not sound:
        raise CertificateError(f"{path}: its signature does not fit its key; have it made again")
    return request


def requested_name(request: x509.CertificateSigningRequest) -> str:
    """Whom the request asks a certificate for."""
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return checked_name(str(found[0].value) if len(found) == 1 else "")


def checked_name(name: str) -> str:
    """A name as the terms spell owners and learners; "ca" is the authority's own, and TLS takes four numbers for an
    address."""
    if re.fullmatch(r"\d+(\.\d+){3}", name):
        raise CertificateError(
            f"name = {name!r}: it looks like an IP address, which TLS would not take for a name; choose another"
        )
    if not re.fullmatch(PARTY, name) or name.casefold() == AUTHORITY:
        raise CertificateError(
            f"name = {name!r}: expected letters, digits, '-', '_' and '.', at most 100, and not {AUTHORITY!r}"
        )
    return name
