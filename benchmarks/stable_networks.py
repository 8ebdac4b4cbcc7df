"""Z's tables 4.1, 4.3 and 4.5 trained at length, for the results that `parley reproduce zawacki2024 --table` keeps.

All rows and trials of a table are trained at once on one device; PyTorch and NumPy are all it needs. What it writes is
what `src/parley_lab/papers/zawacki2024/results` holds.

    python benchmarks/stable_networks.py --table 4.1 --trials 10 --device cuda --data DIR --out table-4.1.json

`--rows`, `--epochs`: a smaller sample of the same; `--step`, `--momentum`, `--decay`, `--no-decay`: other steps than
the table's. Prints a line for every row, and how long it took.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from parley_lab.papers.zawacki2024.network_images import table_images
from parley_lab.papers.zawacki2024.published_networks import PUBLISHED_TABLES
from parley_lab.papers.zawacki2024.trained_networks import train_table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", choices=list(PUBLISHED_TABLES), default="4.1")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--step", type=float)
    parser.add_argument("--momentum", type=float)
    parser.add_argument("--decay", action=argparse.BooleanOptionalAction)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rates = {key: value for key in ("step", "momentum", "decay") if (value := getattr(asked, key)) is not None}
    table = replace(PUBLISHED_TABLES[asked.table], **rates)
    images = table_images(asked.table, asked.data, asked.rows)
    trials = table.trials if asked.trials is None else asked.trials
    print(f"{images.called}: {len(images.X):,} images, {trials} trials of a row", flush=True)
    begin = time.perf_counter()

    def told(done: int, count: int) -> None:
        if done % max(count // 20, 1) == 0:
            print(f"{done}/{count} steps, {time.perf_counter() - begin:.0f} s", flush=True)

    found = train_table(table, images, trials, asked.epochs, asked.device, asked.seed, _command(asked), told)
    published = {(row.alpha, row.scale): row.accuracy for row in table.rows}
    for row in found.rows:
        law = row.law
        told = table.silent[0] if law.clip is None else published.get((law.alpha, law.scale), "not")
        reached = f"{row.mean:.2f} +- {row.deviation:.2f}, published {told}"
        print(f"alpha {law.alpha:g}, scale {law.scale:g}, clip {law.clip}: {reached}")
    print(f"{time.perf_counter() - begin:.0f} s")
    if asked.out is not None:
        found.save(asked.out)


def _command(asked: argparse.Namespace) -> str:
    """The command that makes this again; folders and devices are whoever's."""
    told = {"table", "trials", "rows", "epochs", "step", "momentum", "seed"}
    words = [f"--{key} {value}" for key, value in vars(asked).items() if key in told and value is not None]
    if asked.decay is not None:
        words.append("--decay" if asked.decay else "--no-decay")
    return f"python {Path(sys.argv[0]).parent.name}/{Path(sys.argv[0]).name} {' '.join(words)}"


if __name__ == "__main__":
    main()
