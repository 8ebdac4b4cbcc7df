"""The owner's daemon: gRPC over mutual TLS for learners, a Unix socket for relays on the same machine. It executes nothing it is sent."""

import gc
import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509

from parley.data.blocks import joined
from parley.errors import ExchangeError, SettingError
from parley.exchange.acceptance import Acceptances, Caller, require_both
from parley.exchange.certificates import check_identity, fingerprint, names
from parley.exchange.desk import Desk, Gone
from parley.exchange.log import Log
from parley.exchange.messages import LARGEST_MESSAGE, SERVICE
from parley.exchange.reminders import reminders
from parley.exchange.revocation import Revocations
from parley.exchange.settings import Identity, OwnerSettings
from parley.exchange.sole import require_unused, sole_daemon
from parley.ledger import Ledger
from parley.owner import Owner

WORKERS = 64  # calls taken on at once
PLACES = 8  # of these for one caller; beyond that it is told to come back
SENDING = 30.0  # seconds that a caller may take to send its message
DAY = 86400.0  # seconds between two reminders of what runs out
GRACE = 10.0  # seconds for calls under way when the daemon is asked to stop
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.so_reuseport", 0),  # a second daemon on the same port is a mistake, not a helper
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),  # a caller that vanished in the middle of a call gives its place back
    ("grpc.server_handshake_timeout_ms", 5_000),  # who connects and says nothing is not waited for
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.max_concurrent_streams", WORKERS),
    ("grpc.per_message_decompression", 0),  # a small message could unpack to a large one
    ("grpc.http2.bdp_probe", 0),  # windows of a fixed size: what is buffered of messages that nobody reads stays small
    ("grpc.http2.lookahead_bytes", 1 << 18),
)

Begin = Callable[[], object] | None  # what each worker does before its first call


def open_owner(settings: OwnerSettings, accepting: str | None = None) -> Owner:
    """The owner with its table and its ledger, as its settings say; refused if ledger and acceptances do not belong together."""
    ledger = Ledger(settings.ledger)
    require_both(ledger, Acceptances(settings.accepted), accepting)
    return Owner(settings.name, str(settings.table), ledger=ledger)


def serve(settings: OwnerSettings, stop: threading.Event, log: Log) -> None:
    """Answer until `stop` is set; calls under way are finished first."""
    if settings.listen is None and settings.socket is None:
        raise SettingError("owner.toml: expected `listen`, `socket` or both: nobody could ask")
    if settings.identity is not None:
        check_identity(settings.identity, settings.name)
    _open_files()
    with sole_daemon(settings.ledger), joined(settings.cluster) as begin:
        _serve(settings, begin, stop, log)


def _serve(settings: OwnerSettings, begin: Begin, stop: threading.Event, log: Log) -> None:
    owner = open_owner(settings)
    desk = Desk(owner, Acceptances(settings.accepted), log)
    desk.open()
    pool, places = ThreadPoolExecutor(WORKERS, initializer=begin), Places(PLACES, SENDING)
    servers, reached = [], {}
    warnings = reminders(settings)
    if settings.listen is not None and settings.identity is not None:
        revocations = Revocations(settings.identity, lambda sentence: log("warning", reason=sentence))
        server, port = _on_network(_server(pool), desk, places, settings.listen, settings.identity, revocations, log)
        reached["listen"] = f"{settings.listen.rpartition(':')[0]}:{port}"
        servers.append(server)
    if settings.socket is not None:
        servers.append(_on_socket(_server(pool), desk, places, settings.socket))
        reached["socket"] = str(settings.socket)
    try:
        for server in servers:
            server.start()
        gc.freeze()  # what was loaded stays: no answer waits while it is looked through
        log("serving", owner=settings.name, pid=os.getpid(), **reached, **desk.end())
        due = time.monotonic()
        while not stop.is_set():
            if time.monotonic() >= due:
                due += DAY
                for sentence in warnings():
                    log("warning", reason=sentence)
            stop.wait(min(1.0, DAY))
            places.clear_overdue()
            desk.remember()
    finally:
        log("stopping")
        for stopped in [server.stop(GRACE) for server in servers]:
            stopped.wait()
        pool.shutdown()  # an answer that is being computed is finished and stored: its learner will ask for it again
        desk.remember()
        end = desk.end()
        if isinstance(owner.ledger, Ledger):
            owner.ledger.close()
        log("stopped", **end)


def server_credentials(identity: Identity) -> Any:
    """TLS that shows the owner's certificate and demands one of the same authority from whoever connects."""
    pair = (identity.key.read_bytes(), identity.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair], root_certificates=identity.authority.read_bytes(), require_client_auth=True)


class Places:
    """The calls that each caller has under way: `each` at most, and `patience` seconds for each to send its message.

    Who opens calls and never ends them blocks itself, for a while, and not the others.
    """

    def __init__(self, each: int, patience: float) -> None:
        self._each, self._patience, self._lock = each, patience, threading.Lock()
        self._taken: Counter[Caller] = Counter()
        self._sending: dict[Any, float] = {}

    def take(self, caller: Caller) -> bool:
        """Whether there was a place."""
        with self._lock:
            free = self._taken[caller] < self._each
            self._taken[caller] += free
        return free

    def leave(self, caller: Caller) -> None:
        """Give one place back."""
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]

    def message(self, sent: Iterator[bytes], context: Any) -> bytes:
        """The one message of a call."""
        self._sending[context] = time.monotonic()
        try:
            return next(sent, b"")
        finally:
            del self._sending[context]

    def clear_overdue(self) -> None:
        """End calls whose message does not come."""
        for context, began in list(self._sending.items()):
            if time.monotonic() - began > self._patience:
                context.cancel()


def _server(pool: ThreadPoolExecutor) -> Any:
    return grpc.server(pool, options=OPTIONS)


def _answer_with(server: Any, desk: Desk, places: Places, caller: Callable[[Any], Caller]) -> None:
    """Lead every call to the desk, once it is known who calls."""

    def health(content: bytes, who: Caller, gone: Gone) -> bytes:
        return desk.health()

    def stand(content: bytes, who: Caller, gone: Gone) -> bytes:
        return desk.stand(content, who)

    def handler(work: Callable[[bytes, Caller, Gone], bytes], public: bool = False) -> Any:
        def handle(sent: Iterator[bytes], context: Any) -> bytes:
            who = caller(context)
            if not places.take(who):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls of one caller are under way")
            try:
                refusal = None if public else desk.turned_away(who)
                if refusal is not None:
                    return refusal
                return work(places.message(sent, context), who, lambda: not context.is_active())
            finally:
                places.leave(who)

        # A single message is a stream of one. Read as a stream, who asks is known before the message has come, if it ever does.
        return grpc.stream_unary_rpc_method_handler(handle)

    handlers = {"Ask": handler(desk.ask), "Stand": handler(stand), "Health": handler(health, public=True)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def _on_network(
    server: Any, desk: Desk, places: Places, address: str, identity: Identity, revocations: Revocations, log: Log
) -> tuple[Any, int]:
    """A server for certified learners, and its port."""
    _answer_with(server, desk, places, lambda context: _certified(context, revocations, log))
    return server, _bound(address, lambda: server.add_secure_port(address, server_credentials(identity)))


def _on_socket(server: Any, desk: Desk, places: Places, path: Path) -> Any:
    """A server for relays that the file's permissions let in: its owner and its group."""
    require_unused(path)
    _answer_with(server, desk, places, lambda context: Caller(relay=True))
    before = os.umask(0o117)
    try:
        _bound(str(path), lambda: server.add_insecure_port(f"unix:{path}"))
    finally:
        os.umask(before)
    return server


def _bound(address: str, bind: Callable[[], int]) -> int:
    try:
        port = bind()
    except RuntimeError:
        port = 0
    if not port:
        raise ExchangeError(f"{address}: cannot listen there; is the address right, and does another daemon run?")
    return port


def _certified(context: Any, revocations: Revocations, log: Log) -> Caller:
    """Who is at the other end of a TLS connection, by its verified certificate; nobody if that ended or was taken back."""
    try:
        certificate, ends, caller = _caller(context.auth_context()["x509_pem_cert"][0])
    except (KeyError, IndexError, ValueError):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "this certificate cannot be read")
    if time.time() > ends:  # TLS looked when the line was opened
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "this certificate has expired")
    if revocations.hold(certificate):
        log.seldom("revoked", caller=",".join(caller.names), serial=f"{certificate.serial_number:x}")
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "the authority revoked this certificate")
    return caller


@lru_cache(maxsize=64)
def _caller(pem: bytes) -> tuple[x509.Certificate, float, Caller]:
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate, certificate.not_valid_after_utc.timestamp(), Caller(tuple(names(certificate)), fingerprint(certificate))


def _open_files() -> None:
    """As many files and lines at once as the system allows without asking."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
