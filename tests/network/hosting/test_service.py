"""A host's service without a network: who may call what, what is said of anything else, terms that come later, its
command line."""

import io
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from bank_and_shop import joined_terms
from hosted_consortium import HostedConsortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import BrokenChainError, ExchangeError, LedgerError, SettingError, Unavailable, UnknownTerms
from parley.network.exchange import host_connections as messages
from parley.network.exchange.host_connections import HostConnections, RemoteHost
from parley.network.exchange.remote import RemoteOwner
from parley.network.exchange.share_bundle import Opening, Shape, ShareBundle, pack
from parley.network.hosting import federation as waiting
from parley.network.hosting import service as room
from parley.network.hosting.daemon import Readiness
from parley.network.hosting.federation import SharedFederation
from parley.network.hosting.journal import Journal
from parley.network.hosting.service import HostService
from parley.network.identity.certificates import Signer
from parley.network.identity.settings import load_host
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.log import Log
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import Ends, SignedEnd, end_texts
from parley.privacy.sharing.ring import Shares
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve


@pytest.fixture
def consortium(tmp_path):
    return HostedConsortium(tmp_path)


@pytest.fixture
def made(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    settings = load_host(consortium.folder / "h1.toml")
    journal, log = Journal(settings.journal), io.StringIO()
    lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
    service = HostService("h1", journal, Acceptances(settings.accepted), lines, Log(log))
    service.prepare()
    yield service, terms
    service.close()
    lines.close()
    journal.close()


def refused(reply):
    with pytest.raises(parley.errors.Refusal) as refusal:
        messages.read_done(reply, "h1")
    return type(refusal.value)


def test_strangers_are_turned_away_unread(made):
    service, _ = made
    assert refused(service.rejection(Caller(("mallory",)))) is UnknownTerms
    for known in ("learner", "a", "b", "c", "h0", "h2"):
        assert service.rejection(Caller((known,), f"key of {known}")) is None


def test_while_a_host_begins_parties_are_asked_to_come_again(consortium):
    """It takes a while to read public trees: whoever called meanwhile was told that nobody knows it, and gave up."""
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    settings = load_host(consortium.folder / "h1.toml")
    journal = Journal(settings.journal)
    lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
    service = HostService("h1", journal, Acceptances(settings.accepted), lines, Log(io.StringIO()))
    assert refused(service.rejection(Caller(("a",), "key of a"))) is Unavailable
    service.prepare()
    assert service.rejection(Caller(("a",), "key of a")) is None
    assert refused(service.rejection(Caller(("mallory",)))) is UnknownTerms
    service.close()
    lines.close()
    journal.close()


@pytest.mark.parametrize("method", ["Deliver", "Open", "Propose", "Record", "Carry", "Witness"])
def test_no_bytes_get_more_than_a_refusal(made, method):
    service, terms = made
    rng = random.Random(method)
    service.hosted[0].host._patience = 0.001
    question = messages.write_question(terms.hash, 1, "0" * 64)
    for caller in (Caller(("learner",)), Caller(("a",)), Caller(("h0",), "key of h0"), Caller(("mallory",)), Caller()):
        for _ in range(60):
            content = bytearray(rng.choice([question, rng.randbytes(rng.randrange(80))]))
            for _ in range(rng.randrange(4)):
                if content:
                    content[rng.randrange(len(content))] = rng.randrange(256)
            reply = service.methods[method](bytes(content), caller, lambda: False)
            with pytest.raises(parley.errors.Refusal):
                messages.read_done(reply, "h1")
    assert service.hosted[0].host._journal.counts(terms.hash) == {"begin": 1}


def told(consortium, terms, name, kind, book="b" * 64):
    """What a party says about the end of its own book."""
    end = SignedEnd(name, kind, terms.hash, book, Head(3, "d" * 64))
    signed = replace(end, signature=Signer(consortium.identity(name)).sign(*end_texts(end)))
    return messages.write_ends(Ends(terms.hash, signed))


def test_ends_are_kept_of_the_owners_and_other_hosts_that_call(made, consortium):
    service, terms = made
    callers = {"a": ("ledger", "owner"), "h0": ("journal", "host")}
    for name, (kind, _) in callers.items():
        caller = Caller((name,), f"key of {name}")
        reply = service.witness(told(consortium, terms, name, kind), caller, lambda: False)
        ends = messages.read_ends_reply(reply, "h1")
        assert (ends.own.party, ends.own.kind, ends.kept.witness) == ("h1", "journal", "h1")
        assert service._journal.witnessed.kept(name, kind, terms.hash).head == Head(3, "d" * 64)
    refusals = [
        ("learner", "ledger", "learner"),  # it has no book
        ("a", "ledger", "b"),  # another owner's
        ("a", "journal", "a"),  # an owner that is no host
        ("h0", "ledger", "h0"),  # a host that is no owner
        ("h0", "journal", "h1"),  # this host itself
        ("a", "ledger", "h0"),
    ]
    for name, kind, caller in refusals:
        reply = service.witness(
            told(consortium, terms, name, kind), Caller((caller,), f"key of {caller}"), lambda: False
        )
        with pytest.raises(UnknownTerms):
            messages.read_ends_reply(reply, "h1")
    forged = told(consortium, terms, "a", "ledger").replace(b"d" * 64, b"e" * 64)
    with pytest.raises(parley.errors.Malformed):
        messages.read_ends_reply(service.witness(forged, Caller(("a",), "key of a"), lambda: False), "h1")
    assert service._journal.witnessed.kept("b", "ledger", terms.hash) is None


def test_a_host_expects_messages_as_long_as_an_owners_table(consortium):
    """Whoever sends more bytes than the longest message is cut off."""
    terms = joined_terms(300_000, 100, hosts=[{"name": name} for name in consortium.hosts])
    settings = load_host(consortium.folder / "h1.toml")
    journal, accepted = Journal(settings.journal), Acceptances(settings.accepted)
    journal.begin(terms.hash)
    accepted.store(Acceptance(terms))
    lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
    service = HostService("h1", journal, accepted, lines, Log(io.StringIO()))
    service.prepare()
    assert [hosted.assignment.longest_share for hosted in service.hosted] == [8 * 300_000 * 3]
    assert service.longest_message > 8 * 300_000 * 3
    service.close()
    lines.close()
    journal.close()


def test_a_share_bundle_that_is_too_long_is_refused_before_it_is_read(made):
    service, _ = made
    reply = service.deliver(bytes(messages.MAX_NUMBERS * 8 + 1), Caller(("a",)), lambda: False)
    assert refused(reply) is parley.errors.Malformed


def test_a_share_bundle_comes_from_its_owner_alone(made):
    service, terms = made
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3))
    noise = resolve(terms).part("a").training.series.mechanism
    content = messages.write_share_bundle(
        pack(query, "a", noise, Shares.from_words(np.zeros(3, dtype=np.uint64), bytes(32), query.content))[1]
    )
    assert refused(service.deliver(content, Caller(("b",)), lambda: False)) is UnknownTerms
    messages.read_done(service.deliver(content, Caller(("a",)), lambda: False), "h1")


def test_messages_come_back_as_they_were():
    shape = Shape("gaussian", 9, 3)
    bundle = ShareBundle("a" * 64, 7, "b" * 64, "bank", 10, shape, (bytes(32), bytes(range(24))))
    again = messages.read_share_bundle(messages.write_share_bundle(bundle))
    assert (again.shape, again.shares, again.owner, again.records) == (shape, bundle.shares, "bank", 10)
    opening = Opening("a" * 64, 7, "b" * 64, ("x", "y"), np.array([1, 2**64 - 1], dtype=np.uint64), bytes(32))
    read = messages.read_opening(messages.write_opening(opening), "h", 2)
    assert (read.words.tolist(), read.owners) == ([1, 2**64 - 1], ("x", "y"))
    with pytest.raises(parley.errors.ContradictionError):
        messages.read_opening(messages.write_opening(opening), "h", 3)


def test_terms_that_are_accepted_later_are_served(consortium, monkeypatch):
    monkeypatch.setattr(room, "CHECK_INTERVAL_S", 0.0)
    settings = load_host(consortium.folder / "h2.toml")
    journal = Journal(settings.journal)
    lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
    service = HostService("h2", journal, Acceptances(settings.accepted), lines, Log(io.StringIO()))
    assert service.rejection(Caller(("a",))) is not None
    consortium.accept(consortium.write_terms(horizon=2, epsilon=5.0))
    assert service.rejection(Caller(("a",))) is None
    service.close()
    journal.close()


def test_a_journal_that_does_not_know_accepted_terms_is_not_served_from(consortium, tmp_path):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    settings = load_host(consortium.folder / "h2.toml")
    other = Journal(tmp_path / "other.journal")
    log = io.StringIO()
    with Log(log) as written:
        service = HostService(
            "h2",
            other,
            Acceptances(settings.accepted),
            HostConnections({}, settings.identity, "peers"),
            written,
        )
        service.prepare()
        assert not service.hosted
        assert Readiness(other, Acceptances(settings.accepted), service, _Eternal()).problems()
    assert "another journal" in log.getvalue()
    other.close()


class _Eternal:
    """A network whose certificate does not end."""

    @property
    def ends(self):
        from datetime import UTC, datetime

        return datetime.max.replace(tzinfo=UTC)


def test_the_learner_needs_the_hosts_of_the_terms(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    setup = resolve(terms)
    with pytest.raises(ExchangeError, match="expected addresses of the owners"):
        SharedFederation(setup, [], [], 1.0, print)


def test_a_learner_says_which_host_it_waits_for(consortium, monkeypatch):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    monkeypatch.setattr(waiting, "FIRST_PAUSE", waiting.LONGEST_PAUSE)
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(waiting.Federation, "ask", lambda self, questions: [])  # the owners have delivered
    # and the hosts were there before
    monkeypatch.setattr(waiting.SharedFederation, "_require_hosts", lambda self: None)
    said = []
    peers = [RemoteOwner(name, "127.0.0.1:1", consortium.identity("learner")) for name in ("a", "b", "c")]
    hosts = [RemoteHost(name, "127.0.0.1:1", consortium.identity("learner")) for name in ("h0", "h1", "h2")]
    federation = SharedFederation(resolve(terms), peers, hosts, 0.2, said.append)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3))
    with pytest.raises(ExchangeError, match="did not open"):
        federation.ask(dict.fromkeys("abc", query))
    federation.close()
    (sentence,) = said
    assert "round 1: waiting for the hosts" in sentence
    assert "h0" in sentence


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_init_accept_and_a_second_look(consortium, tmp_path):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    folder = tmp_path / "new"
    assert run("host", "init", folder, "--name", "h0").exit_code == 0
    assert isinstance(run("host", "init", folder, "--name", "h0").exception, SettingError)
    for file in ("ca.crt", "ca.crl", "h0.crt", "h0.key"):
        (folder / file).write_bytes((consortium.folder / file).read_bytes())
    told = run(
        "host",
        "accept",
        tmp_path / "terms.toml",
        "--host",
        folder / "host.toml",
        "--certificate",
        tmp_path / "learner.crt",
        "--yes",
    )
    assert told.exit_code == 0, told.output
    assert "host 0 of 3" in told.output
    (accepted,) = (folder / "accepted-as-host").iterdir()
    assert json.loads(accepted.read_text())["fingerprint"]
    journal = Journal(folder / "h0.journal")
    assert journal.begun(terms.hash)
    journal.close()
    for left in folder.glob("h0.journal*"):
        left.unlink()
    lost = run("host", "accept", tmp_path / "terms.toml", "--host", folder / "host.toml", "--yes")
    assert isinstance(lost.exception, LedgerError)


def test_the_journal_in_words(consortium, tmp_path):
    terms = consortium.write_terms(horizon=5, epsilon=5.0)
    consortium.accept(terms)
    settings = consortium.folder / "h1.toml"
    journal = Journal(load_host(settings).journal)
    for number in (1, 2, 3):
        journal.propose(terms.hash, number, "what I hold")
    journal.agree(terms.hash, 1, "all agree", "noise 1", b"sums")
    journal.open(terms.hash, 1)
    journal.abort(terms.hash, 2, "a host went down")
    journal.abort(terms.hash, 5, "never proposed")
    told = run("host", "journal", settings, "--json")
    assert told.exit_code == 0, told.output
    (agreement,) = json.loads(told.output)["agreements"]
    assert agreement["begun"]
    assert agreement["rounds"] == 5
    assert (agreement["opened"], agreement["void"], agreement["waiting"]) == (1, 2, [3])
    page = run("host", "journal", settings).output
    assert "1 of 5" in page
    assert "chain unbroken" in page
    journal._db._opened().execute("UPDATE entries SET body='something else' WHERE kind='proposal' AND round=1")
    journal.close()
    assert isinstance(run("host", "journal", settings).exception, BrokenChainError)
    for left in tmp_path.glob("h1.journal*"):
        left.unlink()
    assert isinstance(run("host", "journal", settings).exception, LedgerError)
    assert not list(tmp_path.glob("h1.journal*"))


def test_terms_that_need_no_host_or_another_one_are_not_accepted(consortium, tmp_path):
    consortium.write_terms(horizon=2, epsilon=5.0)
    settings = (consortium.folder / "h0.toml").read_text()
    (tmp_path / "stranger.toml").write_text(settings.replace('name = "h0"', 'name = "stranger"'))
    assert run("host", "accept", tmp_path / "terms.toml", "--host", tmp_path / "stranger.toml", "--yes").exit_code != 0
    super(HostedConsortium, consortium).write_terms(horizon=2)
    assert run("host", "accept", tmp_path / "terms.toml", "--host", tmp_path / "h0.toml", "--yes").exit_code != 0


def test_an_owner_that_does_not_know_its_hosts_debits_nothing(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    from parley.network.exchange.share_bundle import Delivery, answer_or_deliver
    from parley.network.identity.settings import load_owner
    from parley.network.serving.daemon import open_owner

    owner = open_owner(load_owner(consortium.folder / "a.toml"))
    owner.accept(terms)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3))
    for delivery in (None, Delivery(HostConnections({}, consortium.identity("a"), "owner.toml: hosts"))):
        with pytest.raises(SettingError, match="hosts"):
            answer_or_deliver(owner, query, delivery)
    assert owner.ledger.account(terms.hash).answers == 0
    owner.ledger.close()
