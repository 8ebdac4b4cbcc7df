"""The front of a daemon takes lines in gRPC's place: silent ones cost little, and whoever proves a certificate is
served meanwhile."""

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
import urllib.request
from io import StringIO
from pathlib import Path

import grpc
import pytest
from consortium import Consortium, free_port
from flood import half_open

from parley.errors import ExchangeError
from parley.network.exchange.remote import RemoteOwner, channel_credentials
from parley.network.serving import connections
from parley.network.serving.connections import MAX_ENTERING, MAX_UNSERVED_PER_ADDRESS, Connections, Stage
from parley.network.serving.front import Front, hello, private_folder
from parley.network.serving.log import Log

BEGIN = b"\x16\x03\x01\x00\x05\x01abcd"  # a record as a TLS client begins with


class Echo:
    """In gRPC's place: it sends back what comes."""

    def __init__(self, path):
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(100)
        self.path, self.lines = path, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                line, place = self.listening.accept()
                self.lines.append((line, place))
                threading.Thread(target=self.answer, args=(line,), daemon=True).start()

    def answer(self, line):
        with contextlib.suppress(OSError):
            while content := line.recv(1 << 16):
                line.sendall(content)

    def close(self):
        self.listening.close()
        for line, _ in self.lines:
            line.close()


@pytest.fixture
def opened():
    stack = contextlib.ExitStack()
    echo = Echo(stack.enter_context(private_folder()) / "grpc")
    lines = Connections(stack.enter_context(Log(StringIO())), lambda: 1 << 24)
    front = Front("127.0.0.1:0", echo.path, lines)
    front.start()
    stack.callback(echo.close)
    stack.callback(front.close)
    ends = []

    def call(content=b"", host="127.0.0.1"):
        end = socket.create_connection(("127.0.0.1", front.port), 5, source_address=(host, 0))
        ends.append(end)
        if content:
            end.sendall(content)
        return end

    with stack:
        yield front, lines, echo, call
        for end in ends:
            end.close()


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def is_cut(end):
    end.settimeout(5)
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def receive(end, size):
    content = b""
    while len(content) < size and (more := end.recv(1 << 16)):
        content += more
    return content


def test_bytes_are_carried_unread_both_ways_and_an_end_that_closes_closes_the_other(opened):
    _, lines, echo, call = opened
    content = BEGIN + os.urandom(3_000_00)
    one, two = call(), call()
    for part in (content[:3], content[3:9]):  # the beginning may come in pieces
        one.sendall(part)
        time.sleep(0.02)
    threading.Thread(target=one.sendall, args=(content[9:],), daemon=True).start()
    two.sendall(BEGIN)
    assert receive(one, len(content)) == content
    assert receive(two, len(BEGIN)) == BEGIN
    assert lines.origin(echo.lines[0][1]) in {one.getsockname(), two.getsockname()}
    one.close()
    until(lambda: len(lines) == 1)
    for line, _ in echo.lines:
        line.shutdown(socket.SHUT_RDWR)
    assert is_cut(two)
    until(lambda: len(lines) == 0)


def test_what_is_not_tls_is_cut_at_once_and_nobody_inside_sees_it(opened):
    _, lines, echo, call = opened
    for begin in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x00\x05\x02abcd", b"\x16\x03\x01\xff\xff\x01", b"\x15\x03"):
        assert is_cut(call(begin))
    call()
    call(BEGIN[:7])
    until(lambda: lines.stages()["silent"] == 2)
    assert echo.lines == []
    assert hello(BEGIN[:9]) is None
    assert hello(BEGIN) is True


def test_silent_lines_of_one_address_are_few_and_others_get_through(opened):
    _, lines, _, call = opened
    silent = [call(host="127.0.0.9") for _ in range(MAX_UNSERVED_PER_ADDRESS + 20)]
    other = call(BEGIN)
    assert receive(other, len(BEGIN)) == BEGIN
    until(lambda: lines.stages()["silent"] == MAX_UNSERVED_PER_ADDRESS)
    assert all(is_cut(end) for end in silent[:20])  # the oldest
    silent[-1].sendall(BEGIN)
    assert receive(silent[-1], len(BEGIN)) == BEGIN


def test_lines_that_begin_tls_and_go_no_further_give_way(opened, monkeypatch):
    monkeypatch.setattr(connections, "ENTERING_TURN_S", 0.1)
    _, lines, _, call = opened
    for k in range(MAX_ENTERING + 20):
        call(BEGIN, host=f"127.0.1.{k // 4}")
    until(lambda: lines.stages()["entering"] == MAX_ENTERING)
    other = call(BEGIN)
    assert receive(other, len(BEGIN)) == BEGIN
    assert lines.stages()["entering"] <= MAX_ENTERING


def test_a_served_line_is_not_counted_among_strangers(opened, monkeypatch):
    monkeypatch.setattr(connections, "MAX_ENTERING", 1)
    monkeypatch.setattr(connections, "ENTERING_TURN_S", 60.0)
    _, lines, echo, call = opened
    first = call(BEGIN)
    assert receive(first, len(BEGIN)) == BEGIN
    second = call(BEGIN, host="127.0.0.9")
    until(lambda: lines.stages()["knocking"] == 1)
    lines.assign(echo.lines[0][1], "somebody")
    assert receive(second, len(BEGIN)) == BEGIN  # its place was free
    assert lines.stages()[Stage.SERVED.name.lower()] == 1


def test_a_second_daemon_at_the_same_address_is_refused(opened):
    front, lines, echo, _ = opened
    with pytest.raises(
        ExchangeError, match="cannot listen at this address; check the address and whether another daemon runs"
    ):
        Front(f"127.0.0.1:{front.port}", echo.path, lines)
    everywhere = Front("0.0.0.0:0", echo.path, lines)
    assert everywhere.port
    everywhere.close()


@pytest.fixture
def bank(tmp_path):
    made = Consortium(tmp_path, names="a")
    yield made
    made.close()


def test_a_learner_is_answered_while_strangers_hold_half_open_lines(bank):
    """A small one of benchmarks/half_open.py: more lines than the daemon bears, silent or with TLS begun, from many
    addresses."""
    settings, port = bank.folder / "a.toml", free_port()
    settings.write_text(settings.read_text().replace('# metrics = "127.0.0.1:9464"', f'metrics = "127.0.0.1:{port}"'))
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    pid = bank.daemons["a"].pid
    with half_open(bank.ports["a"], 1200, addresses=30):
        peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
        assert peer.statement(terms.hash, "learner", 20).rounds == 3
        bank.learn()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            page = reply.read().decode()
        told = [words.rpartition(" ") for words in page.splitlines() if words.startswith("parley_lines")]
        figures = {name: float(figure) for name, _, figure in told}
        assert 0 < figures['parley_lines_waiting{stage="silent"}'] <= connections.MAX_UNSERVED
        assert figures["parley_lines"] >= 1
        assert figures[f'parley_lines_cut_total{{reason="{connections.CROWD_REASON}"}}'] > 0
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < connections.MAX_UNSERVED + 200
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) < 200
        peer.close()
    until(lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) < 200)


def test_inside_nobody_listens_whom_another_account_could_reach(bank):
    """gRPC's own port was open to every account of the machine: 9,000 silent lines there kept the learner out."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    pid = bank.daemons["a"].pid
    assert {int(line.split()[1].split(":")[1], 16) for line in _of(pid, "tcp", "tcp6") if line.split()[3] == "0A"} == {
        bank.ports["a"]
    }
    listening = {Path(line.split()[7]) for line in _of(pid, "unix") if line.split()[3] == "00010000"}
    (inside,) = {path for path in listening if path.name != "a.sock"}
    assert inside.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(inside)) <= 107
    options = [("grpc.ssl_target_name_override", "a")]  # this account's own programs may come there, and are refused
    channel = grpc.secure_channel(f"unix:{inside}", channel_credentials(bank.identity()), options=options)
    with channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/parley.v1.Owner/Health")(b"", timeout=5)
    assert refused.value.details() == "call the daemon's own port"
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    assert peer.statement(terms.hash, "learner", 20).rounds == 3
    peer.close()
    assert bank.kill("a", signal.SIGTERM) == 0
    assert not inside.parent.exists()


def test_a_long_path_for_temporary_files_is_passed_over(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with private_folder() as folder:
        assert folder.parent != long
        assert len(os.fsencode(folder / "1234567890")) <= 103
    assert not folder.exists()


def test_folders_of_killed_daemons_are_removed_and_no_others(monkeypatch):
    short = tempfile.TemporaryDirectory(dir="/tmp")
    tmp_path = Path(short.name)
    monkeypatch.setenv("RUNTIME_DIRECTORY", short.name)
    left, new, other = (tmp_path / name for name in ("parley-door-left", "parley-door-new", "parley-notes"))
    for folder in (left, new, other):
        folder.mkdir()
        (folder / "grpc").touch()
    with private_folder() as running:
        for folder in (left, other, running):
            os.utime(folder, (0, 0))
        with private_folder() as second:
            assert {path.name for path in tmp_path.iterdir()} == {running.name, second.name, new.name, other.name}
    assert {path.name for path in tmp_path.iterdir()} == {new.name, other.name}
    short.cleanup()


def _of(pid, *kinds):
    """What the kernel lists of these kinds of sockets and this process holds; the last word but one tells which."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(descriptor.readlink()))
    lines = [line for kind in kinds for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]]
    return [line for line in lines if f"socket:[{line.split()[6 if 'unix' in kinds else 9]}]" in sockets]


def test_a_handshake_may_take_its_time(bank):
    """Under load, or far away: every attempt was given up after 100 ms, the later ones after 2 s, and begun anew for
    ever."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    slow, threads, ends = socket.create_server(("127.0.0.1", 0)), [], []

    def carry(source, sink, pause):
        with contextlib.suppress(OSError), source:
            while content := source.recv(1 << 16):
                time.sleep(pause)
                pause = 0.0
                sink.sendall(content)

    def run():
        with contextlib.suppress(OSError):
            while True:
                near, _ = slow.accept()
                ends.append(near)
                far = socket.create_connection(("127.0.0.1", bank.ports["a"]))
                ends.append(far)
                ways = [(near, far, 0.0), (far, near, 3.0)]
                threads.extend(threading.Thread(target=carry, args=way, daemon=True) for way in ways)
                for thread in threads[-2:]:
                    thread.start()

    threading.Thread(target=run, daemon=True).start()
    peer = RemoteOwner("a", f"127.0.0.1:{slow.getsockname()[1]}", bank.identity())
    try:
        assert peer.statement(terms.hash, "learner", 20).rounds == 3
    finally:
        peer.close()
        slow.close()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
        for end in ends:
            end.close()
