"""An owner's service: bytes in, bytes out. It reads a message, checks who asks for what, and lets the owner answer.

Formal guarantee: every byte that leaves is a stored answer of the owner, a figure of the ledger about the very
agreement whose learner asks, the end of the ledger's chain (`ledger.chain`: how many rows there are, nothing of a table
or an answer), a public number of the terms, a reply on this daemon's health, or one of a fixed set of sentences. What a
refusal says depends on the message, the accepted terms and the ledger, never on a record; that an owner is busy or in
trouble depends on how long it computes and whether its table can be read. Errors inside never travel, neither their
texts nor their types: a caller gets the reply, a refusal in the words of this package, or one fixed sentence of
trouble.

Formal guarantee: of proposed terms, which are kept for a person, no byte of a reply depends on a record or on the
ledger. Who proposed terms with a key hears, with that key, whether they are open, accepted (for itself; also after
their budget was closed, which only the ledger knows), refused, with the person's reason, lapsed or withdrawn; with that
key alone they are withdrawn, while they are open. Who may ask by terms hears that they are accepted, whoever proposed
them. A new key certified as the learner takes the place of the earlier one while the terms are open; later it hears
that there is a proposal. Of others' proposals it hears only that the inbox is full, or too full for one more of its
own, or that too many call.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from parley.errors import DataError, Malformed, ParleyError, Refusal, RolledBack, Unavailable, UnknownTerms
from parley.network.exchange import messages
from parley.network.exchange.messages import AccountStatement, ProposalState, read_proposal, write_refusal, write_state
from parley.network.exchange.share_bundle import Delivery, answer_or_deliver
from parley.network.exchange.witnesses import Sender, Witnesses
from parley.network.identity.certificates import Signer
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.inbox import Inbox, Proposal, now, parties
from parley.network.serving.log import Log
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.owner.owner import Agreement, Owner
from parley.version import __version__


@dataclass(frozen=True)
class Replies:
    """Where a service's replies are made: its log, how it writes a refusal, its sentence of trouble."""

    log: Log
    write_refusal: Callable[[Refusal], bytes]
    trouble: str

    def reply(self, event: str | None, caller: Caller, work: Callable[[dict[str, Any]], bytes]) -> bytes:
        """Return the work's reply or a refusal, logged with the work's facts; without an event only failures
        are."""
        began, facts = time.perf_counter(), caller_facts(caller)
        try:
            reply = work(facts)
        except Refusal as refusal:
            event, reply = "refusal", self.write_refusal(refusal)
            facts["code"] = refusal.code
            if isinstance(refusal, RolledBack):  # the operator has to act
                facts["reason"] = str(refusal)
        except Exception as error:
            event, reply = "trouble", self.write_refusal(Unavailable(self.trouble))
            facts["reason"] = loggable(error)
        if event is not None:
            self.log(event, **facts, ms=round(1e3 * (time.perf_counter() - began), 1))
        return reply


def caller_facts(caller: Caller) -> dict[str, Any]:
    """Return who calls and from where, for the log."""
    who = {"caller": "relay" if caller.relay else ",".join(caller.names)}
    return {**who, "peer": caller.peer} if caller.peer else who


def loggable(error: Exception) -> str:
    """Return what a log may say of an error: only that a table does not fit (parley owner accept tells a person where),
    and only the kind of other packages' errors, whose texts could quote anything."""
    if not isinstance(error, ParleyError):
        return type(error).__name__
    return "the table does not fit the terms, or changed" if isinstance(error, DataError) else str(error)


# the same whether the terms or the caller are unknown
UNKNOWN_CALLER_MESSAGE = "this owner has not accepted these terms for this learner"
BUSY_MESSAGE = "the owner is still at work for these terms; ask the same question again"
TURN_TIMEOUT_S = 5.0  # seconds that a call waits for another one under the same terms
FAILURE_MESSAGE = "the owner cannot answer at the moment; ask the same question again"


HungUp = Callable[[], bool]  # whether the caller has hung up


class OwnerService:
    """What the daemon's network and socket both lead to."""

    full_name = messages.SERVICE

    def __init__(
        self,
        owner: Owner,
        acceptances: Acceptances,
        log: Log,
        delivery: Delivery | None = None,
        witnesses: Witnesses | None = None,
    ) -> None:
        self._owner, self._acceptances, self._log, self._delivery = owner, acceptances, log, delivery
        self._witnesses = open_witnesses(owner) if witnesses is None else witnesses
        self._replies = Replies(log, messages.write_refusal, FAILURE_MESSAGE)
        self._opening = threading.Lock()
        self.longest_question = 0  # bytes of numbers that a question may have, by the terms in use
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @property
    def methods(self) -> dict[str, Callable[[bytes, Caller, HungUp], bytes]]:
        """The calls that a learner may make, by name."""
        return {"Ask": self.ask, "Stand": lambda content, caller, hung_up: self.statement(content, caller)}

    def rejection(self, caller: Caller) -> bytes | None:
        """Return None for a caller that accepted terms let ask, else the refusal, its message unread."""
        try:
            if self._acceptances.admit(caller):
                return None
        except Exception as error:  # the disk's, the system's: its text could name places
            self._log.rate_limited("trouble", reason=type(error).__name__)
            return messages.write_refusal(Unavailable(FAILURE_MESSAGE))
        self._log.rate_limited("stranger", **caller_facts(caller))
        return messages.write_refusal(UnknownTerms(UNKNOWN_CALLER_MESSAGE))

    def prepare(self) -> None:
        """Prepare the table for accepted terms with rounds left, so no learner waits; log which cannot be
        served."""
        for terms in self._acceptances.hashes():
            try:
                account = self._owner.ledger.account(terms)
                if not account.closed:
                    self._watch(terms)
                if account.used_up:
                    self._log("closed" if account.closed else "used-up", terms=terms)
                    continue
                self._open_agreement(terms)
                self._log("ready", terms=terms)
            except (ParleyError, OSError) as error:
                self._log("not-ready", terms=terms, reason=loggable(error))

    def ask(self, content: bytes, caller: Caller, hung_up: HungUp = lambda: False) -> bytes:
        """Return the stored answer to this query, or a refusal; begin nothing for a caller that has
        `hung_up`."""

        def work(facts: dict[str, Any]) -> bytes:
            query, seen = messages.read_asked(content)
            self._admit(query.terms_hash, query.learner, caller)
            if self._witnesses is not None and seen is not None:
                self._witnesses.hear(*_heard(seen, caller))
            facts |= {"terms": query.terms_hash, "learner": query.learner, "round": query.round, "query": query.id[:64]}
            turn = self._turns[query.terms_hash]  # a question repeated while it is computed is not computed twice
            if not turn.acquire(timeout=TURN_TIMEOUT_S):
                raise Unavailable(BUSY_MESSAGE)
            try:
                if hung_up():
                    raise Unavailable(BUSY_MESSAGE)
                answer, account = answer_or_deliver(self._owner, query, self._delivery, self._witnesses)
            finally:
                turn.release()
            facts |= _head_facts(account.head)
            return messages.write_answer(answer, AccountStatement.from_account(account))

        return self._replies.reply("answer", caller, work)

    def statement(self, content: bytes, caller: Caller) -> bytes:
        """Return where an agreement stands to its learner, with the chain's hash and public numbers it asks
        for."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, learner, entries, first = messages.read_agreement(content)
            self._admit(terms, learner, caller)
            facts |= {"terms": terms, "learner": learner}
            ledger = self._owner.ledger
            account, then = ledger.account(terms), ledger.hash_at(entries) if entries else None
            facts |= _head_facts(account.head)
            numbers = (self._owner.agreement(terms).setup.numbers, first) if first else None
            return messages.write_statement(self._owner.name, AccountStatement.from_account(account, then), numbers)

        return self._replies.reply("standing", caller, work)

    def remember(self) -> None:
        """Let the ledger verify and remember its end; trouble is logged, and every question meets it again."""
        if isinstance(self._owner.ledger, Ledger):
            try:
                self._owner.ledger.remember()
                if self._witnesses is not None:
                    self._witnesses.flush()
                if self._delivery is not None:
                    self._delivery.refresh(lambda terms: self._owner.ledger.account(terms).used_up, self._note_rollback)
            except (ParleyError, OSError) as error:
                self._log.rate_limited("ledger-trouble", reason=loggable(error))

    def _note_rollback(self, terms: str, host: str, error: RolledBack) -> None:
        """Log that a look found a book that went back: the host's journal, or this ledger."""
        self._log.rate_limited("rolled-back", terms=terms, host=host, reason=loggable(error))

    def _watch(self, terms: str) -> None:
        """Look where the hosts' journals end, as before this daemon's start."""
        acceptance = self._acceptances.get(terms)
        if self._delivery is not None and acceptance is not None and acceptance.terms.noise.hosts:
            with suppress(ParleyError):  # a host whose address is gone: a question says so
                self._delivery.require(acceptance.terms.hosts)
                self._delivery.watch(terms, acceptance.terms.hosts)

    def chain_end(self) -> dict[str, Any]:
        """Return where the ledger's chain ends, for the log; nothing if the ledger cannot be read."""
        with suppress(ParleyError):
            if isinstance(self._owner.ledger, Ledger):
                return _head_facts(self._owner.ledger.head)
        return {}

    def health(self) -> bytes:
        """Return the reply that this owner's daemon is there."""
        return messages.write_health(self._owner.name, __version__)

    def _admit(self, terms: str, learner: str, caller: Caller) -> None:
        """Refuse unless a person accepted these terms for this learner, who calls."""
        acceptance = self._acceptances.get(terms)
        if acceptance is None or learner != acceptance.terms.learning.learner or not acceptance.admits(caller):
            raise UnknownTerms(UNKNOWN_CALLER_MESSAGE)
        if not self._owner.accepted(terms):
            self._open_agreement(terms)

    def _open_agreement(self, terms: str) -> None:
        ledger = self._owner.ledger
        with self._opening:
            known = not isinstance(ledger, Ledger) or ledger.knows_table(terms)
            numbers = open_agreement(self._owner, self._acceptances, terms).setup.parameters
            self.longest_question = max(self.longest_question, 8 * numbers)
        if not known:
            self._log(
                "table",
                terms=terms,
                reason="the ledger did not know the table of these terms: the one that is there now is recorded",
            )


def open_witnesses(owner: Owner, signer: Signer | None = None) -> Witnesses | None:
    """Return the owner's ledger among its witnesses; None for a study. Without a `signer` (no identity) it only hears
    what learners saw."""
    if not isinstance(owner.ledger, Ledger):
        return None
    return Witnesses(owner.name, "ledger", owner.ledger.witnessed, signer)


def _heard(seen: SignedEnd, caller: Caller) -> tuple[SignedEnd, Sender]:
    """Return what a caller saw and who that is; a relay shows no certificate, so that what it carries is unsigned."""
    if caller.relay or seen.countersignature is None:
        return replace(seen, witness="", countersignature=None), Sender("")
    if seen.witness not in caller.names:
        raise Malformed("ends of books: expected the signature of the caller")
    return seen, Sender(seen.witness)


def _head_facts(head: Head | None) -> dict[str, Any]:
    """Return the chain's end for the log, by which an older ledger can be told."""
    return {} if head is None else {"entries": head.entries, "head": head.hash}


def open_agreement(owner: Owner, acceptances: Acceptances, terms: str) -> Agreement:
    """Return the owner's agreement by accepted terms, prepared if needed; reserve nothing that a person did
    not."""
    try:
        return owner.agreement(terms)
    except UnknownTerms:
        acceptance = acceptances.get(terms)
        if acceptance is None:
            raise UnknownTerms(
                f"{owner.name}: this owner has not accepted these terms; to accept them, the owner runs "
                "parley owner accept"
            ) from None
        owner.ledger.account(terms)  # refuses if the ledger does not hold them as accepted
        return owner.accept(acceptance.terms)


WASTED_AT_ONCE = 8  # proposals at once that come to nothing
WASTED_INTERVAL_S = 2.0  # seconds, after which one more
MAX_REMEMBERED_NAMES = 4096  # names that are remembered
UNKNOWN_PROPOSAL_MESSAGE = "no such terms were proposed to this owner with this key"
INBOX_FAILURE_MESSAGE = "the owner cannot take proposals at the moment; propose the same terms again"
LAPSE_CHECK_INTERVAL_S = 60.0  # seconds between two looks at what has lapsed


class ProposalService:
    """The calls about proposals that every certified member may make."""

    def __init__(self, owner: str, inbox: Inbox, acceptances: Acceptances, log: Log) -> None:
        self._owner, self._inbox, self._acceptances, self._log = owner, inbox, acceptances, log
        self._patience, self._reading, self._due = Patience(), threading.Lock(), 0.0

    def propose(self, content: bytes, caller: Caller) -> bytes:
        """Keep the terms in this message if they are new; return what became of them, or a refusal."""
        return self._reply(content, caller, lambda terms, text: self._keep(terms, text, caller) if text else None)

    def withdraw(self, content: bytes, caller: Caller) -> bytes:
        """Withdraw the terms with the hash in this message if they are open; return their state, or a
        refusal."""
        return self._reply(content, caller, lambda terms, text: self._withdraw(terms, caller))

    def lapse(self) -> None:
        """Let overdue proposals lapse, unless the last look was recent."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LAPSE_CHECK_INTERVAL_S
        try:
            for each in self._inbox.lapse():
                self._log("proposal-lapsed", terms=each.terms_hash, caller=",".join(each.names))
        except Exception as error:  # as below; the daemon goes on, and looks again
            self._log.rate_limited("proposal-trouble", reason=loggable(error))

    def _reply(self, content: bytes, caller: Caller, work: Callable[[str, str], None]) -> bytes:
        """Do the work; return what became of these terms, or a refusal."""
        try:
            terms_hash, text = read_proposal(content)
            work(terms_hash, text)
            return write_state(self._owner, terms_hash, self._told(terms_hash, caller))
        except Refusal as refusal:
            self._log.rate_limited("proposal-refused", code=refusal.code, **caller_facts(caller))
            return write_refusal(refusal)
        except Exception as error:  # the disk's, the system's: its text could name places
            self._log.rate_limited("proposal-trouble", reason=loggable(error))
            return write_refusal(Unavailable(INBOX_FAILURE_MESSAGE))

    def _keep(self, terms_hash: str, text: str, caller: Caller) -> None:
        earlier = self._inbox.get(terms_hash)
        if earlier is None or not {*earlier.names} & {*caller.names}:  # others' proposals are as if they were not there
            self._inbox.require_room(caller.names)
        if earlier is None or earlier.fingerprint != caller.fingerprint:
            self._require_parties(text, caller)
        received = now().isoformat(timespec="seconds")
        proposal = Proposal(
            terms_hash, text, caller.names, caller.fingerprint or "", received, certificate=caller.certificate
        )
        kept = self._inbox.add(proposal)
        if earlier is None or (earlier.fingerprint, earlier.ended) != (kept.fingerprint, kept.ended):
            self._log("proposal", terms=terms_hash, **caller_facts(caller))
        elif kept.fingerprint != caller.fingerprint and not self._admits(terms_hash, caller):
            raise Refusal("these terms were proposed with another key of this learner; contact the owner")

    def _withdraw(self, terms_hash: str, caller: Caller) -> None:
        """Withdraw terms; frequent callers wait, as each frees a place for another write."""
        self._patience.require(caller)
        if self._inbox.withdraw(terms_hash, caller.fingerprint):
            self._patience.wasted(caller)
            self._log.rate_limited("proposal-withdrawn", **caller_facts(caller))

    def _require_parties(self, text: str, caller: Caller) -> None:
        """Refuse a text without the caller as learner or this owner, one at a time; often refused callers
        wait."""
        with self._reading:
            self._patience.require(caller)
            try:
                learner, owners = parties(text)
                if learner not in caller.names or caller.fingerprint is None:
                    raise Malformed("proposal: expected terms whose learner is the proposer")
                if self._owner not in owners:
                    raise Malformed("proposal: expected terms that name this owner")
            except Malformed:
                self._patience.wasted(caller)
                raise

    def _told(self, terms_hash: str, caller: Caller) -> ProposalState:
        """Return what this caller may hear became of the terms."""
        if self._admits(terms_hash, caller):
            return ProposalState("accepted")
        proposal = self._inbox.get(terms_hash)
        if proposal is None or proposal.fingerprint != caller.fingerprint:
            raise UnknownTerms(UNKNOWN_PROPOSAL_MESSAGE)
        acceptance = self._acceptances.get(terms_hash)
        if acceptance is not None and acceptance.peer is not None:
            return ProposalState("accepted")
        return ProposalState(proposal.ended or "open", proposal.reason)

    def _admits(self, terms_hash: str, caller: Caller) -> bool:
        acceptance = self._acceptances.get(terms_hash)
        return acceptance is not None and acceptance.admits(caller)


class Patience:
    """How much fruitless work each party, by its names and whatever certificates it shows, gets before it has to wait:
    `WASTED_AT_ONCE` at once, and then one in `WASTED_INTERVAL_S` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._until: OrderedDict[str, float] = OrderedDict()  # when all of it is forgotten

    def require(self, caller: Caller) -> None:
        """Refuse a member that has to wait."""
        with self._lock:
            until = max(self._until.get(name, 0.0) for name in caller.party)
            if until > self._clock() + (WASTED_AT_ONCE - 1) * WASTED_INTERVAL_S:
                raise Refusal(
                    "too many proposals from this learner were refused or withdrawn; wait at least "
                    f"{WASTED_INTERVAL_S:g} seconds"
                )

    def wasted(self, caller: Caller) -> None:
        """Count one more fruitless work for this member."""
        with self._lock:
            for name in caller.party:
                self._until[name] = max(self._until.pop(name, 0.0), self._clock()) + WASTED_INTERVAL_S
            while len(self._until) > MAX_REMEMBERED_NAMES:
                self._until.popitem(last=False)
