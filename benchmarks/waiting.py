"""How long people wait for a command: processor seconds and seconds by the clock, imports included.

    python benchmarks/waiting.py [--runs 5] [--owners 1000]

Every command is a process of its own, run in turn with the others, from bytecode that a first run leaves in a folder of
its own, as an installation has it; the median of the runs is printed. Processor seconds are what to compare on a
machine that does other things too. The floor is what every forecast has to load: numpy, pandas, and the part of scipy
that calibrates noise.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from parley.demo.folder import BANKS_FILE, OWN_NOISE_FILE, SHARED_NOISE_FILE, write_banks, write_unions

KINDS = ("linear", "exponential", "posterior")


def crowd_terms(base: str, owners: int, seed: int = 0) -> str:
    """The demo's way of learning, for owners whose rows, values, and shapes of privacy cost all differ."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(50, 3000, owners)
    weight = rows * rng.lognormal(-2.0, 1.0, owners)
    parts = [
        f'[[owners]]\nname = "owner-{i}"\nrecords = {rows[i]}\nepsilon = 0.5\nvalue = {float(rows[i])}\nprivacy_cost '
        f'= {{ kind = "{KINDS[i % 3]}", weight = {weight[i]:.4f} }}\n'
        for i in range(owners)
    ]
    head = base[: base.index("[[owners]]")]
    for place, host in enumerate(name for name in ("coast-1", "lakes-1", "plains-1") if name in head):
        head = head.replace(host, f"owner-{place}")
    return "\n".join([head, *parts])


def spent(command: list[str], folder: Path) -> tuple[float, float]:
    """(processor seconds, seconds by the clock) of one process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def parley(*words: str) -> list[str]:
    return [sys.executable, "-m", "parley", *words]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--owners", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_unions(folder, 0)
        write_banks(folder, 0)
        for file in (SHARED_NOISE_FILE, OWN_NOISE_FILE):
            text = crowd_terms((folder / file).read_text(), asked.owners)
            (folder / f"many_{file}").write_text(text)
        commands = {
            "floor: numpy, pandas, scipy.optimize": [sys.executable, "-c", "import numpy, pandas, scipy.optimize"],
            "parley --help": parley("--help"),
            "parley forecast --help": parley("forecast", "--help"),
            "parley train --help": parley("train", "--help"),
            "parley budget explain": parley("budget", "explain", "--epsilon", "1"),
            "parley forecast, 40 unions, one noise": parley("forecast", SHARED_NOISE_FILE),
            "parley forecast, 40 unions, own noise": parley("forecast", OWN_NOISE_FILE),
            "parley forecast, three banks": parley("forecast", BANKS_FILE),
            "parley negotiate, 40 unions, one noise": parley("negotiate", SHARED_NOISE_FILE),
            f"parley negotiate, {asked.owners:,} owners, own noise": parley(
                "negotiate", f"many_{OWN_NOISE_FILE}", "--json"
            ),
            f"parley negotiate, {asked.owners:,} owners, one noise": parley(
                "negotiate", f"many_{SHARED_NOISE_FILE}", "--json"
            ),
        }
        taken: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
        for run in range(asked.runs + 1):
            for what, command in commands.items():
                figures = spent(command, folder)
                if run:  # the first writes bytecode
                    taken[what].append(figures)
    print(f"{'':48} {'processor s':>12} {'clock s':>9}")
    for what, runs in taken.items():
        cpu, wall = np.median(runs, axis=0)
        print(f"{what:48} {cpu:12.2f} {wall:9.2f}")


if __name__ == "__main__":
    main()
