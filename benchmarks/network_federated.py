"""Four owners of digits learn one network: mean gradients, FedAvg, FedProx and FedLin at equal eps, by rounds.

Each owner holds mostly three or so of the ten digits (`--uneven` of its rows) and draws its records in secret. eps is
for the whole run, replace-one; every local step is charged as a release, so more local steps mean more noise in each.
Step lengths are the best of `--steps` by the first seed, which no budget pays for. Models are judged on MNIST's test
images.

    python benchmarks/network_federated.py [--rows 1000] [--rounds 10 40] [--local 5] [--epsilon 3] [--runs 2]

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import parley
from parley_lab.papers.aarhus2020.digits import CLASSES, PIXELS, Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
OWNERS, DELTA, BATCHES = 4, 1e-5, 10
SHARED_OUT = (range(3), range(3, 5), range(5, 8), range(8, 10))  # the digits that each owner mostly holds
CASES: dict[str, dict[str, Any]] = {
    "mean gradients": {"algorithm": "federated-averaging"},
    "FedAvg": {"algorithm": "federated-averaging"},
    "FedProx": {"algorithm": "fedprox", "proximal": 0.1},
    "FedLin": {"algorithm": "fedlin"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--local", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--uneven", type=float, default=0.8)
    parser.add_argument("--steps", type=float, nargs="+", default=[2.0, 8.0])
    asked = parser.parse_args()
    digits, begin = load_digits(DATA, 4 * OWNERS * asked.rows), time.perf_counter()
    tables = owner_tables(digits, asked.rows, asked.uneven)
    owners = [parley.Owner(f"o{place}", table) for place, table in enumerate(tables)]  # who prepare their rows once
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {OWNERS} x {asked.rows:,} rows, eps {asked.epsilon:g}")
    print(f"{'rounds':>6} {'algorithm':16} {'releases':>8} {'step':>5} accuracy")
    for rounds in asked.rounds:
        for words, learning in CASES.items():
            local = 1 if words == "mean gradients" else asked.local
            keys = {**learning, "horizon": rounds, "local_steps": local}
            tried = {
                step: accuracy(digits, owners, asked.rows, {**keys, "step": step}, asked.epsilon, 0)[0]
                for step in asked.steps
            }
            best = max(tried, key=tried.__getitem__)
            found = [
                accuracy(digits, owners, asked.rows, {**keys, "step": best}, asked.epsilon, seed)
                for seed in range(1, asked.runs + 1)
            ]
            right, releases = [each for each, _ in found], found[0][1]
            said = f"{100 * np.mean(right):5.1f} % +- {100 * np.std(right):.1f}"
            print(f"{rounds:6} {words:16} {releases:8} {best:5g} {said}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")


def owner_tables(digits: Digits, rows: int, uneven: float) -> list[pd.DataFrame]:
    """Deal the rows: `uneven` of an owner's are its own digits, the rest any."""
    rng, free, dealt = np.random.default_rng(0), np.ones(len(digits.labels), dtype=bool), []
    for own in SHARED_OUT:
        mine = rng.permutation(np.flatnonzero(free & np.isin(digits.labels, own)))[: int(uneven * rows)]
        free[mine] = False
        others = rng.permutation(np.flatnonzero(free))[: rows - len(mine)]
        free[others] = False
        places = np.concatenate([mine, others])
        dealt.append(frame(digits.images[places], digits.labels[places]))
    return dealt


def frame(images: Any, labels: Any) -> pd.DataFrame:
    """Return images with their digit as a table."""
    return pd.DataFrame(images, columns=list(PIXELS)).assign(digit=labels.astype(str))


def accuracy(
    digits: Digits, owners: list[parley.Owner], rows: int, learning: dict[str, Any], epsilon: float, seed: int
) -> tuple[float, int]:
    """Return (the share of test images that a run tells right, releases of an owner)."""
    terms = parley.Terms.from_dict(
        {
            "model": {
                "kind": "network-classification",
                "architecture": "chase-small",
                "target": "digit",
                "features": list(PIXELS),
                "bounds": {pixel: [0.0, 1.0] for pixel in PIXELS},
                "categories": {"digit": list(CLASSES)},
            },
            "learning": {"batches": BATCHES, **learning},
            "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
            "owners": [{"name": owner.name, "records": rows, "epsilon": epsilon} for owner in owners],
        }
    )
    result = parley.train(terms, owners, seed=seed, measure=False)
    predicted = result.model.predict(pd.DataFrame(digits.test_images, columns=list(PIXELS)))
    steps, horizon = learning["local_steps"], learning["horizon"]
    releases = horizon * steps if learning["algorithm"] != "fedlin" else horizon // 2 * (1 + steps)
    return float(np.mean(predicted == digits.test_labels.astype(str))), releases


if __name__ == "__main__":
    main()
