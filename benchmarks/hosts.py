"""Rounds with one noise for all, beside rounds with each owner's own: three owners, three hosts, separate processes,
mutual TLS.

python benchmarks/hosts.py [--numbers 7840] [--rounds 30] [--mechanism laplace|gaussian] [--kills 60] [--hosts 2]
    [--owners 100]

`--owners` instead times the hosts alone, in one process with journals on the disk, for so many owners of 100 numbers.
`--kills` instead kills processes at random (owners, hosts, learner) while a run goes on, and looks at all books
afterwards; with `--hosts 2`, of two hosts.
"""

import argparse
import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.ports import free_port

import parley
from parley.network.exchange.federation import Federation
from parley.network.exchange.host_connections import RemoteHost, write_opening, write_share_bundle
from parley.network.exchange.remote import RemoteOwner
from parley.network.exchange.share_bundle import Opening, Shape, ShareBundle, pack, shape_of
from parley.network.hosting import daemon as host_daemon
from parley.network.hosting.federation import SharedFederation
from parley.network.hosting.journal import Journal
from parley.network.hosting.proposal import HostAssignment, Turn
from parley.network.hosting.sums import InProcessHosts
from parley.network.identity import certificate_authority
from parley.network.identity.settings import HostSettings, Identity, OwnerSettings
from parley.network.serving import daemon as owner_daemon
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.log import Log
from parley.privacy.mechanisms.tabled_recipe import tabled_recipe
from parley.privacy.sharing.party import Counted, Party, agree_keys, run_in_threads, wires
from parley.privacy.sharing.ring import Shares, to_bytes
from parley.privacy.sharing.secret_noise import draw
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve

SPAWN = multiprocessing.get_context("spawn")
OWNERS, HOSTS = ("a", "b", "c"), ("h0", "h1", "h2")
ROWS = 50


def serve(module: str, settings: Any) -> None:
    """One daemon."""
    chosen = host_daemon if module == "host" else owner_daemon
    with Path(os.devnull).open("w") as stream, Log(stream) as log:
        chosen.serve(settings, threading.Event(), log)


def make_terms(numbers: int, rounds: int, mechanism: str, shared: bool) -> parley.Terms:
    noise = {"noise": "shared", "delta": 1e-6} if shared else {"delta": 1e-6 if mechanism == "gaussian" else 0.0}
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "linear-regression",
                "target": "y",
                "features": [f"x{j}" for j in range(numbers)],
                "radius": 5.0,
            },
            "learning": {"horizon": rounds, "step": 1e-6},
            "privacy": {"clip": 4.0, "mechanism": mechanism, **noise},
            "owners": [{"name": name, "records": ROWS, "epsilon": 1.0} for name in OWNERS],
            **({"hosts": [{"name": name} for name in HOSTS]} if shared else {}),
        }
    )


def prepare(
    folder: Path, numbers: int, agreed: list[parley.Terms]
) -> tuple[dict[str, OwnerSettings], dict[str, HostSettings]]:
    """Certificates, tables, ledgers, journals, acceptances."""
    certificate_authority.make_authority(folder, "Benchmark", 30)
    for name in (*OWNERS, *HOSTS, "learner"):
        certificate_authority.make_request(folder, name)
        certificate_authority.issue(folder, folder / f"{name}.csr", 30)
    where = {name: f"127.0.0.1:{free_port()}" for name in (*OWNERS, *HOSTS)}
    owners, hosts = {}, {}
    for seed, name in enumerate(OWNERS):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(rng.uniform(-1, 1, (ROWS, numbers)), columns=[f"x{j}" for j in range(numbers)])
        table.assign(y=rng.uniform(-1, 1, ROWS)).to_parquet(folder / f"{name}.parquet")
        owners[name] = OwnerSettings(
            name=name,
            table=folder / f"{name}.parquet",
            ledger=folder / f"{name}.ledger",
            accepted=folder / f"accepted-{name}",
            listen=where[name],
            identity=identity(folder, name),
            hosts={host: where[host] for host in HOSTS},
        )
        parley.Ledger(owners[name].ledger, lifetime=10.0, lifetime_delta="1e-4").close()
        owner = owner_daemon.open_owner(owners[name])
        for terms in agreed:
            owner.accept(terms)
            Acceptances(owners[name].accepted).store(Acceptance(terms))
        owner.ledger.close()
    for name in HOSTS:
        hosts[name] = HostSettings(
            name=name,
            journal=folder / f"{name}.journal",
            accepted=folder / f"accepted-{name}",
            listen=where[name],
            identity=identity(folder, name),
            peers={other: where[other] for other in HOSTS if other != name},
        )
        journal = Journal(hosts[name].journal)
        for terms in agreed:
            if terms.noise.summed:
                journal.begin(terms.hash)
                Acceptances(hosts[name].accepted).store(Acceptance(terms))
        journal.close()
    return owners, hosts


def identity(folder: Path, name: str) -> Identity:
    return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def timed(federation: Federation, terms: parley.Terms, numbers: int, rounds: range, pause: float = 0.0) -> list[float]:
    """Seconds of each round."""
    seconds = []
    for number in rounds:
        query = GradientQuery.ask(terms.hash, "learner", number, np.zeros(numbers))
        began = time.perf_counter()
        federation.ask(dict.fromkeys(OWNERS, query))
        seconds.append(time.perf_counter() - began)
        time.sleep(pause)
    return seconds


def message_bytes(terms: parley.Terms, numbers: int) -> None:
    """What one host receives and sends in a round, and to draw a noise."""
    noise = resolve(terms).part("a").training.series.mechanism
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros(numbers))
    bundles = pack(query, "a", noise, Shares.from_words(np.zeros(numbers, dtype=np.uint64), bytes(32), query.content))
    opening = Opening(terms.hash, 1, query.content, OWNERS, np.zeros(numbers, dtype=np.uint64), bytes(32))
    sent = [sum(map(len, (write_share_bundle(bundle),))) * len(OWNERS) for bundle in bundles]
    print(
        f"bytes a round: host 0, 1, 2 receive {sent[0]:,}, {sent[1]:,}, {sent[2]:,}; each opens "
        f"{len(write_opening(opening)):,}"
    )
    shape, ends = shape_of(noise), [Counted(wire) for wire in wires()]
    parties = run_in_threads(*(lambda end=end: Party(end, agree_keys(end)) for end in ends))
    began = time.perf_counter()
    run_in_threads(
        *(lambda party=party: draw(party, tabled_recipe(shape.law, shape.exponent), shape.size) for party in parties)
    )
    took = time.perf_counter() - began
    print(
        f"bytes to draw a noise ({shape.law}, 2^{shape.exponent}): {max(end.bytes for end in ends):,} a host; in "
        f"process {took:.3f} s"
    )


def measure(numbers: int, rounds: int, mechanism: str) -> None:
    plain, shared = (make_terms(numbers, rounds + 8, mechanism, kind) for kind in (False, True))
    message_bytes(shared, numbers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        owners, hosts = prepare(folder, numbers, [plain, shared])
        daemons = [SPAWN.Process(target=serve, args=("host", each), daemon=True) for each in hosts.values()]
        daemons += [SPAWN.Process(target=serve, args=("owner", each), daemon=True) for each in owners.values()]
        for daemon in daemons:
            daemon.start()
        me = identity(folder, "learner")
        with contextlib.ExitStack() as after:

            def lines() -> list[RemoteOwner]:
                return [RemoteOwner(name, each.listen or "", me) for name, each in owners.items()]

            each_owner = Federation(resolve(plain), lines(), 60.0, print)
            three = [RemoteHost(name, each.listen, me) for name, each in hosts.items()]
            one_noise = SharedFederation(resolve(shared), lines(), three, 60.0, print)
            after.callback(each_owner.close)
            after.callback(one_noise.close)
            timed(each_owner, plain, numbers, range(1, 5))
            timed(one_noise, shared, numbers, range(1, 5))
            figures = {
                "plain sum, each owner's noise": timed(each_owner, plain, numbers, range(5, 5 + rounds)),
                "one noise, drawn ahead": timed(one_noise, shared, numbers, range(5, 5 + rounds // 2), pause=1.5),
                "one noise, round after round": timed(one_noise, shared, numbers, range(5 + rounds // 2, 5 + rounds)),
            }
        for daemon in daemons:
            daemon.terminate()
            daemon.join()
    usual = float(np.median(figures["plain sum, each owner's noise"]))
    for words, seconds in figures.items():
        middle = float(np.median(seconds))
        print(
            f"{words:32} median {1e3 * middle:7.1f} ms   largest {1e3 * max(seconds):7.1f} ms   x {middle / usual:.2f}"
        )


def crowd(owners: int, rounds: int = 10) -> None:
    """Share bundles in, sum out, of many owners in one process."""
    shape = Shape("laplace", 20, 100)
    turn = Turn(shape, {f"owner-{place}": 10 for place in range(owners)}, owners)
    assignment, content = HostAssignment("a" * 64, "learner", HOSTS, rounds, {shape: 4}, lambda number: turn), "c" * 64
    with tempfile.TemporaryDirectory() as name:
        hosts, seconds = InProcessHosts(assignment, Path(name)), []
        for number in range(1, rounds + 1):
            began = time.perf_counter()
            for owner, records in turn.records.items():
                shares = Shares.from_words(np.ones(shape.size, dtype=np.uint64), bytes(32), content)
                parts = [*shares.seeds, to_bytes(shares.last)]
                pairs = [(parts[place], parts[(place + 1) % 3]) for place in range(3)]
                hosts.receive(
                    [ShareBundle(assignment.terms_hash, number, content, owner, records, shape, pair) for pair in pairs]
                )
            hosts.open(number, content)
            seconds.append(time.perf_counter() - began)
        hosts.close()
    print(
        f"{owners} owners x {shape.size} numbers, noise drawn in the round: median {np.median(seconds):.3f} s, "
        f"largest {max(seconds):.3f} s"
    )


def kill(kills: int, seed: int, hosts: int) -> None:
    """The test's torture, longer."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from hosted_consortium import HostedConsortium, torture

    with tempfile.TemporaryDirectory() as name:
        consortium = HostedConsortium(Path(name), hosts=HOSTS[:hosts])
        try:
            horizon = 4 * kills
            opened, aborted = torture(consortium, seed, kills, horizon)
            print(
                f"{kills} kills over {horizon} rounds, {hosts} hosts: {len(opened)} agreed on once, {len(aborted)} "
                "aborted, no noise used twice, debits of all"
            )
        finally:
            consortium.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=7840)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--mechanism", default="laplace")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=3, choices=(2, 3))
    parser.add_argument("--owners", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.kills:
        kill(asked.kills, asked.seed, asked.hosts)
    elif asked.owners:
        crowd(asked.owners)
    else:
        measure(asked.numbers, asked.rounds, asked.mechanism)
