"""Hosts that verify each other, and leave out owners whose answers exceed their bounds.

PARLEY_KILLS sets how many processes are killed at random (default 6).
"""

import dataclasses
import os
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from bundles_of_owners import CONTENT, RECORDS, SHAPE, TERMS, bundles, make_assignment, total
from hosted_consortium import HostedConsortium, torture
from samples import make_terms, regression_table

import parley
from parley.errors import AbortedRound, ParleyError, TermsError, Unavailable
from parley.learning.outcome.guarantee import guarantee
from parley.network.hosting import pool as pool_module
from parley.network.hosting.federation import SharedFederation
from parley.network.hosting.offer import acceptance_summary
from parley.network.hosting.pool import Check, Keys, Pool, Session
from parley.network.hosting.proposal import Turn, answer_bounds
from parley.network.hosting.sums import InProcessHosts
from parley.owner.acceptance_summary import acceptance_summary as owners_summary
from parley.owner.disclosure import hosts_condition
from parley.privacy.sharing.bounds import VectorBounds
from parley.privacy.sharing.party import run_in_threads, wires
from parley.privacy.sharing.ring import Replicated
from parley.privacy.sharing.verified import VerifiedParty
from parley.protocol.setup import resolve

BOUND = 30_000_000
BOTH = {"hosts_may_cheat": True, "check_answers": True}


def checked_hosts(quorum: int, cheating: bool, folder=None) -> InProcessHosts:
    ends = np.full(SHAPE.size, BOUND, dtype=np.int64)
    bounds = dict.fromkeys(RECORDS, VectorBounds(-ends, ends, "l1", SHAPE.size * BOUND))
    assignment = dataclasses.replace(
        make_assignment(quorum),
        find=lambda number: Turn(SHAPE, RECORDS, quorum, bounds),
        checked=True,
        cheating=cheating,
    )
    return InProcessHosts(assignment, folder)


def deliver(hosts: InProcessHosts, number: int = 1, **values: int) -> None:
    for owner, value in values.items():
        hosts.receive(bundles(owner.replace("_", "-"), value, number))


@pytest.mark.parametrize("cheating", [False, True])
def test_an_owner_beyond_its_bound_is_left_out_by_name(cheating):
    hosts = checked_hosts(2, cheating)
    deliver(hosts, bank_a=BOUND, bank_b=BOUND + 1, bank_c=-BOUND)
    opened = hosts.open(1, CONTENT)
    assert opened[0].owners == ("bank-a", "bank-c")
    assert np.abs(total(opened)).max() < 2000
    assert [journal.left_out(TERMS, 1) for journal in hosts.journals] == [["bank-b"]] * 3
    assert [each.words.tolist() for each in hosts.open(1, CONTENT)] == [each.words.tolist() for each in opened]
    deliver(hosts, 2, bank_a=5, bank_b=6, bank_c=7)
    assert hosts.open(2, CONTENT)[0].owners == tuple(sorted(RECORDS))
    assert hosts.journals[0].left_out(TERMS, 2) == []
    hosts.close()


def test_a_round_that_needs_everybody_is_aborted_and_says_who_was_too_large():
    hosts = checked_hosts(3, False)
    deliver(hosts, bank_a=1, bank_b=2**62, bank_c=3)
    with pytest.raises(
        AbortedRound, match="bank-b exceed the agreed bounds; 2 owners are left, but the terms require 3"
    ):
        hosts.open(1, CONTENT)
    with pytest.raises(AbortedRound, match="bank-b exceed"):
        hosts.open(1, CONTENT)
    assert all(journal.entry(TERMS, 1).record is None for journal in hosts.journals)
    hosts.close()


def test_a_journal_with_owners_left_out_is_opened_again(tmp_path):
    hosts = checked_hosts(2, True, tmp_path)
    deliver(hosts, bank_a=1, bank_b=-(2**63), bank_c=3)
    first = hosts.open(1, CONTENT)
    hosts.restart(1)
    assert hosts.journals[1].left_out(TERMS, 1) == ["bank-b"]
    assert [each.words.tolist() for each in hosts.open(1, CONTENT)] == [each.words.tolist() for each in first]
    hosts.close()


def test_what_an_honest_owner_sends_keeps_its_bounds():
    """Answers at the edge of what terms allow, encoded: within; beyond by a millionth and a unit: not."""
    for mechanism in ("laplace", "gaussian"):
        shared = {"mechanism": mechanism, "delta": 1e-6, "noise": "shared", **BOTH}
        setup = resolve(make_terms(200, 150, learning__horizon=2).changed(privacy=shared, hosts=("h0", "h1", "h2")))
        terms = setup.terms
        part = setup.part(terms.owners[0].name)
        stage = part.stages[0]
        bounds, noise = answer_bounds(stage), stage.series.mechanism
        extent, size = stage.question.extent, noise.size
        high = np.broadcast_to(np.asarray(extent.high, dtype=float), size)
        value = np.zeros(size)
        value[0] = min(high[0], extent.size)
        encoded = np.rint(value * noise.factor).astype(np.int64).view(np.uint64)
        assert bounds.holds(encoded)
        spread = np.full(size, extent.size / (size if extent.norm == "l1" else np.sqrt(size)))
        assert bounds.holds(np.rint(spread * noise.factor).astype(np.int64).view(np.uint64))
        beyond = np.zeros(size, dtype=np.int64)
        beyond[0] = bounds.high[0] + 1
        assert not bounds.holds(beyond.view(np.uint64))
        assert not bounds.holds(np.rint(1.00001 * spread * noise.factor + 1).astype(np.int64).view(np.uint64))
        assert bounds.high[0] <= 1.000002 * high[0] * noise.factor + 1


def test_terms_say_which_hosts_are_believed():
    alone = make_terms(100, 100)
    three = alone.changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("h0", "h1", "h2"))
    assert three.changed(privacy={"hosts_may_cheat": False, "check_answers": False}).hash == three.hash
    both = three.changed(privacy=BOTH)
    assert both.hash != three.hash
    assert "even if one of them departs from the protocol" in hosts_condition(both)
    assert "and all hosts follow the protocol" in hosts_condition(three)
    words = " ".join(acceptance_summary(both, "h1"))
    assert "verify each other's computation, check that each answer keeps its bounds, and send" in words
    for key in BOTH:
        with pytest.raises(TermsError, match=f"{key}.*three hosts"):
            alone.changed(privacy={key: True})
        with pytest.raises(TermsError, match=f"{key}.*only with three hosts"):
            three.changed(privacy={key: True}, hosts=("h0", "h1"))


def test_a_release_on_one_machine_and_what_its_owners_read(tmp_path):
    terms = make_terms(100, 150, learning__horizon=3)
    terms = terms.changed(privacy={"noise": "shared", "delta": 1e-6, **BOTH}, hosts=("h0", "h1", "h2"))
    owners = []
    for name, rows in (("a", 100), ("b", 150)):
        ledger = parley.Ledger(tmp_path / f"{name}.ledger", lifetime=2, lifetime_delta="1e-5")
        owners.append(parley.Owner(name, regression_table(rows, seed=rows), ledger=ledger))
        owners[-1].accept(terms)
    first, again = parley.train(terms, owners), parley.train(terms, owners)
    assert np.array_equal(first.theta, again.theta)
    assert np.isfinite(first.theta).all()
    assert "even if one of them departs from the protocol" in guarantee(first)
    said = " ".join(owners_summary(owners[0], owners[0].agreement(terms.hash)))
    assert "check on the shares that each answer keeps its bounds" in said


def test_the_learner_is_told_who_was_left_out():
    told, federation = [], object.__new__(SharedFederation)
    federation._warn, federation._assignment = told.append, checked_hosts(2, False).assignment
    federation._warn_left_out(3, set())
    federation._warn_left_out(3, {"bank-b"})
    assert told == ["round 3: the hosts left out bank-b (an answer beyond its bounds, or shares that came late)"]


def sessions(assignment, pools):
    ends = wires(timeout=3.0)
    made = [partial(Session, end, assignment, pool, pool.renew()) for end, pool in zip(ends, pools, strict=True)]
    return ends, run_in_threads(*made, wires=ends)


def shares_of(value: int) -> list[Replicated]:
    rng = np.random.default_rng(abs(value))
    a, b = (rng.integers(0, 2**64, size=SHAPE.size, dtype=np.uint64) for _ in range(2))
    third = np.full(SHAPE.size, value, dtype=np.int64).view(np.uint64) - a - b
    held = [a, b, third]
    return [Replicated(held[i], held[(i + 1) % 3]) for i in range(3)]


def test_hosts_that_are_told_different_things_compute_under_different_keys():
    """Else a host could compare two answers under one mask: no stream is common to two checks."""
    hosts = checked_hosts(2, True)
    bounds = [hosts.assignment.turn(1).bounds["bank-a"]]
    ends, made = sessions(hosts.assignment, [Pool({}) for _ in range(3)])
    used, answers = {}, (shares_of(5), shares_of(6))

    def noted(channel, keys):
        used[channel.index] = set(keys)
        return VerifiedParty(channel, keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "VerifiedParty", noted)
        with pytest.raises(ParleyError):
            run_in_threads(
                partial(made[0].compute, "a" * 64, Check([answers[0][0]], bounds)),
                partial(made[1].compute, "a" * 64, Check([answers[0][1]], bounds)),
                partial(made[2].compute, "b" * 64, Check([answers[1][2]], bounds)),
                wires=ends,
            )
    assert len(used[0] & used[1]) == 1  # key 1
    assert not used[2] & (used[0] | used[1])
    hosts.close()


def test_a_check_that_nobody_else_holds_stands_in_nobodys_way():
    hosts = checked_hosts(2, False)
    bounds = [hosts.assignment.turn(1).bounds["bank-a"]]
    pools, over = [Pool({}) for _ in range(3)], threading.Event()
    ends, made = sessions(hosts.assignment, pools)
    answer = shares_of(5)
    work = [
        threading.Thread(target=act, args=(over,), daemon=True)
        for act in (made[0].lead, made[1].follow, made[2].follow)
    ]
    dead = threading.Thread(
        target=find_in_vain, args=(pools[0], "a" * 64, Check([answer[0]], bounds), 20.0), daemon=True
    )
    for thread in (dead, *work):
        thread.start()
    kept = run_in_threads(
        *(partial(find, pool, "b" * 64, Check([answer[k]], bounds), 20.0) for k, pool in enumerate(pools)), wires=ends
    )
    assert kept == ([True],) * 3
    over.set()
    hosts.close()


def find_in_vain(*asked: Any) -> None:
    with suppress(ParleyError):
        find(*asked)


def find(pool: Pool, key: str, check: Check, patience: float) -> list[bool]:
    return pool.compute(pool.keys().session, key, check, patience)


def test_what_nobody_waits_for_is_forgotten():
    pool = Pool({})
    pool.begin(pool.renew(), Keys("s", b"", b""))
    with pytest.raises(Unavailable):
        pool.compute("s", "a" * 64, Check([], []), 0.01)
    assert pool.wanted_job() is None


def test_a_check_is_named_once_and_gone_with_the_session():
    pool = Pool({})
    attempt = pool.renew()
    assert pool.wanted_job() is None
    assert pool.pending_job("a" * 64, 0.0) is None
    pool.settle_job(attempt - 1, "a" * 64, [True])  # of another session
    with pytest.raises(AbortedRound):
        pool.compute("another session", "a" * 64, Check([], []), 0.0)


@pytest.fixture
def consortium(tmp_path):
    made = HostedConsortium(tmp_path)
    made.draw = "hosts_may_cheat = true\ncheck_answers = true\n"
    yield made
    made.close()


def test_daemons_verify_and_check(consortium):
    terms = consortium.write_terms(horizon=3, epsilon=5.0)
    assert terms.privacy.hosts_may_cheat
    consortium.accept(terms)
    consortium.start_hosts()
    consortium.start()
    told = consortium.learn()
    assert [owner["answers"] for owner in told["owners"]] == [3, 3, 3]
    assert {number: len(records) for number, records in consortium.opened(terms, 3).items()} == {1: 1, 2: 1, 3: 1}


def test_killed_at_random_nobody_opens_twice(consortium):
    opened, aborted = torture(consortium, seed=2, kills=int(os.environ.get("PARLEY_KILLS", "6")))
    assert {*opened, *aborted} == set(range(1, 13))
