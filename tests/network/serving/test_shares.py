"""What members share at a daemon: open proposals and calls. One party has a share, whatever certificates it shows, and
crowds out none of the others."""

import contextlib

import pytest
from proposals import LEARNER, proposal_service, proposed, terms_of

from parley.errors import Refusal
from parley.network.exchange.messages import ProposalState
from parley.network.serving.acceptance import Acceptance, Caller
from parley.network.serving.inbox import FREE_PLACES_PER_PROPOSAL, MAX_OPEN_PER_LEARNER, MAX_OPEN_PROPOSALS, Proposal
from parley.network.serving.server import MAX_SHARED_PER_PARTY, SHARED_TURN_S, CallSlots
from parley.network.serving.service import WASTED_AT_ONCE, WASTED_INTERVAL_S, Patience


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    monkeypatch.setattr("parley.durable.os.fsync", lambda file: None)  # nothing here is about crashes
    with proposal_service(tmp_path) as made:
        yield made


def filled(inbox, names):
    """How many proposals each of these learners gets in who take turns until none gets another."""
    count, growing = dict.fromkeys(names, 0), True
    while growing:
        growing = False
        for name in names:
            text = f"{name} {count[name]}"
            with contextlib.suppress(Refusal):
                inbox.add(Proposal(f"{hash(text) % 16**16:064x}", text, (name,), name, "2026-03-02T09:14:00+00:00"))
                count[name], growing = count[name] + 1, True
    return count


class Places:
    """An inbox's places without its files."""

    def __init__(self, inbox, monkeypatch):
        self.open, self._inbox = [], inbox
        monkeypatch.setattr(inbox, "proposals", lambda: self.open)
        monkeypatch.setattr(inbox, "state", lambda proposal: "open")

    def add(self, proposal):
        self._inbox.require_room(proposal.names)
        self.open.append(proposal)


def test_open_proposals_are_limited_of_one_learner_and_in_all(service):
    many = [terms_of(epsilon=k) for k in range(1, MAX_OPEN_PER_LEARNER + 3)]
    for terms in many[:MAX_OPEN_PER_LEARNER]:
        proposed(service, terms)
    renewed = Caller(("learner", "also"), "a new key")
    for caller in (LEARNER, renewed):  # by name: another key brings no new places
        with pytest.raises(Refusal, match="this learner already has"):
            proposed(service, many[MAX_OPEN_PER_LEARNER], caller)
    assert proposed(service, many[0]) == ProposalState("open")  # what is there already is told
    service.inbox.refuse(service.inbox.find(many[0].hash), "no")
    assert proposed(service, many[MAX_OPEN_PER_LEARNER]) == ProposalState("open")
    for k in range(MAX_OPEN_PROPOSALS - MAX_OPEN_PER_LEARNER):
        proposed(service, terms_of(f"member-{k}"), Caller((f"member-{k}",), f"key {k}"))
    late = Caller(("late",), "late key")
    with pytest.raises(Refusal, match="full"):
        proposed(service, terms_of("late"), late)
    service.acceptances.store(Acceptance(many[1]))
    assert proposed(service, terms_of("late"), late) == ProposalState("open")


@pytest.mark.parametrize(("parties", "each"), [(1, MAX_OPEN_PER_LEARNER), (4, 6), (8, 4), (16, 3)])
def test_a_few_learners_together_leave_places_for_others(service, monkeypatch, parties, each):
    """The bound: who has n places gets another while n < free / SHARE, so k parties that take all they can have n each
    with n >= (IN_ALL - k n) / SHARE."""
    places = Places(service.inbox, monkeypatch)
    count = filled(places, [f"crowd-{k}" for k in range(parties)])
    assert max(count.values()) == each
    assert each - 1 < (MAX_OPEN_PROPOSALS - parties * (each - 1)) / FREE_PLACES_PER_PROPOSAL
    free = MAX_OPEN_PROPOSALS - sum(count.values())
    assert free >= FREE_PLACES_PER_PROPOSAL
    assert filled(places, [f"other-{k}" for k in range(free)]) == {f"other-{k}": 1 for k in range(free)}


def names_that_fill(inbox):
    """How few learners fill all places: each next proposal is of one that has some already, if any of those may."""
    held = []
    for _ in range(MAX_OPEN_PROPOSALS):
        for name in [*held, f"crowd-{len(held)}"]:
            with contextlib.suppress(Refusal):
                inbox.add(Proposal("", "", (name,), name, ""))
                held = [*held, name] if name not in held else held
                break
    assert len(inbox.open) == MAX_OPEN_PROPOSALS
    return len(held)


def test_to_fill_the_inbox_takes_twenty_two_names(service, monkeypatch):
    assert names_that_fill(Places(service.inbox, monkeypatch)) == 22
    monkeypatch.setattr(
        "parley.network.serving.inbox.FREE_PLACES_PER_PROPOSAL", 0
    )  # the mutant: places for who comes first
    assert names_that_fill(Places(service.inbox, monkeypatch)) == 1


def test_who_was_refused_often_waits_with_every_certificate_of_its_name():
    clock = [100.0]
    patience = Patience(lambda: clock[0])
    for k in range(WASTED_AT_ONCE):
        patience.require(Caller(("crowd",), f"key {k}"))
        patience.wasted(Caller(("crowd",), f"key {k}"))
    for caller in (Caller(("crowd",), "fresh"), Caller(("also", "crowd"), "fresh")):
        with pytest.raises(Refusal, match="wait at least 2 seconds"):
            patience.require(caller)
    for other in (Caller(("b",), "key 0"), Caller((), "key 0"), Caller((), None)):
        patience.require(other)
    clock[0] += WASTED_INTERVAL_S
    patience.require(Caller(("crowd",), "fresh"))


class Call:
    def __init__(self):
        self.ended = 0

    def cancel(self):
        self.ended += 1


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def slots(clock):
    return CallSlots(8, 30.0, lambda: clock[0])


def taken(slots, *callers):
    """The calls of these callers that got a place."""
    calls = [Call() for _ in callers]
    return [call for call, caller in zip(calls, callers, strict=True) if slots.acquire_shared(caller, call)]


def test_many_certificates_of_one_name_share_two_places(slots):
    crowd = [Caller(("crowd",), f"key {k}") for k in range(20)]
    assert len(taken(slots, *crowd, Caller(("crowd", "alias"), "another"))) == MAX_SHARED_PER_PARTY
    nameless = Caller((), "key")
    assert len(taken(slots, nameless, nameless, nameless)) == MAX_SHARED_PER_PARTY
    assert slots.sharers() == ", crowd"


def test_silent_calls_leave_when_somebody_without_a_place_waits(slots, clock):
    crowd = [Caller((f"crowd-{k}",), f"{k}") for k in range(4)]
    silent = taken(slots, *crowd, *crowd)
    assert len(silent) == 8
    honest = Caller(("learner",), "key")
    assert taken(slots, honest) == []  # they have their turn
    clock[0] += SHARED_TURN_S + 0.1
    assert taken(slots, *crowd) == []  # who has places gets no more
    (call,) = taken(slots, honest)
    assert [each.ended for each in silent] == [1] + [0] * 7  # the oldest
    assert taken(slots, honest) == []
    slots.release_shared(silent[0])  # the one that had to go hangs up in the end, and frees nothing more
    assert taken(slots, Caller(("crowd-0",), "0")) == []
    slots.release_shared(call)
    assert len(taken(slots, honest, honest)) == 1
    assert sum(each.ended for each in silent) == 1


def test_a_call_that_has_sent_its_message_keeps_its_place(slots, clock):
    working = taken(slots, *[Caller((f"m-{k}",), f"{k}") for k in range(8)])
    for call in working:
        assert slots.message(iter([b"all of it"]), call) == b"all of it"
    clock[0] += 25.0
    assert taken(slots, Caller(("learner",), "key")) == []
    assert [call.ended for call in working] == [0] * 8


def test_shared_places_are_beside_a_callers_own(slots):
    one = Caller(("learner",), "key")
    assert all(slots.acquire(one) for _ in range(8))
    assert not slots.acquire(one)
    assert len(taken(slots, one)) == 1
    slots.release(one)
    assert slots.acquire(one)
