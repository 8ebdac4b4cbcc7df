"""One of two hosts beside a curious other, which would have it open the same shares twice."""

import io

import numpy as np
from bundles_of_owners import CONTENT, Forger

from parley.errors import NotOffered
from parley.network.exchange import host_connections as messages
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.share_bundle import ShareBundle
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.pool import Pool
from parley.network.hosting.service import HostService
from parley.network.identity.settings import load_host
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.log import Log
from parley.privacy.sharing.ring import Shares, to_bytes


def _claims_to_be_old(ends, timeout):
    """The curious host keeps no ends for the victim."""
    raise NotOffered("h1: an older version")


class Victim:
    """The service of host h0 on its journal, with a curious host h1 that repeats whatever h0 recorded."""

    def __init__(self, folder, terms):
        settings = load_host(folder / "h0.toml")
        self.log, self.journal, self.terms = io.StringIO(), Journal(settings.journal), terms
        self._lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
        accepted = Acceptances(settings.accepted)
        self._written = Log(self.log).__enter__()
        self.service = HostService("h0", self.journal, accepted, self._lines, self._written)
        self.service.prepare()
        for hosted in self.service.hosted:
            hosted.group.connections["h1"].exchange_ends = _claims_to_be_old

    def opening(self, number=1):
        """What the learner gets of this round, every owner having sent the same shares as always."""
        (hosted,) = self.service.hosted
        turn = hosted.assignment.turn(number)
        curious = Host("h1", hosted.assignment, Journal(), Pool(hosted.assignment.drawn_ahead), {0: hosted.host})
        words = np.zeros(turn.shape.size, dtype=np.uint64)
        for owner, records in turn.records.items():
            shares = Shares._split(words, bytes(32), CONTENT, bytes(32), 2)
            for place, host in enumerate((hosted.host, curious)):
                pair = tuple(part if isinstance(part, bytes) else to_bytes(part) for part in shares.for_host(place))
                host.receive(ShareBundle(self.terms.hash, number, CONTENT, owner, records, turn.shape, pair))
        hosted.host._peers = {1: Forger(curious, self.journal, set())}
        reply = self.service.open(messages.write_question(self.terms.hash, number, CONTENT), Caller(("learner",)), None)
        curious.close()
        return messages.read_opening(reply, "h0", turn.shape.size).words.tolist()

    def close(self):
        self.service.close()
        self._written.__exit__()
        self._lines.close()
        self.journal.close()
