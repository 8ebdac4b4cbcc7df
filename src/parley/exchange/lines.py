"""The lines (TCP connections) to a daemon's port, watched from beside gRPC, which bounds neither their number nor their headers.

A header block may be continued without end before any call comes of it; gRPC throws it away, but reads it, and holds what it has not
thrown away yet. No setting of its stops that, so lines are looked at from outside: the kernel knows what each has received.

Formal guarantee: at every look (`LOOK` seconds apart) a line is cut that has received `FREE` bytes more than the calls that were taken
on account for, or has brought no call in `SILENT` seconds; of one certificate the `EACH` newest stay, of one address that brought no call
yet the `NAMELESS` newest. What a line that is cut was sending is lost; nothing is answered twice or debited for it.
"""

import ipaddress
import os
import socket
import stat
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from parley.exchange.acceptance import Caller
from parley.exchange.log import Log
from parley.exchange.messages import LARGEST_MESSAGE

LOOK = 0.1  # seconds between two looks
EACH = 8  # lines of one certificate
NAMELESS = 8  # lines from one address that brought no call yet
SILENT = 10.0  # seconds in which a line brings its first call
FREE = 1 << 22  # bytes that no call accounts for: headers, pings, TLS, and windows' worth of messages that are refused unread
AROUND = 4096  # bytes around a message that was read: its headers and frames
_RECEIVED = 128  # where Linux's tcp_info has the number of bytes received

Address = tuple[str, int]


@dataclass
class Line:
    """One of them: since when, whose, and how many bytes its calls account for."""

    since: float
    caller: Caller | None = None
    counted: int = 0
    expected: int = 0  # messages that are on their way

    @property
    def allowed(self) -> int:
        return FREE + self.counted + self.expected * LARGEST_MESSAGE


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


def spoken_address(peer: str) -> Address:
    """An address as gRPC says it; a line without one (a socket's) has none.

    >>> spoken_address("ipv4:10.0.0.7:51000"), spoken_address("ipv6:%5B::1%5D:51000"), spoken_address("unix:")
    (('10.0.0.7', 51000), ('::1', 51000), ('', 0))
    """
    kind, _, place = unquote(peer).partition(":")
    host, _, port = place.rpartition(":")
    return address(host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdigit() else ("", 0)


def surplus(lines: Mapping[Address, Line], received: Mapping[Address, int], now: float) -> dict[Address, str]:
    """The lines to cut, and why."""
    why: dict[Address, str] = {}
    groups: defaultdict[object, list[Address]] = defaultdict(list)
    for place, line in lines.items():
        groups[place[0] if line.caller is None else line.caller].append(place)
        if received[place] > line.allowed:
            why[place] = "more bytes than its calls account for"
        elif line.caller is None and now - line.since > SILENT:
            why[place] = "no call"
    for whose, places in groups.items():
        most, reason = (EACH, "too many of one certificate") if isinstance(whose, Caller) else (NAMELESS, "too many without a call")
        for place in sorted(places, key=lambda place: lines[place].since, reverse=True)[most:]:
            why.setdefault(place, reason)
    return why


class Lines:
    """The lines to one port of this process."""

    def __init__(self, log: Log) -> None:
        self._log, self._lock = log, threading.Lock()
        self._lines: dict[Address, Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def belongs(self, place: Address, caller: Caller) -> None:
        """A call of this caller came on the line."""
        with self._lock:
            self._lines.setdefault(place, Line(time.monotonic())).caller = caller

    def message(self, place: Address, read: Callable[[], bytes]) -> bytes:
        """A message that is read for a call which was taken on: it may be as large as messages are."""
        with self._lock:
            line = self._lines.setdefault(place, Line(time.monotonic()))
            line.expected += 1
        content = b""
        try:
            content = read()
        finally:
            with self._lock:
                line.expected -= 1
                line.counted += 2 * len(content) + AROUND if content else 0
        return content

    def watch(self, port: int, over: threading.Event) -> None:
        """Look until it is over."""
        while not over.wait(LOOK):
            self.look(port)

    def look(self, port: int) -> None:
        """Cut what is too much."""
        began = time.monotonic()
        received = {place: count for _, place, count in _open_lines(port)}
        with self._lock:
            for place in received:
                self._lines.setdefault(place, Line(began))
            gone = [place for place, line in self._lines.items() if place not in received and line.since < began]
            for place in gone:
                del self._lines[place]
            known = {place: self._lines[place] for place in received}
            why = surplus(known, received, began)
        if not why:
            return
        for line, place, _ in _open_lines(port):
            if place in why:
                caller = known[place].caller
                self._log.seldom("line-cut", caller=",".join(caller.names) if caller else None, reason=why[place], peer=place[0])
                line.shutdown(socket.SHUT_RDWR)


def _open_lines(port: int) -> Iterator[tuple[socket.socket, Address, int]]:
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


def _bytes_received(line: socket.socket) -> int:
    """Where the system tells (Linux)."""
    about = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256) if hasattr(socket, "TCP_INFO") else b""
    return int(struct.unpack_from("@Q", about, _RECEIVED)[0]) if len(about) >= _RECEIVED + 8 else 0
