"""Daemons on loopback whose whole disk is put back, the state folder's part with it: what was forgotten is not answered
or opened again while a party that saw more is there."""

import sqlite3
import time

import numpy as np
import pytest
from hosted_consortium import HostedConsortium

from parley.durable import state_folder
from parley.errors import ExchangeError, ParleyError, RolledBack, Unavailable
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.remote import RemoteOwner
from parley.network.hosting.federation import SharedFederation
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve


@pytest.fixture
def consortium(tmp_path):
    made = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    made.accept(made.write_terms(horizon=6, epsilon=5.0))
    made.start_hosts()
    made.start()
    yield made
    made.close()


class Learner:
    """A learner's program; a new one remembers nothing."""

    def __init__(self, consortium, ends=None, deadline=20.0):
        from parley import load_terms

        self.terms, identity = load_terms(consortium.folder / "terms.toml"), consortium.identity()
        owners = [RemoteOwner(name, f"127.0.0.1:{port}", identity) for name, port in consortium.ports.items()]
        places = {name: f"127.0.0.1:{port}" for name, port in consortium.host_ports.items()}
        self.owners = {owner.name: owner for owner in owners}
        self.hosts = HostConnections(places, identity, "addresses").group(self.terms.hosts).connections
        lines = [self.hosts[host.name] for host in self.terms.hosts]
        self.federation = SharedFederation(resolve(self.terms), owners, lines, deadline, print, ends=ends)

    def query(self, number, shift=0.0):
        return GradientQuery.ask(self.terms.hash, "learner", number, np.full(3, 0.1 * number + shift))

    def ask(self, number):
        (answer,) = self.federation.ask(dict.fromkeys("abc", self.query(number)))
        return answer.value.tolist()

    def close(self):
        self.federation.close()


def disk(consortium, name):
    """The party's books, what lies beside them, and its file in the state folder."""
    kind = "journal" if name in consortium.hosts else "ledger"
    book = consortium.folder / f"{name}.{kind}"
    with sqlite3.connect(book) as db:
        if kind == "journal":
            (memory,) = db.execute("SELECT body FROM entries WHERE kind='memory'").fetchone()
        else:
            (memory,) = db.execute("SELECT hash FROM entries WHERE seq=1").fetchone()
    return [*consortium.folder.glob(f"{name}.{kind}*"), state_folder(f"{kind}s") / memory]


def snapshot(consortium, name):
    """A copy of the disk of a party that was killed; it starts again."""
    consortium.kill(name)
    kept = {path: path.read_bytes() for path in disk(consortium, name)}
    start(consortium, name)
    return kept


def put_back(consortium, name, kept):
    consortium.kill(name)
    for path in disk(consortium, name):
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)
    start(consortium, name)


def start(consortium, name):
    (consortium.start_hosts if name in consortium.hosts else consortium.start)(name)


def reasons(consortium, name):
    """What the party's log says about it, once it is written."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        refused = [line for line in consortium.log(name) if line.get("code") == "rolled-back"]
        if refused:
            return {line["reason"] for line in refused}
        time.sleep(0.05)
    return set()


@pytest.mark.parametrize("victim", ["h0", "a"])
def test_a_party_whose_whole_disk_was_put_back_is_told_by_the_others(consortium, victim):
    learner = Learner(consortium)
    learner.ask(1)
    early = snapshot(consortium, victim)
    answers = {number: learner.ask(number) for number in (2, 3)}
    latest = snapshot(consortium, victim)
    put_back(consortium, victim, early)
    stranger = Learner(consortium, deadline=5.0)
    with pytest.raises(ExchangeError, match="put back to an earlier time"):
        stranger.ask(2)
    with pytest.raises(RolledBack):
        stranger.owners["a"].ask(stranger.query(2), 60, 0, 20.0)
    if victim == "h0":
        with pytest.raises(RolledBack, match="parley host restore"):
            stranger.hosts["h0"].open(stranger.terms.hash, 2, stranger.query(2).content, 3, 20.0)
    stranger.close()
    assert any("put back to an earlier time" in reason for reason in reasons(consortium, victim))
    put_back(consortium, victim, latest)
    again = Learner(consortium)
    assert (again.ask(2), again.ask(3)) == (answers[2], answers[3])
    assert again.ask(4)
    again.close()
    learner.close()


def test_a_host_waits_for_a_witness_and_the_learner_is_one(consortium):
    learner = Learner(consortium)
    learner.ask(1)
    early = snapshot(consortium, "h0")
    learner.ask(2)
    seen = dict(learner.federation.ends)
    assert {name: end.party for name, end in seen.items()} == {"h0": "h0", "h1": "h1"}
    put_back(consortium, "h0", early)
    consortium.kill("h1")
    question = learner.terms.hash, 2, learner.query(2).content, 3, 20.0
    with pytest.raises(Unavailable, match="no witness of this journal"):
        learner.hosts["h0"].open(*question)
    with pytest.raises(ParleyError):  # unsigned by the learner: refused unread
        learner.hosts["h0"].open(*question, seen["h1"])
    learner.close()
    consortium.start_hosts("h1")
    remembering = Learner(consortium, ends=seen, deadline=5.0)
    with pytest.raises(ParleyError, match=r"h0: the journal was put back .* saw it with"):  # an owner may be first
        remembering.ask(2)
    remembering.close()


def test_the_books_are_evidence_of_what_others_signed(consortium):
    learner = Learner(consortium)
    for number in (1, 2):
        learner.ask(number)
    learner.close()
    for name in ("a", "h0"):
        consortium.kill(name, 15)
    ledger = Ledger(consortium.folder / "a.ledger")
    assert {end.witness for end in ledger.witnessed.countersigned()} == {"h0", "h1", "learner"}
    assert ledger.witnessed.kept("h0", "journal", learner.terms.hash).head.entries > 4
    ledger.close()
