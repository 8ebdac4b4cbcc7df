"""Real connections to a real studio: silent ones keep nobody out, it is found where it says, and its token's file goes
with it."""

import functools
import resource
import signal
import socket
import time
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("uvicorn", reason="the extra parley-dp[studio] is not installed")
from studio_process import studio_process

FLOOD, FILES = 400, 256  # silent connections, files that the studio may have open


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def is_open(line):
    """Whether the studio has not closed a connection."""
    line.setblocking(False)
    try:
        return line.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_flood_of_silent_connections_keeps_nobody_out(tmp_path):
    with studio_process(tmp_path, preexec_fn=few_files) as studio, ExitStack() as after:
        flood = []
        for _ in range(FLOOD):
            flood.append(after.enter_context(socket.create_connection((studio.host, studio.port), timeout=60)))
        studio.enter()
        assert "No jobs yet" in studio.get("/jobs")
        until = time.monotonic() + 60
        while sum(map(is_open, flood)) > FILES // 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert sum(map(is_open, flood)) <= FILES // 2


SLOW = {
    "silent": b"",
    "head": b"GET /welcome HTTP/1.1\r\nHost: ",
    "token": b"POST /enter HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Length: 43\r\n\r\nx",
    "refused": b"POST /jobs HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Length: 9999\r\n\r\nx",
}


def test_a_request_without_the_cookie_has_its_time_however_slowly_it_trickles(tmp_path):
    with studio_process(tmp_path) as studio, ExitStack() as after:
        host, lines = f"{studio.host}:{studio.port}".encode(), {}
        for name, said in SLOW.items():
            lines[name] = after.enter_context(socket.create_connection((studio.host, studio.port)))
            lines[name].sendall(said.replace(b"{0}", host))
        until, still = time.monotonic() + 60, set(lines)
        while still and time.monotonic() < until:
            time.sleep(0.3)
            for name in [*still]:
                if not is_open(lines[name]):
                    still.remove(name)
                elif name != "silent":
                    with suppress(OSError):
                        lines[name].send(b"x")
        assert still == set()
        assert studio.ask("GET", "/welcome")[0] == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_address_that_is_printed_is_the_one_that_is_bound(tmp_path, host):
    """A name may stand for two addresses, and another account may listen at the second one with the same port."""
    with studio_process(tmp_path, "--host", host) as studio:
        assert studio.host in ("127.0.0.1", "[::1]")
        assert studio.ask("GET", "/welcome")[0] == 200
        studio.enter()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_file_with_the_token_goes_with_the_studio(tmp_path, sign):
    default = signal.default_int_handler if sign == signal.SIGINT else signal.SIG_DFL
    heard = functools.partial(signal.signal, sign, default)  # also where whatever started the tests passes it over
    with studio_process(tmp_path, "--browser", env={"BROWSER": "/bin/true"}, preexec_fn=heard) as studio:
        until = time.monotonic() + 60
        while not [*tmp_path.rglob("*.html")] and time.monotonic() < until:
            time.sleep(0.01)
        (leads,) = tmp_path.rglob("*.html")
        assert studio.token in leads.read_text()
        assert studio.ask("GET", "/welcome")[0] == 200  # it serves
        studio.process.send_signal(sign)
        said = studio.process.communicate(timeout=60)[1]
        assert "Traceback" not in said
    assert not [*tmp_path.rglob("*.html")]
