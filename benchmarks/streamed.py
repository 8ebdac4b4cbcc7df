"""A table larger than memory through one owner: a pass beside its floor (reading and decoding alone), and peak memory.

python benchmarks/streamed.py [GIGABYTES]     (default 1; 10 for the full claim; the files are deleted afterwards)

"cold": this system's page cache was asked to drop the files first (posix_fadvise); a host beneath a virtual machine may
still hold them. "cached": right after a pass over the same files, which counts only where memory holds them all. No
pass can be faster than max(read, decode) on the same cores: that is its floor.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parley
from parley.data.blocks import sum_pieces
from parley.data.design import BLOCK_ROWS, Design
from parley.data.sources.columnar import buffer_size
from parley.data.streamed import BATCH_BLOCKS
from parley.protocol.queries import GradientQuery, StatisticsQuery, Tables
from parley.terms import Terms
from parley.validate import Floats

COLUMNS, ROWS_A_FILE, GROUP = 20, 1_000_000, 250_000
FEATURES = [f"x{j}" for j in range(COLUMNS)]
SPAWN = multiprocessing.get_context("spawn")
KINDS = {"gradient": "averaged-subgradient", "moments": "sufficient-statistics"}
NOTHING = np.zeros(1)
CORES = len(os.sched_getaffinity(0))
Cost = tuple[float, float]


def generate(folder: Path, gigabytes: float) -> int:
    """Files of random float64 columns, uncompressed, so that bytes on disk are bytes to read."""
    rng, files = np.random.default_rng(1), max(1, round(gigabytes * 1e9 / (8 * (COLUMNS + 1) * ROWS_A_FILE)))
    for number in range(files):
        columns = {name: rng.uniform(-1, 1, ROWS_A_FILE) for name in [*FEATURES, "y"]}
        pq.write_table(
            pa.table(columns),
            folder / f"part-{number:04}.parquet",
            GROUP,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )
    return files * ROWS_A_FILE


def forget(folder: Path) -> None:
    """Ask the system to drop the files from its cache."""
    os.sync()
    for file in folder.glob("*.parquet"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(file: Path) -> Floats:
    """The file's bytes into nothing."""
    buffer = bytearray(8 << 20)
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            continue
    return NOTHING


def decode(file: Path) -> Floats:
    """The file's columns into nothing, with the settings of a pass."""
    with pq.ParquetFile(file, pre_buffer=False, buffer_size=buffer_size(COLUMNS + 1)) as source:
        for _ in source.iter_batches(BATCH_BLOCKS * BLOCK_ROWS, columns=[*FEATURES, "y"], use_threads=False):
            continue
    return NOTHING


def timed(work: Callable[..., object], *args: object) -> Cost:
    """(seconds, core-seconds) of work(*args); the second hardly depends on what else the machine does."""
    began, busy = time.perf_counter(), time.process_time()
    work(*args)
    return time.perf_counter() - began, time.process_time() - busy


def terms_of(kind: str, rows: int) -> Terms:
    return Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": FEATURES, "radius": 5.0},
            "learning": {"algorithm": KINDS[kind], "horizon": 1} | ({"step": 0.1} if kind == "gradient" else {}),
            "privacy": {"clip": 4.0},
            "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
        }
    )


def steps(folder: Path, rows: int) -> dict[str, Cost]:
    """What preparation alone and each sum alone would cost for all rows: one batch in memory, again and again on all
    cores."""
    (folder / "one").mkdir()
    file = next((folder / "table").glob("*.parquet"))
    batch = next(pq.ParquetFile(file).iter_batches(BATCH_BLOCKS * BLOCK_ROWS))
    pq.write_table(pa.Table.from_batches([batch]), folder / "one" / "part.parquet")
    agreements = {kind: parley.Owner("a", folder / "one").prepare(terms_of(kind, len(batch))) for kind in KINDS}
    prepare = agreements["gradient"].tables.train.prepare
    design = prepare(batch, "a")
    times = 100 * CORES

    def answer(kind: str) -> None:
        for _ in range(times):
            fresh = Design(design.X, design.y, design.weight)  # nothing remembered from the last time
            agreements[kind].part.training.question.bounded(question(kind, "t"), Tables(fresh, fresh))

    found = {"preparation alone": timed(sum_pieces, lambda _: prepare(batch, "a").y[:1], range(times))}
    found |= {f"{kind} alone": timed(answer, kind) for kind in KINDS}
    share = rows / (times * len(batch))
    return {name: (took * share, busy * share) for name, (took, busy) in found.items()}


def question(kind: str, terms: str) -> GradientQuery | StatisticsQuery:
    return (
        GradientQuery.ask(terms, "learner", 1, np.full(COLUMNS, 0.1))
        if kind == "gradient"
        else StatisticsQuery.ask(terms, "learner", 1)
    )


def peak() -> float:
    """Gigabytes of memory at most so far, of this process alone."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024 / 1e9


def owner(folder: Path, rows: int, told: "multiprocessing.SimpleQueue[tuple[str, Cost | float]]") -> None:
    """One owner in a process of its own: accept (which checks every row), then one gradient and one release of second
    moments."""
    base, table = peak(), folder / "table"
    for kind in KINDS:
        terms = terms_of(kind, rows)
        bank = parley.Owner("a", table, ledger=parley.Ledger(folder / f"{kind}.ledger", lifetime=1.0))
        forget(table)
        told.put((f"accept ({kind}), cold", timed(bank.accept, terms)))
        query = question(kind, terms.hash)
        forget(table)
        told.put((f"{kind}, cold", timed(bank.answer, query)))
        agreement = bank.accept(terms)
        told.put((f"{kind}, cached", timed(agreement.part.training.question.bounded, query, agreement.tables)))
    told.put(("memory before", base))
    told.put(("peak memory", peak()))


def floors(table: Path) -> dict[str, Cost]:
    """Reading alone and decoding alone."""
    files = sorted(table.iterdir())
    forget(table)
    found = {"read by one core, cold": timed(lambda: [read(file) for file in files])}
    for name, work in (("read", read), ("decode", decode)):
        forget(table)
        found[f"{name}, cold"] = timed(sum_pieces, work, files)
        found[f"{name}, cached"] = timed(sum_pieces, work, files)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gigabytes", nargs="?", type=float, default=1.0)
    gigabytes = parser.parse_args().gigabytes
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        folder = Path(place)
        table = folder / "table"
        table.mkdir()
        rows = generate(table, gigabytes)
        size, decoded = sum(file.stat().st_size for file in table.iterdir()), rows * 8 * (COLUMNS + 1)
        print(f"{size / 1e9:.2f} GB on disk, {decoded / 1e9:.2f} GB decoded, {rows:,} rows, {CORES} cores")
        floor = floors(table)
        for name, (took, busy) in (floor | steps(folder, rows)).items():
            print(f"{name:28} {took:7.2f} s {busy:7.2f} core-s {size / took / 1e9:6.2f} GB/s")
        told = SPAWN.SimpleQueue()
        process = SPAWN.Process(target=owner, args=(folder, rows, told))
        process.start()
        process.join()
        while not told.empty():
            name, cost = told.get()
            if isinstance(cost, float):
                print(f"{name:28} {cost:7.2f} GB")
                continue
            took, busy = cost
            state = name.rsplit(", ", 1)[1]
            reading, least = floor["read, cold"][0], max(floor[f"read, {state}"][0], floor["decode, cached"][0])
            print(
                f"{name:28} {took:7.2f} s {busy:7.2f} core-s {size / took / 1e9:6.2f} GB/s {reading / took:5.0%} of "
                f"the disk's rate, {took / least:4.1f} x max(read, decode), {busy / floor['decode, cached'][1]:.1f} "
                "x decode in core-s"
            )


if __name__ == "__main__":
    main()
