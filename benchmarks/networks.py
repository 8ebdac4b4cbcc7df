"""Private training of networks on digits: examples a second beside Opacus and beside no privacy.

Z's 4-layer CNN and softmax regression, steps of records drawn with some probability, every record's
gradient clipped in L2. Ours counts everything but the calibration: the secret draw, padded shapes, float64 sums, exact
noise, a ledger in memory and the step. Opacus is in its default mode: `PrivacyEngine.make_private` with its own loader
(hooks, Poisson draws, noise of torch's generator); beside it the same on rows that are gathered for it, and plain SGD
likewise, which is the ceiling. Seconds are this process's CPU on a CPU, the clock's on a GPU; the best of `--repeats`
stretches. Memory is the peak of the device (of a GPU alone).

    python benchmarks/networks.py [--device cpu|cuda] [--repeats 3] [--steps 8] [--rows 60000]
    python benchmarks/networks.py --before FOLDER/src    sums of clipped gradients beside those of another version
    python benchmarks/networks.py --stages [--device cuda]    milliseconds of each stage of an answer

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used; Opacus is compared with if it
is installed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parley_lab.papers.aarhus2020.digits import Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
CASES = (("zawacki-cnn", 64), ("zawacki-cnn", 256), ("logistic", 256), ("logistic", 2_000), ("logistic", 20_000))
DELTA = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--before", help="the src folder of another version, to set sums beside")
    parser.add_argument("--sums", action="store_true", help="print the milliseconds of sums alone, as JSON")
    parser.add_argument("--stages", action="store_true", help="milliseconds of each stage of an answer")
    asked = parser.parse_args()
    if asked.sums:
        print(json.dumps(sums(asked)))
        return
    if asked.before:
        beside(asked)
        return
    digits = load_digits(DATA)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {min(asked.rows, len(digits.images)):,} rows")
    (stages if asked.stages else speed)(digits, asked)


def stages(digits: Digits, asked: Any) -> None:
    """Clock milliseconds of the draw, the clipped gradients, the noise and a whole answer, the median of many."""
    import torch

    from parley.data.split import draw_places
    from parley.privacy.mechanisms import SafeNoise
    from parley.tasks.networks.training import NetworkPlan, Speed, _answering, _digest, _rows

    torch.set_num_threads(1)
    rows = _rows(digits.images[: asked.rows].astype(np.float32), digits.labels[: asked.rows])
    for name, batch in CASES:
        batches, module = len(rows) // batch, made(name, "cpu")
        if batches < 2:
            continue
        plan = NetworkPlan(2.0, DELTA, 1.0, batches, 1 + 20 * asked.repeats // batches, 0.1)
        answering = _answering(module, rows, plan, "cross-entropy", None, "owner", None, Speed(asked.device))
        answering.accept("owner", _digest(rows))
        gradients, steps = answering.question.gradients, iter(range(1, plan.steps + 1))
        theta, sigma = np.random.default_rng(0).normal(0, 0.05, gradients.parameters), answering.series.mechanism.sigma
        places = draw_places(len(rows), bytes(32), 1 / batches)
        work: dict[str, Callable[[], object]] = {
            "draw": lambda: draw_places(len(rows), os.urandom(32), 1 / batches),  # noqa: B023
            "gradients": lambda: gradients.clipped_sum(theta, rows.X, rows.y, places, rows.present),  # noqa: B023
            "noise": lambda: SafeNoise().gaussian(theta, sigma),  # noqa: B023
            "whole answer": lambda: answering.answer(next(steps), theta),  # noqa: B023
        }
        found = {what: clock(each, 15 * asked.repeats) for what, each in work.items()}
        print(f"{name}, batches of {batch:,}: " + ", ".join(f"{what} {ms:.2f} ms" for what, ms in found.items()))


def clock(work: Callable[[], object], times: int) -> float:
    """The median of some clock times, in milliseconds; the first is left out."""
    work()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(found))


SUMMED = (
    ("logistic", 2_000),
    ("mlp", 256),
    ("chase-small", 256),
    ("tanh-cnn", 256),
    ("zawacki-cnn", 256),
    ("scattering-linear", 64),
)


def sums(asked: Any) -> dict[str, float]:
    """CPU milliseconds of a sum of clipped gradients of each network, the best of many."""
    import torch
    from torch import nn

    from parley.tasks.networks.architectures import Architecture, cross_entropy
    from parley.tasks.networks.clipping import RecordGradients

    torch.set_num_threads(1)
    cases = [
        (n, Architecture.from_name(n, 784, 10, (64, 32) if n == "mlp" else ()).module(), size) for n, size in SUMMED
    ]
    for kind in (nn.Sigmoid, nn.GELU, nn.SiLU):
        layers = nn.Linear(784, 256), kind(), nn.Linear(256, 128), kind(), nn.Linear(128, 10)
        cases.append((f"784-256-128-10 {kind.__name__}", nn.Sequential(*layers), 256))
    found, rng = {}, np.random.default_rng(0)
    for name, module, size in cases:
        X, y = rng.random((size, 784), dtype=np.float32), rng.integers(0, 10, size).astype(float)
        made = RecordGradients(module, cross_entropy, (784,), 1.0, "l2", size, asked.device)
        theta, times = rng.normal(0, 0.05, made.parameters), []
        for _ in range(10 * asked.steps):
            begin = time.process_time()
            made.clipped_sum(theta, X, y)
            times.append(time.process_time() - begin)
        found[name] = 1e3 * min(times)
    return found


def beside(asked: Any) -> None:
    """Sums by this version and by another, in turn; the ratio is above 1 where this one is faster."""
    rounds = []
    for folder in (asked.before, str(Path(__file__).parents[1] / "src")) * asked.repeats:
        command = [sys.executable, __file__, "--sums", "--steps", str(asked.steps), "--device", asked.device]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, check=True)
        rounds.append(json.loads(done.stdout))
    for name in rounds[0]:
        before, now = (min(each[name] for each in rounds[first::2]) for first in (0, 1))
        print(f"{name}: before {before:.1f} ms, now {now:.1f} ms, ratio {before / now:.2f}")


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
    from parley.tasks.networks.architectures import Architecture, set_parameters

    network = Architecture.from_name(name, 784, 10)
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
