"""The lines (TCP connections) to a daemon's port, watched from beside gRPC, which bounds neither their number nor their headers.

A block of headers may be continued without end before any call comes of it. gRPC refuses such a call, but reads on, and holds twenty
bytes for each that came in small fields; no setting of its stops that. So lines are looked at from outside: the kernel knows how many
bytes each has received.

Formal guarantee: at every look (`LOOK` seconds apart; `QUICK` while a line has brought no call yet, and sooner when one is opened) a line
is cut that has received more than `FREE` bytes that no message of an admitted caller accounts for, or has brought no call in `SILENT`
seconds; of one certificate the `EACH` newest stay, of one address those `UNIDENTIFIED` newest that brought no call yet. A message
accounts for its length, and while it is on its way for that of the longest question that accepted terms can ask. Whose line was cut for
its bytes, certificate or address, gets no new one for a while (`BAN`, twice as long each time); lines of an address that brought calls
are not touched for that. What a line that is cut was sending is lost; nothing is answered twice or debited for it.
"""

import ctypes
import ipaddress
import os
import socket
import stat
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from parley.serving.acceptance import Caller
from parley.serving.log import Log

LOOK = 0.1  # seconds between two looks
QUICK = 0.01  # the same while somebody is at the door
SOONEST = 0.004  # the same when many knock: a look takes time from answers
EACH = 8  # lines of one certificate
UNIDENTIFIED = 4  # lines from one address that brought no call yet
SILENT = 10.0  # seconds in which a line brings its first call
FREE = (1 << 18) + (1 << 16)  # bytes that no message accounts for: a window's worth of one not read yet, TLS, headers, pings
BAN = (1.0, 10.0)  # seconds, at first and at most
AROUND = 4096  # bytes around a message: its headers and frames
_LIBC = ctypes.CDLL(None)
_RECEIVED = 128  # where Linux's tcp_info has the number of bytes received

FLOOD = "more bytes than its messages account for"

Address = tuple[str, int]
Holder = Caller | str  # a certificate, or the host of lines that brought no call yet


@dataclass
class Connection:
    """One of them: since when, whose, and what its messages account for since `base` bytes had come."""

    since: float
    caller: Caller | None = None
    base: int = 0
    counted: int = 0
    expected: int = 0  # messages on their way

    def allowed(self, longest: int) -> int:
        return self.base + FREE + self.counted + self.expected * (longest + AROUND)


def address(host: str, port: int) -> Address:
    """The same for the kernel's and for gRPC's way to write it.

    >>> address("::ffff:10.0.0.7", 7443)
    ('10.0.0.7', 7443)
    """
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host, port
    return str(getattr(found, "ipv4_mapped", None) or found), port


def grpc_address(peer: str) -> Address:
    """An address as gRPC says it; a line without one (a socket's) has none.

    >>> grpc_address("ipv4:10.0.0.7:51000"), grpc_address("ipv6:%5B::1%5D:51000"), grpc_address("unix:")
    (('10.0.0.7', 51000), ('::1', 51000), ('', 0))
    """
    kind, _, place = unquote(peer).partition(":")
    host, _, port = place.rpartition(":")
    return address(host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdigit() else ("", 0)


def holder(place: Address, line: Connection) -> Holder:
    return place[0] if line.caller is None else line.caller


def excess(
    lines: Mapping[Address, Connection],
    received: Mapping[Address, int],
    now: float,
    longest: int = 0,
    banned: Mapping[Holder, float] | None = None,
) -> dict[Address, str]:
    """The lines to cut, and why; `banned` says until when somebody has to wait."""
    why: dict[Address, str] = {}
    groups: defaultdict[Holder, list[Address]] = defaultdict(list)
    for place, line in lines.items():
        groups[holder(place, line)].append(place)
        if received[place] > line.allowed(longest):
            why[place] = FLOOD
        elif line.caller is None and now - line.since > SILENT:
            why[place] = "no call"
    for who, places in groups.items():
        most, reason = (
            (EACH, "too many of one certificate") if isinstance(who, Caller) else (UNIDENTIFIED, "too many without a call")
        )
        if (banned or {}).get(who, now) > now:
            most, reason = 0, "flooded before"
        for place in sorted(places, key=lambda place: lines[place].since, reverse=True)[most:]:
            why.setdefault(place, reason)
    return why


class Connections:
    """The lines to one port of this process."""

    def __init__(self, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self._log, self._longest, self._lock = log, longest, threading.Lock()
        self._lines: dict[Address, Connection] = {}
        self._banned: dict[Holder, float] = {}
        self._ban_lengths: dict[Holder, float] = {}
        self._handshake = threading.Event()
        self._looked = 0.0
        self.port = 0  # until it is bound

    def __len__(self) -> int:
        return len(self._lines)

    def assign(self, place: Address, caller: Caller) -> None:
        """A call of this caller came on the line."""
        with self._lock:
            self._lines.setdefault(place, Connection(time.monotonic())).caller = caller

    def message(self, place: Address, read: Callable[[], bytes]) -> bytes:
        """A message that is read for the call of an admitted caller."""
        with self._lock:
            line = self._lines.setdefault(place, Connection(time.monotonic()))
            line.expected += 1
        content = b""
        try:
            content = read()
        finally:
            with self._lock:
                line.expected -= 1
                line.counted += 2 * len(content) + AROUND if content else 0
        return content

    def on_handshake(self) -> None:
        """Somebody opens a line: who has to wait is sent away before TLS has ended, and no frame of his is read."""
        self._handshake.set()
        if self.port and time.monotonic() - self._looked > SOONEST:
            self.inspect(self.port)

    def watch(self, over: threading.Event) -> None:
        """Look until it is over."""
        while not over.is_set():
            self._handshake.wait(LOOK)
            self._handshake.clear()
            while self.inspect(self.port) and not over.wait(QUICK):
                pass

    def inspect(self, port: int) -> bool:
        """Cut what is too much; whether a line has brought no call yet."""
        self._looked = began = time.monotonic()
        received = {place: count for _, place, count in _open_connections(port)}
        with self._lock:
            for place in received:
                self._lines.setdefault(place, Connection(began))
            gone = [place for place, line in self._lines.items() if place not in received and line.since < began]
            for place in gone:
                del self._lines[place]
            known = {place: self._lines[place] for place in received}
            why = excess(known, received, began, self._longest(), self._banned)
            for place, line in known.items():
                if line.counted:  # nothing is saved up for later
                    line.base, line.counted = received[place], 0
        if why:
            self._cut(port, {place: (reason, known[place]) for place, reason in why.items()}, began)
        return any(line.caller is None for line in known.values())

    def _cut(self, port: int, why: Mapping[Address, tuple[str, Connection]], now: float) -> None:
        for open_line, place, _ in _open_connections(port):
            if place in why:
                reason, line = why[place]
                who = holder(place, line)
                if reason == FLOOD:
                    with self._lock:
                        self._ban(who, now)
                name = ",".join(who.names) if isinstance(who, Caller) else None
                self._log.rate_limited("line-cut", caller=name, reason=reason, peer=place[0])
                _abort(open_line)

    def _ban(self, who: Holder, now: float) -> None:
        """No new lines for a while; for twice as long as the last time, if that was lately."""
        if self._banned.get(who, now) > now:
            return
        for other, until in list(self._banned.items()):
            if now - until > BAN[1]:  # it has behaved since
                del self._banned[other], self._ban_lengths[other]
        length = min(2 * self._ban_lengths.get(who, BAN[0] / 2), BAN[1])
        self._banned[who], self._ban_lengths[who] = now + length, length


def _open_connections(port: int) -> Iterator[tuple[socket.socket, Address, int]]:
    """Each accepted TCP connection of this process to the port, its other end, and how many bytes came.

    The descriptors stay gRPC's. They are neither copied nor closed here: closing a copy of a database's would give up its locks.
    """
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - ten times a second
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            line = socket.socket(fileno=int(name))
        except (OSError, ValueError):
            continue
        try:
            internet = line.family in (socket.AF_INET, socket.AF_INET6) and line.type == socket.SOCK_STREAM
            if internet and line.getsockname()[1] == port:
                host, other, *_ = line.getpeername()
                yield line, address(host, other), _bytes_received(line)
        except OSError:
            continue  # it listens, or was closed meanwhile
        finally:
            line.detach()


def _abort(line: socket.socket) -> None:
    """End it, with a reset where the system can (Linux): what came and was not read yet is then thrown away unread."""
    if _LIBC.connect(line.fileno(), bytes(16), 16) != 0:  # an address of no family
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)


def _bytes_received(line: socket.socket) -> int:
    """Where the system tells (Linux)."""
    about = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256) if hasattr(socket, "TCP_INFO") else b""
    return int(struct.unpack_from("@Q", about, _RECEIVED)[0]) if len(about) >= _RECEIVED + 8 else 0
