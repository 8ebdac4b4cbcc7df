"""Rounds in which owners and hosts are in one process: real debits, real shares, the noise of the protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parley.errors import ContradictionError, GuaranteeError, LedgerError, Unavailable
from parley.network.exchange.in_process import sum_answer
from parley.network.exchange.share_bundle import Opening, Shape, ShareBundle, pack
from parley.network.hosting.host import PEER_TIMEOUT_S, Host, Peer
from parley.network.hosting.journal import Journal, require_known_heads
from parley.network.hosting.pool import Pool, Session
from parley.network.hosting.proposal import HostAssignment, Proposal, assignment_of
from parley.owner.owner import Owner
from parley.privacy.mechanisms.mechanism import FALSE_ALARM_PROBABILITY
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing import party as opening
from parley.privacy.sharing.party import run_in_threads, wires
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup


class HostedSum:
    """An `Exchange` of owners that release, with their hosts beside them, whose journals lie in `folder`.

    Formal guarantee: as `host.Host` says, for as long as the journals are kept. Journals of an earlier time are refused
    (`journal`), since a question might get a second noise. So are ledgers that know answers by these terms beside
    journals that do not.
    """

    def __init__(self, setup: Setup, owners: Sequence[Owner], folder: Path) -> None:
        self._setup, self._owners = setup, {owner.name: owner for owner in owners}
        assignment = assignment_of(setup)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._hosts = InProcessHosts(assignment, folder)
        journals = self._hosts.journals
        require_known_heads(
            folder.with_name(f"{folder.name}.heads"), dict(zip(assignment.hosts, journals, strict=True))
        )
        if not all(journal.begun(setup.hash) for journal in journals):
            if any(owner.ledger.account(setup.hash).answers for owner in owners):
                raise LedgerError(
                    f"{folder}: the hosts' journals for these terms are missing, but owners have answered. Put the "
                    "journals back, or agree on new terms"
                )
            for journal in journals:
                journal.begin(setup.hash)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Return the one answer of the round; `AbortedRound` if it cannot be finished any more."""
        for name, query in questions.items():
            contribution, _ = self._owners[name].contribute(query)
            if contribution.shares is None:
                raise GuaranteeError(
                    f"{name}: this owner has no durable ledger, so it cannot send shares to hosts; create the owner "
                    "with a parley.Ledger"
                )
            self._hosts.receive(pack(query, name, contribution.noise, contribution.shares))
        query = next(iter(questions.values()))
        openings = self._hosts.open(query.round, query.content)
        return [open_answer(self._setup, self._hosts.assignment, query, openings)]

    def close(self) -> None:
        """Close the hosts and their journals."""
        self._hosts.close()


def open_answer(setup: Setup, assignment: HostAssignment, query: Query, openings: Sequence[Opening]) -> Answer:
    """Return the answer that all hosts' openings, in order, add up to; `ContradictionError` unless they fit."""
    turn = assignment.turn(query.round)
    agreed = {(each.terms_hash, each.round, each.content, each.owners) for each in openings}
    names = openings[0].owners
    known = len(set(names)) == len(names) >= turn.quorum and set(names) <= set(turn.records)
    if (
        len(openings) != len(assignment.hosts)
        or agreed != {(query.terms_hash, query.round, query.content, names)}
        or not known
    ):
        raise ContradictionError(
            f"round {query.round}: the hosts opened a sum that the learner did not ask for; contact the hosts' "
            "operators"
        )
    if any(each.words.shape != (turn.shape.size,) for each in openings):
        raise ContradictionError(
            f"round {query.round}: a host opened a vector of the wrong size; contact the hosts' operators"
        )
    words = opening.open_words([opening.Opening(each.words, each.digest) for each in openings])
    noise = setup.part(names[0]).stage(query.round).series.mechanism
    if not isinstance(noise, SharedNoise):
        raise GuaranteeError("privacy.noise: expected 'shared'")
    answer = sum_answer(query.id, noise, names, sum(turn.records[name] for name in names), words)
    _require_possible(setup, answer, noise, query.round)
    return answer


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
            raise Unavailable("a host cannot be reached; ask the same question again")
        return self.host


class InProcessHosts:
    """The hosts of one agreement in one process, with the protocol's own code, noise and openings. Nothing separates
    these hosts, so their promise is only that of the machine's owner. Journals lie in a folder or in memory; noise is
    drawn when it is needed, or ahead by `draw`."""

    def __init__(
        self, assignment: HostAssignment, folder: Path | None = None, patience: float = PEER_TIMEOUT_S
    ) -> None:
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
        """Take one owner's share bundles, in the order of the hosts."""
        for host, bundle in zip(self.hosts, bundles, strict=True):
            host.receive(bundle)

    def open(self, number: int, content: str) -> list[Opening]:
        """Return all openings, in the order of the hosts."""
        shape = self.assignment.turn(number).shape
        fresh = self.journals[0].entry(self.assignment.terms_hash, number).proposal is None
        missing = not self._sessions or (fresh and not self.pools[0].ready().get(shape))
        if self.assignment.together and missing:
            self.draw(shape)
        return list(run_in_threads(*(partial(host.open, number, content) for host in self.hosts)))

    def draw(self, shape: Shape) -> None:
        """Draw one more noise, by all hosts together."""
        ends = wires(hosts=len(self.pools))
        if not self._sessions:
            begin = [
                partial(Session, end, self.assignment, pool, pool.renew())
                for end, pool in zip(ends, self.pools, strict=True)
            ]
            self._sessions = run_in_threads(*begin, wires=ends)
            for pool, session in zip(self.pools, self._sessions, strict=True):
                pool.compute_now = session.compute
        run_in_threads(*(partial(session.draw, shape) for session in self._sessions))

    def restart(self, index: int, journal: Journal | None = None) -> None:
        """Restart host `index` without its memory and all noise, with its own journal or another one."""
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


def _require_possible(setup: Setup, answer: Answer, noise: SharedNoise, number: int) -> None:
    """Refuse a sum beyond agreed bounds and noise; a sound one fails once in 10^12 rounds."""
    loosest = max(
        (setup.part(name).stage(number).question.extent for name in answer.owners), key=lambda extent: extent.size
    )
    if not loosest.noisy(noise.over(answer.records), answer.value.size, FALSE_ALARM_PROBABILITY).holds(answer.value):
        raise ContradictionError(
            f"round {number}: the opened sum is larger than the agreed bounds plus noise can explain, so an owner sent "
            "wrong numbers"
        )
