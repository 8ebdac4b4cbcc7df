"""A table of 21 columns out of a database: `parley owner snapshot` beside what ADBC and Parquet take by themselves.

Numerics, times, categories, truth values and gaps, in a PostgreSQL server of the benchmark's own (its programs must be
installed), or in a SQLite or DuckDB file, in which rows lie in another order than that of their key. "plain": the same
query in the same order, written to one zstd file batch by batch as the driver hands them out, with no check of order,
types or text, no manifest, no fsync. Each round runs both, in processes of their own, one after the other; the ratio is
of their medians, in seconds and, since other programs may take the cores, in CPU seconds. Then the command is killed
(SIGKILL) at random times: what is left must not open as a table. Last, terms are accepted for the table, answered, and
the ledger's chain and sums are looked at.

    python benchmarks/snapshot.py [--database postgresql|sqlite|duckdb] [--rows 1000000] [--rounds 3] [--kills 20]
"""

import argparse
import csv
import json
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

LOANS = """
CREATE TYPE grade AS ENUM ('A', 'B', 'C', 'D', 'E');
CREATE TABLE loans (
  id bigint PRIMARY KEY, amount numeric(12,2), income numeric(14,2), dti double precision, fico smallint, term int,
  rate real, grade grade, state text, purpose varchar(20), employed boolean, opened date, issued timestamp,
  seen timestamptz, balance numeric, fees numeric(9,3), late smallint, accounts int, score double precision, note text,
  defaulted boolean);
SELECT setseed(0.5);
INSERT INTO loans SELECT i, random() * 40000, CASE WHEN random() < 0.03 THEN NULL ELSE exp(random() * 3 + 9) END,
  CASE WHEN random() < 0.05 THEN NULL ELSE random() * 45 END, 600 + random() * 250, 36, 5 + random() * 26,
  (array['A', 'B', 'C', 'D', 'E'])[1 + (random() * 4)::int]::grade,
  (array['CA', 'NY', 'TX', 'FL', NULL, 'WA'])[1 + (random() * 5)::int],
  (array['car', 'home', 'debt', 'other'])[1 + (random() * 3)::int], random() < 0.9,
  date '2000-01-01' + (random() * 9000)::int, timestamp '2015-01-01' + random() * interval '3000 days',
  CASE WHEN random() < 0.1 THEN NULL ELSE timestamptz '2020-01-01 00:00+00' + random() * interval '900 days' END,
  random() * 1e6, random() * 100, random() * 5, random() * 30, random(),
  CASE WHEN random() < 0.5 THEN NULL ELSE md5(i::text) END, random() < 0.1
FROM generate_series(1, {rows}) i;
ANALYZE loans;
"""
QUERY = "SELECT * FROM loans"
FILE = """
CREATE TABLE loans (
  id BIGINT PRIMARY KEY, amount DOUBLE, income DOUBLE, dti DOUBLE, fico INTEGER, term INTEGER, rate DOUBLE,
  grade VARCHAR(1), state VARCHAR(2), purpose VARCHAR(20), employed BOOLEAN, opened DATE, issued TIMESTAMP,
  seen TIMESTAMP, balance DOUBLE, fees DOUBLE, late INTEGER, accounts INTEGER, score DOUBLE, note VARCHAR(32),
  defaulted BOOLEAN)
"""
PLAIN = """
import sys
import adbc_driver_manager.dbapi, pyarrow.parquet
kind, place, query, file = sys.argv[1:]
if kind == "duckdb":
    from adbc_driver_duckdb import driver_path
    how = (driver_path(), "duckdb_adbc_init", {"path": place, "access_mode": "READ_ONLY"})
else:
    driver = __import__(f"adbc_driver_{kind}")
    how = (driver._driver_path(), None, {"uri": place})
with adbc_driver_manager.dbapi.connect(how[0], entrypoint=how[1], db_kwargs=how[2]) as connection:
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows = cursor.fetch_record_batch()
        with pyarrow.parquet.ParquetWriter(file, rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)
"""
TERMS = """
title = "Rates"
[model]
kind = "linear-regression"
target = "rate"
features = ["fico", "term", "score"]
bounds = {{ fico = [600, 850], term = [30, 60], score = [0, 1], rate = [5, 31] }}
radius = 5.0
[learning]
horizon = 3
step = 0.1
[privacy]
clip = 4.0
[[owners]]
name = "a"
records = {rows}
epsilon = 1.0
"""


class Cost(NamedTuple):
    """Of one process: seconds, seconds of a core, and its largest size in MB."""

    seconds: float
    core: float
    peak: float


def measured(command: list[str]) -> Cost:
    """What a process costs that must end well."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    text = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2); " + (
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", text, *command], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, core, int(done.stdout) / 1024)


def snapshot(uri: str, folder: Path) -> list[str]:
    """The command that is measured."""
    words = ("owner", "snapshot", "--uri", uri, "--query", QUERY, "--order-by", "id", "--to", folder)
    return [sys.executable, "-m", "parley", *map(str, words)]


def cells(rows: int, seed: int) -> Iterator[tuple[object, ...]]:
    """Rows of loans for a file, in an order of their own."""
    rng = random.Random(seed)
    for place in rng.sample(range(rows), rows):
        day = f"{rng.randint(2000, 2025)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        gap, noted = rng.random() < 0.05, rng.random() < 0.5
        yield (
            place, round(40000 * rng.random(), 2), None if gap else rng.lognormvariate(10, 1), 45 * rng.random(),
            rng.randint(600, 850), 36, 5 + 26 * rng.random(), rng.choice("ABCDE"), rng.choice(("CA", "NY", None)),
            rng.choice(("car", "home", "debt")), rng.random() < 0.9, day, f"{day} 10:{rng.randint(10, 59)}:00",
            None if gap else f"{day} 23:00:{rng.randint(10, 59)}", 1e6 * rng.random(), 100 * rng.random(),
            rng.randint(0, 5), rng.randint(0, 30), rng.random(), f"{rng.getrandbits(128):032x}" if noted else None,
            rng.random() < 0.1,
        )  # fmt: skip


def write_sqlite(file: Path, rows: int, seed: int) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(FILE)
        connection.executemany(f"INSERT INTO loans VALUES ({', '.join('?' * 21)})", cells(rows, seed))


def write_duckdb(file: Path, rows: int, seed: int) -> None:
    import duckdb

    with duckdb.connect(str(file)) as connection, tempfile.NamedTemporaryFile("w", suffix=".csv") as text:
        csv.writer(text).writerows(cells(rows, seed))
        text.flush()
        connection.execute(f"{FILE}; COPY loans FROM '{text.name}' (HEADER false)")


@contextmanager
def filled(kind: str, folder: Path, rows: int, seed: int) -> Iterator[tuple[str, str]]:
    """(URI of a database that has these rows, what its driver is told of where it is)."""
    if kind == "postgresql":
        from databases import postgres_server

        with postgres_server() as server:
            server.sql(LOANS.format(rows=rows))
            yield server.uri, server.uri
    else:
        file = folder / "loans.db"
        {"sqlite": write_sqlite, "duckdb": write_duckdb}[kind](file, rows, seed)
        yield f"{kind}:{file}", str(file)


def compare(kind: str, uri: str, place: str, folder: Path, rounds: int) -> None:
    """Print what both cost, and the ratio."""
    costs: dict[str, list[Cost]] = {"plain": [], "snapshot": []}
    for k in range(rounds):
        plain = [sys.executable, "-c", PLAIN, kind, place, f"{QUERY} ORDER BY id", str(folder / "plain.parquet")]
        costs["plain"].append(measured(plain))
        shutil.rmtree(folder / "table", ignore_errors=True)
        costs["snapshot"].append(measured(snapshot(uri, folder / "table")))
        print(f"round {k + 1}: " + ", ".join(f"{name} {found[-1].seconds:.1f} s" for name, found in costs.items()))
    middle = {
        name: Cost(*(statistics.median(part) for part in zip(*found, strict=True))) for name, found in costs.items()
    }
    for name, cost in middle.items():
        print(f"{name:9} {cost.seconds:6.1f} s, {cost.core:5.1f} s of a core, peak {cost.peak:.0f} MB")
    plain, ours = middle["plain"], middle["snapshot"]
    print(f"speed of plain: {plain.seconds / ours.seconds:.0%} by the clock, {plain.core / ours.core:.0%} by cores")


def opens(folder: Path) -> int | None:
    """The rows of a folder, if it opens as a table; None if not."""
    from parley.data.sources import find_source
    from parley.errors import DataError

    try:
        table = find_source(folder)
        table.digest()
        return len(table)
    except DataError:
        return None


def kill(uri: str, folder: Path, kills: int, rows: int, whole: float, rng: random.Random) -> None:
    """Kill the command at random times until it was killed so often, and look at what is left."""
    target, killed, ended, halves, left = folder / "killed", 0, 0, 0, 0
    while killed < kills:
        process = subprocess.Popen(snapshot(uri, target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.1, 1.0) * whole)
        process.kill()
        whole, ended, killed = (0.9 * whole, ended + 1, killed) if process.wait() == 0 else (whole, ended, killed + 1)
        for place in (target, folder / f".{target.name}.parley-unfinished"):
            if place.exists():
                left += place != target
                halves += opens(place) not in ((rows,) if place == target else (None, rows))
                shutil.rmtree(place)
    print(f"killed {killed} times (and {ended} ended before): {left} left what is no table, {halves} half of one")
    assert not halves


def release(folder: Path, rows: int) -> None:
    """Accept terms for the table, answer them, and look at the ledger."""
    import numpy as np

    import parley
    from parley.protocol.queries import GradientQuery

    (folder / "terms.toml").write_text(TERMS.format(rows=rows))
    terms = parley.load_terms(folder / "terms.toml")
    ledger = parley.Ledger(folder / "a.ledger", lifetime=2.0)
    owner = parley.Owner("a", folder / "table", ledger=ledger)
    owner.accept(terms)
    for k in range(1, 4):
        owner.answer(GradientQuery.ask(terms.hash, "learner", k, np.zeros(3)))
    account = ledger.account(terms.hash)
    ledger.verify()
    print(f"released: {account.answers} answers, ε spent {account.spent} of {account.epsilon}, chain unbroken")
    assert account.spent == account.epsilon == 1
    ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("postgresql", "sqlite", "duckdb"), default="postgresql")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as made,
        filled(options.database, Path(made), options.rows, options.seed) as (uri, place),
    ):
        folder = Path(made)
        compare(options.database, uri, place, folder, options.rounds)
        facts = json.loads((folder / "table" / "parley-snapshot.json").read_text())
        print(f"{facts['rows']:,} rows of {len(facts['columns'])} columns, {facts['version']}")
        began = time.perf_counter()
        measured(snapshot(uri, folder / "timed"))
        if options.kills:
            whole, rng = time.perf_counter() - began, random.Random(options.seed)
            kill(uri, folder, options.kills, options.rows, whole, rng)
        release(folder, options.rows)


if __name__ == "__main__":
    main()
