"""Owners over real networks whose answers are used as they come: nobody is held up by a slower one.

Every owner has at most one open question, asked again while its connection is broken: a retry carries the same query
and gets the same stored answer. `wait`, `skip` and `stop` say what becomes of the run when nothing was heard from
anybody for as long as the deadline.
"""

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from parley.errors import ContradictionError, ExchangeError, ParleyError, UnknownTerms
from parley.network.exchange.federation import Federation, PeerStatus, Warn
from parley.network.exchange.messages import AnswerReply
from parley.network.exchange.remote import Peer
from parley.owner.ledger.account import Head
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup

Call = Future[tuple[float, AnswerReply]]


class AsynchronousFederation(Federation):
    """A `Federation` that need not wait for everybody. Words are held against the terms as ever: who contradicts them
    ends the run."""

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
        """The next answer that comes; None if everybody that is left refuses, or is silent and may be left out by the
        terms."""
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
        """Let go of the threads; calls under way are ended."""
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
        """Go on without an owner that refuses for good, where the terms allow it; a contradiction ends every run."""
        if not isinstance(error, ParleyError):
            raise error  # a mistake in this program, not of an owner
        if isinstance(error, ContradictionError):
            raise ContradictionError(f"{when}: {error}")
        if isinstance(error, UnknownTerms):
            raise ExchangeError(f"{when}: {error}; every owner that the terms name has to accept them")
        able = len(self._open) + sum(self._answers[name] > 0 for name in self._peers if name not in self._open)
        if self._terms.learning.straggler != "skip" or able < self._quorum:
            raise ExchangeError(f"{when}: the run cannot go on: {error}")
        self._warn_once(f"going on without an owner that refuses: {error}")
