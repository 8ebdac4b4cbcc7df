"""Who may hear a peer, what it lets go of, and who may ask the daemon of an owner with a peer."""

import numpy as np
import pytest
from consortium import ask
from peers import PeerConsortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import CertificateError, ExchangeError, GuaranteeError, OutOfOrder, SettingError, UnknownTerms
from parley.network.exchange import messages as owner_messages
from parley.network.identity.certificates import fingerprint, read_certificate
from parley.network.identity.settings import load_owner
from parley.network.peering import service as messages
from parley.network.peering.neighbourhood import Board, Graph, Neighbourhood
from parley.network.peering.service import (
    PeerService,
    RemoteNeighbour,
    Run,
    listening,
    neighbour_connections,
    own_daemon,
)
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService

RUN = Run("ab" * 32, 0.25)
PLACE, END = (1, 0), (9, 0)
WORDS = np.array([[1.0, 2.0, 3.0]])


@pytest.fixture
def log(tmp_path):
    with (tmp_path / "log").open("w") as stream, Log(stream) as log:
        yield log


@pytest.fixture
def peer(log, monkeypatch):
    monkeypatch.setattr("parley.network.peering.service.ANSWER_WAIT_S", 0.01)
    service = PeerService("a", RUN, {"b": None, "d": "key of d"}, Board(), END, log)
    service.board = service._board
    return service


def heard(service, caller, place=PLACE, terms=RUN.terms_hash, shape=(1, 3)):
    reply = service.rejection(caller) or service.hear(messages.write_question(terms, place), caller)
    return messages.read_words(reply, RUN, "a", place, shape)


def test_neighbours_hear_the_same_bytes_for_ever(peer):
    assert heard(peer, Caller(("b",), "any")) is None
    peer.board.say(PLACE, WORDS)
    question, b = messages.write_question(RUN.terms_hash, PLACE), Caller(("b",), "any")
    assert len({peer.hear(question, b) for _ in range(3)}) == 1
    np.testing.assert_array_equal(heard(peer, Caller(("d",), "key of d")), WORDS)
    peer.board.say(PLACE, WORDS.copy())  # begun again, it comes to the same
    with pytest.raises(GuaranteeError, match="sent different numbers before"):
        peer.board.say(PLACE, WORDS + 1)
    np.testing.assert_array_equal(heard(peer, b), WORDS)


@pytest.mark.parametrize(
    "caller",
    [
        Caller(("c",), "key of c"),  # an owner, but no neighbour
        Caller(("d",), "another key"),
        Caller(("a",), "key of a"),
        Caller(("learner",), "key"),
        Caller(("b", "d"), "key of d"),  # who is it?
        Caller(relay=True),
        Caller(),
    ],
    ids=str,
)
def test_strangers_are_turned_away_before_their_message_is_read(peer, caller):
    peer.board.say(PLACE, WORDS)
    with pytest.raises(UnknownTerms, match="do not make this peer and this caller neighbours"):
        heard(peer, caller)
    with pytest.raises(UnknownTerms):  # and if it were read
        messages.read_words(peer.hear(messages.write_question(RUN.terms_hash, PLACE), caller), RUN, "a", PLACE, (1, 3))


def test_other_terms_and_rounds_that_are_over_are_refused(peer):
    b = Caller(("b",), "any")
    peer.board.say(PLACE, WORDS)
    with pytest.raises(UnknownTerms):
        heard(peer, b, terms="cd" * 32)
    peer.board.forget(2)
    with pytest.raises(OutOfOrder, match="round 1 is over for this peer, which stores rounds from 2 on"):
        heard(peer, b)
    assert heard(peer, b, (2, 0)) is None


def test_who_heard_the_end_is_known(peer):
    assert heard(peer, Caller(("b",), "any"), END, shape=(0, 1)) is None
    assert peer.told == set()
    peer.board.say(END, np.empty((0, 1)))
    heard(peer, Caller(("b",), "any"), END, shape=(0, 1))
    assert peer.told == {"b"}


@pytest.fixture
def ring(tmp_path):
    consortium = PeerConsortium(tmp_path, "abcd", horizon=3)
    yield consortium
    consortium.close()


def test_over_tls_only_a_neighbours_certificate_opens(ring, log):
    """a's port: b is heard, c (of the same authority, not next to a) is not; and a b that must show another key is not
    believed."""
    settings = load_owner(ring.folder / "a.toml")
    lines, keys = neighbour_connections(
        settings, Graph(tuple("abcd"), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")))
    )
    assert [line.name for line in lines] == ["b", "d"]
    assert keys == {"b": None, "d": None}
    run = Run(ring.terms.hash, 0.2)
    service = PeerService("a", run, keys, board := Board(), END, log)
    board.say(PLACE, WORDS)
    with listening("a", settings.identity, "127.0.0.1:0", service, 2, log) as port:
        place = f"127.0.0.1:{port}"
        made = {name: RemoteNeighbour("a", place, ring.identity(name)) for name in ("b", "c", "learner")}
        pinned = RemoteNeighbour(
            "a", place, ring.identity("b"), fingerprint=fingerprint(read_certificate(ring.folder / "a.crt"))
        )
        wrong = RemoteNeighbour("a", place, ring.identity("b"), fingerprint="0" * 64)
        renamed = RemoteNeighbour("d", place, ring.identity("b"))
        try:
            for line in (made["b"], pinned):
                np.testing.assert_array_equal(line.hear(run, PLACE, (1, 3), 10.0), WORDS)
            for stranger in ("c", "learner"):
                with pytest.raises(UnknownTerms):
                    made[stranger].hear(run, PLACE, (1, 3), 10.0)
            with pytest.raises(CertificateError, match="has the fingerprint"):
                wrong.hear(run, PLACE, (1, 3), 10.0)
            with pytest.raises(parley.errors.Unavailable):  # a's certificate where d's was expected
                renamed.hear(run, PLACE, (1, 3), 10.0)
        finally:
            for line in (*made.values(), pinned, wrong, renamed, *lines):
                line.close()


def test_a_daemon_accepted_for_a_peer_answers_its_own_key_alone(ring, log, monkeypatch):
    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    settings = load_owner(ring.folder / "a.toml")
    own = fingerprint(read_certificate(ring.folder / "a.crt"))
    acceptances = Acceptances(settings.accepted)
    acceptances.store(Acceptance(ring.terms, own, peer="a"))
    owner = open_owner(settings)
    service = OwnerService(owner, acceptances, log)
    query = ask(ring.terms)
    content = owner_messages.write_query(query)
    for caller in (Caller(("learner",), "key"), Caller(("a",), "another"), Caller(("b",), own), Caller(relay=True)):
        assert service.rejection(caller) is not None or b"unknown-terms" in service.ask(content, caller)
        assert b"unknown-terms" in service.ask(content, caller)
    reply = owner_messages.read_answer(service.ask(content, Caller(("a",), own)), query, "a", 60, 3)
    assert reply.statement.answered == 1
    owner.ledger.close()


def test_accepting_for_a_peer_says_who_hears_what(ring):
    """The file keeps it, and the key is the owner's own."""
    terms, settings = ring.folder / "terms.toml", ring.folder / "a.toml"
    accept = ["owner", "accept", str(terms), "--owner", str(settings), "--yes"]
    said = CliRunner().invoke(app, [*accept, "--peer"])
    assert said.exit_code == 0, said.output
    own = fingerprint(read_certificate(ring.folder / "a.crt"))
    words = " ".join(said.output.split())
    callers = f"anyone with a certificate for 'a' and the key {own[:16]}…."
    assert f"No learner; your own peer, a, sends the questions. Who may send questions: {callers}" in words
    assert "sends the mixture to the peers of b, d." in words
    kept = Acceptances(load_owner(settings).accepted).get(ring.terms.hash)
    assert (kept.peer, kept.fingerprint) == ("a", own)
    assert not kept.admits(Caller(("learner",), own))
    both = CliRunner().invoke(app, [*accept, "--peer", "--certificate", str(ring.folder / "learner.crt")])
    assert isinstance(both.exception, SettingError)
    assert "remove --certificate" in str(both.exception)
    other = ring.folder / "centre.toml"
    other.write_text(terms.read_text().replace('algorithm = "gossip"\ntopology = "ring"\n', ""))
    centre = CliRunner().invoke(app, ["owner", "accept", str(other), "--owner", str(settings), "--yes", "--peer"])
    assert "these terms have a learner" in str(centre.exception)


def test_settings_that_lack_something_are_one_sentence(ring):
    file, graph = ring.folder / "a.toml", Graph(tuple("abcd"), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")))
    whole = file.read_text()
    file.write_text(whole.replace("\nd = ", "\nc = "))
    with pytest.raises(
        SettingError, match=r"peer\.neighbours: expected the address of 'd', a neighbour in these terms"
    ):
        neighbour_connections(load_owner(file), graph)
    file.write_text(whole[: whole.index("\n[peer]")])
    with pytest.raises(SettingError, match=r"owner\.toml: peer: missing; expected \[peer\]"):
        own_daemon(load_owner(file))
    file.write_text(whole.replace("\n[peer]", '\n[peer]\ndaemon = "[::]:7443"'))
    line = own_daemon(load_owner(file))
    assert line._address == "[::1]:7443"
    line.close()


def test_a_neighbourhood_has_the_neighbours_of_the_terms():
    with pytest.raises(ExchangeError, match="neighbours: expected addresses of"):
        Neighbourhood("a", Graph(("a", "b"), (("a", "b"),)), RUN, [], Board(), 1.0, print)
