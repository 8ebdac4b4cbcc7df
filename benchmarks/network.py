"""One round between two processes with mutual TLS, part by part: bare gRPC echo, durable commit, safe noise, gradient, and the rest.

python benchmarks/network.py
"""

import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pandas as pd

import parley
from parley.account import Account
from parley.exchange import certificates, messages
from parley.exchange.acceptance import Acceptance, Acceptances
from parley.exchange.daemon import OPTIONS, open_owner, serve, server_credentials
from parley.exchange.desk import Log
from parley.exchange.remote import OPTIONS as CLIENT_OPTIONS
from parley.exchange.remote import RemoteOwner, channel_credentials
from parley.exchange.settings import Identity, OwnerSettings
from parley.ledger import Cost, Facts, Release
from parley.mechanisms import SafeNoise
from parley.queries import GradientQuery, Query
from parley.validate import Floats

SPAWN = multiprocessing.get_context("spawn")


def identity(folder: Path, name: str) -> Identity:
    return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def echo(folder: Path, port: Any) -> None:
    """A bare gRPC server with mutual TLS that sends back what it gets."""
    server = grpc.server(ThreadPoolExecutor(8), options=OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(lambda content, context: content)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", {"Echo": handler}),))
    port.value = server.add_secure_port("127.0.0.1:0", server_credentials(identity(folder, "a")))
    server.start()
    server.wait_for_termination()


class TimedNoise(SafeNoise):
    """Safe noise that remembers how long its last draw took."""

    seconds = 0.0

    def laplace(self, value: Floats, scale: float, sensitivity: float) -> Floats:
        began = time.perf_counter()
        noisy = super().laplace(value, scale, sensitivity)
        self.seconds = time.perf_counter() - began
        return noisy


class TimedLedger(parley.Ledger):
    """A ledger that tells `report` for each answer: seconds in all, and of these in the release."""

    report: Any = None

    def answer(self, query: Query, spent_after: Cost, event: Facts, release: Release) -> tuple[Floats, Account]:
        inside = 0.0

        def timed() -> Floats:
            nonlocal inside
            began = time.perf_counter()
            value = release()
            inside = time.perf_counter() - began
            return value

        began = time.perf_counter()
        stored = super().answer(query, spent_after, event, timed)
        self.report(query.round, time.perf_counter() - began, inside)
        return stored


def daemon(settings: OwnerSettings, parts: Any) -> None:
    """The owner's daemon, as `parley owner serve` runs it, with a clock inside: (commit, noise, gradient) of each answer."""

    def timed_owner(settings: OwnerSettings) -> parley.Owner:
        noise, ledger = TimedNoise(), TimedLedger(settings.ledger)

        def report(round: int, whole: float, inside: float) -> None:  # noqa: A002
            parts[3 * round - 3 : 3 * round] = [whole - inside, noise.seconds, inside - noise.seconds]

        ledger.report = report
        return parley.Owner(settings.name, str(settings.table), ledger=ledger, noise=noise)

    parley.exchange.daemon.open_owner = timed_owner
    with Path(os.devnull).open("w") as stream, Log(stream) as log:
        serve(settings, threading.Event(), log)


def make_bank(folder: Path, width: int, rows: int, rounds: int) -> tuple[parley.Terms, OwnerSettings]:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(-1, 1, (rows, width)), columns=[f"x{j}" for j in range(width)])
    table.assign(y=rng.uniform(-1, 1, rows)).to_parquet(folder / "a.parquet")
    terms = parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": list(table.columns), "radius": 5.0},
            "learning": {"horizon": rounds, "step": 0.1},
            "privacy": {"clip": 4.0},
            "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
        }
    )
    settings = OwnerSettings(
        name="a",
        table=folder / "a.parquet",
        ledger=folder / "a.ledger",
        accepted=folder / "accepted",
        listen=f"127.0.0.1:{free_port()}",
        identity=identity(folder, "a"),
    )
    parley.Ledger(settings.ledger, lifetime=1.0)
    owner = open_owner(settings)
    owner.accept(terms)
    Acceptances(settings.accepted).store(Acceptance(terms))
    return terms, settings


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(folder: Path, width: int, rows: int, rounds: int) -> list[float]:
    for name in ("a", "learner"):
        certificates.make_request(folder, name)
        certificates.issue(folder, folder / f"{name}.csr", 30)
    terms, settings = make_bank(folder, width, rows, rounds + 1)
    thetas = np.random.default_rng(2).uniform(-1, 1, (rounds + 1, width))
    queries = [GradientQuery.ask(terms.hash, "learner", k + 1, thetas[k]) for k in range(rounds + 1)]

    port, clock = SPAWN.Value("i", 0), SPAWN.RawArray("d", 3 * (rounds + 1))
    servers = [SPAWN.Process(target=echo, args=(folder, port)), SPAWN.Process(target=daemon, args=(settings, clock))]
    for server in servers:
        server.start()
    try:
        peer = RemoteOwner("a", str(settings.listen), identity(folder, "learner"))
        while True:  # until the daemon has read its table
            try:
                peer.stand(terms.hash, "learner", 5)
                break
            except parley.errors.Unavailable:
                time.sleep(0.2)
        options = (*CLIENT_OPTIONS, ("grpc.ssl_target_name_override", "a"))
        channel = grpc.secure_channel(f"127.0.0.1:{port.value}", channel_credentials(identity(folder, "learner")), options=options)
        bare, content = channel.unary_unary("/Echo/Echo"), messages.write_query(queries[0])
        lines = []
        for query in queries:
            echoed, whole = seconds(lambda: bare(content)), seconds(lambda query=query: peer.ask(query, rows, width, 60))
            lines.append([whole, echoed, *clock[3 * query.round - 3 : 3 * query.round]])
        peer.close()
        channel.close()
    finally:
        for server in servers:
            server.kill()
            server.join()
    measured = np.array(lines[1:])  # the first is warming up
    rest = measured[:, 0] - measured[:, 1:].sum(axis=1)
    return [float(part) for part in np.median(np.column_stack([measured, rest]), axis=0)]


def main() -> None:
    print(
        f"{'numbers':>8} {'round':>9} {'echo':>9} {'commit':>9} {'noise':>9} {'gradient':>9} {'rest':>9} {'rest/echo':>10}   (ms, medians)"
    )
    for width, rows, rounds in ((10, 1000, 400), (1000, 1000, 200), (100_000, 20, 40)):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
            folder = Path(place)
            certificates.make_authority(folder, "Benchmark", 30)
            parts = measure(folder, width, rows, rounds)
            print(f"{width:8,} " + " ".join(f"{1e3 * part:9.3f}" for part in parts) + f" {parts[-1] / parts[1]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
