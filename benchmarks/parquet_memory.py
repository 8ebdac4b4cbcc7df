"""The most memory that an owner takes while it prepares a Parquet table for terms, beside the bytes of its numbers.

Each case is a process of its own: a file as it is read (a few rows at a time, straight into the prepared numbers), the
same file by way of a pandas table, as it was once read, a folder that is streamed, and a table of a few rows, which is
what libraries alone take. Peaks are those that the kernel counts (VmHWM; what getrusage says begins with the parent's).

    python benchmarks/parquet_memory.py [--rows 1000000] [--columns 10] [--holdout 0.2]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CASES = ("libraries", "file", "pandas", "folder")


def prepare(path: Path, rows: int, columns: int, holdout: float, pandas: bool) -> None:
    """What the child does; it prints its peak in MB and its seconds."""
    import pandas as pd

    import parley

    names = [f"x{j}" for j in range(columns)]
    bounds = {name: [-1.0, 1.0] for name in (*names, "y")}
    content = {
        "model": {
            "kind": "linear-regression",
            "target": "y",
            "features": names,
            "radius": 5.0,
            "bounds": bounds,
            "holdout": holdout,
        },
        "learning": {"horizon": 3, "step": 0.1},
        "privacy": {"clip": 4.0},
        "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
    }
    began = time.perf_counter()
    owner = parley.Owner("a", pd.read_parquet(path) if pandas else path)
    owner.prepare(parley.Terms.from_dict(content))
    print(peak(), time.perf_counter() - began)


def peak() -> float:
    """The largest resident size of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def write(folder: Path, rows: int, columns: int) -> dict[str, tuple[Path, int]]:
    """The tables of all cases, and how many rows each has."""
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.uniform(-1, 1, rows) for name in (*(f"x{j}" for j in range(columns)), "y")})
    (folder / "parts").mkdir()
    pq.write_table(table, folder / "t.parquet")
    pq.write_table(table.slice(0, 100), folder / "few.parquet")
    for number in range(4):
        pq.write_table(
            table.slice(number * rows // 4, (number + 1) * rows // 4 - number * rows // 4),
            folder / "parts" / f"{number}.parquet",
        )
    whole, few = (folder / "t.parquet", rows), (folder / "few.parquet", min(rows, 100))
    return {"libraries": few, "file": whole, "pandas": whole, "folder": (folder / "parts", rows)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--holdout", type=float, default=0.2)
    parser.add_argument("--child", choices=CASES)
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.child is not None:
        prepare(options.path, options.rows, options.columns, options.holdout, options.child == "pandas")
        return
    numbers = options.rows * (options.columns + 1) * 8 / 2**20
    print(f"{options.rows:,} rows of {options.columns} columns and a target: {numbers:.0f} MB of numbers")
    with tempfile.TemporaryDirectory() as folder:
        least = 0.0
        for case, (path, rows) in write(Path(folder), options.rows, options.columns).items():
            sizes = ["--rows", str(rows), "--columns", str(options.columns), "--holdout", str(options.holdout)]
            command = [sys.executable, __file__, "--child", case, "--path", str(path), *sizes]
            most, seconds = map(
                float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            )
            least = least or most
            above = f"{most - least:5.0f} above libraries, {(most - least) / numbers:.1f} times the numbers"
            print(f"  {case:10s} peak {most:5.0f} MB: {above}; {seconds:.1f} s")


if __name__ == "__main__":
    main()
