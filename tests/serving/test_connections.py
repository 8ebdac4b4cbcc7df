"""Lines to a daemon's port are bounded, whoever opens them and whatever they carry.

PARLEY_FLOOD sets how many lines a hostile member opens (default 12), PARLEY_FLOOD_SECONDS for how long (default 2); with
PARLEY_FLOOD_REPORT each flood prints the daemon's memory and the learner's waiting times.
"""

import os
import socket
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from consortium import SERVER, Consortium
from flood import KINDS, flood
from parley.errors import Unavailable
from parley.exchange.remote import RemoteOwner
from parley.identity import certificate_authority, signing_requests
from parley.serving.acceptance import Caller
from parley.serving.connections import AROUND, EACH, FREE, SILENT, UNIDENTIFIED, Connection, Connections, excess
from parley.serving.log import Log

MEMBER, OTHER = Caller(("member",), "key"), Caller(("other",), "key2")


def test_of_one_certificate_the_newest_lines_stay():
    lines = {("10.0.0.7", port): Connection(float(port), MEMBER) for port in range(EACH + 3)}
    lines |= {("10.0.0.7", 1000 + port): Connection(0.0, OTHER) for port in range(EACH)}
    why = excess(lines, dict.fromkeys(lines, 0), 100.0)
    assert why == {("10.0.0.7", port): "too many of one certificate" for port in range(3)}


def test_lines_without_a_call_are_few_and_short():
    lines = {("10.0.0.7", port): Connection(100.0 + port / 100) for port in range(UNIDENTIFIED + 2)}
    lines |= {("10.0.0.8", port): Connection(100.0) for port in range(UNIDENTIFIED)}
    assert excess(lines, dict.fromkeys(lines, 0), 101.0) == {("10.0.0.7", port): "too many without a call" for port in range(2)}
    later = excess(lines, dict.fromkeys(lines, 0), 101.0 + SILENT)
    assert {why for place, why in later.items() if place[0] == "10.0.0.8"} == {"no call"}
    assert len(later) == len(lines)


def test_who_flooded_gets_no_new_line_for_a_while_and_longer_each_time():
    with Log(StringIO()) as log:
        lines, now = Connections(log, lambda: 0), 100.0
        lines._ban("10.0.0.7", now)
        held, fresh = (
            {("10.0.0.7", 1): Connection(0.0, MEMBER)},
            {("10.0.0.7", 2): Connection(100.0), ("10.0.0.8", 3): Connection(100.0)},
        )
        quiet = dict.fromkeys([*held, *fresh], 0)
        assert excess(held | fresh, quiet, 100.5, 0, lines._banned) == {("10.0.0.7", 2): "flooded before"}
        assert not excess(held | fresh, quiet, 101.5, 0, lines._banned)
        lengths = []
        for _ in range(6):
            now = lines._banned["10.0.0.7"] + 0.1
            lines._ban("10.0.0.7", now)
            lengths.append(lines._banned["10.0.0.7"] - now)
        assert lengths == pytest.approx([2, 4, 8, 10, 10, 10])
        lines._ban(MEMBER, 1000.0)
        assert set(lines._banned) == {MEMBER}
        assert excess(held | fresh, quiet, 1000.5, 0, lines._banned)[("10.0.0.7", 1)] == "flooded before"


def test_a_line_may_receive_what_its_messages_account_for_and_nothing_is_saved_up():
    place, longest = ("10.0.0.7", 1), 1000
    lines = Connections(Log(StringIO()), lambda: longest)
    lines.assign(place, MEMBER)
    line = lines._lines[place]

    def most():
        """The most bytes that do not have it cut."""
        found = line.allowed(longest)
        assert not excess({place: line}, {place: found}, 0.0, longest)
        assert excess({place: line}, {place: found + 1}, 0.0, longest)
        return found

    def read():
        assert most() == FREE + longest + AROUND
        return b"12345"

    assert most() == FREE
    assert lines.message(place, read) == b"12345"
    assert most() == FREE + AROUND + 10
    with pytest.raises(ConnectionError):
        lines.message(place, fail)
    assert most() == FREE + AROUND + 10  # what never came accounts for nothing


def test_what_messages_accounted_for_is_not_saved_up():
    with socket.create_server(("127.0.0.1", 0)) as listening, Log(StringIO()) as log:
        port, lines = listening.getsockname()[1], Connections(log, lambda: 1 << 24)
        near = socket.create_connection(("127.0.0.1", port))
        far, name = listening.accept()
        lines.assign(name, MEMBER)
        lines.message(name, lambda: bytes(1 << 22))
        near.sendall(b"x" * 1000)
        until = time.monotonic() + 10
        while lines._lines[name].base < 1000 and time.monotonic() < until:
            lines._lines[name].counted += 1
            lines.inspect(port)
        assert (lines._lines[name].base, lines._lines[name].counted) == (1000, 0)
        assert lines._lines[name].allowed(0) == 1000 + FREE
        for end in (near, far):
            end.close()


def fail():
    raise ConnectionError


def test_only_lines_to_the_port_are_looked_at_and_their_descriptors_stay_open(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0)) as elsewhere,
        Log(StringIO()) as log,
    ):
        ends = []
        for server, number in ((listening, UNIDENTIFIED + 2), (elsewhere, UNIDENTIFIED + 2)):
            for _ in range(number):
                near = socket.create_connection(server.getsockname())
                ends.append((near, server.accept()[0]))
        lines = Connections(log, lambda: 0)
        lines.inspect(listening.getsockname()[1])
        assert len(lines) == UNIDENTIFIED + 2
        cut = []
        for near, far in ends:
            near.setblocking(False)
            try:
                cut.append(near.recv(1) == b"")
            except BlockingIOError:
                cut.append(False)
            except ConnectionResetError:
                cut.append(True)
            assert far.fileno() >= 0
            far.getsockname()  # still a descriptor of its own
        assert sum(cut[: UNIDENTIFIED + 2]) == 2
        assert not any(cut[UNIDENTIFIED + 2 :])
        for pair in ends:
            for end in pair:
                end.close()
        lines.inspect(listening.getsockname()[1])
        assert len(lines) == 0


def memory(pid):
    """The most that a process has had so far, in MB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_member_that_floods_takes_little_memory_and_the_learner_is_answered(tmp_path, kind):
    """32 lines of continued headers took gigabytes, and the learner waited in vain."""
    lines, seconds = int(os.environ.get("PARLEY_FLOOD", "12")), float(os.environ.get("PARLEY_FLOOD_SECONDS", "2"))
    bank = Consortium(tmp_path, names="a")
    try:
        terms = bank.write_terms(horizon=3)
        bank.accept(terms)
        bank.start()
        signing_requests.make_request(tmp_path, "hostile")
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
                f"\n{kind}: {lines} lines, {seconds:g} s: daemon {before} -> {most} MB; learner asked {len(waited)} times, "
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
