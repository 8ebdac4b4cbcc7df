"""Calls answered of calls made while somebody crowds a daemon's doors.

python benchmarks/doors.py [page] [inside] [address]

page     400 readers of the metrics page send a byte a second; the daemon may start 130 threads (for root with setpriv)
inside   9,000 silent connections to the port of the loopback on which gRPC listens behind the front, if there is one
address  a member floods the port from the address from which a learner opens 56 new connections

Everything is on this machine's loopback, bounded in number and time, and ends by itself.
"""

import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from common.ports import free_port

from network import certify
from parley.errors import ParleyError
from parley.network.exchange.remote import RemoteOwner

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

THREADS = 130  # that the daemon may start
FILES = 8192  # that it may open, as under deploy/parley-owner@.service
UNUSED = 54_321  # an account that has no processes


@contextmanager
def served(limited: bool = False) -> Iterator[tuple[Any, subprocess.Popen[bytes], int]]:
    """(A consortium of one owner, its daemon's process, the port of its page)."""
    from consortium import Consortium

    with tempfile.TemporaryDirectory() as place:
        os.environ["PARLEY_STATE"] = str(Path(place) / "state")
        bank, page = Consortium(Path(place), names="a"), free_port()
        bank.accept(bank.write_terms(horizon=3))
        settings, log = Path(place) / "a.toml", Path(place) / "a.log"
        settings.write_text(
            settings.read_text().replace('# metrics = "127.0.0.1:9464"', f'metrics = "127.0.0.1:{page}"')
        )
        limits = ["prlimit", f"--nofile={FILES}", *([f"--nproc={THREADS}"] if limited else [])]
        if limited and not os.getuid():
            limits = ["setpriv", f"--ruid={UNUSED}", "--bounding-set=-sys_resource,-sys_admin", *limits]
            for path in (Path(place), *(each for each in Path(place).rglob("*") if "state" not in each.parts)):
                os.chown(path, UNUSED, -1)
        with log.open("wb") as stream:
            serve = [*limits, sys.executable, "-m", "parley", "owner", "serve", str(settings)]
            process = subprocess.Popen(serve, stderr=stream)
        try:
            until = time.monotonic() + 120
            while '"serving"' not in log.read_text():
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield bank, process, page
        finally:
            process.kill()
            process.wait()


def answered(bank: Any, calls: int, seconds: float, at_once: int = 1) -> int:
    """How many of so many calls are answered, each on a new connection within these seconds."""
    terms = next(bank.folder.glob("accepted-a/*.json")).stem

    def call(_: int) -> bool:
        line = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
        try:
            return line.statement(terms, "learner", seconds).rounds == 3
        except ParleyError:
            return False
        finally:
            line.close()

    with ThreadPoolExecutor(at_once) as pool:
        return sum(pool.map(call, range(calls)))


def ready(page: int) -> str:
    try:
        return str(urllib.request.urlopen(f"http://127.0.0.1:{page}/ready", timeout=15).read().decode().strip())
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode().strip()}"
    except OSError as error:
        return type(error).__name__


def state(process: subprocess.Popen[bytes]) -> str:
    if process.poll() is not None:
        return f"ended with {process.returncode}"
    return f"{len(list(Path(f'/proc/{process.pid}/task').iterdir()))} threads"


def crowd(place: tuple[str, int], count: int, together: int) -> list[socket.socket]:
    """So many connections, as far as they are taken."""
    ends = []
    for _ in range(count):
        end = socket.socket()
        end.setblocking(False)
        with suppress(OSError):
            end.connect_ex(place)
        ends.append(end)
        if len(ends) % together == 0:
            time.sleep(0.05)
    return ends


def slow_readers() -> None:
    with served(limited=True) as (bank, process, page):
        print(f"page     before: {answered(bank, 16, 10)} of 16 calls, {ready(page)}, {state(process)}")
        over = threading.Event()
        ends = crowd(("127.0.0.1", page), 400, 10)

        def send() -> None:
            while not over.wait(1.0):
                for end in ends:
                    with suppress(OSError):
                        end.send(b"G")

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        time.sleep(3)
        print(f"page     meanwhile: {answered(bank, 16, 5, 4)} of 16 calls, {ready(page)}, {state(process)}")
        over.set()
        sending.join()
        for end in ends:
            end.close()
        time.sleep(8)
        print(f"page     afterwards: {answered(bank, 16, 5, 4)} of 16 calls, {ready(page)}, {state(process)}")


def inside() -> None:
    with served() as (bank, process, page):
        listening = []
        lines = [Path(f"/proc/{process.pid}/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
        for words in map(str.split, chain.from_iterable(lines)):
            if words[3] == "0A" and holds(process.pid, words[9]):
                listening.append(int(words[1].split(":")[1], 16))
        ports = sorted(set(listening) - {bank.ports["a"], page})
        print(f"inside   before: {answered(bank, 4, 10)} of 4 calls, open ports inside: {len(ports)}")
        ends = [end for each in ports for end in crowd(("127.0.0.1", each), 9000, 200)]
        print(f"inside   meanwhile: {answered(bank, 4, 5)} of 4 calls, {len(ends)} silent connections")
        for end in ends:
            end.close()


def holds(pid: int, inode: str) -> bool:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()) == f"socket:[{inode}]":
                return True
    return False


def same_address() -> None:
    from flood import flood

    with served() as (bank, process, _):
        certify(bank.folder, "hostile")
        print(f"address  before: {answered(bank, 8, 10)} of 8 new connections")
        hostile = get_context("spawn").Process(
            target=flood, args=("continued", bank.ports["a"], str(bank.folder), "hostile", 12, 300.0), daemon=True
        )
        hostile.start()
        until = time.monotonic() + 120
        while not any(line["event"] == "line-cut" for line in bank.log("a")) and time.monotonic() < until:
            time.sleep(0.05)
        began = time.monotonic()
        count = answered(bank, 56, 3)
        took = (time.monotonic() - began) / 56
        print(f"address  meanwhile: {count} of 56 new connections, {took:.2f} s each, {state(process)}")
        hostile.kill()
        hostile.join()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    doors = {"page": slow_readers, "inside": inside, "address": same_address}
    for name in sys.argv[1:] or doors:
        doors[name]()


if __name__ == "__main__":
    main()
