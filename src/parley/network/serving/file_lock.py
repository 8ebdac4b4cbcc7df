"""One change at a time to files that several processes write."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.durable import PRIVATE, explained
from parley.errors import DiskError, SettingError

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
