"""Noise drawn ahead by three hosts, or by two together, as host 0 calls for it, in memory alone: two of three shares of
unknown numbers, or one of two. A session has fresh keys and is one channel from its first message to its first failure.
By the same channel three hosts do a round's job on its shares, if the terms ask for one: check owners' answers
(`sharing.bounds`), or match their tables (`sharing.matching`).

Formal guarantee: a noise that was taken is not here any more; one of an earlier session never is. A session ends when
any of the hosts restarts or a draw fails, and everything that was drawn in it is dropped. Attempts at a session
are numbered, and whoever begins, fills or ends one says its number: a thread of an earlier attempt, however late it
comes, changes nothing.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from parley.errors import AbortedRound, ExchangeError, GuaranteeError, Unavailable
from parley.network.exchange.share_bundle import MAX_HOSTS, Shape
from parley.network.hosting.proposal import HostAssignment
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.tabled_recipe import tabled_recipe
from parley.privacy.sharing.bounds import VectorBounds, find_kept_bounds
from parley.privacy.sharing.matching.match import MatchPlan, matched_moments
from parley.privacy.sharing.matching.packed_rows import RefusedTableError
from parley.privacy.sharing.pair import Pair, agree_pair
from parley.privacy.sharing.paired_noise import draw_paired
from parley.privacy.sharing.party import Channel, Party, agree_keys
from parley.privacy.sharing.ring import KEY_BYTES, Replicated
from parley.privacy.sharing.secret_noise import draw
from parley.privacy.sharing.verified import VerifiedParty
from parley.privacy.sharing.verified_noise import derive_key, draw_verified

IDLE_BEFORE_DRAW_S = 0.2  # seconds
JOB_WAIT_S = 2.0  # seconds for another host to hold what a job is about
JOB_PAUSE_S = 0.1  # seconds before host 0 calls for a job again that another host was not ready for


@dataclass(frozen=True)
class Keys:
    """What one session agreed on: its id, and the tag keys of shares i and i + 1 (`proposal.tag`)."""

    session: str
    first: bytes
    second: bytes


class Job(Protocol):
    """What three hosts compute on a round's shares before they record its sum, and what each gets."""

    def run(self, party: Party) -> Any: ...


@dataclass(frozen=True, eq=False)
class Check:
    """Answers in this host's shares, and the bounds that they should keep."""

    vectors: Sequence[Replicated]
    bounds: Sequence[VectorBounds]

    def run(self, party: Party) -> list[bool]:
        """Return which answers keep their bounds."""
        return find_kept_bounds(party, self.vectors, self.bounds)


@dataclass(frozen=True, eq=False)
class Match:
    """Tables in this host's shares, and how they are matched."""

    tables: Sequence[Replicated]
    plan: MatchPlan

    def run(self, party: Party) -> Replicated | RefusedTableError:
        """Return this host's shares of the moments over matched people, or why a table was refused."""
        try:
            return matched_moments(party, self.tables, self.plan)
        except RefusedTableError as refusal:
            return refusal


class Pool:
    """The noise of one agreement at one host, numbered by session; host 0 assigns numbers to questions."""

    def __init__(self, ahead: Mapping[Shape, int]) -> None:
        self._ahead = ahead
        self._changed = threading.Condition()
        self._attempt = 0  # the last one; no other has a say here
        self._keys: Keys | None = None
        self._drawn: dict[int, tuple[Shape, Any]] = {}  # of three hosts `Replicated`, of two `Words`
        self._named: set[int] = set()  # numbers that host 0 gave to a question
        self._used = -IDLE_BEFORE_DRAW_S  # when the last one was
        self._taken = dict[Shape, int]()  # the last number of each shape that was used
        self._jobs: dict[str, Job] = {}  # by the digest of what the hosts agreed to add up
        self._done: dict[str, Any] = {}
        self._postponed = 0.0  # when host 0 may call for a job again
        self.compute_now: Callable[[str, Job], Any] | None = None  # where all hosts are in one process

    def renew(self) -> int:
        """Drop everything and return the number of a new attempt, which ends all earlier ones."""
        with self._changed:
            self._attempt += 1
            self._drop()
            return self._attempt

    def begin(self, attempt: int, keys: Keys) -> None:
        """Begin this attempt's session; `Unavailable` after a later attempt, whose session stays as it is."""
        with self._changed:
            if attempt != self._attempt:
                raise Unavailable("this session is over, because a newer session has begun")
            self._drop(keys)

    def end(self, attempt: int) -> None:
        """Drop this attempt's session and its noise, if it is still the current one."""
        with self._changed:
            if attempt == self._attempt:
                self.renew()

    def deposit(self, attempt: int, number: int, shape: Shape, noise: Replicated | Words) -> None:
        """Keep a noise of this attempt's session; drop one of another."""
        with self._changed:
            if attempt == self._attempt and self._keys is not None:
                self._drawn[number] = shape, noise
                self._changed.notify_all()

    def keys(self) -> Keys:
        """Return the keys of the hosts' session, or refuse if there is none yet."""
        with self._changed:
            if self._keys is None:
                raise Unavailable("the hosts have not exchanged keys yet; ask the same question again")
            return self._keys

    def name(self, session: str, shape: Shape, patience: float) -> int:
        """Return the number of a noise for a new question; each is given once."""
        with self._changed:
            self._changed.wait_for(lambda: self._free(shape) or not self._holds(session), patience)
            free = self._free(shape)
            if not free or not self._holds(session):
                raise Unavailable("no noise has been drawn yet; ask the same question again")
            self._named.add(free[0])
            self._used = time.monotonic()
            self._changed.notify_all()
            return free[0]

    def take(self, session: str, number: int, shape: Shape, patience: float) -> Any:
        """Return the noise, once, and drop earlier ones; `AbortedRound` if it can never come."""

        def settled() -> bool:
            return number in self._drawn or not self._holds(session) or number <= self._taken.get(shape, 0)

        with self._changed:
            self._changed.wait_for(settled, patience)
            if not self._holds(session):
                raise AbortedRound("a host restarted before the hosts had agreed, and the noise was dropped")
            if not settled():
                raise Unavailable("this noise has not been drawn yet; ask the same question again")
            if number not in self._drawn or self._drawn[number][0] != shape:
                raise AbortedRound("the noise of this round was already used or discarded")
            noise = self._drawn[number][1]
            self._taken[shape] = number
            self._drawn = {each: entry for each, entry in self._drawn.items() if entry[0] != shape or each > number}
            return noise

    def compute(self, session: str, key: str, job: Job, patience: float) -> Any:
        """Return what a job comes to, once the hosts' session has done it; `key` names the job."""
        with self._changed:
            if not self._holds(session):
                raise AbortedRound("a host restarted before the hosts had agreed, and the noise was dropped")
            if key in self._done:
                return self._done[key]
            if self.compute_now is None:
                self._jobs[key] = job
                self._changed.notify_all()
                self._changed.wait_for(lambda: key in self._done or not self._holds(session), patience)
                self._jobs.pop(key, None)  # asked for again when the question is
                if key in self._done:
                    return self._done[key]
                if not self._holds(session):
                    raise AbortedRound("the hosts' session ended while they computed on the owners' shares")
                raise Unavailable("the hosts still compute on the owners' shares; ask the same question again")
        result = self.compute_now(key, job)
        with self._changed:
            if self._holds(session):  # done once, whatever becomes of the round: a second match shows a second number
                self._done = {key: result}
        return result

    def wanted_job(self) -> str | None:
        """Return the name of a job that host 0 must call for, if there is one."""
        with self._changed:
            return next(iter(self._jobs), None) if time.monotonic() >= self._postponed else None

    def postpone_job(self, key: str) -> None:
        """Call for no job for a moment, and for this one last: another host is not ready."""
        with self._changed:
            self._postponed = time.monotonic() + JOB_PAUSE_S
            if (job := self._jobs.pop(key, None)) is not None:
                self._jobs[key] = job

    def pending_job(self, key: str, patience: float) -> Job | None:
        """Return what is to be done under this name; None if this host does not hold it, or nobody waits for it."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._jobs, patience)
            return self._jobs.get(key)

    def settle_job(self, attempt: int, key: str, result: Any) -> None:
        """Keep what a job of this attempt's session came to."""
        with self._changed:
            if attempt == self._attempt:
                self._jobs.pop(key, None)
                self._done = {key: result}  # a host agrees on one question at a time
                self._changed.notify_all()

    def wanted(self) -> Shape | None:
        """Return what host 0 must draw: at once if half is used up, else after `IDLE_BEFORE_DRAW_S` seconds so no round
        waits."""
        with self._changed:
            quiet = time.monotonic() - self._used >= IDLE_BEFORE_DRAW_S
            missing = ((shape, most - len(self._free(shape)), most) for shape, most in self._ahead.items())
            return next((shape for shape, lack, most in missing if 2 * lack > most or (lack > 0 and quiet)), None)

    def wait_for_use(self, patience: float) -> None:
        """Wait until something has to be drawn."""
        with self._changed:
            until = time.monotonic() + patience
            while self.wanted() is None and self.wanted_job() is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(min(left, IDLE_BEFORE_DRAW_S))

    def ready(self) -> dict[Shape, int]:
        """Return how many noises of each shape are there."""
        with self._changed:
            return {shape: len(self._free(shape)) for shape in self._ahead}

    def _drop(self, keys: Keys | None = None) -> None:
        self._keys, self._drawn, self._named, self._taken = keys, {}, set(), {}
        self._jobs, self._done = {}, {}
        self._changed.notify_all()

    def _holds(self, session: str) -> bool:
        return self._keys is not None and self._keys.session == session

    def _free(self, shape: Shape) -> list[int]:
        return sorted(
            number for number, (found, _) in self._drawn.items() if found == shape and number not in self._named
        )


KEEPALIVE_S = 1.0  # seconds after which host 0 says that it is still there
KEEPALIVE_MESSAGE = b"-"
READY, NOT_READY = b"1", b"0"


class Session:
    """One host's part of a session.

    Formal guarantee: its name follows from 32 random bytes of each host, so no host that began afresh can be in an
    earlier one; the keys of its tags are known like shares, key j to the hosts j and j - 1 of three (two hosts have
    none). It changes the pool only while no later attempt was made there.
    """

    def __init__(self, channel: Channel, assignment: HostAssignment, pool: Pool, attempt: int) -> None:
        """`attempt` is the pool's number for it (`Pool.renew`)."""
        self._channel, self._assignment, self._pool, self._attempt = channel, assignment, pool, attempt
        if assignment.paired:
            keys, self._computer = _agree_pair(channel, assignment.terms_hash)
        else:
            keys, self._computer = _agree(channel, assignment.terms_hash, assignment.cheating)
        self._number = 0
        pool.begin(attempt, keys)

    def draw(self, shape: Shape) -> None:
        """Draw the next noise; all hosts do this at once."""
        self._number += 1
        self._pool.deposit(self._attempt, self._number, shape, self._computer.draw(self._number, shape))

    def compute(self, key: str, job: Job) -> Any:
        """Return what a job comes to; all hosts do this at once. `key` is the digest of the record that names the
        shares by their tags."""
        self._number += 1
        return self._computer.compute(self._number, key, job)

    def lead(self, over: threading.Event) -> None:
        """Keep the pool filled until it is over, as host 0."""
        others = [i for i in range(len(self._assignment.hosts)) if i != self._channel.index]
        while not over.is_set():
            if (key := self._pool.wanted_job()) is not None:
                self._lead_job(key, others)
                continue
            shape = self._pool.wanted()
            if shape is None:
                self._pool.wait_for_use(KEEPALIVE_S)
            for other in others:
                self._channel.send(
                    other,
                    KEEPALIVE_MESSAGE
                    if shape is None
                    else json.dumps([shape.law, shape.exponent, shape.size]).encode(),
                )
            if shape is not None:
                self.draw(shape)

    def follow(self, over: threading.Event) -> None:
        """Draw what host 0 calls for, if the terms know of it."""
        known = {
            json.dumps([shape.law, shape.exponent, shape.size]).encode(): shape for shape in self._assignment.ahead
        }
        while not over.is_set():
            called = self._channel.receive(0)
            if called == KEEPALIVE_MESSAGE:
                continue
            if self._assignment.computes and JOB_CALL.fullmatch(called):
                self._follow_job(called[1:].decode())
                continue
            if called not in known:
                raise ExchangeError("host 0 requested noise that is not in the terms; contact the operator of host 0")
            self.draw(known[called])

    def _lead_job(self, key: str, others: Sequence[int]) -> None:
        """Call for a job, and begin it if all hosts hold what it is about."""
        for other in others:
            self._channel.send(other, b"?" + key.encode())
        replies = [self._channel.receive(other) for other in others]
        job = self._pool.pending_job(key, 0.0)  # whoever asked for it may have lost patience meanwhile
        if set(replies) != {READY}:
            job = None
        for other in others:
            self._channel.send(other, NOT_READY if job is None else READY)
        if job is None:
            self._pool.postpone_job(key)
        else:
            self._pool.settle_job(self._attempt, key, self.compute(key, job))

    def _follow_job(self, key: str) -> None:
        """Say whether this host holds what host 0 calls for, and begin the job if all do."""
        job = self._pool.pending_job(key, JOB_WAIT_S)
        self._channel.send(0, NOT_READY if job is None else READY)
        if self._channel.receive(0) == READY:
            if job is None:
                raise ExchangeError(
                    "host 0 began a job for which this host is not ready; contact the operator of host 0"
                )
            self._pool.settle_job(self._attempt, key, self.compute(key, job))


JOB_CALL = re.compile(rb"\?[0-9a-f]{64}")


class Computer(Protocol):
    """This host's part of what a session computes: noise, and a round's job. Calls have numbers, the same at all
    hosts."""

    def draw(self, number: int, shape: Shape) -> Replicated | Words: ...
    def compute(self, number: int, key: str, job: Job) -> Any: ...


@dataclass(frozen=True)
class Three:
    """Three hosts that follow the protocol. Draws have keys of their own, and so has each job."""

    channel: Channel
    keys: tuple[bytes, bytes]
    party: Party

    @classmethod
    def begin(cls, channel: Channel, keys: tuple[bytes, bytes]) -> "Three":
        """Begin with the keys that the hosts agreed on."""
        first, second = (derive_key(each, 0, "draws") for each in keys)
        return cls(channel, keys, Party(channel, (first, second)))

    def draw(self, number: int, shape: Shape) -> Replicated:
        return draw(self.party, tabled_recipe(shape.law, shape.exponent), shape.size)

    def compute(self, number: int, key: str, job: Job) -> Any:
        first, second = (derive_key(each, number, f"job {key}") for each in self.keys)
        return job.run(Party(self.channel, (first, second)))


@dataclass(frozen=True)
class ThreeVerified:
    """Three hosts of whom one may do anything. Each call has keys of its own."""

    channel: Channel
    keys: tuple[bytes, bytes]

    def draw(self, number: int, shape: Shape) -> Replicated:
        return draw_verified(self.channel, self.keys, number, tabled_recipe(shape.law, shape.exponent), shape.size)

    def compute(self, number: int, key: str, job: Job) -> Any:
        first, second = (derive_key(each, number, f"job {key}") for each in self.keys)
        return job.run(VerifiedParty(self.channel, (first, second)))


@dataclass(frozen=True)
class Two:
    """Two hosts that draw one noise together."""

    pair: Pair

    def draw(self, number: int, shape: Shape) -> Words:
        return draw_paired(self.pair, tabled_recipe(shape.law, shape.exponent), shape.size)

    def compute(self, number: int, key: str, job: Job) -> Any:
        raise GuaranteeError("hosts: computing on shares needs three hosts")


def _agree(channel: Channel, terms_hash: str, cheating: bool) -> tuple[Keys, Computer]:
    """Agree on fresh keys of all kinds, and on a name that nobody chose alone."""
    index, nonce, key = channel.index, os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
    before, after = (index + 2) % MAX_HOSTS, (index + 1) % MAX_HOSTS
    channel.send(before, nonce)
    channel.send(after, nonce)
    channel.send(before, key)
    nonces = {index: nonce, before: channel.receive(before), after: channel.receive(after)}
    second = channel.receive(after)
    if {len(part) for part in (*nonces.values(), second)} != {KEY_BYTES}:
        raise ExchangeError("hosts: this host received keys of the wrong length; start again")
    name, drawing = _session_name(terms_hash, [nonces[i] for i in range(MAX_HOSTS)]), agree_keys(channel)
    computer = ThreeVerified(channel, drawing) if cheating else Three.begin(channel, drawing)
    return Keys(name, key, second), computer


def _agree_pair(channel: Channel, terms_hash: str) -> tuple[Keys, Computer]:
    """Agree on a name that neither host chose alone, and begin to draw as a pair."""
    nonce = os.urandom(KEY_BYTES)
    channel.send(1 - channel.index, nonce)
    other = channel.receive(1 - channel.index)
    if len(other) != KEY_BYTES:
        raise ExchangeError("hosts: received a name of a wrong length; start again")
    name = _session_name(terms_hash, [nonce, other] if channel.index == 0 else [other, nonce])
    return Keys(name, b"", b""), Two(agree_pair(channel))


def _session_name(terms_hash: str, nonces: list[bytes]) -> str:
    return hashlib.sha256(b"parley-session" + terms_hash.encode() + b"".join(nonces)).hexdigest()
