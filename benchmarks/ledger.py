"""A ledger of 100,000 rows: how long it takes to open, to look at, to verify; and how long an answer waits meanwhile.

python benchmarks/ledger.py [rows]
"""

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.owner.ledger.chain import COLUMNS, PAD_BYTES, row_hash
from parley.owner.ledger.opening import Verification
from parley.protocol.queries import GradientQuery

ROUNDS = 1000  # of each agreement
FREE = 40  # agreements for the answers that are timed
VALUE = np.linspace(-1, 1, 10)
COST = Fraction(1, ROUNDS)


def terms(k: int) -> str:
    return f"{k:064x}"


def fill(ledger: Ledger, rows: int) -> None:
    """As many answers as are missing, in one transaction: the rows that `answer` would write one by one."""
    agreements = rows // (ROUNDS + 1) + 1
    for k in range(agreements + FREE):
        ledger.accept(Reservation(terms(k), "a", "learner", Fraction(1), Fraction(0), ROUNDS))
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entries, last = ledger.head.entries, ledger.head.hash
    values = []
    while entries < rows:
        agreement, round_ = divmod(entries - agreements - FREE - 1, ROUNDS)
        entries += 1
        facts = (
            entries,
            now,
            "answer",
            None,
            terms(agreement),
            "learner",
            round_ + 1,
            f"{entries:032x}",
            f"{entries:064x}",
        )
        event = json.dumps({"mechanism": "laplace", "noise_multiplier": 1000.0})
        spent = str(COST * (round_ + 1))
        row = (*facts, event, str(COST), "0", spent, "[10]", (VALUE + entries).tobytes())
        pad = secrets.token_bytes(PAD_BYTES)
        link = row_hash(last, row, pad)
        values.append((*row, pad, last, link))
        last = link
    marks = ", ".join("?" * (len(COLUMNS) + 3))
    with ledger._writer.transaction() as db:
        db.executemany(f"INSERT INTO entries ({', '.join(COLUMNS)}, pad, previous, hash) VALUES ({marks})", values)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Asker(threading.Thread):
    """Answers one question after the other and remembers how long each took."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger, self._over, self.seconds = ledger, threading.Event(), list[float]()

    def run(self) -> None:
        for account in [account for _, account in self._ledger.accounts() if not account.used_up]:
            for k in range(account.answered + 1, ROUNDS + 1):
                query = GradientQuery.ask(account.terms_hash, "learner", k, VALUE + k)
                self.seconds.append(
                    timed(lambda q=query: self._ledger.answer(q, lambda n: COST * n, {}, lambda: lambda: VALUE))
                )
                if self._over.wait(0.002):
                    return

    def stop(self) -> str:
        self._over.set()
        self.join()
        times = np.array(self.seconds) * 1e3
        return f"answers meanwhile: median {np.median(times):.1f} ms, longest {times.max():.1f} ms ({len(times)})"


def meanwhile(ledger: Ledger, work: Callable[[], object]) -> tuple[float, str]:
    asker = Asker(ledger)
    asker.start()
    seconds = timed(work)
    return seconds, asker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        path, settings = folder / "a.ledger", folder / "owner.toml"
        settings.write_text(
            'name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "accepted"\nsocket = "a.sock"\n'
        )
        ledger = Ledger(path, lifetime=float(rows))
        fill(ledger, rows)
        ledger.close()
        (folder / "a.ledger.verified").unlink()
        full, again = timed(lambda: Ledger(path).close()), timed(lambda: Ledger(path).close())
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        print(f"open, verified from the first row on       {full:8.3f} s")
        print(f"open, from where it was verified last      {again:8.3f} s   ratio {full / again:.0f}")
        ledger = Ledger(path)
        nothing = meanwhile(ledger, lambda: time.sleep(2))[1]
        print(f"nobody looks                                 2.000 s   {nothing}")
        command = [sys.executable, "-m", "parley", "owner", "ledger", str(settings), "--json"]
        for more in ([], ["--verify"]):
            arguments = [*command, *more]
            seconds, told = meanwhile(
                ledger, lambda a=arguments: subprocess.run(a, check=True, stdout=subprocess.DEVNULL)
            )
            print(f"{' '.join(['parley owner ledger --json', *more]):42} {seconds:8.3f} s   {told}")

        def locked() -> None:
            # as it once was: one long transaction that nobody else writes beside
            with other._writer.transaction() as db:
                Verification().follow(lambda: nullcontext(db), path, None)

        other = Ledger(path)
        seconds, told = meanwhile(ledger, locked)
        print(f"verified under the write lock, the old way {seconds:8.3f} s   {told}")
        other.close()
        ledger.close()


if __name__ == "__main__":
    main()
