"""Private gradient descent on 60,000 x 784 digits: how fast an epoch of clipped batches is, and what three owners reach
together.

1. One epoch of softmax regression in batches of 600, every record's gradient clipped in L2 and Gaussian noise on every
sum: ours, where a record's gradient is the product of its residual and its pixels and is never made, beside Opacus on
the CPU in each of its modes: hooks, functorch and ew make it, ghost makes its norm only and goes back a second time.
Ours computes in double precision; Opacus in single, its usual one, and in double. One thread each. After a first epoch
the best of `--repeats`, in seconds of this process's CPU: the clock's on an idle machine, and the same on a busy one.
Opacus has rows gathered as ours are; hooks also its usual loader.
2. Softmax regression at (eps 1, delta 1e-5) over all steps: one owner that holds everything, three owners with a third
each who add their own noise, and three with one noise. The settings are those of `parley reproduce aarhus2020`: all
records in each of 40 steps, momentum, step 3, clip 1 - chosen on the last 10,000 training images in a study; between
organisations a public pilot would choose them.

    python benchmarks/private_sgd.py [--part epoch|digits] [--repeats 3] [--runs 3]

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used; Opacus is compared with if it
is installed.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import parley
from parley_lab.papers.aarhus2020.collaborative_descent import SOFTMAX_CLIP, softmax_learning
from parley_lab.papers.aarhus2020.digits import CLASSES, PIXELS, Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
BATCH = 600
EPSILON, DELTA, OWNERS = 1.0, 1e-5, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["epoch", "digits"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    digits = load_digits(DATA)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {len(digits.images):,} x {digits.images.shape[1]}")
    if asked.part in (None, "epoch"):
        epoch(digits, asked.repeats)
    if asked.part in (None, "digits"):
        together(digits, asked.runs)


def epoch(digits: Digits, repeats: int) -> None:
    """An epoch's seconds, ours beside Opacus's."""
    ours = our_epoch(digits, repeats)
    print(
        f"an epoch of {len(digits.images) // BATCH} batches, one thread: ours {ours:.2f} s (noise, ledger and steps "
        f"included)",
        flush=True,
    )
    try:
        import opacus
        import torch
    except ImportError:
        print("Opacus is not installed here: nothing to compare with")
        return
    torch.set_num_threads(1)
    print(f"Opacus {opacus.__version__}, torch {torch.__version__}")
    for precision in ("single", "double"):
        for mode in ("hooks", "functorch", "ew", "ghost"):
            for name, theirs in opacus_epochs(digits, repeats, mode, precision == "double").items():
                print(
                    f"  {precision}, {mode:10} {name:16} {theirs:6.2f} s, {theirs / ours:.1f} times as long", flush=True
                )


def best(run: Callable[[], object], repeats: int) -> float:
    """The CPU's seconds, after a first run."""

    def seconds() -> float:
        began = time.process_time()
        run()
        return time.process_time() - began

    seconds()
    return min(seconds() for _ in range(repeats))


def our_epoch(digits: Digits, repeats: int) -> float:
    batches = len(digits.images) // BATCH
    learning = {"algorithm": "private-sgd", "batches": batches, "epochs": 1, "step": 1.0}
    owners, terms = digits.owners(1), terms_for([len(digits.images)], learning)
    return best(lambda: parley.train(terms, owners, seed=0, measure=False), repeats)


def opacus_epochs(digits: Digits, repeats: int, mode: str, double: bool) -> dict[str, float]:
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    kind = torch.float64 if double else torch.float32
    images, labels = torch.tensor(digits.images, dtype=kind), torch.tensor(digits.labels.astype(np.int64))
    linear: Any = torch.nn.Linear(len(PIXELS), len(CLASSES), dtype=kind)
    private: Any = PrivacyEngine().make_private(
        module=linear,
        optimizer=torch.optim.SGD(linear.parameters(), lr=1.0),
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=BATCH, shuffle=True),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimiser, loader = private[0], private[1], private[-1]
    cost = private[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()  # there the two ways back are in the cost

    def gathered() -> Iterable[tuple[Any, Any]]:
        return ((images[rows], labels[rows]) for rows in torch.randperm(len(labels)).split(BATCH))

    def epoch(batches: Callable[[], Iterable[tuple[Any, Any]]]) -> None:
        for some, their_labels in batches():
            optimiser.zero_grad()
            cost(model(some), their_labels).backward()
            optimiser.step()

    sources: dict[str, Callable[[], Iterable[tuple[Any, Any]]]] = {"rows gathered": gathered}
    if mode == "hooks" and not double:
        sources["its usual loader"] = lambda: loader
    return {name: best(lambda batches=batches: epoch(batches), repeats) for name, batches in sources.items()}  # type: ignore[misc]


def together(digits: Digits, runs: int) -> None:
    """Accuracy of one owner, of three with their own noise and of three with one."""
    print(f"softmax at (eps {EPSILON:g}, delta {DELTA:g}) in all, {runs} runs: test images told right")
    each = len(digits.images) // OWNERS
    kinds = (
        ("one owner with all images", [len(digits.images)], False),
        (f"{OWNERS} owners, each its own noise", [each] * OWNERS, False),
        (f"{OWNERS} owners, one noise", [each] * OWNERS, True),
        (f"one owner with {each:,} images", [each], False),
    )
    for name, sizes, shared in kinds:
        began = time.perf_counter()
        owners = digits.owners(1 if sizes[0] == len(digits.images) else OWNERS)[: len(sizes)]
        result = parley.train(terms_for(sizes, softmax_learning(), shared), owners, runs, seed=0, measure=False)
        right = 100 * digits.accuracy(result.theta)
        spread = f" +- {right.std(ddof=1):.2f}" if runs > 1 else ""
        print(f"  {name:32} {right.mean():.2f} %{spread}  ({time.perf_counter() - began:.0f} s)", flush=True)


def terms_for(sizes: list[int], learning: dict[str, object], shared: bool = False) -> parley.Terms:
    names = [f"owner-{i + 1}" for i in range(len(sizes))]
    model = {
        "kind": "softmax-regression",
        "target": "digit",
        "features": list(PIXELS),
        "categories": {"digit": list(CLASSES)},
    }
    privacy = {"mechanism": "gaussian", "clip": SOFTMAX_CLIP, "delta": DELTA, **({"noise": "shared"} if shared else {})}
    return parley.Terms.from_dict(
        {
            "model": model,
            "learning": learning,
            "privacy": privacy,
            "owners": [{"name": n, "records": size, "epsilon": EPSILON} for n, size in zip(names, sizes, strict=True)],
            **({"hosts": [{"name": n} for n in names]} if shared else {}),
        }
    )


if __name__ == "__main__":
    main()
