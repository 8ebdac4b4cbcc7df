"""The page on which a daemon's own people read its metrics and its readiness.

Formal guarantee: whoever reads it, and however slowly, holds at most `READERS` threads, which are there from the start,
and `HELD` connections; each request ends within `WHOLE` seconds.
"""

import ipaddress
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from parley.errors import ExchangeError
from parley.network.identity.settings import loopback
from parley.network.serving.metrics import Metrics
from parley.network.serving.server import start_workers

WORDS = "text/plain; charset=utf-8"
READERS = 8  # requests that are read and answered at once
HELD = 4 * READERS  # requests at most, also of those that were given up
ENDING = 0.2  # seconds in which those that were given up end
WHOLE = 10.0  # seconds for a request, from the connection to the last byte of the page


class Page:
    """`/metrics` for Prometheus; `/ready` (200, or 503 with the reasons) and `/healthy` (200 while the process runs)
    for others."""

    def __init__(self, address: str, metrics: Metrics) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), _handler(metrics, address), host.startswith("["))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise ExchangeError(
                f"{address}: the metrics page cannot listen there ({reason}); choose another `metrics`"
            ) from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="parley-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(HTTPServer):
    """Answers with `READERS` threads that are there from the start; where more come, the oldest request is given up."""

    allow_reuse_address = True
    request_queue_size = 128  # that the kernel may hold

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], six: bool) -> None:
        if six:
            self.address_family = socket.AF_INET6
        self._workers, self._lock = start_workers(READERS, "parley-metrics"), threading.Condition()
        self._began: dict[Any, float] = {}  # by connection, the oldest first
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            given_up = list(self._began)[: 1 + len(self._began) - READERS] if len(self._began) >= READERS else []
        self._give_up(given_up)
        with self._lock:
            room = self._lock.wait_for(lambda: len(self._began) < HELD, ENDING)
            if room:
                self._began[request] = time.monotonic()
        if room:
            self._workers.submit(self._answer, request, client_address)
        else:
            self.shutdown_request(request)

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            with self._lock:
                self._began.pop(request, None)
                self._lock.notify()
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Give up requests that take too long; called at least twice a second."""
        with self._lock:
            late = [request for request, began in self._began.items() if time.monotonic() - began > WHOLE]
        self._give_up(late)

    def _give_up(self, requests: list[Any]) -> None:
        """Whoever reads or writes there goes on at once, and closes it."""
        for request in requests:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            held = list(self._began)
        self._give_up(held)
        self._workers.shutdown()

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that hung up is nobody's trouble."""


def names_this_machine(said: str | None, address: str) -> bool:
    """Whether a request to the page at this address may say this in its Host header. A page on the loopback is called
    by address or as localhost; by another name somebody's page in a browser was led here.

    >>> [names_this_machine(said, "127.0.0.1:9464") for said in (None, "localhost:9464", "[::1]", "evil.example:9464")]
    [True, True, True, False]
    """
    if said is None or not loopback(address):
        return True
    try:
        name = urlsplit(f"//{said}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _handler(metrics: Metrics, address: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0
        server_version, sys_version = "parley", ""

        def do_GET(self) -> None:
            if names_this_machine(self.headers["Host"], address):
                status, kind, content = _page(self.path.partition("?")[0], metrics)
            else:
                status, kind, content = 403, WORDS, b"expected this machine's address or localhost as the Host\n"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
            """Log nothing: the log is about learners, not about who reads this page."""

    return Handler


def _page(path: str, metrics: Metrics) -> tuple[int, str, bytes]:
    """(status, content type, content) of a path."""
    if path in ("/", "/metrics"):
        return 200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(metrics.registry)
    if path == "/healthy":
        return 200, WORDS, b"healthy\n"
    if path == "/ready":
        why = metrics.sources.problems()
        return (503, WORDS, "".join(f"{sentence}\n" for sentence in why).encode()) if why else (200, WORDS, b"ready\n")
    return 404, WORDS, b"expected /metrics, /ready or /healthy\n"
