"""Certificates decide who may ask and who may answer: names, keys, ends, revocations and pins, between real
processes."""

import signal
import time
import types
from io import StringIO

import grpc
import pytest
from consortium import ask
from cryptography.hazmat.primitives import serialization

from parley.errors import CertificateError, Refusal, Unavailable, UnknownTerms
from parley.network.exchange import messages
from parley.network.exchange.remote import RemoteOwner, channel_credentials
from parley.network.identity import certificate_authority, certificates
from parley.network.serving.log import Log
from parley.network.serving.server import authenticate


def foreign_member(folder, name):
    certificate_authority.make_authority(folder, "Test", 3650)
    certificate_authority.make_request(folder, name)
    certificate_authority.issue(folder, folder / f"{name}.csr", 365)


def test_certificates_decide_who_may_ask_and_who_may_answer(banks, tmp_path_factory):
    terms = banks.write_terms()
    banks.accept(terms)
    banks.start("a", "b")
    address = f"127.0.0.1:{banks.ports['a']}"

    def statement(identity, owner="a", at=address):
        peer = RemoteOwner(owner, at, identity)
        try:
            return peer.statement(terms.hash, "learner", 3)
        finally:
            peer.close()

    assert statement(banks.identity()).rounds == 8
    with pytest.raises(UnknownTerms):  # a member, but not the learner of these terms
        statement(banks.identity("b"))
    foreign = tmp_path_factory.mktemp("foreign")
    foreign_member(foreign, "learner")
    with pytest.raises(Unavailable):  # the right name, signed by a stranger that the owner does not trust
        statement(
            banks.identity().model_copy(update={"certificate": foreign / "learner.crt", "key": foreign / "learner.key"})
        )
    with pytest.raises(Unavailable):  # an owner that is not of the authority the learner trusts
        statement(banks.identity().model_copy(update={"authority": foreign / "ca.crt"}))
    with pytest.raises(Unavailable):  # b at a's address cannot pass for a
        statement(banks.identity(), at=f"127.0.0.1:{banks.ports['b']}")
    certificate_authority.make_request(banks.folder, "late")
    (banks.folder / "late.crt").write_bytes(banks.folder.joinpath("learner.crt").read_bytes())
    certificate_authority.renew(banks.folder, banks.folder / "late.crt", -1)
    with pytest.raises(Unavailable):  # the learner's own key, but expired
        statement(banks.identity().model_copy(update={"certificate": banks.folder / "late.crt"}))
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{messages.SERVICE}/Health")(b"", timeout=3)
    with grpc.secure_channel(
        address, channel_credentials(banks.identity()), options=[("grpc.ssl_target_name_override", "a")]
    ) as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(f"/{messages.SERVICE}/Ask")(bytes(messages.MAX_MESSAGE_BYTES + 1), timeout=10)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert messages.read_health(channel.unary_unary(f"/{messages.SERVICE}/Health")(b"", timeout=3)) == "a"
    assert banks.spent(terms) == dict.fromkeys("abc", 0)
    (banks.folder / "learner.crt").write_bytes((banks.folder / "late.crt").read_bytes())
    assert "expired on" in banks.fail()


def until_reached(peer, terms):
    """What the owner says once its line is up again, as a learner hears it: it asks again while that may help."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            return peer.statement(terms.hash, "learner", 3)
        except Unavailable:
            time.sleep(0.05)
    raise AssertionError("not reached")


def test_a_pinned_owner_is_known_by_its_key_through_renewals_and_nobody_else_passes_for_it(bank):
    """Also not who takes its place, with a certificate of the authority for its name, after it was looked at."""
    terms, address = bank.write_terms(), f"127.0.0.1:{bank.ports['a']}"
    bank.accept(terms)
    bank.start()
    honest = certificates.fingerprint(certificates.read_certificate(bank.folder / "a.crt"))
    pinned, plain = RemoteOwner("a", address, bank.identity(), honest), RemoteOwner("a", address, bank.identity())
    assert until_reached(pinned, terms).rounds == 8
    bank.kill("a")
    certificate_authority.renew(bank.folder, bank.folder / "a.crt", 100)
    bank.start()
    assert until_reached(pinned, terms).rounds == 8
    certificate, key = ((bank.folder / f"a.{kind}").read_bytes() for kind in ("crt", "key"))
    bank.kill("a")
    revoked = certificate_authority.revoke(bank.folder, "a", 30)
    for kind in ("key", "csr"):
        (bank.folder / f"a.{kind}").unlink()
    certificate_authority.make_request(bank.folder, "a")
    certificate_authority.issue(bank.folder, bank.folder / "a.csr", 100)
    bank.start()
    assert until_reached(plain, terms).rounds == 8
    with pytest.raises(CertificateError, match=f"expected {honest[:16]}"):
        until_reached(pinned, terms)
    bank.kill("a")
    (bank.folder / "a.crt").write_bytes(certificate)
    (bank.folder / "a.key").write_bytes(key)
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace("revoked =", "# revoked ="))
    bank.start()  # the thief of the old key, who does not ask whether it was revoked
    careful = RemoteOwner("a", address, bank.identity(), revoked=frozenset(entry.serial_number for entry in revoked))
    with pytest.raises(CertificateError, match="the authority revoked the certificate"):
        until_reached(careful, terms)
    for peer in (pinned, plain, careful):
        peer.close()


def test_a_pin_in_the_addresses_is_kept_by_the_command(bank):
    terms = bank.write_terms()
    bank.accept(terms)
    bank.start()
    honest = certificates.grouped(certificates.fingerprint(certificates.read_certificate(bank.folder / "a.crt")))
    pin = '{{ address = "127.0.0.1:{}", fingerprint = "{}" }}'
    bank.write_addresses(a=pin.format(bank.ports["a"], "0" * 64))
    assert "expected 0000000000000000…" in bank.fail()
    bank.write_addresses(a=pin.format(bank.ports["a"], "abc"))
    assert "owners.a.pinned.fingerprint" in bank.fail()
    assert bank.spent(terms) == {"a": 0}
    bank.write_addresses(a=pin.format(bank.ports["a"], honest.upper()))
    assert bank.learn()["theta"] == bank.replay(terms)


def test_a_revoked_learner_is_turned_away_by_a_daemon_that_runs(bank):
    terms = bank.write_terms()
    bank.accept(terms)
    bank.start()
    (bank.folder / "thief.crt").write_bytes((bank.folder / "learner.crt").read_bytes())
    identity = bank.identity().model_copy(update={"certificate": bank.folder / "thief.crt"})
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", identity)
    assert peer.ask(ask(terms), 60, 3, 10).answer.owner == "a"
    empty = (bank.folder / "ca.crl").read_bytes()
    certificate_authority.revoke(bank.folder, "learner", 30)
    with pytest.raises(Refusal, match="the authority revoked this certificate"):  # on the line that was open before
        peer.ask(ask(terms), 60, 3, 10)
    (bank.folder / "ca.crl").write_bytes(empty)
    with pytest.raises(Refusal, match="revoked"):
        peer.statement(terms.hash, "learner", 10)
    (bank.folder / "ca.crl").write_text("damaged")
    with pytest.raises(Refusal, match="revoked"):
        peer.statement(terms.hash, "learner", 10)
    peer.close()
    bank.kill("a", signal.SIGTERM)
    assert [line["caller"] for line in bank.log("a") if line["event"] == "revoked"] == ["learner"]  # said once a minute
    assert [
        str(line["reason"]).rpartition(";")[0] for line in bank.log("a") if "stays in force" in str(line.get("reason"))
    ] == [
        f"{bank.folder}/ca.crl: this revocation list is not newer than the list in force; ask the authority for its "
        f"latest ca.crl",
        f"{bank.folder}/ca.crl: expected a revocation list in PEM form; ask the authority for its ca.crl",
    ]
    with pytest.raises(AssertionError, match="expected a revocation list"):
        bank.start()


def test_a_certificate_that_ends_on_an_open_line_is_turned_away(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    certificate_authority.make_request(bank.folder, "brief")
    _, brief = certificate_authority.issue(bank.folder, bank.folder / "brief.csr", 30)
    pem = brief.public_bytes(serialization.Encoding.PEM)

    class Context:
        def auth_context(self):
            return {"x509_pem_cert": [pem]}

        def peer(self):
            return "unix:/run/parley-door-x/7"

        def abort(self, code, sentence):
            raise PermissionError(sentence)

    revocations = types.SimpleNamespace(revokes=lambda certificate: False)
    lines = types.SimpleNamespace(origin={"/run/parley-door-x/7": ("192.0.2.1", 7)}.get)
    caller = authenticate(Context(), revocations, None, lines)
    assert (caller.names, caller.peer) == (("brief",), "192.0.2.1:7")
    with pytest.raises(PermissionError, match="own port"):
        authenticate(Context(), revocations, None, types.SimpleNamespace(origin=lambda place: None))
    later = brief.not_valid_after_utc.timestamp() + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parley.network.serving.server.time", types.SimpleNamespace(time=lambda: later))
        with Log(StringIO()) as log, pytest.raises(PermissionError, match="expired"):
            authenticate(Context(), revocations, log, lines)
