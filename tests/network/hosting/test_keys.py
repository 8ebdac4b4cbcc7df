"""The authority certifies somebody else under a host's name. Where the terms or the settings give the host's key nobody falls for it."""

import shutil
from pathlib import Path

import pytest
from consortium import ask, parley_process
from hosted_consortium import HostedConsortium

from parley.errors import CertificateError, ParleyError, SettingError, TermsError, UnknownTerms
from parley.learning.connections import find_hosts
from parley.network.exchange.delivery import answer_or_deliver
from parley.network.exchange.host_lines import HostLines, host_key
from parley.network.exchange.remote_host import RemoteHost
from parley.network.hosting.offer import consider
from parley.network.identity import certificate_authority, signing_requests
from parley.network.identity.settings import Identity, Pinned, load_host, load_owner
from parley.network.serving.daemon import open_delivery, open_owner
from parley.terms import Host


@pytest.fixture
def consortium(tmp_path):
    made = HostedConsortium(tmp_path)
    yield made
    made.close()


def impostor(consortium: HostedConsortium, name: str) -> Identity:
    """A certificate of the same authority for the same name, of another key."""
    folder: Path = consortium.folder / "impostor"
    folder.mkdir()
    for file in ("ca.crt", "ca.key", "ca.crl"):
        shutil.copy(consortium.folder / file, folder)
    signing_requests.make_request(folder, name)
    certificate_authority.issue(folder, folder / f"{name}.csr", 365)
    return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def start_impostor(consortium: HostedConsortium, name: str, identity: Identity) -> None:
    """A daemon at the host's own address, with its settings and acceptances and the other key."""
    settings = (consortium.folder / f"{name}.toml").read_text()
    for file in (identity.certificate, identity.key):
        settings = settings.replace(f'"{file.name}"', f'"{file}"')
    (consortium.folder / "false.toml").write_text(settings)
    log = consortium.folder / f"{name}.log"
    log.touch()
    consortium.daemons[name] = parley_process(["host", "serve", str(consortium.folder / "false.toml")], log, log)
    consortium.wait_for(name, "serving")


def test_keys_in_the_terms_let_a_run_pass_through(consortium):
    consortium.pin()  # both places at once: they agree
    terms = consortium.write_terms(horizon=2, epsilon=5.0, keys=consortium.keys())
    consortium.accept(terms)
    consortium.start_hosts()
    consortium.start()
    assert [owner["answers"] for owner in consortium.learn()["owners"]] == [2, 2, 2]


@pytest.mark.parametrize("place", ["terms", "settings", "nowhere"])
def test_a_host_of_the_same_name_with_another_key_is_refused_by_everybody(consortium, place):
    keys = consortium.keys() if place == "terms" else None
    if place == "settings":
        consortium.pin()
    terms = consortium.write_terms(horizon=2, epsilon=5.0, keys=keys)
    consortium.accept(terms)
    false = impostor(consortium, "h1")
    consortium.start_hosts("h0", "h2")
    start_impostor(consortium, "h1", false)
    settings, query = load_owner(consortium.folder / "a.toml"), ask(terms)
    owner, delivery = open_owner(settings), open_delivery(settings)
    owner.accept(terms)
    learner = find_hosts(terms, consortium.folder / "addresses.toml")[1]
    calls = RemoteHost("h0", f"127.0.0.1:{consortium.host_ports['h0']}", false)
    peer = HostLines(load_host(consortium.folder / "h0.toml").peers, consortium.identity("h0"), "peers").line(terms.hosts[1])
    to_it = [
        lambda: answer_or_deliver(owner, query, delivery),  # the owner hands it a parcel
        lambda: learner.open(terms.hash, 1, query.content, 3, 5),  # the learner asks it
        lambda: peer.propose(terms.hash, 1, query.content, 5),  # another host does
        lambda: peer.carry(terms.hash, "0" * 64, 0, b"", 1),
    ]
    from_it = [  # it calls another host
        lambda: calls.propose(terms.hash, 1, query.content, 5),
        lambda: calls.record(terms.hash, 1, 5),
        lambda: calls.carry(terms.hash, "0" * 64, 0, b"", 1),
    ]
    try:
        refused = [_refusal(call) for call in to_it], [_refusal(call) for call in from_it]
    finally:
        delivery.close()
        for line in (learner, calls, peer):
            line.close()
        owner.ledger.close()
    log = (consortium.folder / "h1.log").read_text()
    if place == "nowhere":  # what pins are for: it is a host like any other, and has the owner's parcel
        assert CertificateError not in refused[0]
        assert UnknownTerms not in refused[1]
        assert '"parcel"' in log
    else:
        assert refused == ([CertificateError] * 4, [UnknownTerms] * 3)
        assert '"parcel"' not in log
        assert '"session"' not in log  # nobody draws noise with it


def _refusal(call) -> type | None:
    try:
        call()
    except ParleyError as error:
        return type(error)
    return None


def test_settings_that_contradict_the_terms_are_refused_before_anything_is_debited(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0, keys={**consortium.keys(), "h1": "0" * 64})
    consortium.pin()
    consortium.accept(terms)
    settings = load_owner(consortium.folder / "a.toml")
    owner, delivery = open_owner(settings), open_delivery(settings)
    owner.accept(terms)
    with pytest.raises(SettingError, match=r"hosts: h1: the fingerprint is .*, the terms say 0000"):
        answer_or_deliver(owner, ask(terms), delivery)
    assert owner.ledger.account(terms.hash).answers == 0
    delivery.close()
    owner.ledger.close()
    with pytest.raises(SettingError, match="the terms say 0000"):
        find_hosts(terms, consortium.folder / "addresses.toml")
    with pytest.raises(SettingError, match="the terms say 0000"):
        consider(terms, load_host(consortium.folder / "h0.toml"))
    with pytest.raises(CertificateError, match="the terms give 'h1' the key 0000"):
        consider(terms, load_host(consortium.folder / "h1.toml"))


def test_a_key_is_part_of_the_terms_and_without_one_their_hash_is_as_it_was(consortium):
    keys = consortium.keys()
    plain, keyed = consortium.write_terms(horizon=2), consortium.write_terms(horizon=2, keys=keys)
    assert '"hosts":[{"name":"h0"},{"name":"h1"},{"name":"h2"}]' in plain.canonical
    assert plain.hash != keyed.hash != consortium.write_terms(horizon=2, keys={"h0": keys["h0"]}).hash
    spaced = {name: " ".join((key[:32].upper(), key[32:])) for name, key in keys.items()}
    assert consortium.write_terms(horizon=2, keys=spaced).hash == keyed.hash
    assert keyed.changed(hosts=["h2", "h0", "other"]).hosts[0].key == keys["h2"]
    with pytest.raises(TermsError, match=r"hosts.h0.key = 'abc': expected 64 hexadecimal digits"):
        consortium.write_terms(horizon=2, keys={"h0": "abc"})
    with pytest.raises(TermsError, match="different keys"):
        consortium.write_terms(horizon=2, keys={"h0": keys["h0"], "h1": keys["h0"]})


def test_a_key_in_one_place_is_enough():
    pinned = Pinned(address="h:1", fingerprint="a" * 64)
    assert host_key(Host(name="h"), {"h": "h:1"}, "hosts") is None
    assert host_key(Host(name="h"), {"h": pinned}, "hosts") == "a" * 64
    assert host_key(Host(name="h", key="b" * 64), {"h": "h:1"}, "hosts") == "b" * 64
    assert host_key(Host(name="h", key="a" * 64), {"h": pinned}, "hosts") == "a" * 64
    with pytest.raises(SettingError):
        host_key(Host(name="h", key="b" * 64), {"h": pinned}, "hosts")
