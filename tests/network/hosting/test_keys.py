"""The authority certifies somebody else under a host's name. Where the terms or the settings give the host's key nobody
falls for it."""

import shutil
from pathlib import Path

import pytest
from consortium import ask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from forked import parley_process
from hosted_consortium import HostedConsortium

from parley.errors import CertificateError, ParleyError, SettingError, TermsError, UnknownTerms
from parley.learning.deployed import find_hosts
from parley.network.exchange.host_connections import HostConnections, RemoteHost, host_key
from parley.network.exchange.share_bundle import answer_or_deliver
from parley.network.hosting.offer import consider
from parley.network.hosting.proposal import assignment_of
from parley.network.hosting.service import HostedAgreement
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import grouped, read_certificate, read_key
from parley.network.identity.settings import Identity, Pinned, load_addresses, load_host, load_owner
from parley.network.serving.acceptance import Caller
from parley.network.serving.daemon import open_delivery, open_owner
from parley.network.serving.offer import consider as consider_as_owner
from parley.protocol.setup import resolve
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
    certificate_authority.make_request(folder, name)
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
    connections = HostConnections(load_host(consortium.folder / "h0.toml").peers, consortium.identity("h0"), "peers")
    peer = connections.group(terms.hosts, "h0").connections["h1"]
    to_it = [
        lambda: answer_or_deliver(owner, query, delivery),  # the owner hands it a share bundle
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
    if place == "nowhere":  # what pins are for: it is a host like any other, and has the owner's share bundle
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
    with pytest.raises(SettingError, match=r"hosts: h1: the fingerprint is .*, but the terms state 0000"):
        answer_or_deliver(owner, ask(terms), delivery)
    assert owner.ledger.account(terms.hash).answers == 0
    delivery.close()
    owner.ledger.close()
    with pytest.raises(SettingError, match="the terms state 0000"):
        find_hosts(terms, consortium.folder / "addresses.toml")
    with pytest.raises(SettingError, match="the terms state 0000"):
        consider(terms, load_host(consortium.folder / "h0.toml"))
    with pytest.raises(CertificateError, match=r"the terms state the key 0000.* for 'h1'"):
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
    with pytest.raises(TermsError, match="a different key for each host"):
        consortium.write_terms(horizon=2, keys={"h0": keys["h0"], "h1": keys["h0"]})


def two_names(consortium: HostedConsortium, name: str, *more: str) -> None:
    """Another authority, such as a company's own, may put several names onto one certificate of a host's key."""
    folder = consortium.folder
    ca, key = read_certificate(folder / "ca.crt"), read_key(folder / "ca.key")
    old = read_certificate(folder / f"{name}.crt")
    builder = x509.CertificateBuilder().subject_name(old.subject).issuer_name(ca.subject).public_key(old.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(old.not_valid_before_utc)
    builder = builder.not_valid_after(old.not_valid_after_utc)
    for extension in old.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            builder = builder.add_extension(extension.value, extension.critical)
    both = x509.SubjectAlternativeName([x509.DNSName(each) for each in (name, *more)])
    made = builder.add_extension(both, critical=False).sign(key, hashes.SHA256())
    (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))


def same_key(consortium: HostedConsortium, name: str, other: str) -> None:
    """One organisation with one key, certified under two hosts' names."""
    folder = consortium.folder
    shutil.copy(folder / f"{other}.key", folder / f"{name}.key")
    ca, key, old = (
        read_certificate(folder / "ca.crt"),
        read_key(folder / "ca.key"),
        read_certificate(folder / f"{name}.crt"),
    )
    builder = x509.CertificateBuilder().subject_name(old.subject).issuer_name(ca.subject)
    builder = builder.public_key(read_key(folder / f"{other}.key").public_key()).serial_number(
        x509.random_serial_number()
    )
    builder = builder.not_valid_before(old.not_valid_before_utc).not_valid_after(old.not_valid_after_utc)
    for extension in old.extensions:
        if not isinstance(extension.value, x509.SubjectKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    (folder / f"{name}.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


@pytest.mark.parametrize("way", ["two names", "one key"])
def test_without_pins_nobody_is_two_hosts(consortium, way):
    """One machine at two hosts' addresses got two of three shares of every answer, and its owner noticed nothing."""
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    if way == "two names":
        two_names(consortium, "h1", "h2")
        for end in ("crt", "key"):
            shutil.copy(consortium.folder / f"h1.{end}", consortium.folder / f"h2.{end}")
    else:
        same_key(consortium, "h2", "h1")
    consortium.start_hosts()
    settings, query = load_owner(consortium.folder / "a.toml"), ask(terms)
    owner, delivery = open_owner(settings), open_delivery(settings)
    owner.accept(terms)
    learner = find_hosts(terms, consortium.folder / "addresses.toml")
    try:
        with pytest.raises(CertificateError, match="a party that is two hosts can read every answer"):
            answer_or_deliver(owner, query, delivery)
        refused = [_refusal(lambda line=line: line.open(terms.hash, 1, query.content, 3, 5)) for line in learner]
        assert CertificateError in refused
    finally:
        delivery.close()
        for line in learner:
            line.close()
        owner.ledger.close()
    bundles = [(consortium.folder / f"{name}.log").read_text().count('"parcel"') for name in ("h1", "h2")]
    assert min(bundles) == 0  # whoever it is has one share that is not its own at most
    assert '"event": "session"' not in (consortium.folder / "h0.log").read_text()  # nor does h0 draw noise with it


def test_a_caller_that_is_two_hosts_is_none(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    connections = HostConnections(load_host(consortium.folder / "h0.toml").peers, consortium.identity("h0"), "peers")
    group = connections.group(terms.hosts, "h0")
    setup = resolve(terms)
    hosted = HostedAgreement(None, assignment_of(setup), None, None, group, setup.numbers)
    keys = consortium.keys()
    assert [hosted.other_host(Caller((name,), keys[name])) for name in ("h1", "h2", "h0")] == [1, 2, None]
    assert hosted.other_host(Caller(("a",), "another")) is None
    assert hosted.other_host(Caller(("h1", "a"), keys["h1"])) == 1  # a host may be an owner
    for names, key in (
        (("h1", "h2"), keys["h1"]),
        (("h0", "h1"), keys["h1"]),
        (("h1",), keys["h2"]),
        (("h1",), keys["h0"]),
    ):
        assert hosted.other_host(Caller(names, key)) is None
    connections.close()


def test_one_key_for_two_hosts_is_refused_wherever_it_is_written(consortium):
    keys, folder = consortium.keys(), consortium.folder
    consortium.pin()
    for file in ("a.toml", "h0.toml", "addresses.toml"):
        before = (folder / file).read_text()
        (folder / file).write_text(before.replace(grouped(keys["h2"]), grouped(keys["h1"])))
        load = {"a.toml": load_owner, "h0.toml": load_host}.get(file, load_addresses)
        with pytest.raises(SettingError, match="expected different fingerprints: h1 and h2 have the same"):
            load(folder / file)
        (folder / file).write_text(
            before.replace(f'h2 = {{ address = "127.0.0.1:{consortium.host_ports["h2"]}", fingerprint', "#")
        )
    terms = consortium.write_terms(horizon=2, epsilon=5.0, keys={"h2": keys["h1"]})  # here and there
    with pytest.raises(SettingError, match="h1 and h2 have the same key"):
        consider(terms, load_host(folder / "h0.toml"))
    with pytest.raises(SettingError, match="h1 and h2 have the same key"):
        consider_as_owner(terms, load_owner(folder / "a.toml"))
    mine = consortium.write_terms(horizon=2, epsilon=5.0, keys={"h2": keys["h0"]})
    with pytest.raises(SettingError, match="have the same key"):
        consider(mine, load_host(folder / "h0.toml"))
    two_names(consortium, "h0", "h1")
    with pytest.raises(CertificateError, match="the certificate also names the host 'h1'"):
        consider(consortium.write_terms(horizon=2, epsilon=5.0), load_host(folder / "h0.toml"))


def test_a_key_in_one_place_is_enough():
    pinned = Pinned(address="h:1", fingerprint="a" * 64)
    assert host_key(Host(name="h"), {"h": "h:1"}, "hosts") is None
    assert host_key(Host(name="h"), {"h": pinned}, "hosts") == "a" * 64
    assert host_key(Host(name="h", key="b" * 64), {"h": "h:1"}, "hosts") == "b" * 64
    assert host_key(Host(name="h", key="a" * 64), {"h": pinned}, "hosts") == "a" * 64
    with pytest.raises(SettingError):
        host_key(Host(name="h", key="b" * 64), {"h": pinned}, "hosts")
