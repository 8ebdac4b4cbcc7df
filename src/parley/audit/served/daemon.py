"""An owner's daemon as a process of its own, on this machine, by the program that serves production."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.errors import SettingError

PATIENCE = 60.0  # seconds for a daemon to start, and to stop
PROGRAM = (sys.executable, "-m", "parley")  # that serves, unless another is named
HERE = "127.0.0.1:0"  # on this machine, at any port


@contextmanager
def daemon(program: Sequence[str], settings_file: Path) -> Iterator[str]:
    """Where the owner's daemon listens, which runs as a process of its own until the block ends."""
    log = settings_file.with_name("daemon.log")
    with log.open("wb") as lines:
        command = [*program, "owner", "serve", str(settings_file)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines)  # noqa: S603 - the operator's own program
        except OSError as error:
            raise SettingError(f"{program[0]}: cannot be started: {error.strerror}") from None
    try:
        yield listening(log, lambda: process.poll() is None)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening(log: Path, alive: Callable[[], bool]) -> str:
    """The address that the daemon's log names once it serves."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and alive():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"serving"' in line and line.endswith("}"):
                return str(json.loads(line)["listen"])
        time.sleep(0.02)
    raise SettingError(f"{log}: the daemon did not begin to serve; its log says why")
