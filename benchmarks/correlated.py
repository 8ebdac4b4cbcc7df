"""Noise correlated across steps against independent noise, at equal eps: softmax regression on a few thousand digits,
few epochs.

Three ways to spend the same (eps, delta), replace-one, for the whole run, with the same steps and momentum:
- `drawn`: independent noise, records drawn in secret, whose amplification is counted in full;
- `fixed`: independent noise on fixed batches, which hide nobody;
- `correlated`: the same fixed batches, and later noise takes earlier noise back.
For each the best of some first steps by the mean loss on the training rows is taken (a study: its choice is not paid
for). `excess` is by how much that loss is above the same walk's without noise; `ratio` is the excess of independent
noise over that of correlated noise.

    python benchmarks/correlated.py [--rows 5000] [--batches 100] [--epochs 1 4] [--epsilon 2 8] [--seeds 3]

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used.
"""

import argparse
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.privacy.mechanisms.banded import Band
from parley_lab.papers.aarhus2020.digits import Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
DELTA, CLIP, SILENT = 1e-5, 1.0, 1e5
STEPS = (0.05, 0.2, 0.8)
WAYS = ("drawn", "fixed", "correlated")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    import torch

    from parley.tasks.networks.training import NetworkPlan

    torch.set_num_threads(1)
    digits = load_digits(DATA, asked.rows)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {asked.rows:,} rows, {asked.batches} batches")
    for epochs in asked.epochs:
        for epsilon in asked.epsilon:
            compare(digits, NetworkPlan(epsilon, DELTA, CLIP, asked.batches, epochs, STEPS[0]), asked.seeds)


def compare(digits: Digits, plan: Any, seeds: int) -> None:
    """Print the excess and the accuracy of each way."""
    best = min(walked(digits, replace(plan, epsilon=SILENT, step=step), "drawn", 0)[0] for step in STEPS)
    found: dict[str, tuple[float, float, float]] = {}
    for way in WAYS:
        for step in STEPS:
            runs = np.array([walked(digits, replace(plan, step=step), way, seed) for seed in range(seeds)])
            excess, right = float(runs[:, 0].mean() - best), float(runs[:, 1].mean())
            if way not in found or excess < found[way][0]:
                found[way] = (excess, right, step)
    for way, (excess, right, step) in found.items():
        ratio = "" if way == "correlated" else f", ratio {excess / found['correlated'][0]:.2f}"
        where = f"{plan.epochs} epochs, eps {plan.epsilon:g}, {way}"
        print(f"{where}: excess {excess:.3f}, accuracy {right:.3f}, step {step:g}{ratio}", flush=True)


def walked(digits: Digits, plan: Any, way: str, seed: int) -> tuple[float, float]:
    """(mean loss on the training rows, accuracy on the test rows) of one run."""
    from torch import nn

    from parley.tasks.networks.training import train_network

    module = nn.Linear(digits.images.shape[1], 10)
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    settings = asdict(plan) | {"noise": "independent" if way == "drawn" else "correlated"}
    asked = (fixed_plan() if way == "fixed" else type(plan))(**settings)
    made = train_network(module, digits.images, digits.labels, asked, seed=seed)
    return loss(made, digits), float(np.mean(made.predict(digits.test_images) == digits.test_labels))


def fixed_plan() -> Any:
    """The kind of plan that has fixed batches with independent noise: a band of one diagonal."""
    from parley.tasks.networks.training import NetworkPlan

    @dataclass(frozen=True)
    class Fixed(NetworkPlan):
        @property
        def band(self) -> Band:
            return Band((1.0,))

    return Fixed


def loss(made: Any, digits: Digits) -> float:
    """-ln of the probability that a training row's digit was given, on average."""
    given = made.predict_proba(digits.images)[np.arange(len(digits.labels)), digits.labels]
    return float(-np.log(np.maximum(given, 1e-12)).mean())


if __name__ == "__main__":
    main()
