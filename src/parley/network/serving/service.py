"""An owner's service: bytes in, bytes out. It reads a message, checks who asks for what, and lets the owner answer.

Formal guarantee: every byte that leaves is a stored answer of the owner, a figure of the ledger about the very
agreement whose learner asks, the end of the ledger's chain (`ledger.chain`: it tells how many rows there are, nothing
of a table or an answer), or one of a fixed set of sentences. Errors inside never travel: not their texts, not their
types. What a refusal says depends on the message, the accepted terms and the ledger, never on a record; that an owner
is busy or in trouble depends on how long it computes and whether its table can be read.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from parley.errors import ParleyError, Unavailable, UnknownTerms
from parley.network.exchange import messages
from parley.network.exchange.delivery import Delivery, answer_or_deliver
from parley.network.exchange.messages import AccountStatement
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.log import Log
from parley.network.serving.replies import Replies, caller_facts, loggable
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Head
from parley.owner.owner import Agreement, Owner
from parley.version import __version__

# the same whether the terms or the caller are unknown
STRANGER = "nobody at this owner accepted these terms for this learner"
BUSY = "the owner is still at work for these terms; ask the same question again"
PATIENCE = 5.0  # seconds that a call waits for another one under the same terms
TROUBLE = "the owner cannot answer at the moment; ask the same question again"


HungUp = Callable[[], bool]  # whether the caller has hung up


class OwnerService:
    """What the daemon's network and socket both lead to."""

    full_name = messages.SERVICE

    def __init__(self, owner: Owner, acceptances: Acceptances, log: Log, delivery: Delivery | None = None) -> None:
        self._owner, self._acceptances, self._log, self._delivery = owner, acceptances, log, delivery
        self._replies = Replies(log, messages.write_refusal, TROUBLE)
        self._opening = threading.Lock()
        self.longest_question = 0  # bytes of numbers that a question may have, by the terms in use
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @property
    def methods(self) -> dict[str, Callable[[bytes, Caller, HungUp], bytes]]:
        """The calls that a learner may make, by name."""
        return {"Ask": self.ask, "Stand": lambda content, caller, hung_up: self.statement(content, caller)}

    def rejection(self, caller: Caller) -> bytes | None:
        """None for a caller that some accepted terms let ask; for others the refusal: not even their message is
        read."""
        try:
            if self._acceptances.admit(caller):
                return None
        except Exception as error:  # the disk's, the system's: its text could name places
            self._log.rate_limited("trouble", reason=type(error).__name__)
            return messages.write_refusal(Unavailable(TROUBLE))
        self._log.rate_limited("stranger", **caller_facts(caller))
        return messages.write_refusal(UnknownTerms(STRANGER))

    def prepare(self) -> None:
        """Prepare the table for all accepted terms with rounds left, so that no learner waits, and say which cannot be
        served."""
        for terms in self._acceptances.hashes():
            try:
                account = self._owner.ledger.account(terms)
                if account.used_up:
                    self._log("closed" if account.closed else "used-up", terms=terms)
                    continue
                self._open_agreement(terms)
                self._log("ready", terms=terms)
            except (ParleyError, OSError) as error:
                self._log("not-ready", terms=terms, reason=loggable(error))

    def ask(self, content: bytes, caller: Caller, hung_up: HungUp = lambda: False) -> bytes:
        """The stored answer to the query in this message, or a refusal. For a caller that has `hung_up` meanwhile
        nothing is begun."""

        def work(facts: dict[str, Any]) -> bytes:
            query = messages.read_query(content)
            self._admit(query.terms_hash, query.learner, caller)
            facts |= {"terms": query.terms_hash, "learner": query.learner, "round": query.round, "query": query.id[:64]}
            turn = self._turns[query.terms_hash]  # a question repeated while it is computed is not computed twice
            if not turn.acquire(timeout=PATIENCE):
                raise Unavailable(BUSY)
            try:
                if hung_up():
                    raise Unavailable(BUSY)
                answer, account = answer_or_deliver(self._owner, query, self._delivery)
            finally:
                turn.release()
            facts |= _head_facts(account.head)
            return messages.write_answer(answer, AccountStatement.of(account))

        return self._replies.reply("answer", caller, work)

    def statement(self, content: bytes, caller: Caller) -> bytes:
        """Where an agreement stands, for its learner, and which hash the chain had at the number of rows that it asks
        about; if it asks for them, public numbers too."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, learner, entries, first = messages.read_agreement(content)
            self._admit(terms, learner, caller)
            facts |= {"terms": terms, "learner": learner}
            ledger = self._owner.ledger
            account, then = ledger.account(terms), ledger.hash_at(entries) if entries else None
            facts |= _head_facts(account.head)
            numbers = (self._owner.agreement(terms).setup.numbers, first) if first else None
            return messages.write_statement(self._owner.name, AccountStatement.of(account, then), numbers)

        return self._replies.reply("standing", caller, work)

    def remember(self) -> None:
        """Let the ledger verify and remember how far it is; a trouble is logged, and every question meets it again."""
        if isinstance(self._owner.ledger, Ledger):
            try:
                self._owner.ledger.remember()
            except (ParleyError, OSError) as error:
                self._log.rate_limited("ledger-trouble", reason=loggable(error))

    def chain_end(self) -> dict[str, Any]:
        """Where the ledger's chain ends, for the log; nothing if the ledger cannot be read."""
        with suppress(ParleyError):
            if isinstance(self._owner.ledger, Ledger):
                return _head_facts(self._owner.ledger.head)
        return {}

    def health(self) -> bytes:
        """The reply that says that this owner's daemon is there."""
        return messages.write_health(self._owner.name, __version__)

    def _admit(self, terms: str, learner: str, caller: Caller) -> None:
        """Refuse unless a person accepted these terms, for this learner, and the caller is it."""
        acceptance = self._acceptances.get(terms)
        if acceptance is None or learner != acceptance.terms.learning.learner or not acceptance.admits(caller):
            raise UnknownTerms(STRANGER)
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


def _head_facts(head: Head | None) -> dict[str, Any]:
    """The end of the ledger's chain, for the log: who keeps it can tell an older copy of the ledger."""
    return {} if head is None else {"entries": head.entries, "head": head.hash}


def open_agreement(owner: Owner, acceptances: Acceptances, terms: str) -> Agreement:
    """The owner's agreement by accepted terms, prepared if it was not yet; reserves nothing that a person did not."""
    try:
        return owner.agreement(terms)
    except UnknownTerms:
        acceptance = acceptances.get(terms)
        if acceptance is None:
            raise UnknownTerms(f"{owner.name}: nobody here accepted these terms; parley owner accept does") from None
        owner.ledger.account(terms)  # refuses if the ledger does not hold them as accepted
        return owner.accept(acceptance.terms)
