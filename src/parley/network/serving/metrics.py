"""Figures for the owner's own monitoring, in Prometheus' terms, and the page on which its people read them.

It says what the ledger and the log say, and no number that was computed from a record. It reads the ledger as any
reader does, so no answer waits for it.

Formal guarantee: whoever reads the page, and however slowly, holds at most `READER_THREADS` threads, which are there
from the start, and `MAX_REQUESTS` connections; each request ends within `REQUEST_TIMEOUT_S` seconds.
"""

import ipaddress
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from parley.errors import ExchangeError, ParleyError
from parley.network.identity.settings import loopback
from parley.network.serving.server import start_workers
from parley.owner.ledger.account import Account, Head
from parley.version import __version__

DURATION_BUCKETS_S = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)  # seconds
_REJECTIONS = {  # events of the log that are refusals, and the codes under which they are counted
    "stranger": "unknown-terms",
    "revoked": "revoked",
    "expired": "expired",
    "too-many-calls": "too-many-calls",
}


@dataclass(frozen=True)
class LedgerSnapshot:
    """A ledger at one moment: its lifetime budget and what is reserved, (epsilon, delta) each, its agreements and
    chain's end. `answers` is how many answers each agreement with readable terms reserves, by hash. `rho` is (lifetime,
    reserved) where the budget is held as zCDP."""

    lifetime: tuple[Fraction, Fraction]
    reserved: tuple[Fraction, Fraction]
    accounts: tuple[Account, ...]
    answers: Mapping[str, int]
    head: Head | None
    rho: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True)
class MetricSources:
    """What the page asks for when read. `ledger` may raise; `time_left` is seconds by certificate or list;
    `connections` counts by `connections.Stage`."""

    ledger: Callable[[], LedgerSnapshot | None]
    problems: Callable[[], list[str]]
    time_left: Callable[[], dict[str, float]]
    connections: Callable[[], Mapping[str, int]]
    others: Callable[[], Iterable[Metric]] = tuple


class Metrics:
    """Counts what the log hears, and shows it beside the facts."""

    def __init__(self, owner: str, sources: MetricSources) -> None:
        self.registry = CollectorRegistry()
        self.sources = sources
        register: dict[str, Any] = {"registry": self.registry, "namespace": "parley"}
        self._seconds = Histogram(
            "answer_seconds", "How long answers took, stored ones too.", buckets=DURATION_BUCKETS_S, **register
        )
        self._answers = Counter("answers", "Questions that got an answer since the start, stored ones too.", **register)
        self._refusals = Counter("refusals", "Questions that got a refusal, by its code.", ["code"], **register)
        self._troubles = Counter(
            "troubles", "Questions that could not be answered for a reason at the owner's.", **register
        )
        self._handshakes = Counter(
            "failed_handshakes", "Connections that failed TLS, by reason.", ["reason"], **register
        )
        self._cut = Counter("lines_cut", "Connections that were cut, by reason.", ["reason"], **register)
        self.registry.register(_CurrentFigures(owner, sources))

    def on_event(self, event: str, facts: dict[str, Any]) -> None:
        """Count an event of the daemon's log."""
        if event == "answer":
            self._answers.inc()
            self._seconds.observe(facts["ms"] / 1e3)
        elif event == "refusal":
            self._refusals.labels(facts["code"]).inc()
        elif event in _REJECTIONS:
            self._refusals.labels(_REJECTIONS[event]).inc()
        elif event == "trouble":
            self._troubles.inc()
        elif event == "handshake-failed":
            self._handshakes.labels(facts["reason"]).inc()
        elif event == "line-cut":
            self._cut.labels(facts["reason"]).inc()


class _CurrentFigures(Collector):
    """Figures that are looked up whenever the page is read."""

    def __init__(self, owner: str, sources: MetricSources) -> None:
        self._owner, self._sources = owner, sources

    def describe(self) -> list[Metric]:
        """Return nothing: registering looks nothing up."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "parley_build", "Which Parley serves whom.", {"version": __version__, "owner": self._owner}
        )
        yield GaugeMetricFamily(
            "parley_ready", "Whether the owner could answer (1).", value=not self._sources.problems()
        )
        yield from _connection_metrics(self._sources.connections())
        left = GaugeMetricFamily(
            "parley_time_left_seconds", "Until it ends: a certificate, the revocation list.", labels=["of"]
        )
        for of, seconds in self._sources.time_left().items():
            left.add_metric([of], seconds)
        yield left
        try:
            ledger = self._sources.ledger()
        except (ParleyError, OSError):
            return  # parley_ready says it
        yield from () if ledger is None else _ledger_metrics(ledger)
        yield from self._sources.others()


def _connection_metrics(stages: Mapping[str, int]) -> Iterator[Metric]:
    yield GaugeMetricFamily("parley_lines", "TCP connections that brought a call.", value=stages.get("served", 0))
    words = (
        "TCP connections of whom nobody knows yet who they are: silent, knocking (TLS begun) or entering (with "
        "gRPC, no call yet)."
    )
    waiting = GaugeMetricFamily("parley_lines_waiting", words, labels=["stage"])
    for stage, count in stages.items():
        if stage != "served":
            waiting.add_metric([stage], count)
    yield waiting


def _ledger_metrics(ledger: LedgerSnapshot) -> Iterator[Metric]:
    (epsilon, delta), (epsilon_reserved, delta_reserved) = ledger.lifetime, ledger.reserved
    lifetime = {
        "lifetime_epsilon": ("The most epsilon that all agreements may ever cost.", epsilon),
        "lifetime_delta": ("The most delta that all agreements may ever cost.", delta),
    }
    if ledger.rho is None:
        lifetime["lifetime_epsilon_left"] = ("The epsilon that further terms may reserve.", epsilon - epsilon_reserved)
        lifetime["lifetime_delta_left"] = ("The delta that further terms may reserve.", delta - delta_reserved)
    else:
        most, used = ledger.rho
        lifetime["lifetime_rho"] = ("The lifetime budget, held as zCDP.", most)
        lifetime["lifetime_rho_left"] = ("The rho that further terms may reserve.", most - used)
    for name, (words, budget) in lifetime.items():
        yield GaugeMetricFamily(f"parley_{name}", words, value=below(budget))
    figures: dict[str, tuple[str, Callable[[Account], float | None]]] = {
        "epsilon_reserved": ("Epsilon promised under the agreement.", lambda account: above(account.epsilon)),
        "epsilon_spent": ("Epsilon spent under the agreement.", lambda account: above(account.spent)),
        "epsilon_left": (
            "Epsilon that the agreement may still cost.",
            lambda account: below(account.epsilon - account.spent),
        ),
        "delta_reserved": ("Delta promised under the agreement.", lambda account: above(account.delta)),
        "delta_spent": (
            "Delta spent under the agreement: the first answer spends all.",
            lambda account: above(account.delta - account.delta_left),
        ),
        "answers_reserved": (
            "Answers that the agreement asks of this owner.",
            lambda account: ledger.answers.get(account.terms_hash),
        ),
        "answers_given": ("Answers given under the agreement.", lambda account: account.answers),
    }
    for name, (words, figure) in figures.items():
        family = GaugeMetricFamily(f"parley_agreement_{name}", words, labels=["terms", "learner"])
        for account in ledger.accounts:
            value = figure(account)
            if value is not None:
                family.add_metric([account.terms_hash[:16], account.learner], value)
        yield family
    if ledger.head is not None:
        yield GaugeMetricFamily(
            "parley_ledger_entries", "Rows of the ledger: they never become fewer.", value=ledger.head.entries
        )
        first = int(
            ledger.head.hash[:12], 16
        )  # 48 bits: a float64 holds them exactly; as a label each answer would be a new series
        yield GaugeMetricFamily(
            "parley_ledger_head", "The first 12 hexadecimal digits of the chain's last hash, as a number.", value=first
        )


def above(value: Fraction) -> float:
    """Return the nearest float that is not below.

    >>> Fraction(above(Fraction(1, 10))) >= Fraction(1, 10) >= Fraction(below(Fraction(1, 10)))
    True
    """
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def below(value: Fraction) -> float:
    """Return the nearest float that is not above."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


TEXT_CONTENT_TYPE = "text/plain; charset=utf-8"
READER_THREADS = 8  # requests that are read and answered at once
MAX_REQUESTS = 4 * READER_THREADS  # requests at most, also of those that were given up
GIVE_UP_WAIT_S = 0.2  # seconds in which those that were given up end
REQUEST_TIMEOUT_S = 10.0  # seconds for a request, from the connection to the last byte of the page


class Page:
    """`/metrics` for Prometheus; `/ready` (200, or 503 with reasons) and `/healthy` (200) for others."""

    def __init__(self, address: str, metrics: Metrics) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), _handler(metrics, address), host.startswith("["))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise ExchangeError(
                f"{address}: the metrics page cannot listen at this address ({reason}); choose another address for "
                "`metrics`"
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
    """Answers with `READER_THREADS` threads from the start; if more requests come, the oldest is given up."""

    allow_reuse_address = True
    request_queue_size = 128  # that the kernel may hold

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], six: bool) -> None:
        if six:
            self.address_family = socket.AF_INET6
        self._workers, self._lock = start_workers(READER_THREADS, "parley-metrics"), threading.Condition()
        self._began: dict[Any, float] = {}  # by connection, the oldest first
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            given_up = (
                list(self._began)[: 1 + len(self._began) - READER_THREADS] if len(self._began) >= READER_THREADS else []
            )
        self._give_up(given_up)
        with self._lock:
            room = self._lock.wait_for(lambda: len(self._began) < MAX_REQUESTS, GIVE_UP_WAIT_S)
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
            late = [request for request, began in self._began.items() if time.monotonic() - began > REQUEST_TIMEOUT_S]
        self._give_up(late)

    def _give_up(self, requests: list[Any]) -> None:
        """End these requests; their threads go on at once and close them."""
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
        """Ignore a reader that hung up."""


def names_this_machine(said: str | None, address: str) -> bool:
    """Whether a request to the page at this address may say this as Host. A loopback page is called by address or
    localhost; another name means that somebody's page led a browser here.

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
                status, kind, content = (
                    403,
                    TEXT_CONTENT_TYPE,
                    b"expected this machine's address or localhost as the Host\n",
                )
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
            """Log nothing: the log is about learners, not about who reads this page."""

    return Handler


def _page(path: str, metrics: Metrics) -> tuple[int, str, bytes]:
    """Return (status, content type, content) of a path."""
    if path in ("/", "/metrics"):
        return 200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(metrics.registry)
    if path == "/healthy":
        return 200, TEXT_CONTENT_TYPE, b"healthy\n"
    if path == "/ready":
        why = metrics.sources.problems()
        return (
            (503, TEXT_CONTENT_TYPE, "".join(f"{sentence}\n" for sentence in why).encode())
            if why
            else (200, TEXT_CONTENT_TYPE, b"ready\n")
        )
    return 404, TEXT_CONTENT_TYPE, b"expected /metrics, /ready or /healthy\n"
