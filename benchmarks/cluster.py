"""A folder of Parquet files on a local Dask cluster: rounds that read it, rounds on pieces that the workers keep beside
a plain pass over as many bytes in the same processes, bytes a task, peak memory.

    python benchmarks/cluster.py [--rows 1000000 10000000] [--workers 2] [--memory 4] [--folder PLACE]
                                 [--replicates 10000]

84 bytes a row lie on the disk while it runs (100 million rows: 8.4 GB). The floor is `numpy.dot` of numbers with
themselves, a block at a time: each is fetched from memory once and nothing else is done. `--memory` is each worker's
limit in GB; of it half is for pieces, and what does not fit is read in every round. Times are the best of several
rounds. Core-seconds hardly depend on what else the machine does: of rounds that read, those of the workers' processes;
of rounds on kept pieces and of the floor, those of the threads that compute (Dask's own housekeeping takes 2 or 3 % of
a core in each worker, busy or not). At last a study of so many replicates on a small table, here and there.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import parley
from parley.data import cluster
from parley.data.design import BLOCK_ROWS
from parley.protocol.queries import GradientQuery
from parley.terms import Terms

COLUMNS, ROWS_A_FILE, GROUP, ROUNDS = 20, 1_000_000, 250_000, 7
FEATURES = [f"x{j}" for j in range(COLUMNS)]
READ = COLUMNS + 2  # numbers of a row that a round on kept pieces reads: features, target, limit


class Weighed(cluster.Cluster):
    """Counts tasks, and the bytes of the largest."""

    tasks, largest = 0, 0

    def _submit(self, worker: str, work: Callable[..., Any], *about: Any) -> Any:
        self.tasks, self.largest = self.tasks + 1, max(self.largest, len(cloudpickle.dumps((work, about))))
        return super()._submit(worker, work, *about)


def generate(folder: Path, rows: int) -> None:
    """Files of random float32 columns, uncompressed."""
    rng = np.random.default_rng(1)
    for number, start in enumerate(range(0, rows, ROWS_A_FILE)):
        size = min(ROWS_A_FILE, rows - start)
        columns = {name: 2 * rng.random(size, dtype=np.float32) - 1 for name in [*FEATURES, "y"]}
        file = folder / f"part-{number:04}.parquet"
        pq.write_table(pa.table(columns), file, GROUP, compression="none", use_dictionary=False, write_statistics=False)


def terms_of(rows: int) -> Terms:
    model = {"kind": "linear-regression", "target": "y", "features": FEATURES, "radius": 5.0}
    return Terms.from_dict(
        {
            "model": model | {"holdout": 0.2, "holdout_seed": 1},
            "learning": {"algorithm": "averaged-subgradient", "horizon": 1, "step": 0.1},
            "privacy": {"clip": 4.0},
            "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
        }
    )


def floor(rows: int) -> tuple[float, float]:
    """(seconds, core-seconds) of one pass over as many numbers as a worker's pieces have, the best of several. Runs on
    a worker."""
    numbers, block, found = np.ones(rows * READ), BLOCK_ROWS * READ, []
    for _ in range(ROUNDS):
        began, busy = time.perf_counter(), time.thread_time()
        for start in range(0, len(numbers), block):
            some = numbers[start : start + block]
            some.dot(some)
        found.append((time.perf_counter() - began, time.thread_time() - busy))
    return min(took for took, _ in found), min(busy for _, busy in found)


def peak() -> float:
    """Gigabytes of memory at most so far, of this process alone."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024 / 1e9


def keep(share: float) -> None:
    """Let this worker keep pieces in this share of its memory."""
    cluster.KEPT_MEMORY_SHARE = share


def reserved() -> int:
    return sum(holder.reserved for holder in cluster._holders)


def by_processes(client: Any) -> float:
    """Core-seconds of the workers so far."""
    return float(sum(client.run(time.process_time).values()))


def by_threads(client: Any) -> float:
    """Core-seconds so far of the threads that compute, one a worker."""
    asked = [client.submit(time.thread_time, workers=[each], pure=False) for each in client.nthreads()]
    return float(sum(client.gather(asked)))


def timed(client: Any, work: Callable[[], object], times: int, clock: Callable[[Any], float]) -> tuple[float, float]:
    """(seconds, core-seconds by this clock) of work(), the best of several."""
    found = []
    for _ in range(times):
        busy, began = clock(client), time.perf_counter()
        work()
        took = time.perf_counter() - began
        found.append((took, clock(client) - busy))
    return min(took for took, _ in found), min(busy for _, busy in found)


def measure(client: Any, folder: Path, rows: int, memory: float) -> float:
    """Print what rounds on a table of so many rows take; core-seconds of one that reads it."""
    weighed = Weighed(client)
    cluster.use_cluster(weighed)
    client.run(keep, 0.0)
    began = time.perf_counter()
    agreement = parley.Owner("a", folder).prepare(terms_of(rows))
    train, question = agreement.tables.train, agreement.part.training.question
    query = GradientQuery.ask("t", "learner", 1, np.full(COLUMNS, 0.1))
    print(f"{rows:,} rows: prepared (two passes) in {time.perf_counter() - began:.2f} s; {len(train.places)} pieces")
    weighed.tasks = 0
    exact = question.bounded(query, agreement.tables).value
    print(f"  {weighed.tasks} tasks a round, the largest of all {weighed.largest:,} bytes")
    took, reading = timed(client, lambda: question.bounded(query, agreement.tables), 2, by_processes)
    print(f"  read:  {took:8.3f} s {reading:8.2f} core-s, {1e9 * reading / rows:.0f} core-ns a row")
    client.run(keep, 0.5)
    question.bounded(query, agreement.tables)
    share = sum(client.run(reserved).values()) / sum(map(train.reader.size, train.places))
    times, clock = (ROUNDS, by_threads) if share == 1 else (2, by_processes)
    kept, busy = timed(client, lambda: question.bounded(query, agreement.tables), times, clock)
    same = np.array_equal(question.bounded(query, agreement.tables).value, exact)
    print(f"  kept:  {kept:8.3f} s {busy:8.3f} core-s, {share:.0%} of the rows kept; the same to the bit: {same}")
    workers = list(client.nthreads())
    most = max(client.run(peak).values())
    if share == 1:
        asked = [client.submit(floor, len(train) // len(workers), workers=[each], pure=False) for each in workers]
        passes = client.gather(asked)
        least, idle = max(took for took, _ in passes), sum(each for _, each in passes)
        shares = f"{least / kept:.0%} of it, by core-seconds {idle / busy:.0%}"
        print(f"  floor: {least:8.3f} s {idle:8.3f} core-s; kept rounds run at {shares}")
    print(f"  peak memory of a worker {most:.2f} GB of {memory:.2f}")
    return reading


def study(client: Any, replicates: int) -> None:
    """Print what a study takes on this machine alone and on the cluster, and whether its numbers are the same."""
    rows, rng = 5 * BLOCK_ROWS, np.random.default_rng(2)
    table = pd.DataFrame(rng.uniform(-1, 1, (rows, COLUMNS)), columns=FEATURES).assign(y=rng.integers(0, 2, rows))
    terms = terms_of(rows).changed(model={"kind": "logistic-regression"}, learning={"horizon": 2})
    found = {}
    for name, there in (("alone", None), ("cluster", cluster.Cluster(client))):
        cluster.use_cluster(there)
        began = time.perf_counter()
        result = parley.train(terms, [parley.Owner("a", table)], replicates, seed=1, measure=False)
        found[name] = result.theta
        print(f"{replicates:,} replicates on {rows:,} rows, two rounds, {name}: {time.perf_counter() - began:.2f} s")
    cluster.use_cluster(None)
    print(f"  the same to the bit: {np.array_equal(found['alone'], found['cluster'])}")


def main() -> None:
    import distributed

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=float, default=4.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--replicates", type=int, default=10_000)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    before: tuple[int, float] | None = None
    for rows in options.rows:
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as place,
            distributed.Client(
                n_workers=options.workers,
                threads_per_worker=1,
                memory_limit=int(options.memory * 1e9),
                dashboard_address=None,
            ) as client,
        ):
            generate(Path(place), rows)
            took = measure(client, Path(place), rows, options.memory)
            cluster.use_cluster(None)
            if options.replicates and rows == options.rows[-1]:
                study(client, options.replicates)
        if before is not None:
            print(f"  {rows / before[0]:.0f} times the rows took {took / before[1]:.1f} times the core-seconds")
        before = rows, took


if __name__ == "__main__":
    main()
