import contextlib
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import CertificateError
from parley.network.identity import certificate_authority, certificates
from parley.network.identity.settings import Identity


@pytest.fixture
def authority(tmp_path):
    certificate_authority.make_authority(tmp_path, "Test", 3650)
    return tmp_path


def member(authority, name, days=365):
    certificate_authority.make_request(authority, name)
    return certificate_authority.issue(authority, authority / f"{name}.csr", days)


def test_a_certificate_says_its_name_and_keeps_its_fingerprint_through_a_renewal(authority):
    request = certificate_authority.make_request(authority, "bank-a")
    path, issued = certificate_authority.issue(authority, authority / "bank-a.csr", 10)
    assert certificates.names(issued) == ("bank-a",)
    assert certificates.fingerprint(issued) == certificates.fingerprint(request)
    assert "expires in 9 days" in certificates.expiry_warning(path)
    renewed = certificate_authority.renew(authority, path, 400)
    assert certificates.fingerprint(renewed) == certificates.fingerprint(issued)
    assert renewed.not_valid_after_utc > issued.not_valid_after_utc
    assert certificates.expiry_warning(path) is None


def test_private_keys_are_for_their_owner_alone(authority):
    member(authority, "bank-a")
    for key in authority.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_nothing_is_overwritten_and_a_name_is_issued_once(authority):
    member(authority, "bank-a")
    before = {path: path.read_bytes() for path in authority.iterdir() if path.is_file()}
    with pytest.raises(CertificateError, match="already exists"):
        certificate_authority.make_authority(authority, "Again", 10)
    with pytest.raises(CertificateError, match="already exists"):
        certificate_authority.make_request(authority, "bank-a")
    with pytest.raises(CertificateError, match="a certificate for 'bank-a' already exists"):
        certificate_authority.issue(authority, authority / "bank-a.csr", 10)
    assert {path: path.read_bytes() for path in authority.iterdir() if path.is_file()} == before
    certificate_authority.make_request(authority, "BANK-A")
    for moved in (False, True):  # the certificate's file may be anywhere
        if moved:
            (authority / "bank-a.crt").rename(authority / "bank-a.old")
        with pytest.raises(
            CertificateError, match="a certificate for 'BANK-A' already exists; renew the certificate, or revoke it"
        ):
            certificate_authority.issue(authority, authority / "BANK-A.csr", 10)
    certificate_authority.revoke(authority, "bank-a", 10)
    assert certificates.names(certificate_authority.issue(authority, authority / "BANK-A.csr", 10)[1]) == ("BANK-A",)


@pytest.mark.parametrize("left", ["crt", "crl", "key"])
def test_an_authority_or_a_request_is_made_whole_or_not_at_all(tmp_path, left):
    (tmp_path / f"ca.{left}").write_text("theirs")
    with pytest.raises(CertificateError, match=f"ca.{left}: the file already exists"):
        certificate_authority.make_authority(tmp_path, "Test", 10)
    (tmp_path / "bank-a.csr").write_text("theirs")
    with pytest.raises(CertificateError, match=r"move the old one away, or write elsewhere with --out"):
        certificate_authority.make_request(tmp_path, "bank-a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank-a.csr", f"ca.{left}"]


@pytest.mark.parametrize("name", ["", "ca", "CA", "a b", "../a", "*.bank", "x" * 101, "bänk"])
def test_names_are_those_of_the_terms(tmp_path, name):
    with pytest.raises(CertificateError, match="expected up to 100 letters"):
        certificate_authority.make_request(tmp_path, name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["10.0.0.1", "999.1.2.3"])
def test_names_like_addresses_are_refused_because_tls_would_not_match_them(tmp_path, name):
    with pytest.raises(CertificateError, match="TLS does not accept an IP address"):
        certificate_authority.make_request(tmp_path, name)
    certificate_authority.make_request(tmp_path, f"bank-{name}")


def identity(folder, name="bank-a", **changes):
    files = {"authority": folder / "ca.crt", "certificate": folder / f"{name}.crt", "key": folder / f"{name}.key"}
    return Identity(**files | changes)


def test_an_identity_is_checked_before_it_is_used(authority, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    certificate_authority.make_authority(elsewhere, "Test", 3650)
    for folder, name, days in (
        (authority, "bank-a", 9),
        (authority, "bank-b", 9),
        (elsewhere, "bank-a", 9),
        (authority, "old", -1),
    ):
        member(folder, name, days)
    certificates.check_identity(identity(authority), "bank-a")
    for wrong, name, sentence in (
        (identity(authority), "bank-b", "the certificate is for bank-a, not for 'bank-b'"),
        (identity(authority), "Bank-A", "the certificate is for bank-a, not for 'Bank-A'"),
        (identity(authority, key=authority / "bank-b.key"), "bank-a", "the key does not belong to"),
        (identity(authority, authority=elsewhere / "ca.crt"), "bank-a", "did not issue this certificate"),
        (identity(authority, "old"), "old", "expired on"),
        (identity(authority, certificate=authority / "ca.crt", key=authority / "ca.key"), "ca", "for an authority"),
    ):
        with pytest.raises(CertificateError, match=sentence):
            certificates.check_identity(wrong, name)
    for mode in (0o640, 0o604):
        (authority / "bank-a.key").chmod(mode)
        with pytest.raises(CertificateError, match=f"chmod 600 {authority / 'bank-a.key'}"):
            certificates.check_identity(identity(authority), "bank-a")


def test_an_identity_of_tomorrow_or_of_an_ended_authority_is_refused(tmp_path, monkeypatch):
    certificate_authority.make_authority(tmp_path, "Test", 20)
    member(tmp_path, "bank-a", 365)

    class Clock(datetime):
        shift = timedelta()

        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + cls.shift

    monkeypatch.setattr(certificates, "datetime", Clock)
    certificates.check_identity(identity(tmp_path), "bank-a")
    for Clock.shift, sentence in (
        (timedelta(days=-1), "check the clock"),
        (timedelta(days=21), r"ca.crt: the certificate expired on"),
    ):
        with pytest.raises(CertificateError, match=sentence):
            certificates.check_identity(identity(tmp_path), "bank-a")


def test_a_revocation_takes_all_certificates_of_a_name_back_and_frees_it_for_a_new_key(authority):
    path, first = member(authority, "bank-a")
    second = certificate_authority.renew(authority, path, 400)
    stolen = path.read_bytes()
    member(authority, "bank-b")
    listed = certificate_authority.revoke(authority, "bank-a", 30)
    assert {entry.serial_number for entry in listed} == {first.serial_number, second.serial_number}
    with pytest.raises(CertificateError, match="the certificate for this key was revoked"):
        certificate_authority.issue(authority, authority / "bank-a.csr", 10)
    path.write_bytes(stolen)
    with pytest.raises(CertificateError, match="the certificate was revoked"):
        certificate_authority.renew(authority, path, 10)
    careful = identity(authority, revoked=authority / "ca.crl")
    with pytest.raises(CertificateError, match="the authority revoked this certificate"):
        certificates.check_identity(careful, "bank-a")
    certificates.check_identity(identity(authority, "bank-b", revoked=authority / "ca.crl"), "bank-b")
    for file in (path, authority / "bank-a.csr", authority / "bank-a.key"):
        file.unlink()
    member(authority, "bank-a")
    certificates.check_identity(careful, "bank-a")
    assert len(certificate_authority.revoke(authority, None, 60)) == 2
    with pytest.raises(CertificateError, match="no certificate for 'bank-c'"):
        certificate_authority.revoke(authority, "bank-c", 30)


def test_the_list_is_one_that_tls_libraries_understand(authority):
    """OpenSSL, given the list, refuses the revoked certificate in a handshake and takes the other."""
    member(authority, "bank-a")
    member(authority, "bank-b")
    (authority / "kept.crt").write_bytes((authority / "bank-a.crt").read_bytes())
    certificate_authority.revoke(authority, "bank-a", 30)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    for file in ("ca.crt", "ca.crl"):
        client.load_verify_locations(authority / file)

    def handshake(certificate, key):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(authority / certificate, authority / key)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
        for end in ends * 2:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()

    handshake("bank-b.crt", "bank-b.key")
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake("kept.crt", "bank-a.key")


def test_a_list_that_is_not_the_authoritys_or_out_of_date_is_refused(authority, tmp_path_factory):
    member(authority, "bank-a")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    certificate_authority.make_authority(elsewhere, "Test", 3650)
    certificate_authority.revoke(elsewhere, None, 30)
    careful = identity(authority, revoked=authority / "ca.crl")
    for make, sentence in (
        (
            lambda: (authority / "ca.crl").write_bytes((elsewhere / "ca.crl").read_bytes()),
            "the authority did not sign this revocation list",
        ),
        (lambda: (authority / "ca.crl").write_text("junk"), "expected a revocation list"),
        (lambda: [(authority / "ca.crl").unlink(), certificate_authority.revoke(authority, None, -1)], "out of date"),
    ):
        make()
        with pytest.raises(CertificateError, match=sentence):
            certificates.revoked_serials(careful)
    certificate_authority.revoke(authority, None, 1)
    assert certificates.revoked_serials(careful) == frozenset()


def test_a_list_that_is_missing_has_no_number_or_is_one_of_several_is_refused(authority):
    """Also by the authority itself, which would not know how to go on."""
    careful, first = identity(authority, revoked=authority / "ca.crl"), (authority / "ca.crl").read_bytes()
    certificate_authority.revoke(authority, None, 30)
    (authority / "ca.crl").write_bytes(first + (authority / "ca.crl").read_bytes())
    for work in (
        lambda: certificates.revoked_serials(careful),
        lambda: certificate_authority.revoke(authority, None, 30),
    ):
        with pytest.raises(CertificateError, match=r"ca.crl: the file contains more than one PEM block"):
            work()
    ca = certificates.read_certificate(authority / "ca.crt")
    plain = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(datetime.now(UTC))
    key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    signed = plain.next_update(datetime.now(UTC) + timedelta(days=9)).sign(key, hashes.SHA256())
    (authority / "ca.crl").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    for work in (
        lambda: certificates.revoked_serials(careful),
        lambda: certificate_authority.revoke(authority, None, 30),
    ):
        with pytest.raises(CertificateError, match=r"has no number; expected a list that `parley certs revoke` made"):
            work()
    (authority / "ca.crl").unlink()
    with pytest.raises(CertificateError, match=r"ca.crl: no such file; expected the authority's revocation list"):
        certificates.revoked_serials(careful)


@pytest.mark.parametrize("other", ["bank-b.crt", "bank-a.key", "foreign"])
def test_a_file_with_more_than_one_certificate_is_refused(authority, tmp_path_factory, other):
    """gRPC would trust every authority in it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    certificate_authority.make_authority(elsewhere, "Test", 3650)
    for name in ("bank-a", "bank-b"):
        member(authority, name)
    # OpenSSL reads it too
    foreign = (elsewhere / "ca.crt").read_bytes().replace(b" CERTIFICATE", b" TRUSTED CERTIFICATE")
    (authority / "foreign").write_bytes(foreign)
    (authority / "all.crt").write_bytes((authority / "ca.crt").read_bytes() + (authority / other).read_bytes())
    with pytest.raises(
        CertificateError, match=r"all.crt: the file contains more than one PEM block; expected only a certificate"
    ):
        certificates.check_identity(identity(authority, authority=authority / "all.crt"), "bank-a")


def test_an_authority_is_not_renewed_and_signs_nothing_after_its_end(authority, tmp_path_factory):
    before = sorted(authority.rglob("*"))
    with pytest.raises(CertificateError, match=r"ca.crt: an authority's own certificate cannot be renewed"):
        certificate_authority.renew(authority, authority / "ca.crt", 10)
    assert sorted(authority.rglob("*")) == before
    ended = tmp_path_factory.mktemp("ended")
    certificate_authority.make_authority(ended, "Test", -1)
    with pytest.raises(CertificateError, match=r"ca.crt: the certificate expired on .* needs a new authority"):
        member(ended, "bank-a")
    assert not list(ended.rglob("bank-a.crt"))


def test_no_certificate_outlives_its_authority(tmp_path):
    certificate_authority.make_authority(tmp_path, "Short", 20)
    _, issued = member(tmp_path, "bank-a", days=365)
    assert issued.not_valid_after_utc < datetime.now(UTC) + timedelta(days=21)


def test_strangers_and_junk_are_not_renewed(authority, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    certificate_authority.make_authority(elsewhere, "Test", 3650)
    foreign, _ = member(elsewhere, "bank-a")
    with pytest.raises(CertificateError, match="expected a certificate that this authority issued"):
        certificate_authority.renew(authority, foreign, 10)
    (authority / "junk.csr").write_text("junk")
    with pytest.raises(CertificateError, match="expected a certificate request"):
        certificate_authority.issue(authority, authority / "junk.csr", 10)
    with pytest.raises(CertificateError, match="expected a certificate in PEM"):
        certificates.read_certificate(authority / "junk.csr")


def test_an_ended_certificate_is_an_error(authority):
    path, _ = member(authority, "bank-a", days=-1)
    with pytest.raises(CertificateError, match="expired on"):
        certificates.expiry_warning(path)


def test_the_commands_speak_to_people(tmp_path):
    run = CliRunner()
    folder = str(tmp_path / "authority")
    assert "Give ca.crt and ca.crl to every member" in run.invoke(app, ["certs", "init", folder]).output
    asked = run.invoke(app, ["certs", "request", "bank-a", "--out", str(tmp_path)])
    looked = run.invoke(app, ["certs", "show", str(tmp_path / "bank-a.csr")]).output
    assert "a request for bank-a" in looked
    issued = run.invoke(app, ["certs", "issue", str(tmp_path / "bank-a.csr"), "--authority", folder])
    assert issued.exit_code == 0, issued.output
    line = next(line for line in asked.output.splitlines() if line.startswith("fingerprint"))
    assert line in looked
    assert line in issued.output
    renewed = run.invoke(app, ["certs", "renew", f"{folder}/bank-a.crt", "--authority", folder, "--days", "9"])
    assert "expires in 8 days" in renewed.output
    assert "for bank-a" in run.invoke(app, ["certs", "show", f"{folder}/bank-a.crt"]).output
    assert isinstance(run.invoke(app, ["certs", "init", folder]).exception, CertificateError)
    assert "revoked certificates: 2" in run.invoke(app, ["certs", "revoke", "bank-a", "--authority", folder]).output
    listed = run.invoke(app, ["certs", "revoke", "--authority", folder]).output
    assert "revoked certificates: 2" in listed
    assert "under [identity] of the member's settings" in listed
