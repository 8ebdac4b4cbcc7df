"""Many owners in one process: how long preparing them and one round take, and how both grow with their number.

    python benchmarks/many_owners.py [1000]

The floor is an owner's own work: reading its rows once, and one gradient, one draw of noise and one debit a round.
"""

import argparse
import time

import numpy as np
import pandas as pd

import parley

ROWS, FEATURES, ROUNDS = 100, 10, 5


def measure(count: int) -> tuple[float, float, float]:
    """(seconds to check the terms, to prepare everybody, a round) for this many owners."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(FEATURES)]
    tables = [pd.DataFrame(rng.uniform(-1, 1, (ROWS, FEATURES + 1)), columns=[*names, "y"]) for _ in range(count)]
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": names, "radius": 5.0},
        "learning": {"horizon": ROUNDS, "step": 0.1},
        "privacy": {"clip": 4.0},
        "owners": [{"name": f"owner-{i}", "records": ROWS, "epsilon": 1.0} for i in range(count)],
    }
    began = time.perf_counter()
    terms = parley.Terms.from_dict(content)
    checked = time.perf_counter()
    owners = [parley.Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    marks: list[float] = []
    parley.train(terms, owners, seed=0, measure=False, progress=lambda done, total: marks.append(time.perf_counter()))
    a_round = (marks[-1] - marks[0]) / (ROUNDS - 1)
    return checked - began, marks[0] - checked - a_round, a_round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("owners", nargs="?", type=int, default=1000)
    largest = parser.parse_args().owners
    measure(10)  # what is loaded when it is first used
    counts = [largest // 10, largest]
    found = [measure(count) for count in counts]
    for count, (terms, prepared, a_round) in zip(counts, found, strict=True):
        print(f"{count:6,} owners: terms {terms:.3f} s, preparation {prepared:.2f} s, a round {a_round:.3f} s")
    growth = [np.log(late / early) / np.log(counts[1] / counts[0]) for early, late in zip(*found, strict=True)]
    print("growth with their number, as a power: " + ", ".join(f"{power:.2f}" for power in growth))


if __name__ == "__main__":
    main()
