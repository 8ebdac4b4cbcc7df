"""What reaches a daemon's stderr: one JSON object a line, however many strangers knock."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from io import StringIO

import pytest
from consortium import Consortium

from parley.network.identity import certificate_authority
from parley.network.serving.log import Log, log_line


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a")
    consortium.accept(consortium.write_terms(horizon=3))
    yield consortium
    consortium.close()


def knock(port, context=None, content=b"GET / HTTP/1.0\r\n\r\n"):
    """A line that never becomes one: bytes that are no TLS, or a certificate of somebody else's authority."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as line:
        if context is None:
            line.sendall(content)
            line.recv(1)
        else:
            with context.wrap_socket(line) as tls:
                tls.recv(1)


def test_failed_handshakes_are_counted_and_written_down_once(bank, tmp_path_factory):
    foreign = tmp_path_factory.mktemp("foreign")
    certificate_authority.make_authority(foreign, "Other", 100)
    certificate_authority.make_request(foreign, "learner")
    certificate_authority.issue(foreign, foreign / "learner.csr", 30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(foreign / "learner.crt", foreign / "learner.key")
    context.set_alpn_protocols(["h2"])
    bank.start()
    for _ in range(150):
        knock(bank.ports["a"])
        knock(bank.ports["a"], context)
    time.sleep(0.3)
    assert bank.kill("a", signal.SIGTERM) == 0
    raw = (bank.folder / "a.log").read_bytes()
    lines = [json.loads(line) for line in raw.splitlines()]  # JSON alone
    failed = [line for line in lines if line["event"] == "handshake-failed"]
    assert [line["reason"] for line in failed] == ["certificate verify failed"]
    assert [line["reason"] for line in lines if line["event"] == "line-cut"] == ["no TLS"]  # gRPC never saw it
    assert len(raw) < 4000


def test_everything_on_stderr_is_json_and_an_exit_is_still_told_in_words(tmp_path):
    code = """
import os, sys, threading, time
from parley.network.serving.log import process_log
with process_log() as log:
    log("first")
    os.write(2, b"raw bytes of a library: 123456\\n" * 50_000)
    for _ in range(20):  # what comes faster than it is read is lost, so not all at once
        time.sleep(0.02)
        thread = threading.Thread(target=lambda: int("salary 123456"))
        thread.start(); thread.join()
    log("last")
print("after", file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=os.environ)
    *lines, after = ran.stderr.splitlines()
    events = [json.loads(line) for line in lines]
    assert after == "after"
    assert events[0]["event"] == "first"
    assert "last" in {event["event"] for event in events}
    assert any(event.get("reason") == "ValueError" for event in events)
    assert "123456" not in ran.stderr
    assert len(ran.stderr) < 5000


def test_lines_of_others_lose_whatever_could_be_a_value():
    stream = StringIO()
    with Log(stream) as log:
        log_line(
            "I1115 20:18:15.640064    6291 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
            "nothing\n",
            log,
        )
        log_line("E1115 20:18:15.6 77 tcp.cc:12] accept from 10.0.0.7:5555 failed: 24\n", log)
        log_line('  File "/lib/x.py", line 7, in <module>\n', log)
        log_line("KeyError: 'salary 9'\n", log)
        log_line("salary 9\n", log)
        log_line("salary 10\n", log)
        log_line("\n", log)
    said = [(line["event"], line["reason"]) for line in map(json.loads, stream.getvalue().splitlines())]
    assert said == [
        ("handshake-failed", "other"),
        ("grpc", "accept from #.#.#.#:# failed: #"),
        ("stderr", 'File "/lib/x.py", line 7, in <module>'),
        ("stderr", "KeyError"),
        ("stderr", "a line that may quote a value"),
    ]
