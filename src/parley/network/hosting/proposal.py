"""What each host says it holds, and the record that follows from all proposals: a pure function that all compute alike.
Two of three hosts compare the shares they both hold by tags: HMAC-SHA-256 under a key that they alone know. With a
plain digest the third host, which holds the other two shares, could check a guess of the owner's exact answer. Two
hosts hold no share alike; they compare the owner's own tag, which both were sent."""

import hashlib
import hmac
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from parley.errors import AbortedRound, Malformed, OutOfOrder, TermsError
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange.share_bundle import MAX_HOSTS, Shape, ShareBundle, shape_of
from parley.numerals import counted
from parley.privacy.mechanisms.mechanism import LIMIT_ROUNDING
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing.bounds import MAX_DIGITS, VectorBounds
from parley.privacy.sharing.matching.match import MatchPlan
from parley.privacy.sharing.matching.packed_rows import TableShape
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.terms import PARTY

NOISES_DRAWN_AHEAD = 4  # noises drawn ahead
MAX_TABLE_BYTES = MAX_MESSAGE_BYTES - (1 << 16)  # bytes of a share of one, which travels in one message
DROPPED_NOISE = "a host restarted before the hosts had agreed, and the noise was dropped"


@dataclass(frozen=True, eq=False)
class Turn:
    """One round: who may send what, and the fewest owners whose share bundles a sum needs."""

    shape: Shape
    records: Mapping[str, int]  # of the owners that are asked
    quorum: int
    bounds: Mapping[str, VectorBounds] = field(default_factory=dict)  # of their answers, if hosts check these


@dataclass(frozen=True)
class TableJoin:
    """Tables about the same people that hosts match: whose they are, in the order of their columns, and how."""

    owners: tuple[str, ...]
    plan: MatchPlan

    def shape(self, owner: str) -> TableShape:
        """Return the shape of an owner's table."""
        return self.plan.shapes[self.owners.index(owner)]


@dataclass(frozen=True, eq=False)
class HostAssignment:
    """One agreement as its hosts see it; `ahead` says how many noises of each shape are drawn ahead at most."""

    terms_hash: str
    learner: str
    hosts: tuple[str, ...]
    rounds: int
    ahead: Mapping[Shape, int]
    find: Callable[[int], Turn]
    paired: bool = False  # whether two hosts draw one noise together
    cheating: bool = False  # whether three hosts verify each other's computation
    checked: bool = False  # whether three hosts check that answers keep their bounds
    join: TableJoin | None = None  # where owners share tables in place of answers

    def turn(self, number: int) -> Turn:
        """Return what round `number` is about, or refuse it."""
        if not 1 <= number <= self.rounds:
            raise OutOfOrder(f"the learner asked for round {number}; expected a round from 1 to {self.rounds}")
        return self.find(number)

    @property
    def together(self) -> bool:
        """Whether the hosts draw one noise together; else each of two adds its own."""
        return self.paired or len(self.hosts) == MAX_HOSTS

    @property
    def computes(self) -> bool:
        """Whether the hosts compute on a round's shares before they record its sum."""
        return self.checked or self.join is not None

    @property
    def longest_share(self) -> int:
        """Bytes of the longest share that an owner sends."""
        if self.join is not None:
            return max(table.bytes for table in self.join.plan.shapes)
        return max(shape.bytes for shape in self.ahead)

    def require_messages(self) -> None:
        """Refuse tables that no message brings to a host, and moments that none brings back: owners would pay for
        nothing."""
        if self.join is None:
            return
        if not (numbers := max(shape.size for shape in self.ahead)) <= MAX_TABLE_BYTES // 8:
            raise TermsError(
                f"owners.columns: hosts would open {numbers:,} numbers, but a message takes at most "
                f"{MAX_TABLE_BYTES // 8:,}; use fewer columns"
            )
        for name, table in zip(self.join.owners, self.join.plan.shapes, strict=True):
            if not table.bytes <= MAX_TABLE_BYTES:
                raise TermsError(
                    f"owners.{name}: its table comes to {table.bytes:,} bytes, but a host takes at most "
                    f"{MAX_TABLE_BYTES:,}; use fewer rows, columns or join.digits"
                )

    @property
    def drawn_ahead(self) -> Mapping[Shape, int]:
        """How many noises of each shape the hosts draw ahead; none that a host draws alone."""
        return self.ahead if self.together else {}

    def index(self, host: str) -> int:
        """Return the number of a host, or refuse it."""
        if host not in self.hosts:
            raise TermsError(f"hosts: the terms have no host {host!r}; expected one of {list(self.hosts)}")
        return self.hosts.index(host)


def assignment_of(setup: Setup) -> HostAssignment:
    """Return what these terms ask of their hosts."""
    terms = setup.terms
    if not terms.noise.hosts:
        raise TermsError("privacy.noise: under these terms every owner draws its own noise; hosts have nothing to do")
    cheating, checked = bool(terms.privacy.hosts_may_cheat), bool(terms.privacy.check_answers)
    waits = terms.learning.straggler != "skip" or terms.learning.quorum is None

    @lru_cache(maxsize=64)
    def find(number: int) -> Turn:
        stages = {name: setup.part(name).stage(number) for name in setup.schedule.at(number)}
        records = {name: stage.question.records for name, stage in stages.items()}
        quorum = len(records) if waits else min(len(records), terms.learning.quorum or 1)
        bounds = {name: answer_bounds(stage) for name, stage in stages.items()} if checked else {}
        return Turn(_shape(next(iter(stages.values()))), records, quorum, bounds)

    ahead = {
        _shape(stage): min(NOISES_DRAWN_AHEAD, len(stage.rounds))
        for stage in reversed(setup.part(terms.owners[0].name).stages)
    }
    if checked:
        for part in terms.owners:
            for stage in setup.part(part.name).stages:
                answer_bounds(stage)
    hosts, paired, plan = tuple(host.name for host in terms.hosts), terms.noise.paired, setup.task.match_plan(setup)
    join = None if plan is None else TableJoin(tuple(owner.name for owner in terms.owners), plan)
    return HostAssignment(
        terms.hash, terms.learning.learner, hosts, terms.rounds, ahead, find, paired, cheating, checked, join
    )


def answer_bounds(stage: Stage) -> VectorBounds:
    """Return what an owner's encoded answer keeps: each coordinate and the norm, in grid units.

    An honest answer is encoded within these: it keeps the question's extent up to `LIMIT_ROUNDING`, and the grid moves
    a coordinate by at most half a unit.
    """
    question, noise = stage.question, stage.series.mechanism
    if not isinstance(noise, SharedNoise):
        raise TermsError("privacy.noise: expected 'shared'")
    extent, factor, size = question.extent, noise.over(question.records).factor, noise.size
    ends = (np.asarray(end) * factor for end in (extent.low, extent.high))
    low, high = (
        np.broadcast_to(np.rint(end + side * LIMIT_ROUNDING * np.abs(end)), size)
        for end, side in zip(ends, (-1, 1), strict=True)
    )
    norm = Fraction(extent.size * factor) * (1 + Fraction(LIMIT_ROUNDING))
    if extent.norm == "l1":
        limit = math.floor(norm + Fraction(size, 2))
    else:
        limit = math.floor((norm + Fraction(math.sqrt(size) / 2 * (1 + LIMIT_ROUNDING))) ** 2)
    bounds = VectorBounds(low.astype(np.int64), high.astype(np.int64), extent.norm, limit)
    if bounds.digits > MAX_DIGITS:
        raise TermsError("privacy.check_answers: answers are too large to be checked; use fewer records or rounds")
    return bounds


def _shape(stage: Stage) -> Shape:
    noise = stage.series.mechanism
    if not isinstance(noise, SharedNoise):
        raise TermsError("privacy.noise: expected 'shared'")
    return shape_of(noise)


TAG_PATTERN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Held:
    """An owner whose share bundle a host holds, with the tags of both shares; of two hosts, with the one tag."""

    owner: str
    first: str
    second: str | None = None

    @property
    def tags(self) -> list[str]:
        return [self.first] if self.second is None else [self.first, self.second]


@dataclass(frozen=True)
class Proposal:
    """What host `host` held of a question when it first had to say; only host 0 names a `noise`, the others say 0."""

    terms_hash: str
    round: int
    content: str
    host: int
    session: str
    noise: int
    held: tuple[Held, ...]

    def to_text(self) -> str:
        """Return the proposal as canonical JSON: the same text for the same content."""
        held = [[each.owner, *each.tags] for each in self.held]
        return json.dumps(
            [self.terms_hash, self.round, self.content, self.host, self.session, self.noise, held],
            separators=(",", ":"),
        )

    @classmethod
    def from_text(cls, text: str) -> "Proposal":
        """Return the proposal in this text, or refuse it."""
        try:
            terms_hash, number, content, host, session, noise, held = json.loads(text)
            proposal = cls(terms_hash, number, content, host, session, noise, tuple(Held(*each) for each in held))
            words = [
                *(word for each in proposal.held for word in each.tags),
                terms_hash,
                content,
                session,
            ]
            whole = all(type(each) is int and each >= 0 for each in (number, host, noise)) and host < MAX_HOSTS
            sound = (
                whole
                and all(TAG_PATTERN.fullmatch(word) for word in words)
                and all(re.fullmatch(PARTY, each.owner) for each in proposal.held)
            )
        except (ValueError, TypeError, RecursionError):
            sound = False
        if not sound or proposal.to_text() != text or len({each.owner for each in proposal.held}) < len(proposal.held):
            raise Malformed("proposal: expected a proposal in canonical form")
        return proposal


@dataclass(frozen=True)
class Record:
    """What is opened for a question: whose shares, by their three tags (of two hosts, the one), and which noise. It
    fixes the sum, except where each of two hosts adds a noise that it draws alone."""

    terms_hash: str
    round: int
    content: str
    session: str
    noise: int
    owners: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(owner for owner, *_ in self.owners)

    def to_text(self) -> str:
        """Return the record as canonical JSON: the same text at all hosts."""
        facts = [
            self.terms_hash,
            self.round,
            self.content,
            self.session,
            self.noise,
            [list(each) for each in self.owners],
        ]
        return json.dumps(facts, separators=(",", ":"))

    def without(self, names: Collection[str], quorum: int) -> "Record":
        """Return the record without these owners; `AbortedRound` if too few are left."""
        kept = tuple(owner for owner in self.owners if owner[0] not in names)
        if len(kept) < max(1, quorum):
            raise AbortedRound(
                f"the answers of {', '.join(sorted(names))} exceed the agreed bounds; {counted(len(kept), 'owner')} "
                f"are left, but the terms require {max(1, quorum)}"
            )
        return replace(self, owners=kept)

    @classmethod
    def from_text(cls, text: str) -> "Record":
        """Return the record in this text, which this host wrote."""
        terms_hash, number, content, session, noise, owners = json.loads(text)
        return cls(terms_hash, number, content, session, noise, tuple(tuple(each) for each in owners))


def record_digest(text: str) -> str:
    """Return the SHA-256 of a record as it is written down."""
    return hashlib.sha256(text.encode()).hexdigest()


def tag(key: bytes, bundle: ShareBundle, number: int, share: bytes) -> str:
    """Return the tag of share `number` of an owner's answer."""
    about = json.dumps([bundle.terms_hash, bundle.round, bundle.content, bundle.owner, number]).encode()
    return hmac.new(key, hashlib.sha256(share).digest() + about, hashlib.sha256).hexdigest()


def agreed(proposals: Sequence[Proposal], quorum: int) -> Record:
    """Return the record of the owners that hosts 0, 1 and 2 hold, all tags of common shares matching; or
    `AbortedRound`.

    >>> held = [(Held("bank-a", f"{i}" * 64, f"{(i + 1) % 3}" * 64),) for i in range(3)]
    >>> a = [Proposal("0" * 64, 1, "1" * 64, i, "2" * 64, 7, held[i]) for i in range(3)]
    >>> agreed(a, quorum=1).names
    ('bank-a',)
    """
    held = _held(proposals, MAX_HOSTS)
    if len({each.session for each in proposals}) > 1:
        raise AbortedRound(DROPPED_NOISE)
    owners = [
        (name, held[0][name].first, held[1][name].first, held[2][name].first)
        for name in sorted(set(held[0]) & set(held[1]) & set(held[2]))
        if all(held[j][name].first == held[j - 1][name].second for j in range(MAX_HOSTS))
    ]
    return _record(proposals[0], proposals[0].session, owners, quorum)


def agreed_by_two(proposals: Sequence[Proposal], quorum: int, paired: bool = False) -> Record:
    """Return the record of the owners that both hosts hold with one tag, under a joint name; or `AbortedRound`. Hosts
    that drew a noise together (`paired`) must be in the session in which they drew it."""
    held = _held(proposals, MAX_HOSTS - 1)
    if paired and len({each.session for each in proposals}) > 1:
        raise AbortedRound(DROPPED_NOISE)
    owners = [
        (name, held[0][name].first)
        for name in sorted(set(held[0]) & set(held[1]))
        if held[0][name].tags == held[1][name].tags
    ]
    both = hashlib.sha256("".join(each.session for each in proposals).encode()).hexdigest()
    return _record(proposals[0], proposals[0].session if paired else both, owners, quorum)


def _held(proposals: Sequence[Proposal], hosts: int) -> list[dict[str, Held]]:
    """Return what each host holds, by owner; `AbortedRound` if the question differs."""
    question = {(each.terms_hash, each.round, each.content) for each in proposals}
    if [each.host for each in proposals] != list(range(hosts)) or len(question) > 1:
        raise AbortedRound("the hosts received different questions for this round")
    return [{each.owner: each for each in proposal.held} for proposal in proposals]


def _record(first: Proposal, session: str, owners: Sequence[tuple[str, ...]], quorum: int) -> Record:
    if len(owners) < max(1, quorum):
        raise AbortedRound(
            f"the hosts agree on the share bundles of {counted(len(owners), 'owner')}, but the terms require "
            f"{max(1, quorum)}"
        )
    return Record(first.terms_hash, first.round, first.content, session, first.noise, tuple(owners))
