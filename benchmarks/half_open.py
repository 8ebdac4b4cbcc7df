"""Rounds of a learner while strangers without a certificate hold half-open TCP lines to the owner's daemon: before,
meanwhile, after.

python benchmarks/half_open.py [--lines 10000] [--addresses 250] [--began 0.1] [--again 1000] [--seconds 20]

The strangers call from so many addresses of the loopback. Most of their lines say nothing, a share (`--began`) begins
TLS and goes no further; lines that are cut are opened again, `--again` a second. Printed: how long a round takes on a
line that was there before, and on a new one each time; the daemon's descriptors, threads and memory. Everything is on
this machine's loopback and ends by itself.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import parley
from network import SPAWN, certify, identity, make_bank, tell_port, wait_for
from parley.network.exchange.remote import RemoteOwner
from parley.network.identity import certificate_authority
from parley.network.identity.settings import OwnerSettings
from parley.network.serving.daemon import serve
from parley.network.serving.log import Log
from parley.protocol.queries import GradientQuery

ROUNDS = 3000
PATIENCE = 20.0  # seconds for a round


def daemon(settings: OwnerSettings, port: Any) -> None:
    with Path(os.devnull).open("w") as stream, Log(stream) as log:
        tell_port(log, port)
        serve(settings, threading.Event(), log)


def strangers(port: int, asked: argparse.Namespace, ready: Any, over: Any, told: Any) -> None:
    """In a process of their own, as far as they may open files."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from flood import half_open

    os.nice(5)  # in the field their cores are not the daemon's
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lines = min(asked.lines, most - 100)
    with half_open(port, lines, asked.addresses, asked.began, asked.again) as done:
        ready.set()
        over.wait(asked.seconds + 600)
        told[:] = [done["held"], done["opened"], done["cut"]]


class Learner:
    """Asks round after round."""

    def __init__(self, folder: Path, terms: parley.Terms, port: int, width: int, rows: int) -> None:
        self._where, self._identity = f"127.0.0.1:{port}", identity(folder, "learner")
        self._terms, self._width, self._rows = terms, width, rows
        self._line, self._round = RemoteOwner("a", self._where, self._identity), 0

    def ask(self, line: RemoteOwner) -> None:
        query = GradientQuery.ask(self._terms.hash, "learner", self._round + 1, np.zeros(self._width))
        line.ask(query, self._rows, self._width, PATIENCE)
        self._round += 1

    def on_the_line(self) -> None:
        self.ask(self._line)

    def on_a_new_line(self) -> None:
        line = RemoteOwner("a", self._where, self._identity)
        try:
            self.ask(line)
        finally:
            line.close()


def timed(work: Callable[[], None], seconds: float) -> tuple[list[float], int]:
    """(how long each took that came, how many did not)."""
    took, failed, until = list[float](), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            work()
            took.append(time.perf_counter() - began)
        except parley.errors.Unavailable:
            failed += 1
        time.sleep(0.05)
    return took, failed


def facts(pid: int) -> str:
    """Descriptors, threads and memory of a process."""
    words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return f"{files:6} descriptors {words['Threads'].strip():>4} threads {int(words['VmRSS'].split()[0]) // 1024:5} MB"


def report(phase: str, learner: Learner, pid: int, seconds: float) -> None:
    for words, work in (("old line", learner.on_the_line), ("new line", learner.on_a_new_line)):
        took, failed = timed(work, seconds / 2)
        figures = f"median {1e3 * np.median(took):7.1f} ms   longest {1e3 * max(took):8.1f} ms" if took else "none"
        print(f"{phase:10} {words}: {len(took):4} rounds, {failed} in vain   {figures}   {facts(pid)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--addresses", type=int, default=250)
    parser.add_argument("--began", type=float, default=0.1)
    parser.add_argument("--again", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        certificate_authority.make_authority(folder, "Benchmark", 30)
        for name in ("a", "learner"):
            certify(folder, name)
        terms, settings = make_bank(folder, 10, 1000, ROUNDS)
        told_port = SPAWN.Value("i", 0)
        serving = SPAWN.Process(target=daemon, args=(settings, told_port), daemon=True)
        serving.start()
        port = wait_for(told_port, serving)
        learner = Learner(folder, terms, port, 10, 1000)
        pid = serving.pid or 0
        report("before", learner, pid, min(6.0, asked.seconds))
        ready, over, told = SPAWN.Event(), SPAWN.Event(), SPAWN.Array("i", 3)
        crowd = SPAWN.Process(target=strangers, args=(port, asked, ready, over, told), daemon=True)
        crowd.start()
        if not ready.wait(60):
            raise SystemExit("the strangers did not come, so there is nothing to measure")
        report("meanwhile", learner, pid, asked.seconds)
        over.set()
        crowd.join(30)
        print(f"strangers: {told[0]:,} lines held at the end, {told[1]:,} opened, {told[2]:,} cut")
        report("after", learner, pid, min(6.0, asked.seconds))
        serving.kill()
        serving.join()


if __name__ == "__main__":
    multiprocessing.freeze_support()
    main()
