"""All owners of an agreement over real networks: asked at once, and again when a connection breaks.

A retry carries the same query and gets the same stored answer, so no fault between learner and owner costs a second
debit. After the deadline of a round late owners are waited for (`wait`), left out of this round if a quorum has
answered (`skip`), or end the run, which can be resumed (`stop`). Which owners answered is part of the run: the caller
stores it before it asks the next round. Asynchronous rounds use answers as they come, with at most one open question
per owner; the three rules then apply when nobody was heard for as long as the deadline.

Every word is checked against the terms and the same owner's earlier words (`Scrutiny`); an owner that contradicts them
is named and ends the run under any of the three rules. So does a rolled-back ledger: if the end of its chain does not
plainly follow from the one last seen, the owner is asked for the hash at that length. Numbers that are merely too large
do not, where the terms say that owners may lie (`[aggregation]`): the rule limits them.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from parley.data.public_numbers import depends_on_machine
from parley.errors import (
    AbortedRound,
    ContradictionError,
    ExchangeError,
    ParleyError,
    Refusal,
    Unavailable,
    UnknownTerms,
)
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.messages import AccountStatement, AnswerReply, require_agreed, silent
from parley.network.exchange.remote import Peer, Seen
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup
from parley.validate import Floats, upper

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two attempts
CATCH_UP_TIMEOUT_S = 10.0  # seconds, at the end, for owners that were late

Warn = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class PeerStatus:
    """An owner's last statement and its round; how long its last answer took, and all of them."""

    statement: AccountStatement
    round: int = 0
    seconds: float = 0.0
    total_seconds: float = 0.0
    answers: int = 0

    @property
    def mean_seconds(self) -> float | None:
        return self.total_seconds / self.answers if self.answers else None


class Federation:
    """An `Exchange` whose owners are elsewhere; `status` holds every owner's last statement and its round. `heads` are
    the last seen ends of their ledgers, `answers` how many answers each gave before this run. `only`: this one owner is
    asked."""

    def __init__(
        self,
        setup: Setup,
        peers: Sequence[Peer],
        deadline: float,
        warn: Warn,
        heads: Mapping[str, Head] | None = None,
        answers: Mapping[str, int] | None = None,
        only: str | None = None,
    ) -> None:
        terms = setup.terms
        self._terms, self._deadline, self._warn = terms, deadline, warn
        self._peers = {peer.name: peer for peer in peers}
        names = [part.name for part in terms.owners]
        if sorted(self._peers) != (sorted(names) if only is None else [only]):
            raise ExchangeError(f"addresses: expected addresses of the owners {names}, found {sorted(self._peers)}")
        gaps = terms.learning.straggler == "skip" or terms.noise.aborts  # a round may be aborted
        self._scrutiny = {name: Scrutiny(setup.part(name), gaps, terms.noise.summed) for name in names}
        size = self._scrutiny[names[0]].size
        if 8 * size + 1024 > MAX_MESSAGE_BYTES:
            raise ExchangeError(
                f"model: an answer of {size} numbers does not fit into a message of at most {MAX_MESSAGE_BYTES} bytes; "
                "use a smaller model"
            )
        self._quorum = terms.learning.quorum or len(names)
        self._pool = ThreadPoolExecutor(2 * len(names), thread_name_prefix="parley-owner")
        self._warned: set[str] = set()
        self._numbers, self._agreed = setup.numbers, set[str]()  # who resolved the same
        self._asked: dict[str, int] = {}  # the last round that each owner was asked in
        self._answers = Counter(answers)
        self.heads = dict(heads or {})
        self.ends: dict[str, SignedEnd] = {}  # of hosts' journals
        for peer in peers:
            if isinstance(peer, Seen):
                peer.seen = partial(self.heads.get, peer.name)
        self.status: dict[str, PeerStatus] = {}

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Return the answers of this round, in the order of the terms."""
        number = next(iter(questions.values())).round
        self._asked |= dict.fromkeys(questions, number)
        began = time.perf_counter()
        replies = self._gather(
            lambda peer: self._answer(peer, questions[peer.name], began), f"round {number}", questions
        )
        for name, (seconds, reply) in replies.items():
            before = self.status.get(name, PeerStatus(reply.statement))
            self._answers[name] += 1
            self._record(
                name, PeerStatus(reply.statement, number, seconds, before.total_seconds + seconds, before.answers + 1)
            )
        return [replies[part.name][1].answer for part in self._terms.owners if part.name in replies]

    def fetch_statements(self) -> None:
        """Fetch the statements of all owners (or a quorum) before any question, and compare public numbers."""
        statements = self._gather(self._introduced, "before the first round", self._peers)
        for name, statement in statements.items():
            self._record(name, PeerStatus(statement))

    def spent(self, name: str) -> float | None:
        """Return what an owner has spent, by its own last statement."""
        return upper(self.status[name].statement.spent) if name in self.status else None

    def catch_up(self) -> list[str]:
        """Ask owners that missed the last round again, as late ones have spent; name those unreachable or still at
        work."""
        if not self._asked:
            return []
        behind = [
            name for name, last in self._asked.items() if name not in self.status or self.status[name].round < last
        ]
        calls = {
            name: self._pool.submit(self._statement, self._peers[name], min(self._deadline, CATCH_UP_TIMEOUT_S))
            for name in behind
        }
        unheard = []
        for name, call in calls.items():
            try:
                statement = call.result()
            except ContradictionError:
                raise
            except ParleyError:
                unheard.append(name)
                continue
            if statement.answered < self._asked[name]:
                unheard.append(name)
            self._record(
                name, replace(self.status[name], statement=statement) if name in self.status else PeerStatus(statement)
            )
        return unheard

    def close(self) -> None:
        """End the threads and all calls under way."""
        for peer in self._peers.values():
            peer.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _introduced(self, peer: Peer) -> AccountStatement:
        """Return where the agreement stands at an owner with the same public numbers."""
        statement = self._statement(peer, self._deadline)
        self._require_agreed(peer)
        return statement

    def _require_agreed(self, peer: Peer) -> None:
        """Refuse an owner with other public numbers: its answers would be about other columns."""
        if peer.name in self._agreed:
            return
        terms, learner = self._terms.hash, self._terms.learning.learner
        if not require_agreed(
            self._numbers, peer.name, lambda first: peer.numbers(terms, learner, self._deadline, first)
        ):
            self._warn_silent(peer.name)
        self._agreed.add(peer.name)

    def _answer(self, peer: Peer, query: Query, began: float) -> tuple[float, AnswerReply]:
        """Return one owner's time and reply, if it agrees with everything that is known."""
        rules, before, known = self._scrutiny[peer.name], self.heads.get(peer.name), self.status.get(peer.name)
        try:
            self._require_agreed(peer)
            reply = peer.ask(query, *rules.expected(query), self._deadline)
        except Unavailable:
            raise
        except Refusal:
            if before is not None:  # books that were rolled back expect an earlier round, or do not know the terms
                self._statement(peer, self._deadline)
            raise
        seconds, statement = time.perf_counter() - began, reply.statement
        self._check_value(rules, query, reply.answer.value)
        rules.check_head(
            statement.head, before, grown=known is not None and statement.answered > known.statement.answered
        )
        if before is not None and statement.head is not None:
            in_turn = known is not None and known.round == rules.round_before(query.round)
            follows = in_turn and statement.head.entries == before.entries + 1
            if not follows and statement.head != before:
                self._statement(peer, self._deadline)
        rules.check_statement(
            statement, query.round, self._answers[peer.name] + 1, None if known is None else known.statement
        )
        return seconds, reply

    def _check_value(self, rules: Scrutiny, query: Query, value: Floats) -> None:
        """Refuse an impossible answer; where terms allow for liars, only warn once."""
        try:
            rules.check_value(query, value)
        except ContradictionError:
            if self._terms.aggregation is None:
                raise
            self._warn_once(
                f"{rules.owner}: one of its answers is larger than the agreed bound plus noise can explain. It is cut "
                "to that size and the run goes on, because these terms allow for owners that lie"
            )

    def _statement(self, peer: Peer, timeout: float) -> AccountStatement:
        """Return where the agreement stands at an owner whose ledger was not rolled back."""
        rules, before, known = self._scrutiny[peer.name], self.heads.get(peer.name), self.status.get(peer.name)
        try:
            entries = 0 if before is None else before.entries
            statement = peer.statement(self._terms.hash, self._terms.learning.learner, timeout, entries)
        except UnknownTerms:
            if before is not None:
                raise rules.rolled_back(before, "does not contain these terms") from None
            raise
        rules.check_head(statement.head, before, grown=False)
        rules.check_history(statement, before)
        rules.check_statement(statement, 0, self._answers[peer.name], None if known is None else known.statement)
        return statement

    def _record(self, name: str, status: PeerStatus) -> None:
        self.status[name] = status
        if status.statement.head is not None:
            self.heads[name] = status.statement.head
        else:
            self._warn_once(
                f"{name}: an older version, which does not report the length of its ledger; a rolled-back ledger would "
                "go unnoticed"
            )

    def _gather(self, question: Callable[[Peer], T], when: str, names: Collection[str]) -> dict[str, T]:
        """Return these owners' results of `question`, waiting as long as the terms want."""
        over, troubles = threading.Event(), dict[str, str]()
        calls = {
            name: self._pool.submit(self._retry, peer, question, over, troubles)
            for name, peer in self._peers.items()
            if name in names
        }
        due = time.monotonic() + self._deadline
        try:
            while True:
                open_calls = [call for call in calls.values() if not call.done()]
                if open_calls:
                    wait(open_calls, timeout=max(0.0, due - time.monotonic()), return_when=FIRST_COMPLETED)
                done = {name: call for name, call in calls.items() if call.done()}
                answered = {name: call for name, call in done.items() if call.exception() is None}
                self._require_possible(done, len(calls), when)
                if len(done) == len(calls):
                    break
                if time.monotonic() >= due:
                    late = [troubles.get(name, f"{name}: no answer yet") for name in calls if name not in done]
                    if self._skips(len(answered), late, when):
                        break
                    due = time.monotonic() + self._deadline
            for call in done.values():
                if call.exception() is not None:
                    self._warn_once(f"going on without an owner that refuses: {call.exception()}")
            return {name: call.result() for name, call in answered.items()}
        finally:
            over.set()  # a call to a late owner may still be under way: it ends by its own deadline, and nobody listens

    def _retry(self, peer: Peer, question: Callable[[Peer], T], over: threading.Event, troubles: dict[str, str]) -> T:
        pause = FIRST_PAUSE
        while True:
            try:
                return question(peer)
            except Unavailable as trouble:
                troubles[peer.name] = str(trouble)
                if over.wait(pause):
                    raise
                pause = min(2 * pause, LONGEST_PAUSE)

    def _require_possible(self, done: dict[str, Future[Any]], owner_count: int, when: str) -> None:
        """Stop as soon as too many owners have refused for good."""
        failed = [error for call in done.values() if (error := call.exception()) is not None]
        for error in failed:
            if not isinstance(error, ParleyError):
                raise error  # a mistake in this program, not of an owner
            if isinstance(error, ContradictionError):
                raise ContradictionError(f"{when}: {error}")
            if isinstance(error, UnknownTerms):  # not a straggler: it never agreed
                raise ExchangeError(f"{when}: {error}; every owner in the terms must accept the terms")
        allowed = owner_count - self._quorum if self._terms.learning.straggler == "skip" else 0
        if len(failed) > allowed and all(isinstance(error, AbortedRound) for error in failed):
            raise failed[0]
        if len(failed) > allowed:
            raise ExchangeError(f"{when}: the run stops. " + "; ".join(str(error) for error in failed))

    def _warn_silent(self, name: str) -> None:
        """Warn of a party that does not report its numbers, where machines may differ."""
        if depends_on_machine(self._terms.model):
            self._warn_once(silent(name))

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def _skips(self, answered: int, late: list[str], when: str) -> bool:
        """Whether to go on without late owners, by the terms; False: wait on."""
        rule, late_owners = self._terms.learning.straggler, "; ".join(late)
        if rule == "stop":
            raise ExchangeError(
                f"{when}: not all owners answered within {self._deadline:g} s, so the run stops (learning.straggler = "
                f"'stop'): {late_owners}"
            )
        if rule == "skip" and answered >= self._quorum:
            self._warn(f"{when}: going on without late owners: {late_owners}")
            return True
        self._warn(f"{when}: waiting for late owners: {late_owners}")
        return False


Call = Future[tuple[float, AnswerReply]]


class AsynchronousFederation(Federation):
    """A `Federation` that need not wait for everybody; who contradicts the terms still ends the run."""

    def __init__(
        self,
        setup: Setup,
        peers: Sequence[Peer],
        deadline: float,
        warn: Warn,
        heads: Mapping[str, Head] | None = None,
        answers: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(setup, peers, deadline, warn, heads, answers)
        self._open: dict[str, Query] = {}
        self._ended, self._troubles = threading.Event(), dict[str, str]()
        self._came: queue.SimpleQueue[tuple[str, Call]] = queue.SimpleQueue()

    def send(self, name: str, query: Query) -> None:
        """Ask an owner, in a thread of its own."""
        peer, began = self._peers[name], time.perf_counter()
        self._asked[name], self._open[name] = query.round, query
        self._troubles.pop(name, None)
        call = self._pool.submit(
            self._retry, peer, lambda peer: self._answer(peer, query, began), self._ended, self._troubles
        )
        call.add_done_callback(lambda done: self._came.put((name, done)))

    def receive(self) -> Answer | None:
        """Return the next answer; None if all others refuse, or are silent and may be left out by the terms."""
        while self._open:
            try:
                name, call = self._came.get(timeout=self._deadline)
            except queue.Empty:
                late = [self._troubles.get(name, f"{name}: no answer yet") for name in self._open]
                if self._skips(self._heard, late, "asynchronous rounds"):
                    self._open.clear()
                continue
            query, error = self._open.pop(name), call.exception()
            if error is None:
                return self._taken(name, query, *call.result())
            self._left_out(f"round {query.round} of {name}", error)
        return None

    def close(self) -> None:
        """End the threads and all calls under way."""
        self._ended.set()
        super().close()

    @property
    def _heard(self) -> int:
        """How many owners have answered at all."""
        return sum(count > 0 for count in self._answers.values())

    def _taken(self, name: str, query: Query, seconds: float, reply: AnswerReply) -> Answer:
        before = self.status.get(name, PeerStatus(reply.statement))
        self._answers[name] += 1
        self._record(
            name, PeerStatus(reply.statement, query.round, seconds, before.total_seconds + seconds, before.answers + 1)
        )
        return reply.answer

    def _left_out(self, when: str, error: BaseException) -> None:
        """Go on without an owner that refuses for good, where the terms allow it."""
        if not isinstance(error, ParleyError):
            raise error  # a mistake in this program, not of an owner
        if isinstance(error, ContradictionError):
            raise ContradictionError(f"{when}: {error}")
        if isinstance(error, UnknownTerms):
            raise ExchangeError(f"{when}: {error}; every owner in the terms must accept the terms")
        able = len(self._open) + sum(self._answers[name] > 0 for name in self._peers if name not in self._open)
        if self._terms.learning.straggler != "skip" or able < self._quorum:
            raise ExchangeError(f"{when}: the run stops. {error}")
        self._warn_once(f"going on without an owner that refuses: {error}")
