"""One released answer, part by part: safe noise beside OpenDP's sampler and fast noise, the durable commit beside
memory.

python benchmarks/answer.py
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import opendp.prelude as dp

from parley.data import synthetic_lending
from parley.owner.ledger import Ledger, StudyLedger
from parley.owner.ledger.account import Reservation
from parley.privacy.mechanisms import FastNoise, Noise, SafeNoise
from parley.privacy.mechanisms.noise import opendp_laplace
from parley.protocol.queries import GradientQuery
from parley.validate import Floats


def seconds(work: Callable[[int], object], repeats: int) -> float:
    work(0)
    began = time.perf_counter()
    for k in range(1, repeats + 1):
        work(k)
    return (time.perf_counter() - began) / repeats


def laplace(source: Noise | None, value: Floats) -> object:
    """Noise of scale 1, by OpenDP where there is no source."""
    return opendp_laplace(1.0)(value) if source is None else source.laplace(value, 1.0, 1.0)


def gaussian(source: Noise | None, value: Floats) -> object:
    """The same with Gaussian noise."""
    return opendp_gaussian()(value) if source is None else source.gaussian(value, 1.0)


@cache
def opendp_gaussian() -> Callable[[Floats], object]:
    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float), scale=1.0)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    began = time.perf_counter()
    synthetic_lending(1_000_000, seed=1)
    print(f"synthetic loan book, 1,000,000 rows   {time.perf_counter() - began:8.2f} s")
    print(f"{'noise':>9} {'coordinates':>12} {'OpenDP':>12} {'safe noise':>12} {'ratio':>8} {'fast noise':>12}")
    for name, draw in {"laplace": laplace, "gaussian": gaussian}.items():
        for size in (10, 1000, 100_000):
            value = np.zeros(size)
            rival, safe, fast = (
                seconds(lambda _, s=source, v=value, d=draw: d(s, v), repeats)
                for source, repeats in (
                    (None, max(1, 3000 // size)),
                    (SafeNoise(), max(3, 3000 // size)),
                    (FastNoise(1), 20),
                )
            )
            print(
                f"{name:>9} {size:12,} {rival * 1e3:9.3f} ms {safe * 1e3:9.3f} ms {rival / safe:8.1f} "
                f"{fast * 1e3:9.3f} ms"
            )

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
                    GradientQuery.ask("t", "learner", k + 1, value + k),
                    lambda answers: cost * answers,
                    {},
                    lambda: lambda: value,
                ),
                rounds,
            )

        with_fsync, in_memory = commit(durable), commit(study)
        print(f"debit and answer, durable             {with_fsync * 1e3:8.3f} ms")
        print(f"the same in memory                    {in_memory * 1e3:8.3f} ms   ratio {with_fsync / in_memory:.0f}")
        durable.close()


if __name__ == "__main__":
    main()
