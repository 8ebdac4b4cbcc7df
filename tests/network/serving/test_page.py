"""Who reads the page of a daemon slowly, or was led there by a name of somebody else's, harms nobody."""

import contextlib
import http.client
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from consortium import free_port

from parley.network.exchange.remote import RemoteOwner
from parley.network.serving import metrics as serving_page
from parley.network.serving.metrics import MAX_REQUESTS, READER_THREADS, Metrics, MetricSources, Page


def begin(port, content=b"GET /metrics HTTP/1.1\r\nHost: "):
    end = socket.create_connection(("127.0.0.1", port), 30)
    end.sendall(content)
    return end


def test_slow_readers_take_no_threads_and_others_are_answered_meanwhile(bank):
    """Each took a thread of the daemon's, without limit; at the system's limit the next call ended its serving."""
    port, settings = free_port(), bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace("\n[identity]", f'\nmetrics = "127.0.0.1:{port}"\n[identity]'))
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    assert peer.statement(terms.hash, "learner", 20).rounds == 3
    assert read(port) == (200, b"ready\n")
    threads = Path(f"/proc/{bank.daemons['a'].pid}/task")
    before = len(list(threads.iterdir()))
    with ExitStack() as slow:
        for _ in range(100):
            slow.enter_context(begin(port))
        assert read(port) == (200, b"ready\n")
        assert len(list(threads.iterdir())) - before < 20
        assert peer.statement(terms.hash, "learner", 20).rounds == 3
    peer.close()


def read(port, path="/ready", **headers):
    """(status, content)."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as line:
        line.request("GET", path, headers=headers)
        with line.getresponse() as reply:
            return reply.status, reply.read()


@pytest.fixture
def shown():
    """A page, and what it asks whether its daemon is ready."""
    found = {"problems": list}
    sources = MetricSources(lambda: None, lambda: found["problems"](), dict, dict)
    with Page("127.0.0.1:0", Metrics("a", sources)) as page:
        yield page, found


def is_cut(end):
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_a_request_that_comes_byte_by_byte_ends_in_time(shown, monkeypatch):
    monkeypatch.setattr(serving_page, "REQUEST_TIMEOUT_S", 0.2)
    page, _ = shown
    end = begin(page.port)
    sent = 0
    with end, contextlib.suppress(OSError):
        while sent < 2000:
            end.sendall(b"x")
            sent += 1
            time.sleep(0.02)
    assert sent < 2000
    assert read(page.port) == (200, b"ready\n")


def test_the_oldest_of_too_many_requests_are_given_up_and_their_number_is_bounded(shown):
    page, found = shown
    slow = [begin(page.port) for _ in range(READER_THREADS)]
    assert read(page.port) == (200, b"ready\n")
    assert is_cut(slow[0])
    free = threading.Event()
    found["problems"] = lambda: [] if free.wait(60) else ["late"]
    try:  # all readers are busy with what they were asked, and cannot give it up
        busy = [begin(page.port, b"GET /ready HTTP/1.0\r\n\r\n") for _ in range(MAX_REQUESTS + 20)]
        assert is_cut(busy[-1])
        assert len(page._server._began) <= MAX_REQUESTS
    finally:
        free.set()
    assert read(page.port) == (200, b"ready\n")
    for end in (*slow, *busy):
        end.close()


def test_a_page_on_the_loopback_is_called_by_address_or_as_localhost(shown):
    """A name of somebody else's that leads here lets a page in a browser read this one."""
    page, _ = shown
    for host in ("127.0.0.1", f"localhost:{page.port}", "[::1]:9464"):
        assert read(page.port, Host=host) == (200, b"ready\n")
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example", "[::1", ""):
        status, words = read(page.port, "/metrics", Host=host)
        assert (status, b"localhost" in words, b"parley_ready" in words) == (403, True, False), host
