"""Certificates that `parley certs` did not make: an intermediate authority of a corporate PKI is the consortium's, as
the guide says."""

from datetime import UTC, datetime, timedelta

import pytest
from consortium import Consortium
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.errors import CertificateError
from parley.network.exchange.remote import RemoteOwner
from parley.network.identity.certificates import check_identity, read_certificate

NOW = datetime.now(UTC)
PEM = serialization.Encoding.PEM


def named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def signed(name, public, issuer, key, *extensions):
    builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(issuer).public_key(public)
    builder = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(1))
        .not_valid_after(NOW + timedelta(90))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(key, hashes.SHA256())


def authority(length):
    usage = x509.KeyUsage(
        False, False, False, False, False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False
    )
    return (x509.BasicConstraints(ca=True, path_length=length), True), (usage, True)


@pytest.fixture
def bank(tmp_path):
    """An RSA root that nobody at Parley sees, an issuing authority below it, members with their own keys, an empty
    list."""
    consortium = Consortium(tmp_path, names="a")
    top = rsa.generate_private_key(65537, 2048)
    key = ec.generate_private_key(ec.SECP256R1())
    issuing = signed("Corp issuing 7", key.public_key(), named("Corp root"), top, *authority(0))
    (tmp_path / "ca.crt").write_bytes(issuing.public_bytes(PEM))
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    for name in ("a", "learner"):
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = signed(
            f"CN of {name}",
            own.public_key(),
            issuing.subject,
            key,
            (x509.SubjectAlternativeName([x509.DNSName(name)]), False),
            (both, False),
        )
        (tmp_path / f"{name}.crt").write_bytes(certificate.public_bytes(PEM))
        plain = own.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (tmp_path / f"{name}.key").write_bytes(plain)
    listed = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuing.subject)
        .last_update(NOW)
        .next_update(NOW + timedelta(30))
    )
    listed = listed.add_extension(x509.CRLNumber(12), critical=False).sign(key, hashes.SHA256())
    (tmp_path / "ca.crl").write_bytes(listed.public_bytes(PEM))
    yield consortium
    consortium.close()


def test_an_intermediate_authority_is_enough_for_owner_and_learner(bank):
    terms = bank.write_terms(horizon=2)
    bank.accept(terms)
    bank.start()
    check_identity(bank.identity(), "learner")
    address = f"127.0.0.1:{bank.ports['a']}"
    for revoked in (frozenset(), frozenset({7})):  # with a list, the owner's certificate is looked at first
        peer = RemoteOwner("a", address, bank.identity(), revoked=revoked)
        assert peer.statement(terms.hash, "learner", 10).rounds == 2
        peer.close()
    assert len(bank.learn()["theta"]) == 3


def test_a_certificate_of_the_root_is_not_one_of_the_consortium(bank, tmp_path):
    stranger = ec.generate_private_key(ec.SECP256R1())
    certificate = signed("learner", stranger.public_key(), named("Corp root"), rsa.generate_private_key(65537, 2048))
    (tmp_path / "learner.crt").write_bytes(certificate.public_bytes(PEM))
    with pytest.raises(CertificateError, match="did not issue this certificate"):
        check_identity(bank.identity(), "learner")
    assert read_certificate(tmp_path / "ca.crt").issuer == named("Corp root")
