"""One released answer, part by part: safe noise beside OpenDP's sampler and fast noise, the durable commit beside memory.

python benchmarks/answer.py
"""

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from parley.account import Reservation
from parley.data import synthetic_lending
from parley.ledger import Ledger, StudyLedger
from parley.mechanisms import FastNoise, SafeNoise
from parley.mechanisms.noise import opendp_laplace
from parley.queries import GradientQuery


def seconds(work: Callable[[int], object], repeats: int) -> float:
    work(0)
    began = time.perf_counter()
    for k in range(1, repeats + 1):
        work(k)
    return (time.perf_counter() - began) / repeats


def main() -> None:
    began = time.perf_counter()
    synthetic_lending(1_000_000, seed=1)
    print(f"synthetic loan book, 1,000,000 rows   {time.perf_counter() - began:8.2f} s")
    print(f"{'coordinates':>12} {'OpenDP':>12} {'safe noise':>12} {'ratio':>8} {'fast noise':>12}")
    for size in (10, 1000, 100_000):
        value = np.zeros(size)
        opendp = seconds(lambda _, v=value: opendp_laplace(1.0)(v), max(1, 3000 // size))
        safe = seconds(lambda _, v=value: SafeNoise().laplace(v, 1.0, 1.0), max(1, 3000 // size))
        fast = seconds(lambda _, v=value: FastNoise(1).laplace(v, 1.0, 1.0), 20)
        print(f"{size:12,} {opendp * 1e3:9.3f} ms {safe * 1e3:9.3f} ms {opendp / safe:8.1f} {fast * 1e3:9.3f} ms")

    rounds = 300
    value = np.zeros(10)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        durable, study = Ledger(Path(folder) / "a.ledger", lifetime=1.0), StudyLedger()
        for ledger in (durable, study):
            ledger.accept(Reservation("t", "a", "learner", Fraction(1), Fraction(0), rounds + 1))
        cost = Fraction(1, rounds + 1)

        def commit(ledger: Ledger | StudyLedger) -> float:
            return seconds(
                lambda k: ledger.answer(
                    GradientQuery.ask("t", "learner", k + 1, value + k), lambda answers: cost * answers, {}, lambda: lambda: value
                ),
                rounds,
            )

        with_fsync, in_memory = commit(durable), commit(study)
        print(f"debit and answer, durable             {with_fsync * 1e3:8.3f} ms")
        print(f"the same in memory                    {in_memory * 1e3:8.3f} ms   ratio {with_fsync / in_memory:.0f}")
        durable.close()


if __name__ == "__main__":
    main()
