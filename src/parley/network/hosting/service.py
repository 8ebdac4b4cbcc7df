"""A host's service: bytes in, bytes out. It reads a message, checks who sent it, and lets that agreement's host answer.

Formal guarantee: an owner's share bundle is taken from a caller whose certificate carries that owner's name, an opening
is given to the learner of the terms alone, which hears public numbers too, and only the other hosts of the terms hear
what this one holds. Where the terms or host.toml give a host's key, only its holder is that host, whatever the
authority certified, and nobody is two of them. Nothing is opened by a journal that is older than what is remembered of
it (`journal`), or than what an honest other host saw of it, or an owner or learner that told it so: before it proposes
anything after a start, and before it opens, it exchanges ends with the other hosts (`exchange.witnesses`). Every byte
that leaves is a row of the journal, an end of a book (the journal's under its own secret), a message of the drawing of
noise, a public number, a reply on this daemon's health, or one of a fixed set of sentences. Errors inside never
travel.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from parley.data.public_numbers import PublicNumbers
from parley.errors import (
    AbortedRound,
    ContentMismatch,
    ParleyError,
    Refusal,
    RolledBack,
    SettingError,
    Unavailable,
    UnknownTerms,
)
from parley.network.exchange import host_connections as messages
from parley.network.exchange.host_connections import HostConnections, HostGroup, RemoteHost
from parley.network.exchange.messages import read_agreement
from parley.network.exchange.witnesses import Keeper, Sender, Witness, Witnesses
from parley.network.hosting.channels import Drawer
from parley.network.hosting.host import PEER_TIMEOUT_S, RESTARTED, Host
from parley.network.hosting.journal import CLOSED_REASON, Journal
from parley.network.hosting.pool import Pool
from parley.network.hosting.proposal import HostAssignment, Proposal, assignment_of
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.log import Log
from parley.network.serving.server import HungUp, Work
from parley.network.serving.service import Replies, caller_facts, loggable
from parley.owner.ledger.witnessed import SignedEnd
from parley.protocol.setup import resolve

UNKNOWN_CALLER_MESSAGE = "this host has not accepted these terms for this caller"
STARTING_MESSAGE = "this host has just begun and takes up its agreements; ask again"
FAILURE_MESSAGE = "the host cannot answer at the moment; ask the same question again"
CHECK_INTERVAL_S = 2.0  # seconds between two looks for terms that were accepted meanwhile
HOST_REFUSALS = {  # another host's refusals
    AbortedRound.code: "says that this round is aborted",
    ContentMismatch.code: "says that another question was asked in this round",
    RolledBack.code: "saw a later end of this host's journal; put the latest journal back, or run parley host restore",
    Unavailable.code: "does not answer at the moment; ask the same question again",
}
MESSAGE_OVERHEAD_BYTES = 1 << 16  # bytes of a message beside its numbers

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class OtherHost:
    """Another host, as `Host` asks it."""

    connection: RemoteHost
    tell: Callable[[], None] = lambda: None  # where this host's journal ends

    def proposal(self, terms_hash: str, number: int, content: str) -> Proposal:
        return Proposal.from_text(
            self._heard(lambda: self.connection.propose(terms_hash, number, content, 2 * PEER_TIMEOUT_S))
        )

    def record(self, terms_hash: str, number: int) -> str:
        """Return the digest of what it recorded, once it keeps the end of this journal with this host's record."""
        self.tell()
        return self._heard(lambda: self.connection.record(terms_hash, number, 2 * PEER_TIMEOUT_S))

    def _heard(self, call: Callable[[], T]) -> T:
        """Return its answer, or its refusal in this host's words: another host's text is not passed on."""
        try:
            return call()
        except Refusal as refusal:
            raise type(refusal)(
                f"{self.connection.name} {HOST_REFUSALS.get(refusal.code, f'refuses ({refusal.code})')}"
            ) from None


@dataclass(frozen=True, eq=False)
class HostedAgreement:
    """This host under one agreement."""

    acceptance: Acceptance
    assignment: HostAssignment
    host: Host
    drawer: Drawer | None  # None: this host draws its noise alone
    group: HostGroup  # this host and the others, and the keys that they must show or have shown
    numbers: PublicNumbers

    def admits(self, caller: Caller) -> bool:
        """Whether the caller is a party to these terms."""
        terms = self.acceptance.terms
        parties = {terms.learning.learner, *(owner.name for owner in terms.owners)}
        return any(name in parties for name in caller.names) or self.other_host(caller) is not None

    def other_host(self, caller: Caller) -> int | None:
        """Return which other host calls; None for a caller with another key, or that is two hosts at once."""
        host_names = [name for name in self.assignment.hosts if name in caller.names]
        if len(host_names) != 1 or host_names[0] == self.group.own or caller.fingerprint is None:
            return None
        (name,) = host_names
        if (
            self.group.keys[name] not in (None, caller.fingerprint)
            or self.group.meet(name, caller.names, caller.fingerprint) is not None
        ):
            return None
        return self.assignment.hosts.index(name)

    def sender(self, caller: Caller, own: SignedEnd | None) -> Sender:
        """Return the owner or other host that calls about its `own` book, with its key if one is known; refuse anybody
        else. An owner may also be a host, under the same name."""
        number = self.other_host(caller)
        if own is not None and own.kind == "ledger":
            if own.party in caller.names and own.party in [owner.name for owner in self.acceptance.terms.owners]:
                return Sender(own.party, kind="ledger")
        elif number is not None:
            name = self.assignment.hosts[number]
            return Sender(name, self.group.keys[name])
        raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)

    def witnesses(self) -> list[tuple[Witness, str | None]]:
        """Return the other hosts, with their keys where known."""
        return [(connection, self.group.keys[name]) for name, connection in self.group.connections.items()]

    def close(self) -> None:
        if self.drawer is not None:
            self.drawer.close()
        self.host.close()


class HostService:
    """What a host's daemon offers, for all terms that its people accepted."""

    full_name = messages.SERVICE

    def __init__(
        self,
        name: str,
        journal: Journal,
        acceptances: Acceptances,
        connections: HostConnections,
        log: Log,
    ) -> None:
        self._name, self._journal, self._acceptances, self._connections, self._log = (
            name,
            journal,
            acceptances,
            connections,
            log,
        )
        self._replies = Replies(log, messages.write_refusal, FAILURE_MESSAGE)
        warn = lambda reason: log.rate_limited("warning", reason=reason)  # noqa: E731
        self.witnesses = Witnesses(name, "journal", journal.witnessed, connections.signer(), warn)
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="parley-ask")
        self._asking: Future[None] = Future()
        self._asking.set_result(None)
        self._lock = threading.Lock()
        self._hosted: dict[str, HostedAgreement] = {}
        self._closed: set[str] = set()  # accepted terms that a restore closed
        self._beginning = True  # until the accepted terms were taken up once
        self._looked = time.monotonic()
        # bytes, by the terms in use; messages of a drawing are some times as long as a share bundle
        self.longest_message = 1 << 22

    @property
    def methods(self) -> dict[str, Work]:
        return {
            "Deliver": self.deliver,
            "Open": self.open,
            "Propose": self.propose,
            "Record": self.record,
            "Carry": self.carry,
            "Stand": self.stand,
            "Witness": self.witness,
        }

    @property
    def hosted(self) -> list[HostedAgreement]:
        """All accepted terms that are served."""
        return list(self._hosted.values())

    def prepare(self) -> None:
        """Take up all accepted terms, and log which cannot be served."""
        for terms in self._acceptances.hashes():
            try:
                if self._journal.closed(terms):
                    self._closed.add(terms)
                    continue
                self._agreement(terms)
            except (ParleyError, OSError) as error:
                self._log.rate_limited("not-ready", terms=terms, reason=loggable(error))
        self._beginning = False

    def rejection(self, caller: Caller) -> bytes | None:
        """Return None for a caller of accepted terms, else the refusal, its message unread. While terms are still being
        taken up, an unknown caller is told to ask again."""
        self._take_new_agreements()
        if any(hosted.admits(caller) for hosted in self.hosted):
            return None
        if self._beginning:
            return messages.write_refusal(Unavailable(STARTING_MESSAGE))
        self._log.rate_limited("stranger", **caller_facts(caller))
        return messages.write_refusal(UnknownTerms(UNKNOWN_CALLER_MESSAGE))

    def _take_new_agreements(self) -> None:
        """Take up terms accepted meanwhile; look seldom, as any caller can trigger it."""
        now = time.monotonic()
        if now - self._looked >= CHECK_INTERVAL_S:
            self._looked = now
            try:
                known = self._acceptances.hashes()
            except OSError as error:
                self._log.rate_limited("trouble", reason=type(error).__name__)
                return
            if len(known) > len(self._hosted) + len(self._closed):
                self.prepare()

    def health(self) -> bytes:
        """Return the reply that this host is there."""
        return messages.write_reply(alive=self._name)

    def deliver(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Take an owner's share bundle, from that owner."""

        def work(facts: dict[str, Any]) -> bytes:
            bundle = messages.read_share_bundle(content)
            hosted = self._agreement(bundle.terms_hash)
            facts |= {"terms": bundle.terms_hash, "round": bundle.round, "owner": bundle.owner}
            if bundle.owner not in caller.names:
                raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
            self.witnesses.require_heard(bundle.owner, "ledger", bundle.terms_hash)
            hosted.host.receive(bundle)
            return messages.write_reply(done=True)

        return self._replies.reply("parcel", caller, work)

    def open(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Return this host's part of the sum, for the learner."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, number, content_hash = messages.read_question(content)
            hosted = self._agreement(terms)
            facts |= {"terms": terms, "round": number}
            if not hosted.acceptance.admits(caller):
                raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
            seen = messages.read_seen(content)
            self.witnesses.hear(seen, Sender(hosted.acceptance.terms.learning.learner))
            self._require_told(hosted)
            opening = hosted.host.open(number, content_hash)
            facts["owners"] = len(opening.owners)
            if left_out := self._journal.left_out(terms, number):
                facts["left_out"] = left_out
            end, earlier = self.witnesses.own_end(terms, 0 if seen is None else seen.head.entries)
            return messages.write_opening(replace(opening, end=end, earlier=earlier))

        return self._replies.reply("answer", caller, work)

    def stand(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Return this host's public numbers, which the learner compares with its own before it asks anything."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, _, _, first = read_agreement(content)
            hosted = self._agreement(terms)
            facts |= {"terms": terms}
            if not hosted.acceptance.admits(caller):
                raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
            return messages.write_numbers(hosted.numbers, max(1, first))

        return self._replies.reply("standing", caller, work)

    def propose(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Return what this host holds, for another host."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, number, content_hash = messages.read_question(content)
            hosted, other = self._of_host(terms, caller)
            facts |= {"terms": terms, "round": number}
            self._require_told(hosted)
            self._require_heard(hosted, other)
            return messages.write_reply(proposal=hosted.host.proposal(number, content_hash).to_text())

        return self._replies.reply("proposal", caller, work)

    def record(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Return the digest of what this host recorded, for another host."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, number, _ = messages.read_question(content)
            hosted, other = self._of_host(terms, caller)
            facts |= {"terms": terms, "round": number}
            self._require_told(hosted)
            self._require_heard(hosted, other)
            return messages.write_reply(record=hosted.host.record(number))

        return self._replies.reply("record", caller, work)

    def witness(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Keep where an owner's ledger or another host's journal ends, and tell where this journal does."""

        def work(facts: dict[str, Any]) -> bytes:
            ends = messages.read_ends(content)
            hosted = self._agreement(ends.terms)
            facts |= {"terms": ends.terms}
            return messages.write_ends_reply(self.witnesses.answer(ends, hosted.sender(caller, ends.own)))

        return self._replies.reply(None, caller, work)

    def carry(self, content: bytes, caller: Caller, hung_up: HungUp) -> bytes:
        """Take another host's message of the drawing of noise; too many to log."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, channel, number, payload = messages.read_frame(content)
            hosted, other = self._of_host(terms, caller)
            if hosted.drawer is None:
                raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
            hosted.drawer.take(other, channel, number, payload)
            return messages.write_reply(done=True)

        return self._replies.reply(None, caller, work)

    def close(self) -> None:
        """Leave all agreements: end their drawing and close their connections."""
        self._asker.shutdown(wait=False, cancel_futures=True)
        for hosted in self.hosted:
            hosted.close()

    def remember(self) -> None:
        """Write down what witnesses signed; trouble is logged, and every question meets it again."""
        try:
            self.witnesses.flush()
        except (ParleyError, OSError) as error:
            self._log.rate_limited("journal-trouble", reason=loggable(error))

    def ask_witnesses(self) -> None:
        """Begin to ask the other hosts where they saw this journal end, once after a start; nobody waits."""
        if not self.witnesses.asked and self._asking.done():
            self._asking = self._asker.submit(self._ask_witnesses)

    def _ask_witnesses(self) -> None:
        try:
            self.witnesses.ask_once(self._keepers, PEER_TIMEOUT_S)
        except RolledBack as error:
            self._log.rate_limited("rolled-back", reason=loggable(error))
        except (ParleyError, OSError) as error:
            self._log.rate_limited("journal-trouble", reason=loggable(error))

    def _of_host(self, terms: str, caller: Caller) -> tuple[HostedAgreement, int]:
        """Return the agreement and which other host calls, unless its journal went back."""
        hosted = self._agreement(terms)
        number = hosted.other_host(caller)
        if number is None:
            raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
        self.witnesses.require_current(hosted.assignment.hosts[number], "journal", terms)
        return hosted, number

    def _require_told(self, hosted: HostedAgreement) -> None:
        """Wait for another host, once after a start, that says where it saw this journal end; only then write."""
        terms = hosted.assignment.terms_hash
        self.witnesses.require_told(terms, hosted.witnesses, PEER_TIMEOUT_S, self._keepers)
        for number in hosted.host.begin():
            self._log("void", terms=terms, round=number, reason=RESTARTED)

    def _keepers(self) -> list[Keeper]:
        """Return the other hosts of all agreements that are served."""
        return [(each.assignment.terms_hash, *keeper) for each in self.hosted for keeper in each.witnesses()]

    def _require_heard(self, hosted: HostedAgreement, other: int) -> None:
        """Refuse another host that shows no end of its journal any more."""
        name, terms = hosted.assignment.hosts[other], hosted.assignment.terms_hash
        connection, key = hosted.group.connections[name], hosted.group.keys[name]
        ask = partial(self.witnesses.tell, terms, connection, key, PEER_TIMEOUT_S)
        self.witnesses.require_heard(name, "journal", terms, ask)

    def _agreement(self, terms: str) -> HostedAgreement:
        """Return this host under the terms with this hash, or refuse."""
        acceptance = self._acceptances.get(terms)
        if acceptance is None:
            raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
        with self._lock:
            if terms not in self._hosted and self._journal.closed(terms):
                raise UnknownTerms(CLOSED_REASON)
            if terms not in self._hosted:
                self._hosted[terms] = self._host_agreement(acceptance)
                self._log("ready", terms=terms)
            hosted = self._hosted[terms]
        return replace(hosted, acceptance=acceptance)

    def _host_agreement(self, acceptance: Acceptance) -> HostedAgreement:
        setup = resolve(acceptance.terms)
        assignment = assignment_of(setup)
        assignment.require_messages()
        index = assignment.index(self._name)
        if not self._journal.begun(assignment.terms_hash):
            raise SettingError(
                f"{self._journal.path}: these terms were accepted with another journal; put the other journal back"
            )
        group = self._connections.group(acceptance.terms.hosts, self._name)
        peers = {i: group.connections[name] for i, name in enumerate(assignment.hosts) if i != index}
        pool = Pool(assignment.drawn_ahead)
        tell = partial(self.witnesses.tell, assignment.terms_hash, timeout=2 * PEER_TIMEOUT_S)
        others = {i: OtherHost(each, partial(tell, each, group.keys[each.name])) for i, each in peers.items()}
        host = Host(self._name, assignment, self._journal, pool, others, begun=False)
        drawn = 64 * max(shape.bytes for shape in assignment.ahead)
        longest = max(drawn, assignment.longest_share) + MESSAGE_OVERHEAD_BYTES
        self.longest_message = max(self.longest_message, longest)
        drawer = Drawer(assignment, index, pool, peers, self._log) if assignment.together else None
        return HostedAgreement(acceptance, assignment, host, drawer, group, setup.numbers)
