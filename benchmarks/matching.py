"""Two tables about the same people, matched by three hosts in processes over TCP: seconds, bytes and memory a host for
each step, beside the floor that its gates set.

python benchmarks/matching.py [--rows 10000 100000] [--columns 40]
"""

import argparse
import resource
import time
from typing import Any

import numpy as np
from sharing import SPAWN, agreed, connected

from parley.privacy.sharing.matching import match as steps
from parley.privacy.sharing.matching.aes import ROUNDS, substitution
from parley.privacy.sharing.matching.dummies import law_of_counts
from parley.privacy.sharing.matching.keyed_rows import KeyedRows, joined_moments
from parley.privacy.sharing.matching.match import match, share_moments
from parley.privacy.sharing.matching.packed_rows import TableShape, pack_rows, table_shares
from parley.privacy.sharing.party import Counted, Opening, open_words, opening_of
from parley.privacy.sharing.ring import last_share

DIGITS = 12  # of a value, without its sign
LAW = law_of_counts(0.1, 1e-9, 2)
STEPS = ("_shuffled", "share_values", "require_small_rows", "_open_tags", "matching_rows", "share_moments")


def tables_of(rows: int, columns: int) -> list[KeyedRows]:
    """Two tables of as many rows, half of the people in both."""
    rng = np.random.default_rng(rows)
    pool = rng.integers(0, 2**64, size=(3 * rows // 2, 2), dtype=np.uint64)
    high = 1 << DIGITS
    return [
        KeyedRows(keys, rng.integers(-high, high, size=(rows, columns // 2)), DIGITS)
        for keys in (pool[:rows], pool[rows // 2 :])
    ]


def host(index: int, rows: int, columns: int, ports: Any, barrier: Any, results: Any) -> None:
    """One process: expand the shares, match, add up, open."""
    channel = Counted(connected(index, ports, barrier))
    party, clock = agreed(channel), dict.fromkeys(STEPS, (0.0, 0))

    def timed(name: str) -> None:
        act = getattr(steps, name)

        def run(*arguments: Any) -> Any:
            start, sent = time.perf_counter(), channel.bytes
            made = act(*arguments)
            seconds, before = clock[name]
            clock[name] = seconds + time.perf_counter() - start, before + channel.bytes - sent
            return made

        setattr(steps, name, run)

    for name in STEPS[:-1]:
        timed(name)
    shape = TableShape(rows, columns // 2, DIGITS, columns // 2 << 2 * DIGITS)
    shares = []
    for number, table in enumerate(tables_of(rows, columns)):
        seeds = tuple(bytes([number, k]) * 16 for k in (0, 1))
        parts = (*seeds, last_share(pack_rows(table).reshape(-1), seeds, bits=True))
        shares.append(table_shares(shape, index, (parts[index], parts[(index + 1) % 3])))
    barrier.wait()
    start = time.perf_counter()
    held = match(party, shares, [shape, shape], LAW)
    before, sent = time.perf_counter(), channel.bytes
    total = share_moments(party, held, 1 << DIGITS)
    clock["share_moments"] = time.perf_counter() - before, channel.bytes - sent
    opening = opening_of(total)
    seconds, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    results.put((index, seconds, channel.bytes, memory, clock, (opening.words, opening.digest)))
    barrier.wait()  # nobody leaves before everybody has all messages


def measured(rows: int, columns: int) -> None:
    """Match tables of this size once, compare with a merge in the open, and print."""
    ports, barrier, results = SPAWN.Array("i", 3), SPAWN.Barrier(3), SPAWN.Queue()
    arguments = [(index, rows, columns, ports, barrier, results) for index in range(3)]
    processes = [SPAWN.Process(target=host, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=3600) for _ in range(3))
    for process in processes:
        process.join(30)
    opened = open_words([Opening(*each[-1]) for each in found]).view(np.int64)
    right = np.array_equal(opened, joined_moments(tables_of(rows, columns), 1 << DIGITS))
    seconds, sent, memory = (max(each[k] for each in found) for k in (1, 2, 3))
    keys = 2 * (rows + LAW.dummies)
    ands = keys * (16 * ROUNDS * substitution().gates) + keys * columns // 2 * (64 + DIGITS)
    floor = ands / 8 + 8 * (columns // 2) * keys * 2 / 3
    print(
        f"{rows:>9,} + {rows:,} rows, {columns} columns: {seconds:.1f} s, {sent / 1e6:,.0f} MB sent a host "
        f"({sent / floor:.2f} of what ANDs and words take), {memory / 1e9:.2f} GB; "
        f"{'as in the open' if right else 'WRONG'}"
    )
    for name in STEPS:
        figures = [each[4][name] for each in found]
        print(f"{name:>24}: {max(f[0] for f in figures):8.2f} s {max(f[1] for f in figures) / 1e6:10.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--columns", type=int, default=40)
    options = parser.parse_args()
    for size in options.rows:
        measured(size, options.columns)
