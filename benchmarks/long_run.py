"""A long run: how large a ledger gets, and how fast it opens again.

    python benchmarks/long_run.py [ROUNDS 1000] [NUMBERS 100000]

The floor of the file is what it keeps: facts of every round (about half a kilobyte) and the latest answers (8 MiB).
Kept whole, the answers alone would take 8 bytes a number.
"""

import argparse
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.protocol.queries import StatisticsQuery


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=1000)
    parser.add_argument("numbers", nargs="?", type=int, default=100_000)
    given = parser.parse_args()
    rounds, numbers = given.rounds, given.numbers
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.ledger"
        ledger = Ledger(path, lifetime=1.0)
        ledger.accept(Reservation("t", "a", "learner", Fraction(1), Fraction(0), rounds))
        rng, times = np.random.default_rng(0), []
        for k in range(1, rounds + 1):
            value = rng.normal(size=numbers)
            began = time.perf_counter()
            ledger.answer(
                StatisticsQuery.ask("t", "learner", k),
                lambda n: Fraction(n, rounds),
                {},
                lambda value=value: lambda: value,
                prune=True,
            )
            times.append(time.perf_counter() - began)
        ledger.close()
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        began = time.perf_counter()
        again = Ledger(path)
        opened = time.perf_counter() - began
        began = time.perf_counter()
        rows = again.verify()
        verified = time.perf_counter() - began
        again.close()
        whole = 8 * rounds * numbers
        kept = f"{size / 2**20:.1f} MiB on the disk, {whole / size:.0f} times less than all answers"
        print(f"{rounds:,} rounds of {numbers:,} numbers: {kept}")
        print(f"an answer takes {1e3 * float(np.median(times)):.1f} ms (median)")
        print(f"opened again in {opened:.2f} s, {rows:,} rows verified in {verified:.2f} s")


if __name__ == "__main__":
    main()
