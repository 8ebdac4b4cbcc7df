"""A hostile member of the consortium: TLS with its own certificate, then HTTP/2 frames made by hand, as fast as they
go. And strangers without one, who hold lines half open."""

import contextlib
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from itertools import count

HEADERS, RESET, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def _integer(number: int, bits: int) -> bytes:
    """As header compression writes it."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    rest, written = number - most, [most]
    while rest >= 128:
        written.append(rest % 128 + 128)
        rest //= 128
    return bytes([*written, rest])


def field(name: bytes, value: bytes) -> bytes:
    return b"\0" + _integer(len(name), 7) + name + _integer(len(value), 7) + value


def call(path: bytes) -> bytes:
    names = {b":path": path, b":authority": b"a", b"te": b"trailers", b"content-type": b"application/grpc"}
    return b"\x83\x87" + b"".join(field(name, value) for name, value in names.items())


CALL = call(b"/parley.v1.Owner/Ask")


def continued(first: bytes = CALL, more: bytes = field(b"x", b"v" * 4000) * 4) -> Iterator[bytes]:
    """Headers that never end."""
    yield frame(HEADERS, 0, 3, first)
    while True:
        yield frame(CONTINUATION, 0, 3, more)


def small() -> Iterator[bytes]:
    """The same in many small fields."""
    yield from continued(more=field(b"x", b"") * 4000)


def after_a_call() -> Iterator[bytes]:
    """The same on a line that brought a call that everybody may make."""
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, call(b"/parley.v1.Owner/Health"))
    time.sleep(0.3)
    yield from small()


def one_string() -> Iterator[bytes]:
    """The same in one value of a gigabyte."""
    yield from continued(CALL + b"\0" + _integer(1, 7) + b"x" + _integer(1 << 30, 7), b"v" * 16_000)


def opened(more: bytes = field(b"x", b"v" * 3000)) -> Iterator[bytes]:
    """Calls without a message, with large headers, as many as one likes."""
    for stream in count(1, 2):
        yield frame(HEADERS, END_HEADERS, stream, CALL + more)


def taken_back() -> Iterator[bytes]:
    """The same, each taken back at once: so no limit of calls that are open is ever reached."""
    for stream, call in zip(count(1, 2), opened(), strict=False):
        yield call + frame(RESET, 0, stream, struct.pack(">I", 8))


def pings() -> Iterator[bytes]:
    while True:
        yield frame(PING, 0, 0, bytes(8)) * 500


KINDS = {kind.__name__: kind for kind in (continued, small, after_a_call, one_string, opened, taken_back, pings)}


def flood(kind: str, port: int, folder: str, member: str, lines: int, seconds: float) -> None:
    """Send frames of this kind on so many lines; a line that is cut is opened again."""
    os.nice(10)  # in the field the sender's cores are not the daemon's
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(f"{folder}/ca.crt")
    context.load_cert_chain(f"{folder}/{member}.crt", f"{folder}/{member}.key")
    context.set_alpn_protocols(["h2"])
    until = time.monotonic() + seconds

    def line() -> None:
        while time.monotonic() < until:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(socket.create_connection(("127.0.0.1", port), 1)) as tls,
            ):
                tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
                for frames in KINDS[kind]():
                    tls.sendall(frames)
                    if time.monotonic() > until:
                        break
            time.sleep(0.01)

    threads = [threading.Thread(target=line, daemon=True) for _ in range(lines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 3 - time.monotonic()))
    os._exit(0)


def client_hello() -> bytes:
    """What a TLS client begins with."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    client = context.wrap_bio(coming, going, server_hostname="a")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return going.read()


@contextlib.contextmanager
def half_open(
    port: int, lines: int, addresses: int = 1, began: float = 0.1, again: int = 1000
) -> Iterator[dict[str, int]]:
    """Strangers without a certificate hold so many lines, from so many addresses of the loopback: most say nothing,
    this share begins TLS and goes no further; lines that are cut are opened again, so many a second. What they have
    done so far."""
    over, hello, done = threading.Event(), client_hello(), {"held": 0, "opened": 0, "cut": 0}

    def connect(place: int) -> socket.socket | None:
        line = socket.socket()
        line.setblocking(False)
        with contextlib.suppress(OSError):
            line.bind((f"127.0.{1 + place % addresses // 250}.{1 + place % addresses % 250}", 0))
            line.connect_ex(("127.0.0.1", port))
            return line
        line.close()
        return None

    def run() -> None:
        held: dict[int, tuple[socket.socket, int]] = {}
        watching = select.epoll()
        free = list(range(lines))
        while not over.is_set():
            at_once = 200 if done["opened"] < lines else again // 50
            for place in free[:at_once]:
                line = connect(place)
                if line is not None:
                    held[line.fileno()] = line, place
                    done["opened"] += 1
                    watching.register(line, select.EPOLLIN | (select.EPOLLOUT if place % 100 < 100 * began else 0))
            del free[:at_once]
            done["held"] = len(held)
            over.wait(0.01)
            for number, event in watching.poll(0.01):
                line, place = held[number]
                if event & select.EPOLLOUT and not event & (select.EPOLLHUP | select.EPOLLERR):
                    with contextlib.suppress(OSError):
                        line.send(hello)
                    watching.modify(line, select.EPOLLIN)
                    continue
                with contextlib.suppress(OSError):
                    if line.recv(4096):
                        continue  # the server's part of the handshake
                watching.unregister(line)
                line.close()
                del held[number]
                done["cut"] += 1
                free.append(place)
        for line, _ in held.values():
            line.close()
        watching.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 30
        while done["opened"] < lines and time.monotonic() < until:
            time.sleep(0.01)
        yield done
    finally:
        over.set()
        thread.join()
