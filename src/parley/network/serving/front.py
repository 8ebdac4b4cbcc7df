"""The front of a daemon: it takes TCP connections in gRPC's place, and passes on those that have begun TLS, a few at
once.

gRPC spends descriptors, memory and threads on every connection before a certificate is shown: a few thousand silent
ones keep everybody out. Here a silent one costs a descriptor and a few bytes, and the oldest go when there are too many
(`connections.py` has the rules). Bytes are carried unread: TLS is between the caller and gRPC. gRPC listens for this
front alone, on a Unix socket in a folder that no other account may enter (`private_folder`), and refuses every other
way. One thread does it all, served connections before strangers.
"""

import errno
import fcntl
import os
import resource
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from parley.errors import ExchangeError
from parley.network.serving.connections import (
    FLOOD_REASON,
    MAX_UNSERVED,
    Connection,
    Connections,
    Place,
    Stage,
    address,
)

BACKLOG = 4096  # connections that the kernel may hold until they are taken
ACCEPT_BATCH = 64  # taken at once, before served connections are looked at again
CHUNK_BYTES = 1 << 17  # bytes carried at once
TLS_HEADER_BYTES = 5  # bytes of the head of a TLS record
MAX_RECORD_BYTES = 1 << 14
CHECK_INTERVAL_S = 0.25  # seconds between two looks while connections wait
MIN_CHECK_INTERVAL_S = 0.01  # the same when many come
# bytes that the kernel holds of a connection, which it doubles: a connection that is cut leaves no more than this
SOCKET_BUFFER_BYTES = 1 << 17
GRPC_BUFFER_BYTES = (
    1 << 20
)  # the same on the way to gRPC, as far as the system allows: a small one makes large messages slow
FOLDER_PREFIX = "parley-door-"
ABANDONED_AFTER_S = 60.0  # seconds after which a folder that nobody holds is a killed daemon's
MAX_SOCKET_PATH_BYTES = 103  # bytes of a Unix socket's path, on every system
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_EXHAUSTION_ERRORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class _Proxy:
    """A connection's two sockets, and what is on its way between them."""

    def __init__(self, near: socket.socket, about: Connection) -> None:
        self.near, self.about = near, about
        self.far: socket.socket | None = None
        self.place: Place | None = None
        self.inward, self.outward = bytearray(), bytearray()  # to gRPC, and to the caller
        self.ending = False  # gRPC has closed it: what it said last is still carried
        self.held = False  # one end is not read, or written to as soon as that can be


def hello(content: bytes | bytearray) -> bool | None:
    """Whether this is a whole record with which a TLS client begins; None while it may become one.

    >>> hello(b"GET / HTTP/1.1"), hello(b"\\x16\\x03\\x01\\x00"), hello(b"\\x16\\x03\\x01\\x00\\x02\\x01\\x00")
    (False, None, True)
    """
    begin = bytes(content[: TLS_HEADER_BYTES + 1])
    if (
        begin[:1] not in (b"", b"\x16")
        or begin[1:2] not in (b"", b"\x03")
        or begin[TLS_HEADER_BYTES:] not in (b"", b"\x01")
    ):
        return False
    if len(content) <= TLS_HEADER_BYTES:
        return None
    length = int.from_bytes(begin[3:TLS_HEADER_BYTES], "big")
    if not 1 <= length <= MAX_RECORD_BYTES:
        return False
    return True if len(content) >= TLS_HEADER_BYTES + length else None


class Front:
    """Listens at `where` ("host:port") for a gRPC server on the Unix socket `backend`, from `start` to `close`."""

    def __init__(self, where: str, backend: Path, connections: Connections) -> None:
        self._backend, self._connections, self._numbers = backend, connections, count(1)
        self._listening = _listen(where)
        self.port = int(self._listening[0].getsockname()[1])
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._ceiling = (
            MAX_UNSERVED if descriptors == resource.RLIM_INFINITY else max(8, min(MAX_UNSERVED, descriptors // 8))
        )
        self._most = self._ceiling
        self._proxies: dict[Connection, _Proxy] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)
        self._over = threading.Event()
        self._due, self._looked = False, 0.0  # whether there is something to look at, and when that was done last
        self._thread = threading.Thread(target=self._run, name="parley-front", daemon=True)
        connections.on_served = self._wake

    def start(self) -> None:
        self._selector.register(self._woken, selectors.EVENT_READ)
        for listening in self._listening:
            self._selector.register(listening, selectors.EVENT_READ)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Cut all connections and listen no longer."""
        self._over.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        for listening in self._listening:
            listening.close()
        for proxy in list(self._proxies.values()):
            self._drop(proxy)
        self._selector.close()
        for end in (self._woken, self._waker):
            os.close(end)

    def _run(self) -> None:
        pause: float | None = None
        while not self._over.is_set():
            try:
                self._turn(self._selector.select(pause))
            except Exception as error:  # whatever it was: the door stays open
                self._connections.trouble(type(error).__name__)
                self._over.wait(MIN_CHECK_INTERVAL_S)
            waiting = self._due or any(about.stage is not Stage.SERVED for about in self._proxies)
            pause = MIN_CHECK_INTERVAL_S if self._due else CHECK_INTERVAL_S if waiting else None

    def _turn(self, events: list[tuple[Any, int]]) -> None:
        for key, mask in sorted(
            events, key=lambda event: event[0].data is None or event[0].data.about.stage is not Stage.SERVED
        ):
            if key.data is not None:
                self._carry(key.data, key.fileobj, mask)
            elif key.fd == self._woken:
                os.read(self._woken, 4096)
                self._due = True
            else:
                self._accept(key.fileobj)
        since = time.monotonic() - self._looked
        calm = self._due and len(self._proxies) <= ACCEPT_BATCH
        if (
            calm
            or since >= (MIN_CHECK_INTERVAL_S if self._due else CHECK_INTERVAL_S)
            or len(self._proxies) > 2 * self._most
        ):
            self._look()

    def _look(self) -> None:
        """Cut excess connections, and let in those that may enter."""
        self._due, self._looked = False, time.monotonic()
        self._most = min(self._ceiling, self._most + 1)
        why, entering = self._connections.look(self._most)
        for about in why:
            if about in self._proxies:
                self._drop(self._proxies[about], reset=True)
        self._connections.report(why)
        for about in entering:
            if about in self._proxies:
                self._enter(self._proxies[about])

    def _accept(self, listening: socket.socket) -> None:
        self._due = True
        for _ in range(ACCEPT_BATCH):
            try:
                near, remote = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTION_ERRORS:  # the oldest of those who wait make room, for a while
                    self._most = max(8, len(self._proxies) // 2)
                return
            about = self._connections.add(address(*remote[:2]))
            if about is None:
                _abort(near)
                continue
            near.setblocking(False)
            with suppress(OSError):
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            proxy = self._proxies[about] = _Proxy(near, about)
            self._selector.register(near, selectors.EVENT_READ, proxy)
            self._carry(proxy, near, selectors.EVENT_READ)  # mostly its first words came with it

    def _carry(self, proxy: _Proxy, end: socket.socket, mask: int) -> None:
        """Do what can be done at this end of the connection."""
        if proxy.about not in self._proxies:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                buffer = proxy.outward if end is proxy.near else proxy.inward
                del buffer[: end.send(buffer)]
            if mask & selectors.EVENT_READ:
                self._read(proxy, end)
            if proxy.held or proxy.inward or proxy.outward or proxy.ending:
                self._watch(proxy)
        except (BlockingIOError, InterruptedError):
            self._watch(proxy)
        except OSError:
            self._drop(proxy)

    def _read(self, proxy: _Proxy, end: socket.socket) -> None:
        content = end.recv(CHUNK_BYTES)
        if end is proxy.far:
            if content:
                _send(proxy.near, content, proxy.outward)
            else:
                proxy.ending = True
        elif not content:
            self._drop(proxy)
        elif not self._connections.count(proxy.about, len(content)):
            self._cut(proxy, FLOOD_REASON)
        elif proxy.far is not None:
            _send(proxy.far, content, proxy.inward)
        else:
            proxy.inward += content
            begun = hello(proxy.inward)
            if begun is False:
                self._cut(proxy, "no TLS")
            elif begun and proxy.about.stage is Stage.SILENT:
                self._connections.move(proxy.about, Stage.KNOCKING)
                self._due = True

    def _enter(self, proxy: _Proxy) -> None:
        """Give the connection to gRPC, with what came so far."""
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # the name by which gRPC knows the connection; its file is needed no longer than it takes to connect
        name = self._backend.with_name(str(next(self._numbers)))
        try:
            far.setblocking(False)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, GRPC_BUFFER_BYTES)
            far.bind(str(name))
            try:
                far.connect(str(self._backend))
            finally:
                name.unlink()
            proxy.far, proxy.place = far, str(name)
            self._connections.move(proxy.about, Stage.ENTERING, proxy.place)
            self._selector.register(far, selectors.EVENT_READ, proxy)
            self._watch(proxy)
        except OSError:
            far.close()
            self._drop(proxy)

    def _watch(self, proxy: _Proxy) -> None:
        """Read what the other end can take; write the rest as soon as possible."""
        if proxy.about not in self._proxies:
            return
        if proxy.ending and not proxy.outward:
            self._drop(proxy)
            return
        proxy.held = bool(proxy.inward or proxy.outward or proxy.ending)
        hear = len(proxy.inward) <= MAX_RECORD_BYTES + TLS_HEADER_BYTES if proxy.far is None else not proxy.inward
        self._want(proxy, proxy.near, hear and not proxy.ending, bool(proxy.outward))
        if proxy.far is not None:
            self._want(proxy, proxy.far, not proxy.outward and not proxy.ending, bool(proxy.inward))

    def _want(self, proxy: _Proxy, end: socket.socket, read: bool, write: bool) -> None:
        wanted = read * selectors.EVENT_READ | write * selectors.EVENT_WRITE
        known = self._selector.get_map().get(end)
        if known is None:
            if wanted:
                self._selector.register(end, wanted, proxy)
        elif not wanted:
            self._selector.unregister(end)
        elif known.events != wanted:
            self._selector.modify(end, wanted, proxy)

    def _cut(self, proxy: _Proxy, reason: str) -> None:
        self._drop(proxy, reset=True)
        self._connections.report({proxy.about: reason})

    def _drop(self, proxy: _Proxy, reset: bool = False) -> None:
        self._due = self._due or proxy.about.stage is not Stage.SERVED
        self._proxies.pop(proxy.about, None)
        self._connections.remove(proxy.about, proxy.place)
        for end in (proxy.near, proxy.far):
            if end is not None:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                (_abort if reset else socket.socket.close)(end)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or over
            os.write(self._waker, b"!")


def _send(end: socket.socket, content: bytes, buffer: bytearray) -> None:
    """Send what goes at once; the rest waits in the buffer."""
    sent = 0
    if not buffer:
        with suppress(BlockingIOError, InterruptedError):
            sent = end.send(content)
    if sent < len(content):
        buffer += memoryview(content)[sent:]


def _abort(end: socket.socket) -> None:
    """End it with a reset, throwing away what was not read yet."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.close()


def _listen(where: str) -> list[socket.socket]:
    """Return sockets that listen there; everywhere means both kinds of addresses."""
    host, _, port = where.rpartition(":")
    host = host.strip("[]")
    sockets: list[socket.socket] = []
    try:
        if host in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():  # noqa: S104 - that is what the settings say
            return [_bound(socket.AF_INET6, ("::", int(port)), both=True)]
        for family, _, _, _, place in dict.fromkeys(socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)):
            chosen = sockets[0].getsockname()[1] if sockets else int(port)
            try:
                sockets.append(_bound(family, (str(place[0]), chosen)))
            except OSError as error:
                if not sockets or error.errno == errno.EADDRINUSE:
                    raise  # one kind of addresses may be switched off
    except (OSError, OverflowError, ValueError):
        for listening in sockets:
            listening.close()
        raise ExchangeError(
            f"{where}: the daemon cannot listen at this address; check the address and whether another daemon runs"
        ) from None
    return sockets


def _bound(family: int, place: tuple[str, int], both: bool = False) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        listening.bind(place)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder for sockets, closed to other accounts and short of path; remove it and killed daemons' later."""
    places = [os.environ.get("RUNTIME_DIRECTORY", ""), os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
    for place in (*places, "/tmp"):  # noqa: S108 - mkdtemp makes a folder of our own in it
        if place and len(os.fsencode(place)) + len(f"/{FOLDER_PREFIX}12345678/1234567890") <= MAX_SOCKET_PATH_BYTES:
            with suppress(OSError):
                folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
                break
    else:
        raise ExchangeError(
            "no folder is suitable for the daemon's internal socket; set TMPDIR to a folder with a short path in "
            "which the daemon can write"
        )
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        _remove_abandoned(folder.parent)
        yield folder
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(place: Path) -> None:
    """Remove this account's folders that no process holds; new ones may not be held yet."""
    for folder in place.glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError):
            about = folder.lstat()
            if about.st_uid != os.geteuid() or time.time() - about.st_mtime < ABANDONED_AFTER_S:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(held)
