"""One host of an agreement: it takes share bundles, agrees with the others on what to add up, and opens that alone.

The danger. Each share is known to two of three hosts. If a learner with one host on its side had two sets of owners
opened under one noise, the difference would be one owner's exact answer. If it had one set opened under two noises, it
would have paid for one.

The rules. For a question (terms, round) a host takes these steps, each at most once ever, as each is a row of its
journal:

1. proposal: the question's content, and whose share bundles it holds, with a tag of each share (`proposal.tag`). Host 0
  names a noise, too.
2. record: what follows from all proposals (`proposal.agreed`): owners, tags, the noise; in the same transaction, the
  sums. It asks the others for their proposals, never for leave: the learner has no say.
3. opening: when the others have sent the digest of *their* record and it is the same. From then on it repeats those
  bytes and asks nobody. Or aborted, for ever, on any contradiction or if something can never come. Share bundles that
  come after the proposal are refused.

Formal guarantee: let two of the three hosts keep these rules, and one of the two, A, keep its journal (the other may
lose or roll back its own; the third host, the learner and any owners may do anything). Then for each question the two
open at most one pair of (set of owners with their shares, noise), and each noise for at most one question. Proof. A's
journal holds at most one record for a question and a noise in at most one record, and A opens only its records. The
other opens a record only after A sent it the digest of A's, over a channel that nobody else speaks on: so it opens A's
record, too. A record holds the tags of all three shares of each owner's answer. These two hosts both hold the share
that the third lacks, tagged with a key that only they know, so they add up the same. Noise is in memory alone, under
the random name of a session that all three made afresh: a restarted host has none of it.

Crashes. Before the record, a restarted host has no share bundles and no noise and aborts the round at its start; the
others abort on hearing that, or because sessions differ. After the record its sums are on disk, and it goes on at step
3. A silent peer aborts nothing: it is `Unavailable`, and the learner asks again. A host that has opened and kept its
journal repeats its opening (of the latest rounds: `journal.KEPT_SUM_BYTES`) and never aborts. If all three keep the
rules and their journals, once one has opened all had the same record on disk, and none will ever abort.

Not promised: two hosts that both lost their journals (of two, one beside a curious other), or that act together, can
open a question twice. A host can always abort, and by lying about its record make another abort that has recorded and
not opened.

Two hosts take the same steps, and each holds one of two shares. Each adds a whole noise of its own, or both draw one
noise together (`privacy.draw`). In both cases, two hosts that act together have both shares of every answer.

Formal guarantee for two hosts with a noise of their own each: let one of the two hosts, A, keep the rules and its
journal; the other host, the learner and any owners may do anything. Before A opens, they hold one share and the tag of
an honest owner's answer x = x_0 + x_1, which are uniform whatever x is (`sharing.ring`). A opens one set of owners for
a question, with one noise that it drew for this alone and nobody else knows. So without their own shares and noise they
learn only the sum of the honest owners' answers with one whole noise of the recipe's law: (eps, delta) as calibrated.
Who knows neither noise sees twice its variance.

If both keep the rules and one loses its journal or has an older one, its proposal has a fresh name. So its record
differs from that of the other, who kept its own, and it aborts instead of opening a second noise.

Formal guarantee for two hosts that draw together: let both hosts keep the rules and their journals, and let both draw
by the protocol. One of them is curious, and shows all it sees to the learner and to any owners but the other host;
these may do anything. Each host opens one set of owners for a question, with one noise that it uses once. So after
subtracting their own answers and the curious host's low part, they learn only the sum of the other owners' answers
with one noise. That noise has the recipe's law (`sharing.paired_noise`): (eps, delta) as calibrated.

Here a proposal has the session's name, and a session ends when a host restarts. So a host that was put back to an
older journal proposes another session than the other, who kept its own proposal, and it aborts. Not promised: anything
against a host that departs from the protocol. It can know the number that both drew. Then only the other host's low
part remains on the sum, and no epsilon holds.

Beside a curious host a lost journal is not made good, in both cases: the other host could open the same shares again
under another noise. So a host remembers in its account's state folder where its journal ended, and takes up no older
one (`journal`). A disk that is put back whole takes both back; then whoever saw a later end tells it, as long as
somebody honest did (`exchange.witnesses`).
"""

import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from parley.errors import AbortedRound, ContentMismatch, Malformed, OutOfOrder, RolledBack, TooLate, Unavailable
from parley.network.exchange.share_bundle import (
    CONTENT_PATTERN,
    MAX_HOSTS,
    SEED_BYTES,
    Opening,
    Shape,
    ShareBundle,
    to_words,
)
from parley.network.hosting.journal import Entry, Journal
from parley.network.hosting.pool import Check, Keys, Match, Pool
from parley.network.hosting.proposal import (
    Held,
    HostAssignment,
    Proposal,
    Record,
    TableJoin,
    Turn,
    agreed,
    agreed_by_two,
    record_digest,
    tag,
)
from parley.privacy.mechanisms.exact_samplers import DrawWords, Words, random_words
from parley.privacy.mechanisms.shared_noise import draw_secretly, make_recipe
from parley.privacy.sharing.matching.packed_rows import RefusedTableError, table_shares
from parley.privacy.sharing.ring import Replicated, digest, expand_seed, to_bytes


class AdditiveShares:
    """What host `index` of two does with its share bundles; `words` supplies the random words of its own noise."""

    def __init__(self, index: int, words: DrawWords = random_words) -> None:
        self._index, self._words = index, words

    def lengths(self, shape: Shape, owner: str) -> tuple[int, int]:
        """Return the byte lengths of a share bundle's parts: host 0 gets a seed, host 1 words, and both the tag."""
        return (shape.bytes if self._index else SEED_BYTES), hashlib.sha256().digest_size

    def keys(self) -> Keys:
        """Return a fresh name for one proposal; nothing is kept secret from the other host."""
        return Keys(secrets.token_hex(32), b"", b"")

    def name_noise(self, session: str, shape: Shape, patience: float) -> int:
        """Return 0: a noise is drawn when its record is written, and has no other use."""
        return 0

    def held(self, keys: Keys, bundle: ShareBundle) -> Held:
        """Return an owner and the tag that the owner gave to both hosts."""
        return Held(bundle.owner, tag(keys.first, bundle, 0, bundle.shares[1]))

    def agreed(self, proposals: Sequence[Proposal], quorum: int) -> Record:
        """Return the record that follows from the two proposals."""
        return agreed_by_two(proposals, quorum)

    def sums(self, record: Record, bundles: Sequence[ShareBundle], shape: Shape, patience: float) -> bytes:
        """Return this host's share of the sum with noise on it."""
        total = self._noise(record, shape, patience)
        for bundle in bundles:
            total += (
                to_words(bundle.shares[0], shape.size) if self._index else expand_seed(bundle.shares[0], shape.size)
            )
        return to_bytes(total)

    def opened(self, sums: bytes, record: str) -> tuple[Words, bytes]:
        """Return (its share, the digest of what both recorded)."""
        return to_words(sums, len(sums) // 8), bytes.fromhex(record_digest(record))

    def _noise(self, record: Record, shape: Shape, patience: float) -> Words:
        """Return a whole noise, drawn here and now."""
        return np.asarray(
            draw_secretly(make_recipe(shape.law, shape.exponent), shape.size, self._words).view(np.uint64)
        )


class PairedShares(AdditiveShares):
    """The same where both hosts draw one noise together: its share of it comes from its `pool`."""

    def __init__(self, index: int, pool: Pool) -> None:
        super().__init__(index)
        self._pool = pool

    def keys(self) -> Keys:
        """Return the name of the hosts' session; `Unavailable` where there is none yet."""
        return self._pool.keys()

    def name_noise(self, session: str, shape: Shape, patience: float) -> int:
        """Return the number of a noise for a new question; only host 0 names one, the other says 0."""
        return self._pool.name(session, shape, patience) if self._index == 0 else 0

    def agreed(self, proposals: Sequence[Proposal], quorum: int) -> Record:
        """Return the record that follows from the two proposals of one session."""
        return agreed_by_two(proposals, quorum, paired=True)

    def _noise(self, record: Record, shape: Shape, patience: float) -> Words:
        """Return this host's share of the noise, which is used up."""
        return np.asarray(self._pool.take(record.session, record.noise, shape, patience))


class ReplicatedShares:
    """What host `index` of three does with its share bundles; the noise comes from its `pool`."""

    def __init__(self, index: int, pool: Pool) -> None:
        self._index, self._pool = index, pool
        self._numbers = index, (index + 1) % MAX_HOSTS

    def lengths(self, shape: Shape, owner: str) -> tuple[int, int]:
        """Return the byte lengths of a share bundle's parts: the last share is words, the others are seeds."""
        first, second = (shape.bytes if number == MAX_HOSTS - 1 else SEED_BYTES for number in self._numbers)
        return first, second

    def keys(self) -> Keys:
        """Return the keys of the hosts' session; `Unavailable` where there is none yet."""
        return self._pool.keys()

    def name_noise(self, session: str, shape: Shape, patience: float) -> int:
        """Return the number of a noise for a new question; only host 0 names one, the others say 0."""
        return self._pool.name(session, shape, patience) if self._index == 0 else 0

    def held(self, keys: Keys, bundle: ShareBundle) -> Held:
        """Return an owner and the tags of both its shares."""
        (first, second), (one, other) = self._numbers, bundle.shares
        return Held(bundle.owner, tag(keys.first, bundle, first, one), tag(keys.second, bundle, second, other))

    def agreed(self, proposals: Sequence[Proposal], quorum: int) -> Record:
        """Return the record that follows from the three proposals."""
        return agreed(proposals, quorum)

    def sums(self, record: Record, bundles: Sequence[ShareBundle], shape: Shape, patience: float) -> bytes:
        """Return this host's two shares of the noisy sum, one after the other; the noise is used up."""
        total = self._pool.take(record.session, record.noise, shape, patience)
        for bundle in bundles:
            total += self.shares(bundle)
        return to_bytes(total.first) + to_bytes(total.second)

    def opened(self, sums: bytes, record: str) -> tuple[Words, bytes]:
        """Return (its first share, the digest of its second)."""
        half = len(sums) // 2
        return to_words(sums[:half], half // 8), digest(to_words(sums[half:], half // 8))

    def shares(self, bundle: ShareBundle) -> Replicated:
        """Return this host's shares of one owner's answer."""
        size = bundle.shape.size
        first, second = (
            to_words(content, size) if number == MAX_HOSTS - 1 else expand_seed(content, size)
            for number, content in zip(self._numbers, bundle.shares, strict=True)
        )
        return Replicated(first, second)


class JoinedShares(ReplicatedShares):
    """The same where share bundles hold tables about the same people: the hosts match them first, and add the noise to
    the moments."""

    def __init__(self, index: int, pool: Pool, join: TableJoin) -> None:
        super().__init__(index, pool)
        self._join = join

    def lengths(self, shape: Shape, owner: str) -> tuple[int, int]:
        """Return the byte lengths of a share bundle's parts: the last share is the table's words, the others are
        seeds."""
        table = self._join.shape(owner)
        first, second = (table.bytes if number == MAX_HOSTS - 1 else SEED_BYTES for number in self._numbers)
        return first, second

    def sums(self, record: Record, bundles: Sequence[ShareBundle], shape: Shape, patience: float) -> bytes:
        """Return this host's two shares of the noisy moments; the noise is used up once the tables are matched."""
        held = {bundle.owner: bundle for bundle in bundles}
        tables = [self._table(held[owner]) for owner in self._join.owners]
        key = record_digest(record.to_text())
        moments = self._pool.compute(record.session, key, Match(tables, self._join.plan), patience)
        if isinstance(moments, RefusedTableError):
            raise AbortedRound(f"{self._join.owners[moments.table]}: {moments.reason}")
        total = self._pool.take(record.session, record.noise, shape, patience) + moments
        return to_bytes(total.first) + to_bytes(total.second)

    def _table(self, bundle: ShareBundle) -> Replicated:
        """Return this host's shares of one owner's table."""
        shape = self._join.shape(bundle.owner)
        first, second = (
            to_words(content, shape.rows * shape.width) if number == MAX_HOSTS - 1 else content
            for number, content in zip(self._numbers, bundle.shares, strict=True)
        )
        return table_shares(shape, self._index, (first, second))


RESTARTED = "a host restarted before the hosts had agreed"
PEER_TIMEOUT_S = 10.0  # seconds for another host, or a noise
MAX_EARLY_ROUNDS = 2  # rounds for which an owner's share bundles are kept before anybody asks to open them

T = TypeVar("T")


class Peer(Protocol):
    """Another host of the agreement; calls may raise `Unavailable`, and results are that host's word."""

    def proposal(self, terms_hash: str, number: int, content: str) -> Proposal: ...
    def record(self, terms_hash: str, number: int) -> str: ...


class Host:
    """Host `name` of one agreement; `peers` are the others, by number."""

    def __init__(
        self,
        name: str,
        assignment: HostAssignment,
        journal: Journal,
        pool: Pool,
        peers: Mapping[int, Peer],
        patience: float = PEER_TIMEOUT_S,
        begun: bool = True,
    ) -> None:
        """Take up the agreement. Unless `begun`, nothing may be asked before `begin`."""
        self.assignment, self.index, self.pool = assignment, assignment.index(name), pool
        self.sharing: AdditiveShares | ReplicatedShares = AdditiveShares(self.index)
        if assignment.join is not None:
            self.sharing = JoinedShares(self.index, pool, assignment.join)
        elif assignment.together:
            self.sharing = (PairedShares if assignment.paired else ReplicatedShares)(self.index, pool)
        self._journal, self._peers, self._patience = journal, peers, patience
        self._changed = threading.Condition()  # guards what is below, and is told of new rows
        self._bundles: dict[int, dict[str, ShareBundle]] = {}
        self._turn = threading.Lock()  # one opening at a time
        self._proposing = threading.Lock()
        self._both = ThreadPoolExecutor(len(assignment.hosts) - 1, thread_name_prefix="parley-host")
        self._begun = False
        if begun:
            self.begin()

    def begin(self) -> list[int]:
        """End, once after a start, the rounds on which the hosts had not agreed; return them. This writes rows, so the
        journal should be known to be the latest."""
        with self._proposing:
            if self._begun:
                return []
            aborted = self._journal.abort_unfinished(self.assignment.terms_hash, RESTARTED)
            self._begun = True
            return aborted

    def receive(self, bundle: ShareBundle) -> None:
        """Keep a share bundle until its round is opened; repeating it changes nothing."""
        turn = self.assignment.turn(bundle.round)
        self._require_fit(bundle, turn)
        with self._changed:
            kept = self._bundles.get(bundle.round, {}).get(bundle.owner)
            if kept is not None:
                if (kept.content, kept.shares) != (bundle.content, bundle.shares):
                    raise ContentMismatch(
                        f"{bundle.owner}: the owner sent a different share bundle for round {bundle.round} before"
                    )
                return
            entry = self._entry(bundle.round)
            if entry.proposal is not None or entry.aborted is not None:
                if entry.record is not None and bundle.owner in Record.from_text(entry.record).names:
                    return  # it was counted
                raise TooLate(f"{bundle.owner}: the share bundle for round {bundle.round} arrived too late")
            self._make_room(bundle)
            self._bundles.setdefault(bundle.round, {})[bundle.owner] = bundle

    def open(self, number: int, content: str) -> Opening:
        """Return this host's part of the sum, agreed on with the others; the same for ever."""
        self.assignment.turn(number)
        _require_content(content)
        with self._turn:
            entry = self._current_entry(number, content)
            if entry.record is None:
                entry = self._abort_if_refused(number, lambda: self._agree(number, content))
            if entry.record is None:
                raise AbortedRound(entry.aborted or "")
            if not entry.opened:
                record = entry.record
                self._abort_if_refused(number, lambda: self._require_same(number, record))
                entry = _require_alive(self._journal.open(self.assignment.terms_hash, number), number, content)
            return self._opening(entry)

    def proposal(self, number: int, content: str) -> Proposal:
        """Return, for another host, what this one held when it first had to say."""
        turn = self.assignment.turn(number)
        _require_content(content)
        entry = self._current_entry(number, content)
        if entry.proposal is None:
            with self._proposing:  # a noise is named once for a question
                entry = self._current_entry(number, content)
                if entry.proposal is None:
                    entry = _require_alive(self._propose(number, content, turn), number, content)
        return Proposal.from_text(entry.proposal or "")

    def record(self, number: int) -> str:
        """Return, for another host, the digest of what this one recorded, as soon as it has."""
        self.assignment.turn(number)

        def settled() -> bool:
            return not self._entry(number).open

        with self._changed:
            self._changed.wait_for(settled, self._patience)
            entry = self._entry(number)
        if entry.aborted is not None:
            raise AbortedRound(entry.aborted)
        if entry.record is None:
            raise Unavailable(
                f"round {number}: the hosts have not agreed on the round yet; ask the same question again"
            )
        return record_digest(entry.record)

    def close(self) -> None:
        """End the threads that ask the other hosts."""
        self._both.shutdown(wait=False, cancel_futures=True)

    def _propose(self, number: int, content: str, turn: Turn) -> Entry:
        """Take step 1, once nothing is missing that the terms want to wait for."""
        keys = self.sharing.keys()
        self._hold_quorum(number, content, turn)
        noise = self.sharing.name_noise(keys.session, turn.shape, self._patience)
        with self._changed:  # no share bundle comes in between
            proposal = self._proposal(number, content, keys, noise)
            return self._journal.propose(self.assignment.terms_hash, number, proposal.to_text())

    def _agree(self, number: int, content: str) -> Entry:
        """Take steps 1 and 2, and return the journal's entry."""
        turn, own = self.assignment.turn(number), self.proposal(number, content)
        others = self._ask_others(lambda peer: peer.proposal(self.assignment.terms_hash, number, content))
        proposals = [own if i == self.index else others[i] for i in range(len(self.assignment.hosts))]
        record = self.sharing.agreed(proposals, turn.quorum)
        with self._changed:
            bundles = self._bundles.get(number, {})
            kept = [bundles[name] for name in record.names if name in bundles]
        if len(kept) < len(record.names):
            raise AbortedRound("a host no longer has the share bundles that it proposed")
        left_out = self._beyond_bounds(record, kept, turn)
        if left_out:
            record = record.without(left_out, turn.quorum)
            kept = [bundle for bundle in kept if bundle.owner not in left_out]
        sums = self.sharing.sums(record, kept, turn.shape, self._patience)
        with self._changed:
            entry = self._journal.agree(
                self.assignment.terms_hash,
                number,
                record.to_text(),
                f"{record.session}/{record.noise}",
                sums,
                left_out,
            )
            for past in [each for each in self._bundles if each <= number]:
                del self._bundles[past]
            self._changed.notify_all()
        return entry

    def _beyond_bounds(self, record: Record, bundles: Sequence[ShareBundle], turn: Turn) -> list[str]:
        """Return the owners whose answers exceed their bounds, found on the shares with the other hosts."""
        if not self.assignment.checked or not isinstance(self.sharing, ReplicatedShares):
            return []
        check = Check(
            [self.sharing.shares(bundle) for bundle in bundles], [turn.bounds[bundle.owner] for bundle in bundles]
        )
        key = record_digest(record.to_text())
        kept = self.pool.compute(record.session, key, check, self._patience)
        return [bundle.owner for bundle, keeps in zip(bundles, kept, strict=True) if not keeps]

    def _require_same(self, number: int, record: str) -> None:
        """Take step 3: refuse unless the others recorded the same."""
        digests = self._ask_others(lambda peer: peer.record(self.assignment.terms_hash, number))
        if set(digests.values()) != {record_digest(record)}:
            raise AbortedRound("the hosts recorded different decisions for this round")

    def _ask_others(self, question: Callable[[Peer], T]) -> dict[int, T]:
        calls = {index: self._both.submit(question, peer) for index, peer in self._peers.items()}
        failures = [error for call in calls.values() if (error := call.exception()) is not None]
        told = [error for error in failures if isinstance(error, RolledBack)]  # then no row is worth writing
        definite = [error for error in failures if isinstance(error, AbortedRound | ContentMismatch)]
        for error in told or definite or failures:
            raise error
        return {index: call.result() for index, call in calls.items()}

    def _abort_if_refused(self, number: int, work: Callable[[], T]) -> T:
        """Do the work; write down an abort if it is refused for good."""
        try:
            return work()
        except (AbortedRound, ContentMismatch) as refusal:
            with self._changed:
                entry = self._journal.abort(self.assignment.terms_hash, number, str(refusal))
                self._bundles.pop(number, None)
                self._changed.notify_all()
            raise AbortedRound(entry.aborted or "") from None

    def _proposal(self, number: int, content: str, keys: Keys, noise: int) -> Proposal:
        bundles = sorted(self._fitting(number, content), key=lambda bundle: bundle.owner)
        held = tuple(self.sharing.held(keys, each) for each in bundles)
        return Proposal(self.assignment.terms_hash, number, content, self.index, keys.session, noise, held)

    def _opening(self, entry: Entry) -> Opening:
        record = Record.from_text(entry.record or "")
        if entry.sums is None:
            raise OutOfOrder(f"round {record.round}: this host opened the round long ago and no longer stores the sum")
        words, digest = self.sharing.opened(entry.sums, entry.record or "")
        return Opening(record.terms_hash, record.round, record.content, record.names, words, digest)

    def _current_entry(self, number: int, content: str) -> Entry:
        return _require_alive(self._entry(number), number, content)

    def _entry(self, number: int) -> Entry:
        return self._journal.entry(self.assignment.terms_hash, number)

    def _fitting(self, number: int, content: str) -> list[ShareBundle]:
        return [bundle for bundle in self._bundles.get(number, {}).values() if bundle.content == content]

    def _hold_quorum(self, number: int, content: str, turn: Turn) -> None:
        """Propose nothing while share bundles are missing that the terms want to wait for."""
        with self._changed:
            held = len(self._fitting(number, content))
        if held < max(1, turn.quorum):
            raise Unavailable(
                f"round {number}: {held} of the required {max(1, turn.quorum)} share bundles have arrived; ask again "
                "later"
            )

    def _require_fit(self, bundle: ShareBundle, turn: Turn) -> None:
        if bundle.terms_hash != self.assignment.terms_hash:
            raise Malformed("share bundle: the bundle belongs to other terms")
        _require_content(bundle.content)
        if bundle.owner not in turn.records:
            raise OutOfOrder(f"share bundle: the terms do not ask this owner in round {bundle.round}")
        if bundle.records != turn.records[bundle.owner] or bundle.shape != turn.shape:
            raise Malformed(f"share bundle: records, noise or size differ from the terms in round {bundle.round}")
        lengths = self.sharing.lengths(turn.shape, bundle.owner)
        if tuple(map(len, bundle.shares)) != lengths:
            raise Malformed(f"share bundle: expected shares of {lengths[0]} and {lengths[1]} bytes")

    def _make_room(self, bundle: ShareBundle) -> None:
        """Keep an owner's bundles for `MAX_EARLY_ROUNDS` rounds and drop its oldest, so nobody pushes out another's."""
        own = sorted(number for number, kept in self._bundles.items() if bundle.owner in kept)
        for number in own[: max(0, len(own) + 1 - MAX_EARLY_ROUNDS)]:
            if self._entry(number).proposal is None:
                del self._bundles[number][bundle.owner]


def _require_alive(entry: Entry, number: int, content: str) -> Entry:
    """Return the entry, unless it is aborted or about other content."""
    if entry.aborted is not None:
        raise AbortedRound(entry.aborted)
    if entry.proposal is not None and Proposal.from_text(entry.proposal).content != content:
        raise ContentMismatch(f"round {number}: this host already received another question for this round")
    return entry


def _require_content(content: str) -> None:
    if not CONTENT_PATTERN.fullmatch(content):
        raise Malformed("content: expected the hash of the question, 64 hexadecimal digits")
