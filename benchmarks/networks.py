"""Private training of networks on digits: examples a second beside Opacus and beside no privacy.

Z's 4-layer CNN and softmax regression, steps of records drawn with some probability, every record's
gradient clipped in L2. Ours counts everything but the calibration: the secret draw, padded shapes, float64 sums, exact
noise, a ledger in memory and the step. Opacus is in its default mode: `PrivacyEngine.make_private` with its own loader
(hooks, Poisson draws, noise of torch's generator); beside it the same on rows that are gathered for it, and plain SGD
likewise, which is the ceiling. Seconds are this process's CPU on a CPU, the clock's on a GPU; the best of `--repeats`
stretches. Memory is the peak of the device (of a GPU alone).

    python benchmarks/networks.py [--device cpu|cuda] [--repeats 3] [--steps 8] [--rows 60000]

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used; Opacus is compared with if it
is installed.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parley.papers.aarhus2020.digits import Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
CASES = (("zawacki-cnn", 64), ("zawacki-cnn", 256), ("logistic", 256), ("logistic", 2_000), ("logistic", 20_000))
DELTA = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60_000)
    asked = parser.parse_args()
    digits = load_digits(DATA)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {min(asked.rows, len(digits.images)):,} rows")
    speed(digits, asked)


def speed(digits: Digits, asked: Any) -> None:
    """Examples a second of each case."""
    import torch

    torch.set_num_threads(1)
    X, y = digits.images[: asked.rows].astype(np.float32), digits.labels[: asked.rows]
    print(f"torch {torch.__version__} on {asked.device}, one thread; examples a second")
    for name, batch in CASES:
        if batch * 2 > len(X):
            continue
        found = {"ours": best(ours(name, X, y, batch, asked), asked, batch)}
        try:
            found["Opacus, default"] = best(opacus(name, X, y, batch, asked, loader=True), asked, batch)
            found["Opacus, rows gathered"] = best(opacus(name, X, y, batch, asked, loader=False), asked, batch)
        except ImportError:
            print("Opacus is not installed here: nothing to compare with")
        found["no privacy"] = best(plain(name, X, y, batch, asked), asked, batch)
        said = ", ".join(f"{who} {rate:,.0f}{memory}" for who, (rate, memory) in found.items())
        ratios = [f"{found['ours'][0] / rate:.2f}x {who}" for who, (rate, _) in found.items() if who != "ours"]
        print(f"{name}, batches of {batch:,}: {said}; ours {', '.join(ratios)}", flush=True)


Steps = Iterator[None]


def best(steps: Steps, asked: Any, batch: int) -> tuple[float, str]:
    """(examples a second in the best of some stretches of steps, the peak of memory in words)."""
    import torch

    cuda = asked.device.startswith("cuda")
    clock: Callable[[], float] = time.perf_counter if cuda else time.process_time
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    next(steps)
    found = []
    for _ in range(asked.repeats):
        begin = clock()
        for _ in range(asked.steps):
            next(steps)
        if cuda:
            torch.cuda.synchronize()
        found.append(batch * asked.steps / (clock() - begin))
    peak = f" ({torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB)" if cuda else ""
    return max(found), peak


def made(name: str, device: str) -> Any:
    from parley.tasks.networks.architectures import Architecture
    from parley.tasks.networks.modules import set_parameters

    network = Architecture.of(name, 784, 10)
    module = network.module()
    set_parameters(module, network.initial())
    return module.to(device)


def ours(name: str, X: Any, y: Any, batch: int, asked: Any) -> Steps:
    """Steps of ours, one after the other; each is stopped at after it was taken."""
    from queue import Queue
    from threading import Thread

    from parley.tasks.networks.training import NetworkPlan, Speed, train_network

    count = asked.repeats * asked.steps + 1
    batches = len(X) // batch
    plan = NetworkPlan(2.0, DELTA, 1.0, batches, -(-count // batches), 0.1, optimiser="plain")
    go: Queue[bool] = Queue()
    done: Queue[None] = Queue()

    def stop(state: Any) -> None:
        done.put(None)
        if not go.get():
            raise SystemExit

    def work() -> None:
        import torch

        torch.set_num_threads(1)
        go.get()
        train_network(made(name, "cpu"), X, y, plan, speed=Speed(asked.device), progress=stop)

    Thread(target=work, daemon=True).start()
    try:
        while True:
            go.put(True)
            done.get()
            yield
    finally:
        go.put(False)


def opacus(name: str, X: Any, y: Any, batch: int, asked: Any, loader: bool) -> Steps:
    """Steps of Opacus in its default mode, with its loader or on rows gathered for it."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    warnings.filterwarnings("ignore")
    module = made(name, asked.device)
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y.astype(np.int64)))
    module, optimiser, drawn = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=DataLoader(rows, batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    while True:
        for images, labels in drawn if loader else gathered(X, y, batch):
            optimiser.zero_grad()
            said = module(images.to(asked.device))
            torch.nn.functional.cross_entropy(said, labels.to(asked.device)).backward()
            optimiser.step()
            yield


def plain(name: str, X: Any, y: Any, batch: int, asked: Any) -> Steps:
    """Steps of SGD without privacy, on rows gathered for it."""
    import torch

    module = made(name, asked.device)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    while True:
        for images, labels in gathered(X, y, batch):
            optimiser.zero_grad()
            said = module(images.to(asked.device))
            torch.nn.functional.cross_entropy(said, labels.to(asked.device)).backward()
            optimiser.step()
            yield


def gathered(X: Any, y: Any, batch: int) -> Iterator[tuple[Any, Any]]:
    """Rows that were drawn, in batches of any size."""
    import torch

    rng = np.random.default_rng(0)
    while True:
        places = np.flatnonzero(rng.random(len(X)) < batch / len(X))
        yield torch.from_numpy(X[places]), torch.from_numpy(y[places].astype(np.int64))


if __name__ == "__main__":
    main()
