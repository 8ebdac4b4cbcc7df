"""A run over real networks in which owners send shares to hosts and the learner sees the noisy sum alone. Each round
the owners are asked, debit, and hand their share bundles to the hosts, which are then asked to open. Asking again is
free: an owner repeats its share bundles, a host its opening. An aborted round is over: its debits stand, and the next
round can be asked."""

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from parley.errors import AbortedRound, ContradictionError, ExchangeError, RolledBack, Unavailable
from parley.network.exchange.federation import FIRST_PAUSE, LONGEST_PAUSE, Federation, Warn
from parley.network.exchange.host_connections import RemoteHost
from parley.network.exchange.messages import require_agreed
from parley.network.exchange.remote import Peer
from parley.network.exchange.share_bundle import Opening
from parley.network.exchange.witnesses import countersigned, silent_now
from parley.network.hosting.proposal import assignment_of
from parley.network.hosting.sums import open_answer
from parley.numerals import counted
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd, end_texts
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup


class SharedFederation(Federation):
    """A `Federation` whose rounds have one answer, the owners' sum with one noise; `hosts` are in the terms' order."""

    def __init__(
        self,
        setup: Setup,
        peers: Sequence[Peer],
        hosts: Sequence[RemoteHost],
        deadline: float,
        warn: Warn,
        heads: Mapping[str, Head] | None = None,
        answers: Mapping[str, int] | None = None,
        ends: Mapping[str, SignedEnd] | None = None,
    ) -> None:
        super().__init__(setup, peers, deadline, warn, heads, answers)
        self.ends = dict(ends or {})
        self._setup, self._assignment, self._hosts = setup, assignment_of(setup), list(hosts)
        self._assignment.require_messages()
        if tuple(host.name for host in self._hosts) != self._assignment.hosts:
            raise ExchangeError(
                f"addresses: expected addresses of the hosts {list(self._assignment.hosts)}, found "
                f"{[h.name for h in hosts]}"
            )
        self._opening = ThreadPoolExecutor(len(self._hosts), thread_name_prefix="parley-opening")

    def fetch_statements(self) -> None:
        """Fetch where the agreement stands at all owners, and compare the public numbers of owners and hosts."""
        super().fetch_statements()
        self._require_hosts()

    def _require_hosts(self) -> None:
        """Refuse a host with other public numbers: it would refuse share bundles that owners have paid for."""
        due = time.monotonic() + self._deadline
        for host in (each for each in self._hosts if each.name not in self._agreed):
            pause, terms = FIRST_PAUSE, self._terms
            fetch = partial(host.numbers, terms.hash, terms.learning.learner, self._deadline)
            while host.name not in self._agreed:
                try:
                    if not require_agreed(self._numbers, host.name, fetch):
                        self._warn_silent(host.name)
                    self._agreed.add(host.name)
                except Unavailable as trouble:
                    if time.monotonic() > due:
                        raise ExchangeError(
                            f"before the first round: no message arrived from a host within {self._deadline:g} s: "
                            f"{trouble}"
                        ) from None
                    if pause == LONGEST_PAUSE:
                        self._warn_once(
                            f"before the first round: waiting for the hosts, {self._deadline:g} s at most: {trouble}"
                        )
                    time.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Return the one answer of this round; `AbortedRound` if it never comes."""
        self._require_hosts()
        query, pause, earlier_answers = next(iter(questions.values())), FIRST_PAUSE, self._answers.copy()
        due = time.monotonic() + self._deadline
        while True:
            try:
                heard = super().ask(questions)
                answer = open_answer(self._setup, self._assignment, query, self._open(query))
                self._warn_left_out(query.round, {name for each in heard for name in each.owners} - set(answer.owners))
                return [answer]
            except AbortedRound as aborted:
                self._warn(
                    f"round {query.round} was aborted, its budget remains spent, and the run continues with the next "
                    f"round. {aborted}"
                )
                raise
            except Unavailable as trouble:
                if time.monotonic() > due:
                    raise ExchangeError(
                        f"round {query.round}: the hosts did not open the sum within {self._deadline:g} s: {trouble}"
                    ) from None
                if pause == LONGEST_PAUSE:  # for seconds already
                    self._warn_once(
                        f"round {query.round}: waiting for the hosts, {self._deadline:g} s at most: {trouble}"
                    )
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                self._answers = earlier_answers.copy()  # the same answers are heard again

    def _warn_left_out(self, number: int, names: Collection[str]) -> None:
        if names:
            why = "an answer beyond its bounds, or shares that came late" if self._assignment.checked else "late shares"
            self._warn(f"round {number}: the hosts left out {', '.join(sorted(names))} ({why})")

    def close(self) -> None:
        """End the threads and all calls under way."""
        for host in self._hosts:
            host.close()
        self._opening.shutdown(wait=True, cancel_futures=True)
        super().close()

    def _open(self, query: Query) -> list[Opening]:
        """Return all openings. One host's abort is raised first, then what waiting cannot mend."""
        size = self._assignment.turn(query.round).shape.size
        calls = [self._opening.submit(self._opened, host, query, size) for host in self._hosts]
        failures = [error for call in calls if (error := call.exception()) is not None]
        if failures:
            raise min(failures, key=_precedence)
        return [call.result() for call in calls]

    def _opened(self, host: RemoteHost, query: Query, size: int) -> Opening:
        """Return a host's opening; the host hears which end of its journal was seen, and shows that it goes on."""
        known, signer = self.ends.get(host.name), host.signer
        seen = None if known is None or signer is None else countersigned(known, signer.name, signer)
        opening = host.open(query.terms_hash, query.round, query.content, size, self._deadline, seen)
        end = opening.end
        if end is None and known is not None:
            raise RolledBack(silent_now(host.name))
        if end is None:
            self._warn_once(f"{host.name}: an older version, which does not report the length of its journal")
            return opening
        about = (end.party, end.kind, end.terms) == (host.name, "journal", query.terms_hash)
        if (
            not about
            or end.signature is None
            or signer is None
            or not signer.certified(end.signature, end_texts(end), host.name)
        ):
            raise ContradictionError(f"{host.name}: the end of its journal is not signed by a certified key")
        fewer = known is not None and (opening.earlier != known.head.hash or end.head.entries < known.head.entries)
        if known is not None and (fewer or known.refutes(end)):
            raise ContradictionError(
                f"{host.name}: the host's journal was rolled back. The journal had "
                f"{counted(known.head.entries, 'row')}, and its {counted(end.head.entries, 'row')} now do not continue "
                "those. The host puts the latest journal back, or runs parley host restore"
            )
        self.ends[host.name] = end
        return opening


def _precedence(error: BaseException) -> int:
    """Return which of several failures is raised: a journal that went back, an abort, what waiting cannot mend."""
    kinds = RolledBack | ContradictionError, AbortedRound
    return next(
        (place for place, kind in enumerate(kinds) if isinstance(error, kind)), 2 + isinstance(error, Unavailable)
    )
