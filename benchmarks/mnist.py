"""How well private networks tell digits apart, with rates that were picked on public rows alone.

The first 10,000 training images of MNIST are declared public: rates are picked by the accuracy on them. Networks learn
from the other 50,000, privately; every eps is for the whole run and replace-one. What was picked is then trained for
every seed, and only then are test images looked at.

1. `budget`: a linear layer behind wavelets, and a small network with tanh, at eps 3, delta 1e-5.
2. `chase`: Chase's small network at eps 0.5, 2 and 8, delta 1e-3, beside the published accuracies in L1 and in L2.

Noise of studies (a seed): the same law, drawn faster. Each run is a line of JSON in `--out`, written when it is done;
runs that are there already are not made again, so that a stopped one goes on.

    python benchmarks/mnist.py [--part budget|chase] [--device cpu|cuda] [--jobs 1] [--seeds 5] [--out mnist.jsonl]
    python benchmarks/mnist.py --rows 1500 --epochs 2 --seeds 1     # a try on a small machine, which shows nothing

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from parley_lab.papers.aarhus2020.digits import Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
PUBLIC = 10_000
PUBLISHED = {0.5: (89.1, 82.3), 2.0: (91.8, 87.8), 8.0: (94.8, 92.1)}  # Chase's table 1, percent: L1, L2


@dataclass(frozen=True)
class Case:
    """A network at a budget, and the rates it is trained by; `step` is what momentum takes of a gradient of clip 1."""

    part: str
    network: str
    epsilon: float
    delta: float
    clip: float
    step: float
    batches: int = 20
    epochs: int = 30
    rows: int = 50_000
    seed: int = 0
    judged: str = "public"

    @property
    def learned(self) -> tuple[str, float]:
        """What is learned at which budget: rates are picked for each."""
        return self.network, self.epsilon


GRID = [
    *(Case("budget", "scattering-linear", 3.0, 1e-5, clip, step) for clip in (0.2, 0.5) for step in (0.5, 1.0)),
    Case("budget", "scattering-linear", 3.0, 1e-5, 0.5, 0.5, epochs=60),
    *(Case("budget", "tanh-cnn", 3.0, 1e-5, 0.1, step) for step in (0.1, 0.2, 0.4)),
    Case("budget", "tanh-cnn", 3.0, 1e-5, 0.1, 0.2, epochs=60),
    *(Case("chase", "chase-small", 0.5, 1e-3, 0.1, step, epochs=epochs) for step in (0.2, 0.4) for epochs in (15, 30)),
    *(Case("chase", "chase-small", eps, 1e-3, 0.1, step) for eps in (2.0, 8.0) for step in (0.2, 0.4, 0.8)),
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["budget", "chase"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, help="of every case, in the place of its own")
    parser.add_argument("--out", type=Path, default=Path("mnist.jsonl"))
    asked = parser.parse_args()
    grid = [replace(case, rows=asked.rows) for case in GRID if asked.part in (None, case.part)]
    if asked.epochs is not None:
        grid = list(dict.fromkeys(replace(case, epochs=asked.epochs) for case in grid))
    found = trained(grid, asked)
    picked = best(found, grid)
    reports = [replace(case, judged="test", seed=seed) for case in picked for seed in range(1, asked.seeds + 1)]
    found = trained(reports, asked)
    for case in picked:
        right = np.array([found[each] for each in reports if each.learned == case.learned])
        line = f"{case.network}, eps {case.epsilon:g}, delta {case.delta:g}: test {100 * right.mean():.2f} %"
        line += f" +- {100 * right.std():.2f} in {len(right)} runs"
        if case.part == "chase":
            line += " (published: {} % in L1, {} % in L2)".format(*PUBLISHED[case.epsilon])
        print(f"{line}; clip {case.clip:g}, step {case.step:g}, {case.epochs} epochs of {case.batches}", flush=True)


def best(found: dict[Case, float], grid: Iterable[Case]) -> list[Case]:
    """Of every network and budget the case that tells most public rows right."""
    leading: dict[tuple[str, float], Case] = {}
    for case in grid:
        if case.learned not in leading or found[case] > found[leading[case.learned]]:
            leading[case.learned] = case
    return list(leading.values())


def trained(cases: list[Case], asked: Any) -> dict[Case, float]:
    """The accuracy of each case on the rows it is judged by: as written down, else after a run."""
    found = written(asked.out)
    missing = [case for case in cases if case not in found]
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        runs = {pool.submit(accuracy, case, asked.device): case for case in missing}
        for run in as_completed(runs):
            case, (right, seconds) = runs[run], run.result()
            found[case] = right
            line = json.dumps({**asdict(case), "accuracy": right, "seconds": round(seconds, 1)})
            with asked.out.open("a") as file:
                print(line, file=file, flush=True)
            print(line, flush=True)
    return found


def written(out: Path) -> dict[Case, float]:
    """The runs that a file holds."""
    found = {}
    for line in out.read_text().splitlines() if out.exists() else ():
        content = json.loads(line)
        right, _ = content.pop("accuracy"), content.pop("seconds")
        found[Case(**content)] = right
    return found


@lru_cache(maxsize=1)
def digits() -> Digits:
    """The digits, once a process."""
    return load_digits(DATA)


def accuracy(case: Case, device: str) -> tuple[float, float]:
    """(the share of public images, or of test images, that the trained network tells right; seconds)."""
    import torch

    from parley.tasks.networks.architectures import Architecture, set_parameters
    from parley.tasks.networks.training import NetworkPlan, Speed, train_network

    torch.set_num_threads(1)
    begin, held = time.perf_counter(), digits()
    network = Architecture.from_name(case.network, held.images.shape[1], 10)
    module = network.module()
    set_parameters(module, network.initial(case.seed))
    plan = NetworkPlan(case.epsilon, case.delta, case.clip, case.batches, case.epochs, case.step / case.clip)
    some = slice(PUBLIC, PUBLIC + case.rows)
    made = train_network(module, held.images[some], held.labels[some], plan, seed=1000 + case.seed, speed=Speed(device))
    images, labels = held.images[:PUBLIC], held.labels[:PUBLIC]
    if case.judged == "test":
        images, labels = held.test_images, held.test_labels
    return float(np.mean(made.predict(images) == labels)), time.perf_counter() - begin


if __name__ == "__main__":
    main()
