"""What an owner's daemon does with terms that a certified learner proposes: keep them for a person, and say what became
of them.

Formal guarantee: no byte of a reply depends on a record or on the ledger. Who proposed terms with a key hears, with
that key, whether they are open, accepted (for itself; also after their budget was closed, which only the ledger knows),
refused, and the reason that a person gave, lapsed or withdrawn; with that key alone they are withdrawn, while they are
open. Who may ask by terms hears that they are accepted, whoever proposed them. A new key that is certified as the
learner takes the place of the earlier one while the terms are open; later it hears that there is a proposal. Of others'
proposals it is told no more than that the inbox is full, or too full for one more of its own, or that too many call.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from parley.errors import Malformed, Refusal, Unavailable, UnknownTerms
from parley.network.exchange.messages import write_refusal
from parley.network.exchange.proposal_messages import ProposalState, read_proposal, write_state
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.inbox import Inbox, now
from parley.network.serving.log import Log
from parley.network.serving.proposal import Proposal, parties
from parley.network.serving.replies import caller_facts, loggable

MANY = 8  # proposals at once that come to nothing
EVERY = 2.0  # seconds, after which one more
KNOWN = 4096  # names that are remembered
UNKNOWN = "no such terms were proposed to this owner with this key"
TROUBLE = "the owner cannot take proposals at the moment; propose the same terms again"
LOOK = 60.0  # seconds between two looks at what has lapsed


class ProposalService:
    """The calls about proposals that every certified member may make."""

    def __init__(self, owner: str, inbox: Inbox, acceptances: Acceptances, log: Log) -> None:
        self._owner, self._inbox, self._acceptances, self._log = owner, inbox, acceptances, log
        self._patience, self._reading, self._due = Patience(), threading.Lock(), 0.0

    def propose(self, content: bytes, caller: Caller) -> bytes:
        """What became of the terms in this message, which are kept if they are new; or a refusal."""
        return self._reply(content, caller, lambda terms, text: self._keep(terms, text, caller) if text else None)

    def withdraw(self, content: bytes, caller: Caller) -> bytes:
        """What became of the terms whose hash is in this message, which are withdrawn if they were open; or a
        refusal."""
        return self._reply(content, caller, lambda terms, text: self._withdraw(terms, caller))

    def lapse(self) -> None:
        """Let proposals lapse whose time has come, if it is long since the last look."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LOOK
        try:
            for each in self._inbox.lapse():
                self._log("proposal-lapsed", terms=each.terms_hash, caller=",".join(each.names))
        except Exception as error:  # as below; the daemon goes on, and looks again
            self._log.rate_limited("proposal-trouble", reason=loggable(error))

    def _reply(self, content: bytes, caller: Caller, work: Callable[[str, str], None]) -> bytes:
        """What this caller is told became of the terms in this message after the work; or a refusal."""
        try:
            terms_hash, text = read_proposal(content)
            work(terms_hash, text)
            return write_state(self._owner, terms_hash, self._told(terms_hash, caller))
        except Refusal as refusal:
            self._log.rate_limited("proposal-refused", code=refusal.code, **caller_facts(caller))
            return write_refusal(refusal)
        except Exception as error:  # the disk's, the system's: its text could name places
            self._log.rate_limited("proposal-trouble", reason=loggable(error))
            return write_refusal(Unavailable(TROUBLE))

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
            raise Refusal("these terms were proposed with another key of this learner; ask the owner's people")

    def _withdraw(self, terms_hash: str, caller: Caller) -> None:
        """Each withdrawal makes room for another proposal, which is written to the disk, too: who does so often has to
        wait."""
        self._patience.require(caller)
        if self._inbox.withdraw(terms_hash, caller.fingerprint):
            self._patience.wasted(caller)
            self._log.rate_limited("proposal-withdrawn", **caller_facts(caller))

    def _require_parties(self, text: str, caller: Caller) -> None:
        """Refuse a text that names others than the caller as the learner, or not this owner; one is read at a time, and
        who was refused often has to wait."""
        with self._reading:
            self._patience.require(caller)
            try:
                learner, owners = parties(text)
                if learner not in caller.names or caller.fingerprint is None:
                    raise Malformed("proposal: expected terms that name the one who proposes them as the learner")
                if self._owner not in owners:
                    raise Malformed("proposal: expected terms that name this owner")
            except Malformed:
                self._patience.wasted(caller)
                raise

    def _told(self, terms_hash: str, caller: Caller) -> ProposalState:
        """What this caller is told became of the terms."""
        if self._admits(terms_hash, caller):
            return ProposalState("accepted")
        proposal = self._inbox.get(terms_hash)
        if proposal is None or proposal.fingerprint != caller.fingerprint:
            raise UnknownTerms(UNKNOWN)
        acceptance = self._acceptances.get(terms_hash)
        if acceptance is not None and acceptance.peer is not None:
            return ProposalState("accepted")
        return ProposalState(proposal.ended or "open", proposal.reason)

    def _admits(self, terms_hash: str, caller: Caller) -> bool:
        """Whether the caller may ask by these terms."""
        acceptance = self._acceptances.get(terms_hash)
        return acceptance is not None and acceptance.admits(caller)


class Patience:
    """How often a daemon does work for a member that comes to nothing, before the member has to wait.

    What came to nothing of each party's, by its names, whatever certificates it shows: `MANY` at once, and then one
    in `EVERY` seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._until: OrderedDict[str, float] = OrderedDict()  # when all of it is forgotten

    def require(self, caller: Caller) -> None:
        """Refuse a member that has to wait."""
        with self._lock:
            until = max(self._until.get(name, 0.0) for name in caller.party)
            if until > self._clock() + (MANY - 1) * EVERY:
                raise Refusal("too many proposals of this learner were refused or withdrawn; wait a few seconds")

    def wasted(self, caller: Caller) -> None:
        """One more of this member's came to nothing."""
        with self._lock:
            for name in caller.party:
                self._until[name] = max(self._until.pop(name, 0.0), self._clock()) + EVERY
            while len(self._until) > KNOWN:
                self._until.popitem(last=False)
