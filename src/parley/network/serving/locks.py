"""One change at a time to files that several processes write; one daemon for one set of books, and for one socket."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.durable import PRIVATE, explained
from parley.errors import DiskError, ExchangeError, LedgerError, SettingError

AGAIN = 0.01  # seconds until the next try


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of this file, which stays, against other processes and threads; refused after so many seconds. The
    kernel frees it when the process ends."""
    until = time.monotonic() + seconds
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        while True:
            try:
                with explained(path):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except DiskError as error:
                if error.errno != errno.EWOULDBLOCK:
                    raise
            if time.monotonic() > until:
                raise SettingError(f"{path.parent}: somebody else is changing it; try again")
            time.sleep(AGAIN)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def daemon_lock(ledger: Path, kind: str = "ledger", maker: str = "parley owner init") -> Iterator[None]:
    """Hold the daemon's place at this ledger, or journal (`kind`, and which command makes one); the kernel gives it
    free when the process ends, however it ends.

    The place is that of the file itself, by whatever links it is named. The ledger stays open to `parley owner accept`
    and `ledger`, whose transactions are SQLite's matter.
    """
    if not ledger.exists():
        raise LedgerError(f"{ledger}: no such {kind}; is the path right? ({maker} makes one)")
    ledger = ledger.resolve()
    path = ledger.with_name(f"{ledger.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExchangeError(f"{ledger}: another daemon serves from this {kind}; stop it first") from None
        except OSError as error:  # network disks: without the lock two daemons could serve
            raise ExchangeError(
                f"{ledger}: its disk cannot lock files ({error.strerror}); put the {kind} on a local disk"
            ) from None
        yield
    finally:
        os.close(descriptor)  # the file stays: to remove it would let two daemons hold two files of the same name


def require_free_socket(path: Path) -> None:
    """Refuse a socket behind which somebody listens; gRPC would take its place without a word."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return  # nobody there: no file, or one that a killed daemon left
    raise ExchangeError(f"{path}: cannot listen there; another daemon does")
