"""Lines to a daemon's port are bounded, whoever opens them and whatever they carry.

PARLEY_FLOOD sets how many lines a hostile member opens (default 12), PARLEY_FLOOD_SECONDS for how long (default 2);
with PARLEY_FLOOD_REPORT each flood prints the daemon's memory and the learner's waiting times.
"""

import os
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from consortium import Consortium
from flood import KINDS, flood
from forked import SERVER

from parley.errors import Unavailable
from parley.network.exchange.remote import RemoteOwner
from parley.network.identity import certificate_authority
from parley.network.serving import connections
from parley.network.serving.acceptance import Caller
from parley.network.serving.connections import (
    CROWD_REASON,
    ENTERING_TURN_S,
    FIRST_CALL_TIMEOUT_S,
    MAX_ENTERING,
    MAX_ENTERING_PER_ADDRESS,
    MAX_KNOWN_ADDRESSES,
    MAX_SERVED_PER_CERTIFICATE,
    MAX_UNSERVED_PER_ADDRESS,
    MESSAGE_OVERHEAD_BYTES,
    TLS_BEGIN_TIMEOUT_S,
    UNACCOUNTED_BYTES,
    Connection,
    Connections,
    Stage,
    excess,
    let_in,
)
from parley.network.serving.log import Log

MEMBER, OTHER = Caller(("member",), "key"), Caller(("other",), "key2")


def line(since, host="10.0.0.7", stage=Stage.SILENT, caller=None):
    return Connection((host, 1), since, stage, caller)


def test_of_one_certificate_the_newest_lines_stay():
    mine = [line(float(k), stage=Stage.SERVED, caller=MEMBER) for k in range(MAX_SERVED_PER_CERTIFICATE + 3)]
    others = [line(0.0, stage=Stage.SERVED, caller=OTHER) for _ in range(MAX_SERVED_PER_CERTIFICATE)]
    assert excess([*mine, *others], 100.0) == dict.fromkeys(mine[:3], "too many of one certificate")


def test_of_one_address_the_newest_and_furthest_stay():
    silent = [line(100.0 + k / 100) for k in range(MAX_UNSERVED_PER_ADDRESS)]
    knocking, entering = line(99.0, stage=Stage.KNOCKING), line(98.0, stage=Stage.ENTERING)
    served = line(0.0, stage=Stage.SERVED, caller=MEMBER)
    elsewhere = [line(100.0, "10.0.0.8") for _ in range(MAX_UNSERVED_PER_ADDRESS)]
    why = excess([entering, served, *silent, *elsewhere, knocking], 101.0)
    assert why == dict.fromkeys(silent[:2], CROWD_REASON)


def test_each_stage_ends_in_time_and_a_served_line_is_not_asked():
    now = 1000.0
    slow = {line(now - TLS_BEGIN_TIMEOUT_S - 1): "no TLS"}
    slow |= {line(now - FIRST_CALL_TIMEOUT_S - 1, stage=stage): "no call" for stage in (Stage.KNOCKING, Stage.ENTERING)}
    quick = [
        line(now - TLS_BEGIN_TIMEOUT_S + 1),
        line(now - FIRST_CALL_TIMEOUT_S + 1, stage=Stage.KNOCKING),
        line(now - FIRST_CALL_TIMEOUT_S + 1, stage=Stage.ENTERING),
    ]
    assert excess([*slow, *quick, line(0.0, stage=Stage.SERVED, caller=MEMBER)], now) == slow


def test_of_too_many_in_all_the_crowded_addresses_lose_first_and_known_ones_last():
    crowd = [line(1.0 + k / 100, "10.0.0.1") for k in range(6)]
    pair = [line(1.0 + k / 100, "10.0.0.2") for k in range(2)]
    alone, friend = line(0.5, "10.0.0.3"), [line(0.1 + k / 100, "10.0.0.4") for k in range(8)]
    lines = [*crowd, *pair, alone, *friend]
    assert not excess(lines, 2.0, len(lines), {"10.0.0.4"})
    assert set(excess(lines, 2.0, len(lines) - 4, {"10.0.0.4"})) == set(crowd[:4])
    gone = excess(lines, 2.0, 8, {"10.0.0.4"})
    assert set(gone) == {*crowd, *pair, alone}  # nobody is left but the one from whom calls came
    assert len(excess(lines, 2.0, 3, {"10.0.0.4"})) == len(lines) - 3
    networks = [line(1.0 + k, f"2001:db8::{k}") for k in range(4)] + [line(1.0, "2001:db8:0:1::1")]
    assert set(excess(networks, 2.0, 3)) == set(networks[:2])  # one network of 64 bits is one address


def test_lines_are_let_in_few_at_a_time_the_known_first_then_who_has_fewest():
    known = [line(50.0, "10.0.0.9", Stage.KNOCKING)]
    many = [line(90.0 + k / 10, f"10.0.1.{k}", Stage.KNOCKING) for k in range(MAX_ENTERING + 5)]
    entering, leaving = let_in([*many, *known], 100.0, {"10.0.0.9"})
    assert (entering[0], len(entering), leaving) == (known[0], MAX_ENTERING, [])  # the known one leaves a place less
    assert entering[1:] == sorted(many, key=lambda each: -each.since)[: MAX_ENTERING - 1]
    same = [line(90.0, "10.0.0.7", Stage.KNOCKING) for _ in range(MAX_ENTERING)]
    assert len(let_in(same, 100.0)[0]) == MAX_ENTERING_PER_ADDRESS


def test_who_had_its_turn_goes_for_who_has_fewer_lines_inside_and_not_else():
    inside = [
        line(100.0 - ENTERING_TURN_S - 1 + k / 100, f"10.0.1.{k // 4}", Stage.ENTERING) for k in range(MAX_ENTERING)
    ]
    stranger = line(100.0, "10.0.0.7", Stage.KNOCKING)
    assert let_in([*inside, stranger], 100.0) == ([stranger], [inside[0]])
    fresh = [line(100.0, each.remote[0], Stage.ENTERING) for each in inside]
    assert let_in([*fresh, stranger], 100.0) == ([], [])  # each has its turn
    fair = [line(90.0, f"10.0.1.{k}", Stage.ENTERING) for k in range(MAX_ENTERING)]
    again = line(100.0, "10.0.1.0", Stage.KNOCKING)
    assert let_in([*fair, again], 100.0) == ([], [])  # it has as many as they
    assert let_in([*fair, again], 100.0, {"10.0.1.0"}) == ([again], [])  # there are places for whoever is known
    full = [*fair, *(line(90.0, f"10.0.2.{k}", Stage.ENTERING) for k in range(MAX_ENTERING))]
    assert let_in([*full, again], 100.0, {"10.0.1.0"}) == ([again], [full[1]])


def test_who_flooded_gets_no_new_line_for_a_while_and_longer_each_time():
    with Log(StringIO()) as log:
        lines, now = Connections(log, lambda: 0), 100.0
        lines._ban("10.0.0.7", now)
        held, fresh, other = line(0.0, stage=Stage.SERVED, caller=MEMBER), line(100.0), line(100.0, "10.0.0.8")
        assert excess([held, fresh, other], 100.5, banned=lines._banned) == {fresh: "flooded before"}
        assert not excess([held, fresh, other], 101.5, banned=lines._banned)
        lengths = []
        for _ in range(6):
            now = lines._banned["10.0.0.7"] + 0.1
            lines._ban("10.0.0.7", now)
            lengths.append(lines._banned["10.0.0.7"] - now)
        assert lengths == pytest.approx([2, 4, 8, 10, 10, 10])
        lines._ban(MEMBER, 1000.0)
        assert set(lines._banned) == {MEMBER}
        assert excess([held], 1000.5, banned=lines._banned) == {held: "flooded before"}


def test_who_had_its_turn_goes_for_another_of_its_address_where_all_places_of_that_are_taken():
    """Eight half-open lines of a stranger kept a learner behind the same address out."""
    inside = [
        line(100.0 - ENTERING_TURN_S - 1 + k / 100, stage=Stage.ENTERING) for k in range(MAX_ENTERING_PER_ADDRESS)
    ]
    learner = line(100.0, stage=Stage.KNOCKING)
    assert let_in([*inside, learner], 100.0) == ([learner], [inside[0]])
    fresh = [line(100.0, stage=Stage.ENTERING) for _ in inside]
    assert let_in([*fresh, learner], 100.0) == ([], [])


@pytest.fixture
def made():
    with Log(StringIO()) as log:
        lines = Connections(log, lambda: 1000)
        held = lines.add(("10.0.0.7", 1))
        lines.move(held, Stage.ENTERING, "/inside/2")
        yield lines, held


def most(held, longest=1000):
    """The most bytes that do not have it cut."""
    return held.allowed(longest)


def test_a_line_may_receive_what_its_messages_account_for_and_nothing_is_saved_up(made):
    lines, held = made
    place = "/inside/2"
    lines.assign(place, MEMBER)

    def read():
        assert most(held) == UNACCOUNTED_BYTES + 1000 + MESSAGE_OVERHEAD_BYTES
        assert lines.count(held, 800)
        return b"12345"

    assert most(held) == UNACCOUNTED_BYTES
    assert lines.message(place, read) == b"12345"
    assert (held.received, held.base, most(held)) == (800, 800, 800 + UNACCOUNTED_BYTES)
    with pytest.raises(ConnectionError):
        lines.message(place, fail)
    assert most(held) == 800 + UNACCOUNTED_BYTES  # what never came accounts for nothing
    assert lines.count(held, UNACCOUNTED_BYTES)
    assert not lines.count(held, 1)
    assert lines.look()[0] == {held: "flooded before"}  # and its certificate has to wait


def test_what_any_member_sends_accounts_for_its_own_length_and_for_nothing_beside(made):
    lines, held = made
    place, longest = "/inside/2", 5000
    lines.assign(place, MEMBER)

    def small(brought=200, read=lines.message):
        def bring():
            assert lines.count(held, brought)
            return b"x" * 100

        return read(place, bring)

    def proposal(place, read):
        return lines.message(place, read, longest)

    def never():  # a message without end, between whose frames others come whole
        for read in (proposal, lines.message):
            assert lines.count(held, 50_000)
            before = held.base
            small(read=read)
            assert held.base == before + 100
        while lines.count(held, 10_000):
            small(read=proposal)
        raise ConnectionError

    small(read=proposal)
    assert held.base == held.received == 200
    assert lines.count(held, 9000)  # of a message that was given up
    small(read=proposal)
    assert (held.base, held.received) == (200 + 100 + MESSAGE_OVERHEAD_BYTES, 9400)
    small()
    assert held.base == held.received == 9600
    with pytest.raises(ConnectionError):
        lines.message(place, never, longest)
    assert held.received < 9600 + UNACCOUNTED_BYTES + 10_000 + 40 * 100  # forty small ones came whole at most
    assert held.unexpected == held.expected == 0


def test_a_message_that_is_too_long_for_any_member_accounts_for_nothing(made):
    lines, held = made

    def bring():
        assert lines.count(held, 6000)
        return b"x" * 5001

    lines.message("/inside/2", bring, 5000)
    assert (held.base, held.received) == (0, 6000)


def test_a_line_is_served_from_its_first_call_on_and_its_address_is_known(made, monkeypatch):
    lines, held = made
    woken = []
    lines.on_served = lambda: woken.append(True)
    assert lines.stages() == {"silent": 0, "knocking": 0, "entering": 1, "served": 0}
    for _ in range(2):
        lines.assign("/inside/2", MEMBER)
    assert (held.stage, held.holder, woken) == (Stage.SERVED, MEMBER, [True])
    assert lines.origin("/inside/2") == ("10.0.0.7", 1)
    assert lines.origin("/inside/3") is None
    lines.assign("/inside/3", MEMBER)  # not by the front: nobody's line
    assert list(lines._known) == ["10.0.0.7"]
    monkeypatch.setattr(connections, "MAX_KNOWN_ADDRESSES", 1)
    other = lines.add(("10.0.0.8", 1))
    lines.move(other, Stage.ENTERING, "/inside/4")
    lines.assign("/inside/4", OTHER)
    assert list(lines._known) == ["10.0.0.8"]
    assert MAX_KNOWN_ADDRESSES > 1
    lines.remove(other, "/inside/4")
    assert (len(lines), lines.origin("/inside/4")) == (1, None)


def test_an_address_from_which_calls_came_is_slowed_down_after_a_flood_and_not_shut_out(made, monkeypatch):
    """Who flooded behind the same address as a learner shut it out for seconds, again and again."""
    lines, _ = made
    lines.assign("/inside/2", MEMBER)
    for host, shut_out in (("10.0.0.7", False), ("10.0.0.9", True)):  # nobody called from the other
        assert not lines.count(lines.add((host, 2)), UNACCOUNTED_BYTES + 1)
        assert (lines.add((host, 3)) is None) is shut_out
    knocking = [lines.add(("10.0.0.7", port)) for port in range(4, 8)]
    others = lines.add(("10.0.0.8", 1))
    for each in (*knocking, others):
        lines.move(each, Stage.KNOCKING)
    monkeypatch.setattr(connections, "SLOWED_ENTRY_INTERVAL_S", 60.0)
    cut, entering = lines.look()
    assert set(entering) == {knocking[0], others}  # the oldest, and whoever comes from elsewhere
    assert not {*knocking, others} & cut.keys()
    for each in entering:
        lines.move(each, Stage.ENTERING, f"/inside/{each.remote}")
    assert lines.look()[1] == []
    monkeypatch.setattr(connections, "SLOWDOWN_S", 0.0)
    assert not lines.count(lines.add(("10.0.0.7", 9)), UNACCOUNTED_BYTES + 1)
    assert lines.look()[1] == knocking[:0:-1]  # slow no longer: all at once, the newest first


def fail():
    raise ConnectionError


def memory(pid):
    """The most that a process has had so far, in MB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024


def test_a_learner_opens_new_lines_while_somebody_behind_its_address_floods(bank):
    """Of 56 new lines 48 failed: its address was shut out with the other's."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    certificate_authority.make_request(bank.folder, "hostile")
    certificate_authority.issue(bank.folder, bank.folder / "hostile.csr", 30)
    address = f"127.0.0.1:{bank.ports['a']}"

    def answered():
        peer = RemoteOwner("a", address, bank.identity())
        try:
            return peer.statement(terms.hash, "learner", 30).rounds == 3
        except Unavailable:
            return False
        finally:
            peer.close()

    assert answered()
    hostile = SERVER.Process(
        target=flood, args=("continued", bank.ports["a"], str(bank.folder), "hostile", 6, 60.0), daemon=True
    )
    hostile.start()
    try:
        until = time.monotonic() + 30
        while not any(line["event"] == "line-cut" for line in bank.log("a")) and time.monotonic() < until:
            time.sleep(0.02)
        assert [answered() for _ in range(10)] == [True] * 10
        assert hostile.exitcode is None
    finally:
        hostile.kill()
        hostile.join()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_member_that_floods_takes_little_memory_and_the_learner_is_answered(tmp_path, kind):
    """32 lines of continued headers took gigabytes, and the learner waited in vain."""
    lines, seconds = int(os.environ.get("PARLEY_FLOOD", "12")), float(os.environ.get("PARLEY_FLOOD_SECONDS", "2"))
    bank = Consortium(tmp_path, names="a")
    try:
        terms = bank.write_terms(horizon=3)
        bank.accept(terms)
        bank.start()
        certificate_authority.make_request(tmp_path, "hostile")
        certificate_authority.issue(tmp_path, tmp_path / "hostile.csr", 30)
        peer, waited, failed = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity()), [], 0
        peer.statement(terms.hash, "learner", 20)
        pid = bank.daemons["a"].pid
        before = memory(pid)
        hostile = SERVER.Process(target=flood, args=(kind, bank.ports["a"], str(tmp_path), "hostile", lines, seconds))
        hostile.start()
        while hostile.exitcode is None:
            began = time.monotonic()
            try:
                peer.statement(terms.hash, "learner", 20)
            except Unavailable:
                failed += 1
            waited.append(time.monotonic() - began)
            hostile.join(0.05)
        most = memory(pid)
        if "PARLEY_FLOOD_REPORT" in os.environ:
            waited.sort()
            sys.stderr.write(
                f"\n{kind}: {lines} lines, {seconds:g} s: daemon {before} -> {most} MB; learner asked {len(waited)} "
                f"times, "
                f"{failed} in vain, median {1e3 * waited[len(waited) // 2]:.0f} ms, longest {1e3 * waited[-1]:.0f} ms\n"
            )
        assert peer.statement(terms.hash, "learner", 20).rounds == 3
        peer.close()
        assert most - before < 300
        cut = [line for line in bank.log("a") if line["event"] == "line-cut"]
        assert cut
        assert all(line["peer"] == "127.0.0.1" for line in cut)
    finally:
        bank.close()
