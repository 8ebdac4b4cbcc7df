"""The hosts of one agreement in one process: the same code as on their machines, for runs on one and for tests.

Nobody is kept from looking into all of them: what is promised then is what the machine's owner promises. The noise and
the openings are those of the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parley.errors import Unavailable
from parley.network.exchange.share_bundle import Opening, Shape, ShareBundle
from parley.network.hosting.assignment import HostAssignment
from parley.network.hosting.drawing import Session
from parley.network.hosting.host import PATIENCE, Host, Peer
from parley.network.hosting.journal import Journal
from parley.network.hosting.pool import Pool
from parley.network.hosting.proposal import Proposal
from parley.privacy.sharing.channel import together, wires


@dataclass
class Neighbour:
    """A host in the same process, as another one reaches it."""

    host: Host | None = None  # None: it is not there

    def proposal(self, terms_hash: str, number: int, content: str) -> Proposal:
        return self._found().proposal(number, content)

    def record(self, terms_hash: str, number: int) -> str:
        return self._found().record(number)

    def _found(self) -> Host:
        if self.host is None:
            raise Unavailable("a host is not there; ask again")
        return self.host


class InProcessHosts:
    """The hosts of one agreement, with journals in a folder, or in memory. Noise is drawn when it is needed, or ahead
    by `draw`."""

    def __init__(self, assignment: HostAssignment, folder: Path | None = None, patience: float = PATIENCE) -> None:
        self.assignment = assignment
        self._paths = [None if folder is None else folder / f"{name}.journal" for name in assignment.hosts]
        self._patience = patience
        self.doors = [Neighbour() for _ in assignment.hosts]
        self.pools = [Pool(assignment.drawn_ahead) for _ in assignment.hosts]
        self.journals = [Journal(path) for path in self._paths]
        self._sessions: Sequence[Session] = ()
        for index in range(len(assignment.hosts)):
            self._start_host(index)

    @property
    def hosts(self) -> list[Host]:
        return [door._found() for door in self.doors]

    def receive(self, bundles: Sequence[ShareBundle]) -> None:
        """One owner's share bundles, in the order of the hosts."""
        for host, bundle in zip(self.hosts, bundles, strict=True):
            host.receive(bundle)

    def open(self, number: int, content: str) -> list[Opening]:
        """All openings, in the order of the hosts."""
        shape = self.assignment.turn(number).shape
        fresh = self.journals[0].entry(self.assignment.terms_hash, number).proposal is None
        missing = not self._sessions or (fresh and not self.pools[0].ready().get(shape))
        if self.assignment.together and missing:
            self.draw(shape)
        return list(together(*(partial(host.open, number, content) for host in self.hosts)))

    def draw(self, shape: Shape) -> None:
        """One more noise, by the three together."""
        ends = wires()
        if not self._sessions:
            begin = [
                partial(Session, end, self.assignment, pool, pool.renew())
                for end, pool in zip(ends, self.pools, strict=True)
            ]
            self._sessions = together(*begin, wires=ends)
        together(*(partial(session.draw, shape) for session in self._sessions))

    def restart(self, index: int, journal: Journal | None = None) -> None:
        """Host `index` loses its memory, and all noise is dropped; its journal is opened again, or another one in its
        place."""
        self.doors[index]._found().close()
        path = self._paths[index]
        if journal is not None:
            self.journals[index] = journal
        elif path is not None:
            self.journals[index].close()
            self.journals[index] = Journal(path)
        self.drop()
        self._start_host(index)

    def drop(self) -> None:
        """End the hosts' common session, so that the next noise is drawn in a new one."""
        self._sessions = ()
        for pool in self.pools:
            pool.renew()

    def close(self) -> None:
        """Close all journals and end the hosts' threads."""
        for door, journal in zip(self.doors, self.journals, strict=True):
            door._found().close()
            journal.close()

    def _start_host(self, index: int) -> None:
        peers: Mapping[int, Peer] = {i: door for i, door in enumerate(self.doors) if i != index}
        name, journal, pool = self.assignment.hosts[index], self.journals[index], self.pools[index]
        self.doors[index].host = Host(name, self.assignment, journal, pool, peers, self._patience)
