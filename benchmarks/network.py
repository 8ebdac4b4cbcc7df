"""One round between two processes with mutual TLS, part by part: bare gRPC echo, durable commit, safe noise, gradient,
and the rest.

python benchmarks/network.py            [--flower: beside rounds over a Flower federation, which takes minutes and needs
parley-dp[flower]]
"""

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pandas as pd

import parley
from parley.network.exchange import messages
from parley.network.exchange.remote import CHANNEL_OPTIONS as CLIENT_OPTIONS
from parley.network.exchange.remote import RemoteOwner, channel_credentials
from parley.network.identity import certificate_authority
from parley.network.identity.settings import Identity, OwnerSettings
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.daemon import open_owner, serve
from parley.network.serving.log import Log
from parley.network.serving.network import Credentials
from parley.network.serving.server import SERVER_OPTIONS
from parley.owner.ledger import Cost, Facts, Release
from parley.owner.ledger.account import Account
from parley.privacy.mechanisms import SafeNoise
from parley.protocol.queries import GradientQuery, Query
from parley.validate import Floats

SPAWN = multiprocessing.get_context("spawn")


def identity(folder: Path, name: str) -> Identity:
    return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def certify(folder: Path, name: str) -> None:
    certificate_authority.make_request(folder, name)
    certificate_authority.issue(folder, folder / f"{name}.csr", 30)


def echo(folder: Path, port: Any) -> None:
    """A bare gRPC server with mutual TLS that sends back what it gets."""
    server = grpc.server(ThreadPoolExecutor(8), options=SERVER_OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(lambda content, context: content)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", {"Echo": handler}),))
    port.value = server.add_secure_port("127.0.0.1:0", Credentials(identity(folder, "a"), "a", Log()).for_server())
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

    def answer(
        self, query: Query, spent_after: Cost, event: Facts, release: Release, prune: bool = False
    ) -> tuple[Floats, Account]:
        inside = 0.0

        def timed() -> Callable[[], Floats]:
            nonlocal inside
            began = time.perf_counter()
            draw = release()
            inside = time.perf_counter() - began
            return lambda: drawn(draw)

        def drawn(draw: Callable[[], Floats]) -> Floats:
            nonlocal inside
            began = time.perf_counter()
            value = draw()
            inside += time.perf_counter() - began
            return value

        began = time.perf_counter()
        stored = super().answer(query, spent_after, event, timed, prune)
        self.report(query.round, time.perf_counter() - began, inside)
        return stored


def tell_port(log: Log, port: Any) -> None:
    """Say where the daemon listens, once it does."""

    def on_event(event: str, facts: dict[str, Any]) -> None:
        if event == "serving":
            port.value = int(facts["listen"].rpartition(":")[2])

    log.listeners.append(on_event)


def wait_for(port: Any, server: Any) -> int:
    """The port on which a process listens."""
    while not port.value:
        if server.exitcode is not None:
            raise SystemExit("a daemon did not start")
        time.sleep(0.02)
    return int(port.value)


def daemon(settings: OwnerSettings, parts: Any, port: Any) -> None:
    """The owner's daemon, as `parley owner serve` runs it, with a clock inside: (commit, noise, gradient) of each
    answer."""

    def timed_owner(settings: OwnerSettings) -> parley.Owner:
        noise, ledger = TimedNoise(), TimedLedger(settings.ledger)

        def report(round: int, whole: float, inside: float) -> None:  # noqa: A002
            place = 3 * round
            parts[place - 3], parts[place - 2], parts[place - 1] = whole - inside, noise.seconds, inside - noise.seconds

        ledger.report = report
        return parley.Owner(settings.name, str(settings.table), ledger=ledger, noise=noise)

    parley.network.serving.daemon.open_owner = timed_owner
    with Path(os.devnull).open("w") as stream, Log(stream) as log:
        tell_port(log, port)
        serve(settings, threading.Event(), log)


def make_bank(
    folder: Path, width: int, rows: int, rounds: int, name: str = "a", socket: Path | None = None
) -> tuple[parley.Terms, OwnerSettings]:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(-1, 1, (rows, width)), columns=[f"x{j}" for j in range(width)])
    table.assign(y=rng.uniform(-1, 1, rows)).to_parquet(folder / f"{name}.parquet")
    terms = parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": list(table.columns), "radius": 5.0},
            "learning": {"horizon": rounds, "step": 0.1},
            "privacy": {"clip": 4.0},
            "owners": [{"name": name, "records": rows, "epsilon": 1.0}],
        }
    )
    settings = OwnerSettings(
        name=name,
        table=folder / f"{name}.parquet",
        ledger=folder / f"{name}.ledger",
        accepted=folder / f"accepted-{name}",
        listen="127.0.0.1:0",  # the daemon says which one it got
        socket=socket,
        identity=identity(folder, name),
    )
    parley.Ledger(settings.ledger, lifetime=1.0)
    owner = open_owner(settings)
    owner.accept(terms, other_books="tables of a benchmark")
    Acceptances(settings.accepted).store(Acceptance(terms, relay=socket is not None))
    return terms, settings


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(folder: Path, width: int, rows: int, rounds: int) -> list[float]:
    for name in ("a", "learner"):
        certify(folder, name)
    terms, settings = make_bank(folder, width, rows, rounds + 1)
    thetas = np.random.default_rng(2).uniform(-1, 1, (rounds + 1, width))
    queries = [GradientQuery.ask(terms.hash, "learner", k + 1, thetas[k]) for k in range(rounds + 1)]

    ports, clock = (SPAWN.Value("i", 0), SPAWN.Value("i", 0)), SPAWN.RawArray("d", 3 * (rounds + 1))
    targets = (echo, (folder, ports[0])), (daemon, (settings, clock, ports[1]))
    servers = [SPAWN.Process(target=target, args=given) for target, given in targets]
    for server in servers:
        server.start()
    try:
        echoing, answering = (wait_for(port, server) for port, server in zip(ports, servers, strict=True))
        peer = RemoteOwner("a", f"127.0.0.1:{answering}", identity(folder, "learner"))
        options = (*CLIENT_OPTIONS, ("grpc.ssl_target_name_override", "a"))
        channel = grpc.secure_channel(
            f"127.0.0.1:{echoing}", channel_credentials(identity(folder, "learner")), options=options
        )
        bare, content = channel.unary_unary("/Echo/Echo"), messages.write_query(queries[0])
        lines = []
        for query in queries:
            echoed, whole = (
                seconds(lambda: bare(content)),
                seconds(lambda query=query: peer.ask(query, rows, width, 60)),
            )
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


def serve_logged(settings: OwnerSettings, log: Path) -> None:
    with log.open("w") as stream, Log(stream) as written:
        serve(settings, threading.Event(), written)


def over_flower(sizes: dict[int, int], rounds: int) -> dict[int, float]:
    """Seconds a round over a Flower federation (SuperLink with TLS, SuperNodes with keys), by the daemons' own logs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from flower_federation import Flower

    from parley.learning.over_flower import write_app

    measured = {}
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as home:
        folder = Path(place)
        certificate_authority.make_authority(folder, "Benchmark", 30)
        flower, daemons = Flower(folder, Path(home)), []
        try:
            write_app(Path(home) / "app")
            for width, rows in sizes.items():
                name = f"bank{width}"
                certify(folder, name)
                terms, settings = make_bank(folder, width, rows, rounds, name, Path(home) / f"{name}.sock")
                log = folder / f"{name}.log"
                daemons.append(SPAWN.Process(target=serve_logged, args=(settings, log)))
                daemons[-1].start()
                flower.node(name)
                path = folder / f"{name}.toml"
                path.write_text(as_toml(terms))
                flower.train(Path(home) / "app", path, seconds=300)
                told = [json.loads(line) for line in log.read_text().splitlines()]
                times = [datetime.fromisoformat(line["time"]).timestamp() for line in told if line["event"] == "answer"]
                measured[width] = float(np.median(np.diff(times)))
        finally:
            flower.close()
            for process in daemons:
                process.kill()
                process.join()
    return measured


def as_toml(terms: parley.Terms) -> str:
    """Terms as a file: sections of plain values, which JSON and TOML write alike."""
    content = json.loads(terms.canonical)
    lines = []
    for section in ("model", "learning", "privacy"):
        plain = {key: value for key, value in content[section].items() if not isinstance(value, dict)}
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in plain.items())]
    for owner in content["owners"]:
        lines += ["[[owners]]", *(f"{key} = {json.dumps(value)}" for key, value in owner.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    # a Parquet file of 100,000 columns takes pyarrow more than 20 GB to read
    sizes = {10: 1000, 1000: 1000, 20_000: 20}
    flower = over_flower(sizes, 4) if "--flower" in sys.argv else {}
    heads = ("round", "echo", "commit", "noise", "gradient", "rest")
    print(
        f"{'numbers':>8} "
        + " ".join(f"{head:>9}" for head in heads)
        + f" {'rest/echo':>10} {'over Flower':>12}   (ms, medians)"
    )
    for (width, rows), rounds in zip(sizes.items(), (400, 200, 40), strict=True):
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as place:  # not /tmp: it may be no disk
            folder = Path(place)
            certificate_authority.make_authority(folder, "Benchmark", 30)
            parts = measure(folder, width, rows, rounds)
            beside = f"{1e3 * flower[width]:12,.0f}" if width in flower else f"{'-':>12}"
            print(
                f"{width:8,} " + " ".join(f"{1e3 * p:9.3f}" for p in parts) + f" {parts[-1] / parts[1]:10.2f} {beside}",
                flush=True,
            )


if __name__ == "__main__":
    main()
