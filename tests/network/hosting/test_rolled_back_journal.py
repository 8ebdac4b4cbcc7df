"""One of two hosts whose journal is put back to an earlier time: what a curious other could do, and the daemon's guard
against it."""

import io
import json
import shutil

import numpy as np
import pytest
from bundles_of_owners import CONTENT, Forger
from hosted_consortium import HostedConsortium

from parley.errors import BrokenChainError
from parley.network.exchange import host_messages as messages
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.share_bundle import ShareBundle
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.known_heads import KnownHeads
from parley.network.hosting.pool import Pool
from parley.network.hosting.service import HostService
from parley.network.identity.settings import load_host
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.log import Log
from parley.privacy.sharing.ring import to_bytes
from parley.privacy.sharing.shares import Shares


class Victim:
    """The service of host h0 on its journal, with a curious host h1 that repeats whatever h0 recorded."""

    def __init__(self, folder, terms, forgets=False):
        settings = load_host(folder / "h0.toml")
        self.log, self.journal, self.terms = io.StringIO(), Journal(settings.journal), terms
        self._lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
        heads = KnownHeads(folder / ("none.heads" if forgets else "h0.heads"))
        accepted = Acceptances(settings.accepted)
        self._written = Log(self.log).__enter__()
        self.service = HostService("h0", self.journal, accepted, self._lines, self._written, heads)
        self.service.prepare()

    def opening(self):
        """What the learner gets of round 1, every owner having sent the same shares as always."""
        (hosted,) = self.service.hosted
        turn = hosted.assignment.turn(1)
        curious = Host("h1", hosted.assignment, Journal(), Pool(hosted.assignment.drawn_ahead), {0: hosted.host})
        words = np.zeros(turn.shape.size, dtype=np.uint64)
        for owner, records in turn.records.items():
            shares = Shares._split(words, bytes(32), CONTENT, bytes(32), 2)
            for place, host in enumerate((hosted.host, curious)):
                pair = tuple(part if isinstance(part, bytes) else to_bytes(part) for part in shares.of_host(place))
                host.receive(ShareBundle(self.terms.hash, 1, CONTENT, owner, records, turn.shape, pair))
        hosted.host._peers = {1: Forger(curious, self.journal, set())}
        reply = self.service.open(messages.write_question(self.terms.hash, 1, CONTENT), Caller(("learner",)), None)
        curious.close()
        return messages.read_opening(reply, "h0", turn.shape.size).words.tolist()

    def close(self):
        self.service.close()
        self._written.__exit__()
        self._lines.close()
        self.journal.close()


@pytest.fixture
def rolled_back(tmp_path):
    """(folder, terms, what h0 opened): its journal is then the one that it had before."""
    consortium = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    shutil.copy(tmp_path / "h0.journal", tmp_path / "backup")
    victim = Victim(tmp_path, terms)
    first = victim.opening()
    assert victim.opening() == first
    victim.close()
    shutil.copy(tmp_path / "h0.journal", tmp_path / "latest")
    for left in tmp_path.glob("h0.journal*"):
        left.unlink()
    shutil.copy(tmp_path / "backup", tmp_path / "h0.journal")
    return tmp_path, terms, first


def test_without_a_memory_the_same_shares_are_opened_under_a_second_noise(rolled_back):
    """Why texts say that neither journal may be put back: nothing else stops it."""
    folder, terms, first = rolled_back
    victim = Victim(folder, terms, forgets=True)
    assert victim.opening() != first
    victim.close()


def test_a_daemon_takes_up_no_journal_older_than_what_it_opened_by(rolled_back):
    folder, terms, first = rolled_back
    victim = Victim(folder, terms)
    assert not victim.service.hosted
    victim.close()
    assert "of an earlier time" in victim.log.getvalue()
    shutil.copy(folder / "latest", folder / "h0.journal")
    victim = Victim(folder, terms)
    assert victim.opening() == first
    victim.close()


def test_new_terms_may_begin_in_another_journal(tmp_path):
    heads, journal = KnownHeads(tmp_path / "h0.heads"), Journal()
    journal.begin("old")
    heads.remember({"old": journal})
    with pytest.raises(BrokenChainError, match="put the latest one back"):
        heads.require_latest("old", Journal())
    heads.require_latest("new", Journal())
    assert list(json.loads((tmp_path / "h0.heads").read_text())) == ["old"]
    for damaged in ("", "[1]"):
        (tmp_path / "h0.heads").write_text(damaged)
        with pytest.raises(BrokenChainError, match="does not say where journals ended"):
            heads.require_latest("new", Journal())
