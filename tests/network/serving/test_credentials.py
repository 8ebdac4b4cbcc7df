"""A certificate that is renewed, or a key that is replaced, while the daemon serves."""

import shutil
import signal
import socket
import ssl
import time

import pytest
from consortium import Consortium
from cryptography import x509

from parley.network.exchange.remote import RemoteOwner
from parley.network.identity import certificate_authority, certificates


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a")
    consortium.terms = consortium.write_terms(horizon=3)
    consortium.accept(consortium.terms)
    consortium.start()
    yield consortium
    consortium.close()


def shown(bank):
    """The certificate that a new line gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(bank.folder / "ca.crt")
    context.load_cert_chain(bank.folder / "learner.crt", bank.folder / "learner.key")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", bank.ports["a"]), 10) as line, context.wrap_socket(line) as tls:
        return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))


def until_said(bank, event, words=""):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = [line for line in bank.log("a") if line["event"] == event and words in str(line.get("reason", ""))]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no {event} {words}")


def test_a_renewed_certificate_is_shown_without_a_restart_and_open_lines_go_on(bank):
    first = certificates.read_certificate(bank.folder / "a.crt")
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    assert peer.statement(bank.terms.hash, "learner", 10).rounds == 3
    assert shown(bank) == first
    renewed = certificate_authority.renew(bank.folder, bank.folder / "a.crt", 100)
    assert shown(bank) == renewed  # at the very next handshake
    assert peer.statement(bank.terms.hash, "learner", 10).rounds == 3
    peer.close()
    fresh = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity(), certificates.fingerprint(first))
    assert fresh.statement(bank.terms.hash, "learner", 10).rounds == 3
    fresh.close()
    (said,) = until_said(bank, "renewed")
    assert said["fingerprint"] == certificates.fingerprint(first)
    assert said["ends"] == f"{renewed.not_valid_after_utc:%Y-%m-%d}"


def test_a_new_key_is_followed_once_both_files_are_there(bank):
    """In between, key and certificate do not belong together: the old pair is shown."""
    first = shown(bank)
    certificate_authority.revoke(bank.folder, "a", 30)
    new = bank.folder / "new"
    new.mkdir()
    certificate_authority.make_request(new, "a")
    _, certificate = certificate_authority.issue(bank.folder, new / "a.csr", 100)
    assert shown(bank) == first
    until_said(bank, "warning", "the certificate read before is shown")
    shutil.copy(new / "a.key", bank.folder / "a.key")
    assert shown(bank) == certificate
    assert bank.kill("a", signal.SIGTERM) == 0


@pytest.mark.parametrize("wrong", ["damaged", "foreign", "readable", "missing", "ended", "another authority"])
def test_new_files_that_do_not_fit_change_nothing_and_are_told_of(bank, wrong, tmp_path_factory):
    first, certificate, key = shown(bank), bank.folder / "a.crt", bank.folder / "a.key"
    other = tmp_path_factory.mktemp("other")
    certificate_authority.make_authority(other, "Other", 100)
    certificate_authority.make_request(other, "a")
    certificate_authority.issue(other, other / "a.csr", 50)
    words = {
        "damaged": "expected a certificate in PEM form",
        "foreign": "did not issue this certificate",
        "readable": "other accounts may read this key",
        "missing": "no such file",
        "ended": "expired on",
        "another authority": "the authority changed; restart the daemon",
    }[wrong]
    authority = (bank.folder / "ca.crt").read_bytes()
    if wrong == "damaged":
        certificate.write_text("damaged")
    elif wrong == "foreign":
        shutil.copy(other / "a.crt", certificate)
    elif wrong == "readable":
        key.chmod(0o644)
        certificate_authority.renew(bank.folder, certificate, 100)
    elif wrong == "missing":
        certificate.unlink()
    elif wrong == "ended":
        certificate_authority.renew(bank.folder, certificate, -1)
    else:
        for file in ("a.crt", "ca.crl", "ca.crt"):
            shutil.copy(other / file, bank.folder / file)
        shutil.copy(other / "a.key", key)
    until_said(bank, "warning", words)
    (bank.folder / "ca.crt").write_bytes(authority)  # what this test trusts; the daemon trusts it all along
    assert shown(bank) == first
