"""Noise that three hosts draw together: the floor counted first, then seconds and bytes a host, in threads and in three
processes over TCP.

python benchmarks/sharing.py            [--encrypted: beside the owners' sum under homomorphic encryption; needs tenseal
and phe] [--pair: two hosts that draw one noise together, beside three hosts and one noise of each] [--cheating: hosts
of whom one may do anything, beside hosts that follow the protocol] [--answers: what it takes to check owners' answers]
"""

import argparse
import importlib.util
import multiprocessing
import queue
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from parley.errors import Unavailable
from parley.privacy.mechanisms.shared_noise import draw_secretly, make_recipe
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe, tabled_recipe
from parley.privacy.sharing.bounds import VectorBounds, find_kept_bounds
from parley.privacy.sharing.pair import agree_pair
from parley.privacy.sharing.paired_noise import draw_paired, make_paired_plan
from parley.privacy.sharing.party import Channel, Counted, Party, agree_keys, run_in_threads, wires
from parley.privacy.sharing.ring import KEY_BYTES, Keystream, Replicated, expand_seed, last_share
from parley.privacy.sharing.secret_noise import draw, make_noise_plan
from parley.privacy.sharing.verified import VerifiedParty

SPAWN = multiprocessing.get_context("spawn")
RECIPES = {"Laplace, 2^24 units": ("laplace", 24), "Gaussian, 2^12 units": ("gaussian", 12)}
SIZES = 100, 7_840
REPEATS = 15
ONCE_ABOVE = 300_000  # numbers of all owners, of which a check takes minutes
OWNERS = 3


class Sockets:
    """A channel over plain TCP connections: length and bytes; a thread a connection sends, so that `send` never
    waits."""

    def __init__(self, index: int, connections: dict[int, socket.socket]) -> None:
        self.index = index
        self._files = {j: c.makefile("rb") for j, c in connections.items()}
        self._queues: dict[int, queue.SimpleQueue[bytes]] = {j: queue.SimpleQueue() for j in connections}
        for j, connection in connections.items():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._deliver, args=(connection, self._queues[j]), daemon=True).start()

    @staticmethod
    def _deliver(connection: socket.socket, waiting: "queue.SimpleQueue[bytes]") -> None:
        while True:
            payload = waiting.get()
            connection.sendall(struct.pack("<Q", len(payload)))
            connection.sendall(payload)

    def send(self, to: int, payload: bytes) -> None:
        self._queues[to].put(payload)

    def receive(self, source: int) -> bytes:
        head = self._files[source].read(8)
        payload = self._files[source].read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
        if not payload:
            raise Unavailable(f"host {source}: gone")
        return payload


def timed(act: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, float, float]:
    """Median and least seconds, and CPU seconds of this process, of one act after the first."""
    act()
    seconds, cpu = [], time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), min(seconds), (time.process_time() - cpu) / repeats


def agreed(channel: Channel, kind: type[Party] = Party) -> Party:
    """One host with fresh keys."""
    return kind(channel, agree_keys(channel))


def floor(recipe: TabledRecipe, size: int) -> dict[str, float]:
    """What cannot be avoided with these gates: words of the streams, bits of ANDs, bytes sent; CPU seconds of AES
    alone."""
    plan, lanes = make_noise_plan(recipe), -(-size // 64) * 64
    gates = plan.circuit.gates * lanes
    words = 2 * ((plan.drawn + 64) * lanes + gates) // 64
    stream, block = Keystream(bytes(32)), 1 << 15
    return {
        "words": words,
        "gates": gates,
        "bytes": (gates + 128 * lanes / 3) / 8,
        "aes": timed(lambda: sum(stream.words(min(block, words - k)).size for k in range(0, words, block)), 5)[2],
    }


def in_threads(recipe: TabledRecipe, size: int) -> tuple[float, float, float, float]:
    ends = wires()
    counted = [Counted(w) for w in ends]
    hosts = run_in_threads(*[lambda c=c: agreed(c) for c in counted], wires=ends)
    before = sum(c.bytes for c in counted)
    figures = timed(lambda: run_in_threads(*[lambda h=h: draw(h, recipe, size) for h in hosts], wires=ends))
    return *figures, (sum(c.bytes for c in counted) - before) / 3 / (REPEATS + 1)


def connected(index: int, ports: Any, barrier: Any) -> Sockets:
    """Return one process's connections to the other two."""
    listener = socket.create_server(("127.0.0.1", 0))
    ports[index] = listener.getsockname()[1]
    barrier.wait()
    connections = {}
    for j in range(index):
        connections[j] = socket.create_connection(("127.0.0.1", ports[j]))
        connections[j].sendall(bytes([index]))
    for _ in range(index + 1, 3):
        connection, _ = listener.accept()
        connections[connection.recv(1)[0]] = connection
    return Sockets(index, connections)


def host(index: int, ports: Any, barrier: Any, results: Any) -> None:
    """One process: connect to the other two, then draw again and again."""
    party = agreed(connected(index, ports, barrier))
    for name, (law, exponent) in RECIPES.items():
        for size in SIZES:
            recipe = tabled_recipe(law, exponent)
            make_noise_plan(recipe)
            barrier.wait()
            seconds, _, _ = timed(lambda r=recipe, s=size: draw(party, r, s))
            results.put((name, size, seconds))
    barrier.wait()  # nobody leaves before everybody has all messages


def in_processes() -> dict[tuple[str, int], float]:
    ports, barrier, results = SPAWN.Array("i", 3), SPAWN.Barrier(3), SPAWN.Queue()
    processes = [SPAWN.Process(target=host, args=(i, ports, barrier, results), daemon=True) for i in range(3)]
    for process in processes:
        process.start()
    slowest: dict[tuple[str, int], float] = {}
    for _ in range(3 * len(RECIPES) * len(SIZES)):
        name, size, seconds = results.get(timeout=300)
        slowest[name, size] = max(seconds, slowest.get((name, size), 0.0))
    for process in processes:
        process.join(10)
    return slowest


def encrypted_sums(size: int) -> None:
    """The other route: owners encrypt, one server adds without seeing, a holder of the key decrypts. No noise is drawn
    inside: whoever decrypts sees the exact sum, unless each owner adds noise of its own. CPU seconds."""
    values = np.random.default_rng(0).integers(-(2**20), 2**20, size=(OWNERS, size))
    if importlib.util.find_spec("tenseal") is None:
        print("CKKS (tenseal): skipped, the library is not installed")
    else:
        import tenseal

        context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60])
        context.global_scale = 2**40
        start = time.process_time()
        sums = [
            tenseal.ckks_vector(context, v[k : k + 4096].tolist()) for v in values[:1] for k in range(0, size, 4096)
        ]
        encrypt = time.process_time() - start
        sent = sum(len(s.serialize()) for s in sums)
        for v in values[1:]:
            sums = [
                s + tenseal.ckks_vector(context, v[k : k + 4096].tolist())
                for s, k in zip(sums, range(0, size, 4096), strict=True)
            ]
        start = time.process_time()
        opened = np.concatenate([s.decrypt() for s in sums])
        off = np.abs(opened - values.sum(axis=0)).max()
        print(
            f"CKKS (tenseal), {size}: encrypt {encrypt:.3f} s an owner, decrypt {time.process_time() - start:.3f} s,"
            f" {sent:,} bytes an owner, largest error {off:.1e}"
        )
    if importlib.util.find_spec("phe") is None:
        print("Paillier (phe): skipped, the library is not installed")
    else:
        import phe

        public, private = phe.generate_paillier_keypair(n_length=2048)
        few = 20
        start = time.process_time()
        sums = [public.encrypt(int(v)) for v in values[0, :few]]
        encrypt = (time.process_time() - start) / few
        start = time.process_time()
        decrypt = [private.decrypt(s + int(v)) for s, v in zip(sums, values[1, :few], strict=True)]
        opened_in = (time.process_time() - start) / few
        assert decrypt == [int(v) for v in values[:2, :few].sum(axis=0)]
        print(
            f"Paillier (phe, 2,048 bits), {size}: encrypt {size * encrypt:.1f} s an owner, add and decrypt "
            f"{size * opened_in:.1f} s (from {few} numbers), {512 * size:,} bytes an owner"
        )


def pair() -> None:
    """Two hosts that draw one noise together, beside three, and beside one noise of each of two: the variance in a sum,
    gates and rounds, clock seconds and bytes sent by all hosts, in threads of one process."""
    print(f"{'noise':>22}{'size':>8}{'hosts':>16}{'variance':>10}{'ANDs':>7}{'rounds':>8}{'ms':>10}{'MB':>10}")
    for name, (law, exponent) in RECIPES.items():
        whole, split = make_recipe(law, exponent), tabled_recipe(law, exponent)
        plan, circuit = make_noise_plan(split), make_paired_plan(split).circuit
        for size in (10, 1_000, 10_000):
            found = []
            ways = ((agree_pair, draw_paired, split, 2), (agreed, draw, split, 3))
            for agree, drawn, recipe, hosts in ways:
                ends = wires(hosts=hosts)
                counted = [Counted(end) for end in ends]
                parties = run_in_threads(*(partial(agree, end) for end in counted), wires=ends)
                before, tasks = (
                    sum(end.bytes for end in counted),
                    [partial(drawn, each, recipe, size) for each in parties],
                )
                _, best, _ = timed(partial(run_in_threads, *tasks, wires=ends), 3)
                found.append((best, (sum(end.bytes for end in counted) - before) / 4))
            alone = timed(partial(draw_secretly, whole, size), 3)[1]
            ratio = 1 + whole.low_variance / whole.variance
            rows = (
                ("two, together", ratio, circuit.gates, len(circuit.rounds), *found[0]),
                ("three", 1.0, plan.circuit.gates, len(plan.circuit.rounds), *found[1]),
                ("one of each", 2.0, 0, 0, 2 * alone, 0.0),
            )
            for hosts, variance, gates, rounds, seconds, sent in rows:
                print(
                    f"{name:>22}{size:>8,}{hosts:>16}{variance:>10.3f}{gates:>7,}{rounds:>8}{1e3 * seconds:>10.1f}"
                    f"{1e-6 * sent:>10.3f}"
                )


def together(kind: type[Party], act: Callable[[Party], Any], once: bool = False) -> tuple[float, float, float]:
    """Clock seconds and CPU seconds of three hosts in threads, and bytes that one of them sends; the least of three
    after the first, or of that alone."""
    ends = wires(timeout=600)
    counted = [Counted(end) for end in ends]
    hosts = run_in_threads(*(partial(agreed, end, kind) for end in counted), wires=ends)
    before = sum(end.bytes for end in counted)

    def run() -> None:
        run_in_threads(*(partial(act, host) for host in hosts), wires=ends)

    if once:
        start, cpu_start = time.perf_counter(), time.process_time()
        run()
        best, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    else:
        _, best, cpu = timed(run, 3)
    return best, cpu, (sum(end.bytes for end in counted) - before) / (1 if once else 4) / 3


def cheating() -> None:
    """Three hosts that verify each other beside three that follow the protocol. Each adding a noise of half the
    variance would hide the sum from one cheater, too: at 1.5 times the variance, and the cheater can add anything."""
    print(f"{'noise':>22}{'size':>8}{'hosts':>16}{'variance':>10}{'ms':>10}{'CPU ms':>10}{'MB':>10}{'bytes':>9}")
    for name, (law, exponent) in RECIPES.items():
        recipe = tabled_recipe(law, exponent)
        for size in (10, 1_000, 10_000):
            made = [together(kind, lambda host, r=recipe, n=size: draw(host, r, n)) for kind in (Party, VerifiedParty)]
            half = timed(partial(draw_secretly, recipe.recipe, size), 3)[1]
            rows = (
                ("trusting", 1.0, *made[0]),
                ("verified", 1.0, *made[1]),
                ("half of each", 1.5, 3 * half, 3 * half, 0.0),
            )
            for hosts, variance, seconds, cpu, sent in rows:
                print(
                    f"{name:>22}{size:>8,}{hosts:>16}{variance:>10.1f}{1e3 * seconds:>10.1f}{1e3 * cpu:>10.1f}"
                    f"{1e-6 * sent:>10.3f}{sent / made[0][2]:>8.1f}x"
                )


def answers() -> None:
    """Whether owners' answers keep an L2 bound, checked on their shares: clock and CPU milliseconds of three hosts in
    threads, megabytes that a host sends, and the process's memory at its highest so far. The largest check runs once,
    and verified for minutes."""
    bound = 2**30
    print(f"{'owners':>8}{'numbers':>9}{'hosts':>12}{'ms':>11}{'CPU ms':>11}{'MB':>11}{'peak GB':>9}", flush=True)
    for owners in (3, 30, 300):
        for size in (100, 1_000, 10_000):
            seeds = bytes(KEY_BYTES), bytes([1]) * KEY_BYTES
            value = np.full(size, int(bound / np.sqrt(size)), dtype=np.uint64)
            shares = [expand_seed(seeds[0], size), expand_seed(seeds[1], size), last_share(value, seeds)]
            ends = np.full(size, bound, dtype=np.int64)
            bounds = [VectorBounds(-ends, ends, "l2", bound * bound)] * owners
            for kind in (Party, VerifiedParty):

                def check(host: Party, shares: Any = shares, bounds: Any = bounds) -> None:
                    own = Replicated(shares[host.index], shares[(host.index + 1) % 3])
                    if not all(find_kept_bounds(host, [own] * len(bounds), bounds)):
                        raise SystemExit("an answer at its bound was refused")

                best, cpu, sent = together(kind, check, once=owners * size > ONCE_ABOVE)
                print(
                    f"{owners:>8}{size:>9,}{'verified' if kind is VerifiedParty else 'trusting':>12}{1e3 * best:>11.1f}"
                    f"{1e3 * cpu:>11.1f}{1e-6 * sent:>11.3f}"
                    f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:>9.2f}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--encrypted", action="store_true")
    parser.add_argument("--pair", action="store_true")
    parser.add_argument("--cheating", action="store_true")
    parser.add_argument("--answers", action="store_true")
    arguments = parser.parse_args()
    for name, study in (("pair", pair), ("cheating", cheating), ("answers", answers)):
        if getattr(arguments, name):
            study()
            return
    if arguments.encrypted:
        for size in SIZES:
            encrypted_sums(size)
        return
    over_tcp = in_processes()
    columns = (
        ("noise", 22),
        ("size", 6),
        ("gates", 12),
        ("rounds", 8),
        ("stream MB", 11),
        ("3 AES ms", 10),
        ("floor MB", 10),
        ("sent MB", 9),
    )
    columns += ("threads ms", 12), ("best", 7), ("CPU ms", 8), ("CPU/AES", 9), ("TCP ms", 8)
    print("".join(f"{name:>{width}}" for name, width in columns))
    for name, (law, exponent) in RECIPES.items():
        recipe = tabled_recipe(law, exponent)
        for size in SIZES:
            least = floor(recipe, size)
            usual, best, cpu, sent = in_threads(recipe, size)
            row = (
                name,
                size,
                f"{least['gates']:,.0f}",
                len(make_noise_plan(recipe).circuit.rounds) + 1,
                f"{8e-6 * least['words']:.2f}",
            )
            row += (
                f"{3e3 * least['aes']:.2f}",
                f"{1e-6 * least['bytes']:.3f}",
                f"{1e-6 * sent:.3f}",
                f"{1e3 * usual:.1f}",
                f"{1e3 * best:.1f}",
            )
            row += f"{1e3 * cpu:.1f}", f"{cpu / (3 * least['aes']):.1f}", f"{1e3 * over_tcp[name, size]:.1f}"
            print("".join(f"{cell:>{width}}" for cell, (_, width) in zip(row, columns, strict=True)))


if __name__ == "__main__":
    main()
