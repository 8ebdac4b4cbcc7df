"""One table, wherever it lies: the same prepared rows to the bit, the same releases; and what reading a CSV file takes.

The first part writes one table as CSV (plain, gz, zst), as Parquet (a file, a folder, a hive folder), as an Arrow file,
and puts them into a local S3 server (moto's, where moto_server is at hand, else the one of tests/support); and it takes
snapshots of it from SQLite, DuckDB and PostgreSQL, where those are installed. Of each it compares prepared rows bit by
bit, one answer with noise of one seed, and a study with one seed.

The second part reads a CSV file in processes of their own, by pandas and held, as it once was, and as it is now:
seconds of CPU and the most memory (VmHWM), as ratios of one run. `cells`: every cell is gone through as text once;
`rows`: three columns are prepared for terms. The third reads the same table as it may be written otherwise: packed,
between other separators, in other encodings.

    python benchmarks/table_sources.py [--rows 2000000] [--columns 20] [--part same|csv|ways]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.dataset as dataset
import pyarrow.feather as feather
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

SMALL = 20_000  # rows of the first part
REPLICATES = 20
READERS = ("pandas", "now")
WORK = ("cells", "rows")
# ending and more: separator, encoding, encoding that is asked for by name
WAYS = {
    ".csv": (",", "utf-8", None),
    ".csv.gz": (",", "utf-8", None),
    ".csv.zst": (",", "utf-8", None),
    ".tsv tabs": ("\t", "utf-8", None),
    ".csv semicolons": (";", "utf-8", None),
    ".csv bars": ("|", "utf-8", None),
    ".csv UTF-16 by mark": (",", "utf-16-le", None),
    ".csv latin-1 by name": (",", "latin-1", "latin-1"),
}


def terms(rows: int):
    """A regression on three columns: a number, one with gaps of its own, and names."""
    import parley

    bounds = {"x0": [-4.0, 4.0], "x1": [-4.0, 4.0], "y": [-10.0, 10.0]}
    model = {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "name"], "radius": 5.0}
    return parley.Terms.from_dict(
        {
            "model": {**model, "bounds": bounds, "categories": {"name": ["a, b", 'c "d"', "e\nf"]}},
            "learning": {"horizon": 3, "step": 0.1},
            "privacy": {"clip": 4.0},
            "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
        }
    )


def make_table(rows: int, columns: int, seed: int = 0) -> pa.Table:
    """Numbers, names with everything that has to be quoted, a year by which rows are sorted, and their numbers."""
    rng = np.random.default_rng(seed)
    made = {f"x{j}": np.round(rng.normal(size=rows).clip(-4, 4), 4) for j in range(columns - 4)}
    made["y"] = np.round(made["x0"] - made["x1"] + rng.normal(size=rows) / 10, 4)
    made["name"] = np.array(["a, b", 'c "d"', "e\nf", "other"])[rng.integers(0, 4, rows)]
    made["year"] = np.sort(rng.integers(2020, 2025, rows)).astype(str)
    made["id"] = np.arange(rows) + seed
    return pa.table(made)


def write_all(table: pa.Table, folder: Path) -> dict[str, Path]:
    """The same rows in the same order, as every kind of table."""
    places = {ending: folder / f"t{ending}" for ending in (".csv", ".csv.gz", ".csv.zst", ".parquet", ".arrow")}
    for ending in (".csv", ".csv.gz", ".csv.zst"):
        with pa.output_stream(places[ending]) as file:  # packed as its name says
            arrow_csv.write_csv(table, file)
    pq.write_table(table, places[".parquet"], row_group_size=7000)
    feather.write_feather(table, places[".arrow"], chunksize=7000)
    (folder / "parts").mkdir()
    for number, start in enumerate(range(0, len(table), 6000)):
        pq.write_table(table.slice(start, 6000), folder / "parts" / f"{number:03}.parquet", row_group_size=2500)
    hive = dataset.partitioning(pa.schema([("year", pa.string())]), flavor="hive")
    dataset.write_dataset(table, folder / "hive", format="parquet", partitioning=hive)
    return {**places, "folder": folder / "parts", "hive folder": folder / "hive"}


def in_sqlite(rows: pa.Table, folder: Path, stack: ExitStack) -> str:
    import sqlite3

    kinds = {pa.int64(): "INTEGER", pa.float64(): "REAL", pa.string(): "TEXT"}
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
        declared = ", ".join(f"{field.name} {kinds[field.type]}" for field in rows.schema)
        connection.execute(f"CREATE TABLE t ({declared})")
        places = ", ".join("?" * rows.num_columns)
        connection.executemany(f"INSERT INTO t VALUES ({places})", zip(*rows.to_pydict().values(), strict=True))
    return f"sqlite:{folder / 't.sqlite'}"


def in_duckdb(rows: pa.Table, folder: Path, stack: ExitStack) -> str:
    import duckdb

    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
    return f"duckdb:{folder / 't.duckdb'}"


def in_postgres(rows: pa.Table, folder: Path, stack: ExitStack) -> str:
    import databases
    from adbc_driver_postgresql import dbapi

    server = stack.enter_context(databases.postgres_server())
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("t", rows)
        connection.commit()
    return str(server.uri)


def take_snapshots(table: pa.Table, folder: Path, stack: ExitStack) -> dict[str, Path]:
    """The same rows out of every database that is at hand, into which they went in another order."""
    from _pytest.outcomes import Skipped

    from parley.data.databases import Request, open_database, take_snapshot

    mixed = table.take(np.random.default_rng(1).permutation(len(table)))
    places = {}
    for fill in (in_sqlite, in_duckdb, in_postgres):
        name = f"{fill.__name__.removeprefix('in_')} snapshot"
        try:
            uri = fill(mixed, folder, stack)
        except (Skipped, ModuleNotFoundError) as missing:
            print(f"{name}: none, {missing}")
            continue
        places[name] = folder / name
        with open_database(uri) as database:
            take_snapshot(database, Request("SELECT * FROM t", ("id",)), places[name])
    return places


def prepared(source) -> bytes:
    """The prepared rows, as bytes."""
    import parley
    from parley.data.holdout import parts_of

    preparation = parley.Owner("a", source).prepare(terms(SMALL)).setup.preparation
    blocks = [preparation.block(rows, "a") for _, rows in parts_of(source, ["x0", "x1", "name", "y"])]
    stacked = [np.concatenate([getattr(block, part) for block in blocks]) for part in ("X", "y", "weight")]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in stacked)


def compare(places: dict[str, Path | str]) -> None:
    """Say of every place whether rows, one answer and a study are those of the first one."""
    import parley
    from parley.data.sources import open_table
    from parley.privacy.mechanisms import FastNoise
    from parley.protocol.queries import GradientQuery

    agreed, first = terms(SMALL), None
    print(f"{'table':<20} {'prepared rows':>14} {'one answer':>22} {'study, same seed':>18}")
    for name, place in places.items():
        source = open_table(place)
        rows = prepared(source)
        owner = parley.Owner("a", source, noise=FastNoise(3))
        owner.accept(agreed)
        width = owner.prepare(agreed).tables.train.width
        answer = owner.answer(GradientQuery.ask(agreed.hash, "learner", 1, np.full(width, 0.1))).value
        study = parley.train(agreed, [parley.Owner("a", source)], replicates=REPLICATES, seed=1).theta.tobytes()
        first = first or (rows, answer, study)
        apart = float(np.abs(np.asarray(answer) - np.asarray(first[1])).max())
        said = "same bits" if study == first[2] else "ANOTHER"
        same = "same bits" if apart == 0 else f"apart by {apart:.0e}"
        print(f"{name:<20} {'same bits' if rows == first[0] else 'OTHERS':>14} {same:>22} {said:>18}")


def same_everywhere(columns: int) -> None:
    import object_store

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            store, server = stack.enter_context(object_store.moto_server()), "moto"
        except (OSError, TypeError):  # not installed, or without what its server needs
            store, server = stack.enter_context(object_store.small_server()), "of tests/support"
        print(f"{SMALL} rows x {columns} columns; S3 server: {server}")
        table = make_table(SMALL, columns)
        places = write_all(table, Path(folder))
        store.put_folder("lake/tables", folder)
        there = {f"s3 {name}": f"s3://lake/tables/{place.name}" for name, place in places.items()}
        compare({**places, **there, **take_snapshots(table, Path(folder), stack)})


def read(path: Path, reader: str, work: str, rows: int, encoding: str | None) -> None:
    """What a child does; it prints its seconds of CPU and its peak in MB."""
    import pandas as pd

    import parley
    from parley.data.holdout import parts_of
    from parley.data.sources import open_table
    from parley.data.sources.held import TextFile

    class Held(TextFile):
        form = "csv"

        def parsed(self):
            return pd.read_csv(self.path, dtype=str, index_col=False)

    began = time.process_time()
    source = Held(path) if reader == "pandas" else open_table(path, encoding=encoding)
    if work == "cells":
        names = [name for name, _ in source.schema]
        assert sum(len(part) for _, part in parts_of(source, names)) == rows
    else:
        parley.Owner("a", source).prepare(terms(rows))
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024
    print(time.process_time() - began, peak)


def cost(path: Path, reader: str, work: str, rows: int, encoding: str | None = None) -> tuple[float, float]:
    """(seconds of CPU, peak in MB) of a process that reads the file."""
    command = [sys.executable, __file__, "--child", reader, "--work", work, "--path", str(path), "--rows", str(rows)]
    command += [] if encoding is None else ["--encoding", encoding]
    cpu, peak = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return cpu, peak


def other_ways(rows: int, columns: int) -> None:
    """Print what it takes to go through all cells of the same table, however it is written."""
    print(f"\n{rows} rows x {columns} columns, all cells, as they are written")
    print(f"{'written':<22} {'file MB':>8} {'CPU-s':>8} {'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (separator, encoding, asked) in WAYS.items():
            path = Path(folder) / f"t{name.split()[0]}"
            with pa.output_stream(path) as file:
                for start in range(0, rows, 100_000):
                    how = arrow_csv.WriteOptions(include_header=start == 0, delimiter=separator)
                    piece = pa.BufferOutputStream()
                    arrow_csv.write_csv(make_table(min(100_000, rows - start), columns, start), piece, how)
                    text = piece.getvalue().to_pybytes()
                    mark = encoding == "utf-16-le" and start == 0
                    file.write(b"\xff\xfe" * mark + (text if encoding == "utf-8" else text.decode().encode(encoding)))
            size = path.stat().st_size / 1e6
            cpu, peak = cost(path, "now", "cells", rows, asked)
            print(f"{name:<22} {size:>8.0f} {cpu:>8.1f} {peak:>9.0f}", flush=True)
            path.unlink()


def csv_before_and_now(rows: int, columns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("wb") as file:
            for start in range(0, rows, 100_000):
                piece = make_table(min(100_000, rows - start), columns, start)
                arrow_csv.write_csv(piece, file, arrow_csv.WriteOptions(include_header=start == 0))
        print(f"\n{rows} rows x {columns} columns, {path.stat().st_size / 1e6:.0f} MB of CSV")
        print(f"{'work':<8} {'reader':<8} {'CPU-s':>8} {'peak MB':>9} {'CPU ratio':>10} {'memory ratio':>13}")
        for work in WORK:
            before = None
            for reader in READERS:
                cpu, peak = cost(path, reader, work, rows)
                before = before or (cpu, peak)
                ratios = f"{cpu / before[0]:>10.2f} {peak / before[1]:>13.2f}"
                print(f"{work:<8} {reader:<8} {cpu:>8.1f} {peak:>9.0f} {ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--part", choices=("same", "csv", "ways"))
    parser.add_argument("--child", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--encoding", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        read(options.path, options.child, options.work, options.rows, options.encoding)
        return
    if options.part in (None, "same"):
        same_everywhere(options.columns)
    if options.part in (None, "csv"):
        csv_before_and_now(options.rows, options.columns)
    if options.part in (None, "ways"):
        other_ways(options.rows, options.columns)


if __name__ == "__main__":
    main()
