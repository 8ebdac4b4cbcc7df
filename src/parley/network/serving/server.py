"""gRPC around a daemon's service: who calls, by which connection, which calls there are, and how many at once."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import grpc
from cryptography import x509

from parley.errors import ExchangeError
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange.messages import MAX_PROPOSAL_BYTES
from parley.network.identity.certificates import Revocations, fingerprint, names
from parley.network.serving import health
from parley.network.serving.acceptance import Caller
from parley.network.serving.connections import Connections, Place, grpc_place
from parley.network.serving.log import Log
from parley.network.serving.network import Network
from parley.network.serving.opening import require_free_socket

MAX_SHARED_PER_PARTY = 2  # of the places that all members share
SHARED_TURN_S = 1.0  # seconds for which a call keeps such a place while it sends nothing and others wait


class CallSlots:
    """The calls that each caller has under way: `each` at most, with `patience` seconds for each to send its message.
    Callers that never end calls block only themselves, for a while. Calls that any member may make share `each` further
    places, `MAX_SHARED_PER_PARTY` of them for one party, whatever certificates it shows. If all are taken, a party
    without any gets the place of the call that has sent nothing for longest, once that had its `SHARED_TURN_S`."""

    def __init__(self, each: int, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._patience, self._clock, self._lock = each, patience, clock, threading.Lock()
        self._taken: Counter[Caller] = Counter()
        self._shared: dict[Any, Caller] = {}  # by call, the first one first
        self._sending: dict[Any, float] = {}  # likewise, and since when

    def acquire(self, caller: Caller) -> bool:
        """Take a place of this caller's own for a call; return whether there was one."""
        with self._lock:
            free = self._taken[caller] < self._each
            if free:
                self._taken[caller] += 1
        return free

    def release(self, caller: Caller) -> None:
        """Give back the place of a call that ended."""
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]

    def acquire_shared(self, caller: Caller, call: Any) -> bool:
        """Take a shared place for this call, if need be from another call; return whether there was one."""
        leaves = None
        with self._lock:
            theirs = sum(bool(other.party & caller.party) for other in self._shared.values())
            if theirs >= MAX_SHARED_PER_PARTY:
                return False
            if len(self._shared) >= self._each:
                leaves = None if theirs else self._overdue(SHARED_TURN_S)
                if leaves is None:
                    return False
                del self._shared[leaves]
            self._shared[call] = caller
            self._sending[call] = self._clock()
        if leaves is not None:
            leaves.cancel()
        return True

    def release_shared(self, call: Any) -> None:
        """Give back the place of a call that ended, if it still has it."""
        with self._lock:
            self._shared.pop(call, None)
            self._sending.pop(call, None)

    def sharers(self) -> str:
        """Return the names of those who hold shared places."""
        with self._lock:
            return ", ".join(sorted({",".join(caller.names) for caller in self._shared.values()}))

    def message(self, sent: Iterator[bytes], call: Any) -> bytes:
        """Return the one message of a call, read while it has a place."""
        with self._lock:
            self._sending.setdefault(call, self._clock())
        try:
            return next(sent, b"")
        finally:
            with self._lock:
                self._sending.pop(call, None)

    def cancel_overdue(self) -> None:
        """End calls whose message does not come."""
        with self._lock:
            now = self._clock()
            overdue = [call for call, began in self._sending.items() if now - began > self._patience]
        for call in overdue:
            call.cancel()

    def _overdue(self, seconds: float) -> Any | None:
        """Return the shared call that has sent nothing for longest, if longer than this."""
        began, now = self._sending, self._clock()
        silent = [call for call in self._shared if call in began and now - began[call] > seconds]
        return min(silent, key=began.__getitem__, default=None)


WORKER_THREADS = 64  # calls taken on at once
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a second daemon on the same port is a mistake, not a helper
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),  # a caller that vanished in the middle of a call gives its place back
    ("grpc.server_handshake_timeout_ms", 30_000),  # who connects and says nothing is not waited for
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.max_concurrent_streams", WORKER_THREADS),
    ("grpc.max_metadata_size", 4096),  # our callers send a few hundred bytes of headers; beyond this a call is refused
    ("grpc.absolute_max_metadata_size", 8192),
    ("grpc.http2.hpack_table_size.decoder", 4096),
    ("grpc.http2.max_frame_size", 16_384),
    (
        "grpc.tcp_receive_buffer_size",
        1 << 17,
    ),  # of the kernel, which doubles it: a connection that is cut leaves no more than this to read
    ("grpc.per_message_decompression", 0),  # a small message could unpack to a large one
    ("grpc.http2.bdp_probe", 0),  # windows of a fixed size: what is buffered of messages that nobody reads stays small
    ("grpc.http2.lookahead_bytes", 1 << 18),
)

_START_LOCK = threading.Lock()  # of several daemons in one process each finds its own threads

HungUp = Callable[[], bool]  # whether the caller has hung up
Work = Callable[[bytes, Caller, HungUp], bytes]


class Service(Protocol):
    """What a daemon offers: bytes in, bytes out."""

    @property
    def full_name(self) -> str:
        """The service's gRPC name."""
        ...

    @property
    def methods(self) -> Mapping[str, Work]:
        """The calls by name, for callers that are not turned away."""
        ...

    def rejection(self, caller: Caller) -> bytes | None:
        """Return None for a caller that may call at all, else the refusal, its message unread."""
        ...

    def health(self) -> bytes:
        """Return that somebody is there, for whoever asks."""
        ...


@dataclass(frozen=True)
class Endpoint:
    """What every call is led through; `members` are the calls, by name, that every certified party may make."""

    service: Service
    slots: CallSlots
    ready: Callable[[], bool]
    log: Log
    members: Mapping[str, Work] = field(default_factory=dict)


def start_workers(
    count: int = WORKER_THREADS, name: str = "parley-call", begin: Callable[[], object] | None = None
) -> ThreadPoolExecutor:
    """Return a pool with all its threads, each after `begin`: one refused later would end gRPC's serving."""
    pool, all_there = ThreadPoolExecutor(count, name, initializer=begin), threading.Event()
    try:
        for _ in range(count):
            pool.submit(all_there.wait)  # nobody is idle before all are there: each takes a new thread
    except RuntimeError:
        raise ExchangeError(
            f"the system did not start all {count} threads that answer calls; raise the limit on threads (systemd: "
            "TasksMax, containers: --pids-limit, else ulimit -u)"
        ) from None
    finally:
        all_there.set()
    return pool


def make_server(pool: ThreadPoolExecutor) -> Any:
    return grpc.server(pool, options=SERVER_OPTIONS)


def start_serving(servers: list[Any]) -> list[threading.Thread]:
    """Start the servers; return the threads they need, as gRPC does not say when one has died."""
    with _START_LOCK:
        before = set(threading.enumerate())
        for server in servers:
            server.start()
        return [thread for thread in threading.enumerate() if thread not in before and "(_serve)" in thread.name]


def on_network(server: Any, endpoint: Endpoint, network: Network, address: str) -> AbstractContextManager[int]:
    """Let certified parties call in the context, by the front of the network; it yields the port."""

    def caller(context: Any) -> Caller:
        return authenticate(context, network.revocations, endpoint.log, network.connections)

    _register(server, endpoint, caller, network.connections)
    credentials = network.credentials.for_server()
    return network.open(address, lambda path: _bind(path, lambda: server.add_secure_port(f"unix:{path}", credentials)))


def on_socket(server: Any, endpoint: Endpoint, path: Path) -> None:
    """Let relays call that the file's permissions let in: its owner and its group."""
    require_free_socket(path)
    _register(server, endpoint, lambda context: Caller(relay=True), None)
    before = os.umask(0o117)
    try:
        _bind(path, lambda: server.add_insecure_port(f"unix:{path}"))
    finally:
        os.umask(before)


def _register(
    server: Any, endpoint: Endpoint, caller: Callable[[Any], Caller], connections: Connections | None
) -> None:
    """Register the methods; a call reaches the service once its caller is known."""
    service, slots = endpoint.service, endpoint.slots

    def content(sent: Iterator[bytes], context: Any, place: Place, public: bool, member: bool) -> bytes:
        def read() -> bytes:
            return slots.message(sent, context)

        if connections is None or public:
            return read()
        return connections.message(place, read, MAX_PROPOSAL_BYTES if member else None)

    def handler(work: Callable[[bytes, Caller, Any], bytes], public: bool = False, member: bool = False) -> Any:
        def handle(sent: Iterator[bytes], context: Any) -> bytes:
            who = caller(context)
            place = grpc_place(context.peer())
            if connections is not None:
                connections.assign(place, who)
            if not (slots.acquire_shared(who, context) if member else slots.acquire(who)):
                held = {"held_by": slots.sharers()} if member else {}
                endpoint.log.rate_limited("too-many-calls", caller=",".join(who.names), peer=who.peer, **held)
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls of one caller are under way")
            try:
                refusal = None if public or member else service.rejection(who)
                if refusal is not None:
                    return refusal
                return work(content(sent, context, place, public, member), who, context)
            finally:
                slots.release_shared(context) if member else slots.release(who)

        # A single message is a stream of one. Read as a stream, who asks is known before the message has come, if it
        # ever does.
        return grpc.stream_unary_rpc_method_handler(handle)

    def check(content: bytes, who: Caller, context: Any) -> bytes:
        reply = health.check(content, endpoint.ready(), service.full_name)
        if reply is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        return reply or b""

    def led(work: Work, member: bool = False) -> Any:
        return handler(lambda content, who, context: work(content, who, lambda: not context.is_active()), member=member)

    own = {name: led(work) for name, work in service.methods.items()}
    if connections is not None:  # a relay shows no certificate
        own |= {name: led(work, member=True) for name, work in endpoint.members.items()}
    own["Health"] = handler(lambda content, who, context: service.health(), public=True)
    standard = {"Check": handler(check, public=True)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(service.full_name, own),
            grpc.method_handlers_generic_handler(health.HEALTH_SERVICE, standard),
        )
    )


def _bind(path: Path, bind: Callable[[], int]) -> None:
    try:
        bound = bind()
    except RuntimeError:
        bound = 0
    if not bound:
        raise ExchangeError(
            f"{path}: the daemon cannot listen on this socket; check the path and whether another daemon runs"
        )


def authenticate(context: Any, revocations: Revocations, log: Log, connections: Connections) -> Caller:
    """Return the caller of a TLS connection; refuse expired or revoked certificates and ways around the front."""
    try:
        certificate, ends, caller = _caller(context.auth_context()["x509_pem_cert"][0])
    except (KeyError, IndexError, ValueError):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "this certificate cannot be read")
    origin = connections.origin(grpc_place(context.peer()))
    if origin is None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "call the daemon's own port")
    peer = "{}:{}".format(*(origin or ("", 0)))
    if time.time() > ends:  # TLS looked when the connection was opened
        log.rate_limited("expired", caller=",".join(caller.names), peer=peer)
        context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            "this certificate of the caller has expired; ask the authority for a renewed one",
        )
    if revocations.revokes(certificate):
        log.rate_limited("revoked", caller=",".join(caller.names), serial=f"{certificate.serial_number:x}", peer=peer)
        context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            "the authority revoked this certificate of the caller; request a certificate for a new key",
        )
    return replace(caller, peer=peer)


@lru_cache(maxsize=64)
def _caller(pem: bytes) -> tuple[x509.Certificate, float, Caller]:
    certificate = x509.load_pem_x509_certificate(pem)
    return (
        certificate,
        certificate.not_valid_after_utc.timestamp(),
        Caller(tuple(names(certificate)), fingerprint(certificate), certificate=pem.decode("ascii")),
    )
