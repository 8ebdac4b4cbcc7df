import stat
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import CertificateError
from parley.exchange import certificates


@pytest.fixture
def authority(tmp_path):
    certificates.make_authority(tmp_path, "Test", 3650)
    return tmp_path


def member(authority, name, days=365):
    certificates.make_request(authority, name)
    return certificates.issue(authority, authority / f"{name}.csr", days)


def test_a_certificate_says_its_name_and_keeps_its_fingerprint_through_a_renewal(authority):
    request = certificates.make_request(authority, "bank-a")
    path, issued = certificates.issue(authority, authority / "bank-a.csr", 10)
    assert certificates.names(issued) == ("bank-a",)
    assert certificates.fingerprint(issued) == certificates.fingerprint(request)
    assert "expires in 9 days" in certificates.expiry_warning(path)
    renewed = certificates.renew(authority, path, 400)
    assert certificates.fingerprint(renewed) == certificates.fingerprint(issued)
    assert renewed.not_valid_after_utc > issued.not_valid_after_utc
    assert certificates.expiry_warning(path) is None


def test_private_keys_are_for_their_owner_alone(authority):
    member(authority, "bank-a")
    for key in authority.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_nothing_is_overwritten_and_a_name_is_issued_once(authority):
    member(authority, "bank-a")
    before = {path: path.read_bytes() for path in authority.iterdir()}
    with pytest.raises(CertificateError, match="exists already"):
        certificates.make_authority(authority, "Again", 10)
    with pytest.raises(CertificateError, match="exists already"):
        certificates.make_request(authority, "bank-a")
    with pytest.raises(CertificateError, match="a certificate for 'bank-a' exists"):
        certificates.issue(authority, authority / "bank-a.csr", 10)
    assert {path: path.read_bytes() for path in authority.iterdir()} == before
    certificates.make_request(authority, "BANK-A")
    with pytest.raises(CertificateError, match="exists"):
        certificates.issue(authority, authority / "BANK-A.csr", 10)


@pytest.mark.parametrize("name", ["", "ca", "CA", "a b", "../a", "*.bank", "x" * 101, "bänk"])
def test_names_are_those_of_the_terms(tmp_path, name):
    with pytest.raises(CertificateError, match="expected letters"):
        certificates.make_request(tmp_path, name)
    assert not list(tmp_path.iterdir())


def test_no_certificate_outlives_its_authority(tmp_path):
    certificates.make_authority(tmp_path, "Short", 20)
    _, issued = member(tmp_path, "bank-a", days=365)
    assert issued.not_valid_after_utc < datetime.now(UTC) + timedelta(days=21)


def test_strangers_and_junk_are_not_renewed(authority, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    certificates.make_authority(elsewhere, "Test", 3650)
    foreign, _ = member(elsewhere, "bank-a")
    with pytest.raises(CertificateError, match="not a certificate of this authority"):
        certificates.renew(authority, foreign, 10)
    (authority / "junk.csr").write_text("junk")
    with pytest.raises(CertificateError, match="not a certificate request"):
        certificates.issue(authority, authority / "junk.csr", 10)
    with pytest.raises(CertificateError, match="not a certificate in PEM"):
        certificates.read_certificate(authority / "junk.csr")


def test_an_ended_certificate_is_an_error(authority):
    path, _ = member(authority, "bank-a", days=-1)
    with pytest.raises(CertificateError, match="expired on"):
        certificates.expiry_warning(path)


def test_the_commands_speak_to_people(tmp_path):
    run = CliRunner()
    folder = str(tmp_path / "authority")
    assert "Give ca.crt to every member" in run.invoke(app, ["certs", "init", folder]).output
    asked = run.invoke(app, ["certs", "request", "bank-a", "--out", str(tmp_path)])
    issued = run.invoke(app, ["certs", "issue", str(tmp_path / "bank-a.csr"), "--authority", folder])
    assert issued.exit_code == 0, issued.output
    line = next(line for line in asked.output.splitlines() if line.startswith("fingerprint"))
    assert line in issued.output
    renewed = run.invoke(app, ["certs", "renew", f"{folder}/bank-a.crt", "--authority", folder, "--days", "9"])
    assert "expires in 8 days" in renewed.output
    assert "for bank-a" in run.invoke(app, ["certs", "show", f"{folder}/bank-a.crt"]).output
    assert isinstance(run.invoke(app, ["certs", "init", folder]).exception, CertificateError)
