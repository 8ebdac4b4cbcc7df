"""A table larger than memory through one owner: throughput beside the disk's own read rate, and peak memory.

python benchmarks/streamed.py [GIGABYTES]     (default 1; 10 for the full claim; the files are deleted afterwards)
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parley
from parley.queries import GradientQuery

COLUMNS, ROWS_A_FILE, GROUP = 20, 1_000_000, 250_000
SPAWN = multiprocessing.get_context("spawn")


def generate(folder: Path, gigabytes: float) -> int:
    """Files of random float64 columns, uncompressed, so that bytes on disk are bytes to read."""
    rng, files = np.random.default_rng(1), max(1, round(gigabytes * 1e9 / (8 * (COLUMNS + 1) * ROWS_A_FILE)))
    for number in range(files):
        columns = {f"x{j}": rng.uniform(-1, 1, ROWS_A_FILE) for j in range(COLUMNS)} | {"y": rng.uniform(-1, 1, ROWS_A_FILE)}
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


def read_rate(folder: Path) -> float:
    """Bytes a second of reading the files and doing nothing with them."""
    forget(folder)
    began, size = time.perf_counter(), 0
    for file in sorted(folder.glob("*.parquet")):
        with file.open("rb", buffering=0) as opened:
            while read := len(opened.read(8 << 20)):
                size += read
    return size / (time.perf_counter() - began)


def owner(folder: Path, rows: int, told: "multiprocessing.SimpleQueue[tuple[str, float]]") -> None:
    """One owner in a process of its own: accept (which checks every row), then one gradient and one release of second moments."""
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = {"kind": "linear-regression", "target": "y", "features": [f"x{j}" for j in range(COLUMNS)], "radius": 5.0}
    for kind, algorithm in (("gradient", "averaged-subgradient"), ("moments", "sufficient-statistics")):
        learning = {"algorithm": algorithm, "horizon": 1} | ({"step": 0.1} if kind == "gradient" else {})
        terms = parley.Terms.from_dict(
            {
                "model": model,
                "learning": learning,
                "privacy": {"clip": 4.0},
                "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
            }
        )
        bank = parley.Owner("a", folder / "table", ledger=parley.Ledger(folder / f"{kind}.ledger", lifetime=1.0))
        forget(folder / "table")
        began = time.perf_counter()
        bank.accept(terms)
        told.put((f"accept ({kind})", time.perf_counter() - began))
        query = GradientQuery.ask(terms.hash, "learner", 1, np.full(COLUMNS, 0.1)) if kind == "gradient" else None
        forget(folder / "table")
        began = time.perf_counter()
        bank.answer(query or parley.queries.StatisticsQuery.ask(terms.hash, "learner", 1))
        told.put((kind, time.perf_counter() - began))
    told.put(("memory before", base * 1024 / 1e9))
    told.put(("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9))


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        folder = Path(place)
        (folder / "table").mkdir()
        rows = generate(folder / "table", gigabytes)
        size = sum(file.stat().st_size for file in (folder / "table").iterdir())
        disk = read_rate(folder / "table")
        print(f"{size / 1e9:.2f} GB, {rows:,} rows; the disk reads {disk / 1e9:.2f} GB/s")
        told = SPAWN.SimpleQueue()
        process = SPAWN.Process(target=owner, args=(folder, rows, told))
        process.start()
        process.join()
        while not told.empty():
            what, figure = told.get()
            if "memory" in what:
                print(f"{what:20} {figure:8.2f} GB")
            else:
                print(
                    f"{what:20} {figure:8.2f} s  {size / figure / 1e9:6.2f} GB/s, {size / figure / disk:.0%} of the disk's own rate"
                )


if __name__ == "__main__":
    main()
